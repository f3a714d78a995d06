/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The slice behind an NVML handle. Nothing here needs CUDA: the arbiter reports what a slice has and uses.
 * Memory takes one round trip, processes take one for each SLICE_VIEW_PROCESSES entries. Thread: any. No lock of
 * its own. A child of fork may continue.
 *
 * While the arbiter is unavailable, memory has its last figures, never those of the whole GPU. Without earlier
 * figures, and for the processes always, the hooks return NVML_ERROR_UNKNOWN.
 */
#include "container/nvml/figures.h"

enum {
	NVML_SLICE_GPU_NOT_OURS = -1, /* a GPU that the slice does not name */
	NVML_SLICE_GPU_UNKNOWN = -2,  /* no arbiter, or no UUID: nothing is known of it */
};

/* The cheap test at the start of a hook. False: in no slice, all calls pass through. */
bool nvml_slice_is_active(void);

/* The slice's number of a GPU or MIG device, or a value above. Only where nvml_slice_is_active(). */
int nvml_slice_gpu(nvmlDevice_t device);

/* Limit (or SLICE_NO_LIMIT) and used bytes of a GPU of the slice. False: not known. */
bool nvml_slice_memory(int gpu, uint64_t *limit, uint64_t *used);

/* The processes of the slice that use one of its GPUs. Returns their number; *ret is for free(). -1: not known. */
int nvml_slice_processes(int gpu, struct own_process **ret);
