/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What GPU instances use up wherever they lie: how many there are of a profile, compute slices,
 * engines, and memory slots as such. The geometry then only has to find places.
 *
 * NVML tells what engines a GPU instance has, not how many the GPU has. It has at least what .max
 * instances of any one profile have together, and that much is taken for the whole: then no profile
 * is refused its .max, and media engines still suffice for one `.all` profile only.
 * For model/mig/geometry/geometry.c and this folder; layouts have passed mig_layout_check().
 * Thread: any (pure).
 */
#include "model/mig/layout.h"

enum mig_resource {
	MIG_SLICES,
	MIG_SLOTS,
	MIG_COPY,
	MIG_DECODER,
	MIG_ENCODER,
	MIG_JPEG,
	MIG_OFA,
	MIG_RESOURCES, /* not one */
};

/* What is left. */
struct mig_budget {
	uint64_t left[MIG_RESOURCES];
	uint32_t more[MIG_PROFILES_MAX]; /* instances of each profile that its .max allows */
};

void mig_budget_init(struct mig_budget *b, const struct mig_layout *l);

/* How many more instances of profile @i are within it. At most MIG_GIS_MAX. */
uint32_t mig_budget_count_free(const struct mig_budget *b, const struct mig_layout *l,
	uint32_t i);

/* One instance of profile @i more, or as much as there is left. */
void mig_budget_subtract(struct mig_budget *b, const struct mig_layout *l, uint32_t i);

/* counts[i] of each profile i of an empty GPU; ERR_LIMIT says of what there is too little. */
int mig_budget_check(const struct mig_layout *l, const uint32_t counts[],
	struct error *err) MUST_USE;
