/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A simulated node in a directory of its own, and the simulated libcuda.so.1 linked as by any program.
 * The node cannot be changed within a process once cuInit() has seen it, so a test program has one.
 */
#include "support/test.h"
#include "abi/cuda-functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE_(name, params) CUresult name params;
CUDA_FUNCTIONS(DECLARE_)
#undef DECLARE_

#define MIB (UINT64_C(1) << 20)

#define assert_cuda(call)              assert_int_equal((call), CUDA_SUCCESS)
#define assert_cuda_is(call, expected) assert_int_equal((call), (expected))

static char *sim_cuda_dir;

static inline void sim_cuda_begin(const char *model)
{
	sim_cuda_dir = test_tmpdir();
	assert_non_null(sim_cuda_dir);
	assert_int_equal(setenv("GPUSLICE_SIM_DIR", sim_cuda_dir, 1), 0);
	assert_int_equal(setenv("GPUSLICE_SIM_NODE", model, 1), 0);
	assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
}

static inline CUcontext sim_cuda_context(void)
{
	CUcontext c = NULL;

	assert_cuda(cuInit(0));
	assert_cuda(cuDevicePrimaryCtxRetain(&c, 0));
	assert_cuda(cuCtxSetCurrent(c));
	return c;
}

static inline uint64_t sim_cuda_free(void)
{
	size_t left = 0, all = 0;

	assert_cuda(cuMemGetInfo_v2(&left, &all));
	return left;
}

static inline char *sim_cuda_kernels(void)
{
	FILE *f = fopen(TEST_SOURCE "/test/cuda/kernels.ptx", "re");
	char *text = calloc(1, 16384);

	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, 16383, f) > 100);
	(void)fclose(f);
	return text;
}
