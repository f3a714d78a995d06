/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The GPUs that the planner knows: gpus.yaml. Constant; thread: any. */
#include "model/mig/profile.h"
#include "tools/plan/plan.h"

extern const struct plan_gpu plan_gpus[];
extern const size_t plan_n_gpus;

/* All MIG profiles of the simulator's catalogue, also those of GPUs that no instance type has. */
struct plan_mig_profile {
	struct mig_profile name;
	uint32_t memory_mib; /* the smallest of the GPUs that have it */
};

extern const struct plan_mig_profile plan_mig_profiles[];
extern const size_t plan_n_mig_profiles;

/*
 * By its name in the catalogues ("L4") or its product label ("NVIDIA-L4"), a "-SHARED" or "-MIG-..." behind that
 * is not looked at. NULL: not known.
 */
const struct plan_gpu *plan_gpu_find(const char *name);
