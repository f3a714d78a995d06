/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The steps from the actual to the desired state of a GPU: the fewest steps, in an order in which each is
 * possible. The same function plans a change, its rollback (mig_desired_from_state() of the earlier state),
 * and the continuation after a process was killed during a change.
 * Thread: any (pure; no heap).
 */
#include "model/mig/geometry/geometry.h"

enum mig_action {
	MIG_SET_MODE,   /* .enabled */
	MIG_DESTROY_CI, /* .gi, .ci */
	MIG_DESTROY_GI, /* .gi */
	MIG_CREATE_GI,  /* .profile, .start */
	MIG_CREATE_CI,  /* .slices; in GI .gi, or in the GI that step .made creates */
};

#define MIG_NEW_GI    MIG_ID_NONE
#define MIG_STEPS_MAX (1 + 2 * MIG_GIS_MAX * (1 + MIG_CIS_MAX))

struct mig_step {
	enum mig_action action;
	bool enabled;
	uint32_t gi, ci; /* IDs; .gi MIG_NEW_GI: the GI that step .made of this plan creates */
	uint32_t made;
	uint32_t profile, start; /* of the GI, in every action except MIG_SET_MODE */
	uint32_t slices;         /* of the CI */
};

struct mig_plan {
	uint32_t n;
	struct mig_step steps[MIG_STEPS_MAX];
	uint32_t kept;      /* bit i: GI i of the state stays, maybe with other CIs */
	uint32_t untouched; /* bit i: GI i stays with the same CIs */
};

enum mig_plan_flags {
	MIG_PLAN_MODE_ONLY = 1 << 0,
	MIG_PLAN_FORCE = 1 << 1, /* busy instances may go, too */
};

/*
 * Plans the fewest steps. Unchanged instances are not touched. A GI with the desired profile at a possible
 * place stays while its CIs change.
 *
 * Order of the steps:
 *  1. Enable the mode, if needed.
 *  2. Destroy CIs.
 *  3. Destroy GIs.
 *  4. Create GIs and CIs, in the order of @desired.
 *  5. Disable the mode, if needed.
 *
 * So, with the same @desired, a plan made after any of the steps has the remaining steps and no others.
 *
 * No steps: all is in sync. Switching MIG off destroys all instances first. Switching MIG on starts with
 * the mode and is planned for an empty GPU. The mode step is also present if only the pending mode differs.
 * With MIG_PLAN_MODE_ONLY the desired instances are ignored, and the existing ones stay unless MIG is
 * switched off.
 *
 * ERR_UNAVAILABLE: a busy instance would have to go. ERR_LIMIT: no placement. ERR_UNSUPPORTED: the GPU has
 * no MIG. ERR_INVALID: malformed layout, state or @desired (layout.h). On an error *ret is not written.
 */
int mig_plan_make(struct mig_plan *ret, const struct mig_layout *layout,
	const struct mig_state *have, const struct mig_desired *desired, unsigned flags,
	struct error *err) MUST_USE;

/* "destroy GPU instance 7 (1g.5gb at 4)"; truncated to @cap bytes including the NUL. */
void mig_step_text(const struct mig_layout *layout, const struct mig_step *s, char *ret,
	size_t cap);
