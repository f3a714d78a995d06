/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From what a GPU is and what it is to be, to the steps between: the fewest, in an order in which
 * each can be done. The same function serves a change, its undoing (a wish made of the state
 * before), and going on after somebody was killed half-way.
 * Thread: any (pure; no heap).
 */
#include "model/mig/geometry/geometry.h"

enum mig_action {
	MIG_SET_MODE,   /* .enabled */
	MIG_DESTROY_CI, /* .gi, .ci */
	MIG_DESTROY_GI, /* .gi */
	MIG_CREATE_GI,  /* .profile, .start */
	MIG_CREATE_CI,  /* in .gi, or in the GI that step .made makes; .slices */
};

#define MIG_NEW_GI    MIG_ID_NONE
#define MIG_STEPS_MAX (1 + 2 * MIG_GIS_MAX * (1 + MIG_CIS_MAX))

struct mig_step {
	enum mig_action action;
	bool enabled;
	uint32_t gi, ci; /* ids; .gi MIG_NEW_GI: made by step .made of this plan */
	uint32_t made;
	uint32_t profile, start; /* of the GI, in every action but MIG_SET_MODE */
	uint32_t slices;         /* of the CI */
};

struct mig_plan {
	uint32_t n;
	struct mig_step steps[MIG_STEPS_MAX];
	uint32_t kept;      /* bit i: GI i of the state stays, perhaps with other CIs */
	uint32_t untouched; /* bit i: and its CIs are the same */
};

enum mig_plan_flags {
	MIG_PLAN_MODE_ONLY = 1 << 0,
	MIG_PLAN_FORCE = 1 << 1, /* also what is busy may go */
};

/*
 * Fewest steps: what is as wanted is not touched, and a GI that is where and what is wanted keeps
 * its place while its CIs are changed. First all CIs that go, then all GIs that go, then what is
 * new, in the order of the wish; so, with the same wish, going on from any of the steps takes the
 * others, and no more.
 *
 * No steps: all is as wanted. A wish to switch MIG off destroys all instances first; one to switch
 * it on with instances has the mode as its first step, and is planned for an empty GPU. The mode is
 * set also where only the pending one differs. With MIG_PLAN_MODE_ONLY the wish's instances do not
 * count, and today's stay unless MIG is switched off.
 *
 * ERR_UNAVAILABLE: a busy instance would have to go; ERR_LIMIT: it cannot be placed;
 * ERR_UNSUPPORTED: the GPU has no MIG; ERR_INVALID: layout, state or wish is none (layout.h). *ret
 * is then not written.
 */
int mig_plan_make(struct mig_plan *ret, const struct mig_layout *layout,
	const struct mig_state *have, const struct mig_desired *desired, unsigned flags,
	struct error *err) MUST_USE;

/* "destroy GPU instance 7 (1g.5gb at 4)" for people; cut to @cap bytes with its end. */
void mig_step_text(const struct mig_layout *layout, const struct mig_step *s, char *ret,
	size_t cap);
