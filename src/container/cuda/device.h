/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The devices of the process as the slice numbers them, the calling thread's context, and whether the driver
 * runs the process under MPS. Thread: any.
 */
#include "container/cuda/driver.h"

#include <stdbool.h>
#include <stdint.h>

/* The slice's number of @device. CHARGES_NO_GPU: the device has no number. CHARGES_GPU_UNKNOWN: the arbiter
 * never answered (container/charges/charges.h). Cost: no driver call after the first answer for @device. */
int device_find_gpu(CUdevice device);

/* device_find_gpu() of the current context's device. CHARGES_NO_GPU also without a context. Cost: one driver
 * call more. */
int device_current_gpu(void);

/* The calling thread's current context, as rows name it; 0: none. Cost: one driver call. */
uint64_t device_current_context(void);

/*
 * Whether the driver runs this process under MPS. A driver that cannot reach the pipe directory runs the process
 * without MPS and reports no error. So the probe reports the mode to the arbiter, in the page (SLICE_MPS_...).
 * If the slice is configured for MPS, it also logs one warning. The process goes on in any case.
 *
 * Cost: one driver call for each new context; of the submissions, only the first makes one.
 *
 * @device is number @gpu of the slice (< 0: not in the slice). @refresh: after a new context, so the probe replaces a
 * mode that the page already has.
 */
void device_probe_mps(CUdevice device, int gpu, bool refresh);

/* Probes the device of the current context if its mode is not in the page yet: the context was made without
 * a hook. */
void device_probe_current_mps(void);
