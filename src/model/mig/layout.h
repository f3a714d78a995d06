/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How one GPU can be cut, how it is cut, and how somebody wants it cut.
 *
 * A GPU instance (GI) lies on neighbouring slots of the GPU's memory: 8 on most, 4 on A30, 12 on
 * RTX PRO 6000. Its profile says how many slots, where it may start, and how many compute slices
 * it takes. Compute instances (CI) share the slices of their GI. All of it is what NVML says of
 * this GPU: ids mean something else on other products.
 * Thread: any (plain data).
 */
#include "model/mig/profile.h"

#define MIG_SLOTS_MAX    32 /* one bit each */
#define MIG_PROFILES_MAX 32 /* of GIs, of one GPU */
#define MIG_GIS_MAX      16 /* of one GPU */
#define MIG_CIS_MAX      8  /* of one GI */
#define MIG_START_ANY    UINT32_MAX
#define MIG_ID_NONE      UINT32_MAX /* no instance has this id */

struct mig_gi_profile {
	struct mig_profile name; /* c == g */
	uint32_t number;         /* NVML's enumerator: what checkpoints have */
	uint32_t id;             /* NVML's, of this GPU: what calls want */
	uint32_t slices, max, multiprocessors;
	uint64_t memory_mib;
	uint32_t copy, decoder, encoder, jpeg, ofa; /* engines */
	uint32_t size;                              /* slots of one instance, at least one */
	uint32_t starts;                            /* bit s: may start at slot s */
};

struct mig_layout {
	uint64_t memory_total_mib; /* of the GPU, NVML v1 */
	uint32_t slots, slices;    /* of the GPU: what its instances share */
	uint32_t n;
	struct mig_gi_profile profiles[MIG_PROFILES_MAX]; /* by number */
};

struct mig_ci {
	uint32_t id;
	uint32_t number; /* NVML's enumerator of its profile */
	uint32_t engine; /* NVML's engine profile; 0 everywhere so far */
	uint32_t slices;
	bool busy; /* a process runs on it */
};

struct mig_gi {
	uint32_t id;
	uint32_t profile; /* position in the layout */
	uint32_t start;
	uint32_t n_ci;
	struct mig_ci ci[MIG_CIS_MAX]; /* by id */
};

/* What one GPU is now. */
struct mig_state {
	bool capable, enabled, pending_enabled; /* mode now, and after the next reset */
	uint32_t n;
	struct mig_gi gi[MIG_GIS_MAX]; /* by id */
};

/* What it is to be. */
struct mig_desired_gi {
	uint32_t profile;         /* position in the layout */
	uint32_t start;           /* or MIG_START_ANY */
	uint32_t n_ci;            /* 0: a GI without CIs */
	uint32_t ci[MIG_CIS_MAX]; /* slices of each, in order */
};

struct mig_desired {
	bool enabled;
	uint32_t n;
	struct mig_desired_gi gi[MIG_GIS_MAX];
};

/*
 * Whether the others here can work with what a peer said: numbers within the limits above, positions
 * that exist, starts that lie on the GPU, names that end, ids that differ. ERR_INVALID says what is
 * not; a wish for more than a GI or a GPU can ever have is ERR_LIMIT. Every function of model/mig/geometry/geometry.h
 * and plan.h looks first.
 */
int mig_layout_check(const struct mig_layout *l, struct error *err) MUST_USE;
int mig_state_check(const struct mig_layout *l, const struct mig_state *s,
	struct error *err) MUST_USE;
int mig_desired_check(const struct mig_layout *l, const struct mig_desired *w,
	struct error *err) MUST_USE;

/*
 * The position in @l of the GI profile @name (its c is not looked at), -1: this GPU has none.
 *
 * By its text; else, as names change with the driver (7g.79gb for 7g.80gb), the one with the same
 * slices and attributes whose share of the memory comes nearest, if that is the same eighth and
 * within 4 %: drift seen so far is up to 3.3 % (24 for 23.25 GB), other products' names are mostly
 * farther away. *guessed says so and may be NULL.
 */
int mig_layout_find(const struct mig_layout *l, const struct mig_profile *name, bool *guessed);

/* The name of a CI of @ci_slices in a GI of @profile: "1c.3g.20gb"; 0 slices: of the GI. */
void mig_layout_name(const struct mig_layout *l, uint32_t profile, uint32_t ci_slices,
	char ret[MIG_PROFILE_NAME_MAX]);

/* What @s is, as a wish: the same instances at the same places. */
void mig_desired_from_state(const struct mig_state *s, struct mig_desired *ret);

/*
 * Which CIs of @gi can stay where @desired is wanted: those with the same slices, busy ones first, then
 * the highest ids. Places inside a GI are the driver's choice; those who came last lie behind, and
 * the larger a CI, the more it has to start in front.
 */
struct mig_ci_match {
	uint32_t kept;   /* bit i: CI i of @gi stays */
	uint32_t served; /* bit i: and is what ci i of @desired asks for */
};
struct mig_ci_match mig_match_cis(const struct mig_gi *gi,
	const struct mig_desired_gi *desired);
