/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the driver runs this process under MPS. Where it cannot reach the directory of the pipes it runs the
 * process without, and says so to nobody: so this says it, to the arbiter through the page (SLICE_MPS_...), and,
 * where the slice is to be under MPS, in one line of warning. Nothing else changes: the process goes on.
 *
 * One call of the driver for each context that is made, none for any submission but the first. Thread: any.
 */
#include "abi/cuda-api.h"

#include <stdbool.h>

/* The device is number @gpu of the slice (< 0: it is none of it). @anew: also if it was said before, as a context
 * has been made since. */
void mps_probe_mode(CUdevice device, int gpu, bool anew);

/* The device of the current context, if nothing was said of it yet: that one was made where no hook was. */
void mps_probe_current(void);
