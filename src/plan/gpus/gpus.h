/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The GPUs that the planner knows: gpus.yaml. Constant; thread: any. */
#include "plan/plan.h"

extern const struct plan_gpu plan_gpus[];
extern const size_t plan_n_gpus;

/*
 * By its name in the catalogues ("L4") or its product label ("NVIDIA-L4"), a "-SHARED" or "-MIG-..." behind that
 * is not looked at. NULL: not known.
 */
const struct plan_gpu *plan_gpu_find(const char *name);
