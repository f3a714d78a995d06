/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The CUDA driver for a program that needs it. A failed call ends the program. Before its end, the program prints
 * one line of JSON with the reason on standard output. Thread: any, after cuda_open().
 */
#include "abi/cuda-functions.h"
#include "lib/base/cleanup.h"

#include <stdint.h>

#define LOAD_EXIT_NO_DRIVER 77

/* NULL: the driver lacks the function. */
extern struct cuda_table {
#define X(name, params) CUresult(*name) params;
	CUDA_FUNCTIONS(X)
#undef X
} cu;

void load_exit_with_error(const char *fmt, ...) PRINTF(1, 2) __attribute__((noreturn));
/* @what: the operation. */
void cuda_check_result(CUresult r, const char *what);

/* Loads libcuda.so.1 and initializes it. Without libcuda.so.1, the program ends with LOAD_EXIT_NO_DRIVER. */
void cuda_open(void);
