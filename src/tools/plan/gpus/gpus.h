/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The GPUs that the planner knows: gpus.yaml. Thread: any (constant). */
#include "model/mig/profile.h"
#include "tools/plan/plan.h"

/* plan_n_gpus elements. */
extern const struct plan_gpu plan_gpus[];
extern const size_t plan_n_gpus;

/* All MIG profiles of the simulator's catalogue, also those of GPUs without an instance type. */
struct plan_mig_profile {
	struct mig_profile name;
	uint32_t memory_mib; /* the smallest among the GPUs with the profile */
};

/* plan_n_mig_profiles elements. */
extern const struct plan_mig_profile plan_mig_profiles[];
extern const size_t plan_n_mig_profiles;

/*
 * Finds a GPU by its name in the catalogues ("L4") or its product label ("NVIDIA-L4"). Ignores a suffix "-SHARED"
 * or "-MIG-...". NULL: unknown.
 */
const struct plan_gpu *plan_gpu_find(const char *name);
