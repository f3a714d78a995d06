/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the program does on the GPU: the driver that it loads, a unit of work, and all memory that it can have.
 *
 * A failed call of the driver ends the program. Before its end, the program prints one line of JSON with the reason
 * on standard output. Thread: one; the driver: any, after cuda_open().
 */
#include "abi/cuda-functions.h"
#include "lib/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- the driver --- */

#define LOAD_EXIT_NO_DRIVER 77

/* NULL: the driver lacks the function. */
extern struct cuda_table {
#define X(name, params) CUresult(*name) params;
	CUDA_FUNCTIONS(X)
#undef X
} cu;

/* Prints {"error": TEXT} on standard output and ends the program with status 1. */
void load_exit_with_error(const char *fmt, ...) PRINTF(1, 2) __attribute__((noreturn));
/* Ends the program as load_exit_with_error() does, unless @r is CUDA_SUCCESS. @what: the operation. */
void cuda_check_result(CUresult r, const char *what);

/* Loads libcuda.so.1 and initializes it. Without libcuda.so.1, the program ends with LOAD_EXIT_NO_DRIVER. */
void cuda_open(void);

/* --- a unit of work --- */

/*
 * A unit of work is a number of equal kernels, launched one by one or as a graph. All sizes are fixed before the
 * run, so that the same unit can be measured alone and beside other pods.
 */

enum work_unit_kernel {
	WORK_UNIT_BURN,
	WORK_UNIT_STREAM,
	WORK_UNIT_NOP,
	WORK_UNIT_BAD
}; /* WORK_UNIT_BAD faults */

struct work_unit_plan {
	enum work_unit_kernel kernel;
	uint32_t kernels; /* in each unit, at least 1 */
	uint32_t blocks;  /* in each kernel; 0: enough to fill all multiprocessors */
	uint64_t rounds;  /* WORK_UNIT_BURN: in each thread */
	uint64_t bytes;   /* WORK_UNIT_STREAM: that a kernel copies within the GPU's memory */
	/* Percent of the memory free at the start that the program allocates without a use. */
	uint32_t reserve_percent;
	bool graph;
};

struct work_unit {
	struct work_unit_plan plan;
	CUdevice device;
	CUcontext context;
	CUfunction function;
	CUstream stream;
	CUdeviceptr from, to;
	CUgraphExec graph;
	uint32_t multiprocessors, blocks;
	size_t free, total; /* bytes that the driver reports before .held is allocated */
	uint64_t held;
};

/* Opens visible device 0, after cuda_open(). Ends the program on failure. */
void work_unit_open(struct work_unit *u, const struct work_unit_plan *p);
/* Launches the kernels of @units units one after another. Does not wait. */
void work_unit_launch(const struct work_unit *u, uint32_t units);
/* Blocks until all launched units are done. Ends the program if one of them failed. */
void work_unit_wait(const struct work_unit *u);

/* Whether the driver runs this program under MPS. -1: unknown (before CUDA 12.1). */
int work_unit_probe_mps(const struct work_unit *u);

/*
 * WORK_UNIT_BURN: sets .plan.rounds so that a kernel takes @kernel_ns. Returns the measured time of a kernel, ns.
 * No other process may use the GPU.
 */
uint64_t work_unit_calibrate(struct work_unit *u, uint64_t kernel_ns);

/* Text of kernels.ptx, with a final NUL. */
extern const char load_kernels[];
extern const size_t load_kernels_len;

/* --- all memory --- */

struct memory_fill {
	uint64_t bytes;
	CUresult refusal;    /* CUDA_SUCCESS: no refusal, up to more memory than any GPU has */
	uint64_t refusal_ns; /* duration of the first refusal */
};

/*
 * Allocates all memory that the driver grants. Needs a current context. Allocates pieces, smaller ones after each
 * refusal. The memory stays allocated until the program ends.
 */
void fill_run(struct memory_fill *ret);
