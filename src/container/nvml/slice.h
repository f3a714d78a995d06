/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The slice behind an NVML handle. Nothing here needs CUDA: what a slice has and uses the arbiter
 * says, in one round trip a question. Thread: any; no lock; a fork's child may go on.
 *
 * While the arbiter cannot be reached its last answer counts: never the whole card. With no answer
 * so far there is none to give, and NVML says NVML_ERROR_UNKNOWN.
 */
#include "container/nvml/figures.h"

enum {
	NVML_SLICE_GPU_NOT_OURS = -1, /* a GPU that the slice does not name */
	NVML_SLICE_GPU_UNKNOWN = -2,  /* no arbiter, or no UUID: nothing can be said of it */
};

/* The cheap test at the head of a hook: false: everything passes. */
bool nvml_slice_is_active(void);

/* The slice's number of a GPU or MIG device, or one of the above. Only where nvml_slice_is_active(). */
int nvml_slice_gpu(nvmlDevice_t device);

/* Limit (or SLICE_NO_LIMIT) and use of a GPU of the slice. False: not known. */
bool nvml_slice_memory(int gpu, uint64_t *limit, uint64_t *used);

/* The processes of the slice that use a GPU of it, for free(). -1: not known. */
int nvml_slice_processes(int gpu, struct own_process **ret);

/* Handles may mean other GPUs from now on. */
void nvml_slice_forget_handles(void);
