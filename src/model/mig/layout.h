/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The possible, the actual and the desired MIG layout of one GPU.
 *
 * A GPU instance (GI) occupies adjacent memory slots of the GPU: of 8 on most GPUs, 4 on A30, 12 on RTX PRO
 * 6000. Its profile has the number of slots, the allowed starts and the number of compute slices. Compute
 * instances (CI) share the slices of their GI. All values are NVML's for this GPU. IDs have other meanings
 * on other products.
 * Thread: any (plain data).
 */
#include "model/mig/profile.h"

#define MIG_SLOTS_MAX    32 /* one bit each */
#define MIG_PROFILES_MAX 32 /* GI profiles of one GPU */
#define MIG_GIS_MAX      16 /* of one GPU */
#define MIG_CIS_MAX      8  /* of one GI */
#define MIG_START_ANY    UINT32_MAX
#define MIG_ID_NONE      UINT32_MAX /* not an ID of any instance */

struct mig_gi_profile {
	struct mig_profile name; /* c == g */
	uint32_t number;         /* NVML's enumerator, as in checkpoints */
	uint32_t id;             /* NVML's ID on this GPU, as in calls */
	uint32_t slices, max, multiprocessors;
	uint64_t memory_mib;
	uint32_t copy, decoder, encoder, jpeg, ofa; /* engines */
	uint32_t size;                              /* slots of one instance, >= 1 */
	uint32_t starts;                            /* bit s: slot s is an allowed start */
};

struct mig_layout {
	uint64_t memory_total_mib; /* of the GPU, from NVML v1 */
	uint32_t slots, slices;    /* of the GPU, shared by its instances */
	uint32_t n;
	struct mig_gi_profile profiles[MIG_PROFILES_MAX]; /* by number */
};

struct mig_ci {
	uint32_t id;
	uint32_t number; /* NVML's enumerator of the CI profile */
	uint32_t engine; /* NVML's engine profile; always 0 so far */
	uint32_t slices;
	bool busy; /* a process runs there */
};

struct mig_gi {
	uint32_t id;
	uint32_t profile; /* position in the layout */
	uint32_t start;
	uint32_t n_ci;
	struct mig_ci ci[MIG_CIS_MAX]; /* by id */
};

/* The actual state of one GPU. */
struct mig_state {
	/* current mode, and mode after the next reset */
	bool capable, enabled, pending_enabled;
	uint32_t n;
	struct mig_gi gi[MIG_GIS_MAX]; /* by id */
};

/* The desired layout of one GPU. */
struct mig_desired_gi {
	uint32_t profile;         /* position in the layout */
	uint32_t start;           /* or MIG_START_ANY */
	uint32_t n_ci;            /* 0: a GI without CIs */
	uint32_t ci[MIG_CIS_MAX]; /* slices of each CI, in order */
};

struct mig_desired {
	bool enabled;
	uint32_t n;
	struct mig_desired_gi gi[MIG_GIS_MAX];
};

/*
 * Check data from a peer before use: numbers within the limits above, existing positions, starts on the
 * GPU, terminated names, unique IDs. ERR_INVALID names the violation. ERR_LIMIT: a desired layout with more
 * GIs than a GPU can have, or with CIs of more slices than their GI has. Every function of
 * model/mig/geometry/geometry.h and plan.h calls these checks first.
 */
int mig_layout_check(const struct mig_layout *l, struct error *err) MUST_USE;
int mig_state_check(const struct mig_layout *l, const struct mig_state *s,
	struct error *err) MUST_USE;
int mig_desired_check(const struct mig_layout *l, const struct mig_desired *desired,
	struct error *err) MUST_USE;

/*
 * The position in @l of the GI profile @name (ignores its c); -1: not a profile of this GPU.
 *
 *  1. The profile with the same text.
 *  2. Else, as names change with the driver (7g.79gb for 7g.80gb), the profile with the same slices and
 *     attributes whose share of the memory is nearest and within 4 %. Within 4 % both round to the same
 *     eighth. Drift so far is up to 3.3 % (24 for 23.25 GB). Names of other products are mostly farther
 *     away. *guessed (may be NULL) is then true.
 */
int mig_layout_find(const struct mig_layout *l, const struct mig_profile *name, bool *guessed);

/* The name of a CI of @ci_slices in a GI of @profile: "1c.3g.20gb"; 0 slices: the name of the GI. */
void mig_layout_name(const struct mig_layout *l, uint32_t profile, uint32_t ci_slices,
	char ret[MIG_PROFILE_NAME_MAX]);

/* The state @s as a desired layout: the same instances at the same places. */
void mig_desired_from_state(const struct mig_state *s, struct mig_desired *ret);

/*
 * Which CIs of @gi stay if the GI becomes @desired: CIs with the same slices, busy ones first, then the
 * highest IDs. The driver chooses the places within a GI. Later CIs are farther back, and a large CI needs
 * a start near the front.
 */
struct mig_ci_match {
	uint32_t kept;   /* bit i: CI i of @gi stays */
	uint32_t served; /* bit i: a kept CI serves CI i of @desired */
};
/* See struct mig_ci_match. Both arguments have passed their checks. */
struct mig_ci_match mig_match_cis(const struct mig_gi *gi,
	const struct mig_desired_gi *desired);
