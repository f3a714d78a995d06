/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the driver runs this process under MPS. A driver that cannot reach the pipe directory runs the process
 * without MPS and reports no error. So this module reports the mode to the arbiter, in the page (SLICE_MPS_...).
 * If the slice is configured for MPS, it also logs one warning. The process goes on in any case.
 *
 * Cost: one driver call for each new context; of the submissions, only the first makes one. Thread: any.
 */
#include "abi/cuda-api.h"

#include <stdbool.h>

/* @device is number @gpu of the slice (< 0: not in the slice). The last parameter is true after a new
 * context: the probe then replaces a mode that the page already has. */
void mps_probe_mode(CUdevice device, int gpu, bool anew);

/* Probes the device of the current context if its mode is not in the page yet: the context was made without
 * a hook. */
void mps_probe_current(void);
