/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The driver, for a program that cannot go on without it: what fails ends it, with one line of JSON on standard
 * output that says why. Thread: any, after cuda_open().
 */
#include "abi/cuda-functions.h"
#include "lib/base/cleanup.h"

#include <stdint.h>

#define LOAD_EXIT_NO_DRIVER 77

/* A function that the driver lacks is NULL. */
extern struct cuda_table {
#define X(name, params) CUresult(*name) params;
	CUDA_FUNCTIONS(X)
#undef X
} cu;

void load_exit_with_error(const char *fmt, ...) PRINTF(1, 2) __attribute__((noreturn));
/* @what was tried. */
void cuda_check_result(CUresult r, const char *what);

/* Loads libcuda.so.1 and initialises it. Without one it ends with LOAD_EXIT_NO_DRIVER. */
void cuda_open(void);
