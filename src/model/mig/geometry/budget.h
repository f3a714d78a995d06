/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What GPU instances use independently of their place: instances of a profile, compute slices, engines, and
 * the number of memory slots. The geometry then only has to find places.
 *
 * Engines. NVML reports the engines of a GPU instance, but not those of the GPU. The GPU has at least the
 * engines of .max instances of any one profile, and this module takes that number for the whole. Then every
 * profile can reach its .max, and the media engines are enough for one `.all` profile only.
 *
 * For model/mig/geometry/geometry.c and this folder. Layouts have passed mig_layout_check().
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
	MIG_RESOURCES, /* count, not a resource */
};

/* The remaining resources. */
struct mig_budget {
	uint64_t left[MIG_RESOURCES];
	uint32_t more[MIG_PROFILES_MAX]; /* further instances of each profile by its .max */
};

void mig_budget_init(struct mig_budget *b, const struct mig_layout *l);

/* How many further instances of profile @i the budget allows. At most MIG_GIS_MAX. */
uint32_t mig_budget_count_free(const struct mig_budget *b, const struct mig_layout *l,
	uint32_t i);

/* Takes the resources of one instance of profile @i, down to 0 at most. */
void mig_budget_subtract(struct mig_budget *b, const struct mig_layout *l, uint32_t i);

/* Whether counts[i] of each profile i are possible on an empty GPU. ERR_LIMIT names the scarce resource. */
int mig_budget_check(const struct mig_layout *l, const uint32_t counts[],
	struct error *err) MUST_USE;
