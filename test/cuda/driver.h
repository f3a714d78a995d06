/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the programs here share: the driver's functions by dlopen(), as a framework finds them, NVML's
 * the same way, and the slice as the arbiter sees it. They run unchanged on the simulator and on real
 * GPUs; each prints lines of key=value, the last with result=ok or result=failed, and exits 0 or 1; 77
 * where there is no driver.
 */
#include "abi/cuda-functions.h"
#include "abi/slice-wire.h"
#include "abi/nvml-api.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#define NO_DRIVER_EXIT 77
#define MIB            (UINT64_C(1) << 20)

/* A function that the driver lacks is NULL. */
extern struct cuda_table {
#define X(name, params) CUresult(*name) params;
	CUDA_FUNCTIONS(X)
#undef X
} cu;

extern struct nvml_api {
#define X(name, params) nvmlReturn_t(*name) params;
	NVML_FUNCTIONS(X)
#undef X
} nvml;

/* Ends the program where it cannot continue; @what names the failed call. */
void must(CUresult r, const char *what);
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Loads libcuda and initializes it; exits with 77 without one. Programs that only read NVML do not call it. */
void cuda_open(void);
/* The primary context of device @ordinal becomes the thread's own. */
CUdevice cuda_start(int ordinal, CUcontext *context);
/* Loads libnvidia-ml.so.1, initialises it. */
void nvml_open(void);
/* NVML's handle of a CUDA device, by its UUID, which is written to @uuid as NVML does (41 bytes). */
nvmlDevice_t nvml_of(CUdevice device, char *uuid);
nvmlDevice_t nvml_by_uuid(const char *uuid);

/* The text of kernels.ptx, which is next to the program (or in GPUSLICE_TEST_PTX). */
const char *kernels(void);

/* The memory that NVML reports for a process on a device; 0: the process does not use it. */
struct physical {
	unsigned int pid;
	unsigned long long bytes;
};
#define PHYSICAL_MAX 1024
unsigned int nvml_physical(nvmlDevice_t device, struct physical *ret);
unsigned long long physical_of(const struct physical *p, unsigned int n, pid_t pid);

/* The slice of a directory, as a process that only reads. -1: no answer. */
int probe_open(const char *slice_dir);
int look(int fd, unsigned int first, struct slice_viewed *ret);

double ms_since(uint64_t start_ns);
void sleep_us(unsigned int us);
uint64_t number(const char *text,
	const char *what);                     /* with K, M, G, Ki, Mi, Gi; ends the program */
double median(double *values, unsigned int n); /* sorts */
