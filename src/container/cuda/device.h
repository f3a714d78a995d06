/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "container/cuda/driver.h"

#include <stdbool.h>
#include <stdint.h>

/* The calling thread's current context, as rows name it; 0: none. Thread: any. Cost: one driver call. */
uint64_t current_context(void);

/*
 * Whether the driver runs this process under MPS. A driver that cannot reach the pipe directory runs the process
 * without MPS and reports no error. So the probe reports the mode to the arbiter, in the page (SLICE_MPS_...).
 * If the slice is configured for MPS, it also logs one warning. The process goes on in any case.
 *
 * Cost: one driver call for each new context; of the submissions, only the first makes one. Thread: any.
 *
 * @device is number @gpu of the slice (< 0: not in the slice). @refresh: after a new context, so the probe replaces a
 * mode that the page already has.
 */
void mps_probe_mode(CUdevice device, int gpu, bool refresh);

/* Probes the device of the current context if its mode is not in the page yet: the context was made without
 * a hook. */
void mps_probe_current(void);
