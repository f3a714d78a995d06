/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where GPU instances can lie. Exact: the search is exhaustive, which at 12 slots and 7 instances
 * is small, and bounded (MIG_SEARCH_MAX steps; never reached by a layout that NVML reported).
 *
 * The rule: an instance starts at one of its profile's starts, slots do not overlap, compute
 * slices and engines suffice, and there are at most .max of a profile.
 *
 * Functions that cannot fail say "nothing fits" of a layout or state that does not pass
 * mig_layout_check() or mig_state_check().
 * Thread: any (pure; no heap).
 */
#include "model/mig/layout.h"

#define MIG_SEARCH_MAX 100000 /* some 0.2 s */

/* How today's instances weigh against new ones. */
enum mig_keep {
	MIG_KEEP_NOTHING, /* as if the GPU were empty */
	MIG_KEEP_MOST,    /* what is busy first, then what costs the fewest steps */
	MIG_KEEP_BUSY,    /* the same, and ERR_UNAVAILABLE if what is busy would have to go */
};

struct mig_placement {
	uint32_t start;
	int32_t kept; /* position in the state of the GI that serves; -1: a new one */
};

/*
 * Finds places for all of @desired on a GPU of @layout that is now @have (NULL: empty): ret[i] is for
 * want->gi[i]. A GI serves where it lies, if the profile is the same; its CIs may differ.
 * Of all solutions, by these in turn:
 *
 *	the most busy CIs kept, then the most GIs and CIs kept together (which is the fewest steps),
 *	then the most GIs;
 *	the most room left for further instances, of the largest profiles first. This is where NVML
 *	itself puts them: a first 3g.20gb at 4, as a 4g.20gb could only be at 0;
 *	the lowest starts, of the largest instances first.
 *
 * Deterministic. ERR_LIMIT: it cannot be, and the text counts what is wanted and what there is;
 * ERR_UNAVAILABLE as said above, with the names of what is busy; ERR_INVALID: the layout, the
 * state or the wish is none.
 */
int mig_geometry_place(const struct mig_layout *layout, const struct mig_state *have,
	const struct mig_desired *desired, enum mig_keep keep,
	struct mig_placement ret[MIG_GIS_MAX], struct error *err) MUST_USE;

/* Whether a busy CI of @have has to go for @desired at @placements (of mig_geometry_place(), as are the
 * other two): ERR_UNAVAILABLE names all that do. */
int mig_geometry_check_busy(const struct mig_layout *layout, const struct mig_state *have,
	const struct mig_desired *desired, const struct mig_placement *placements,
	struct error *err) MUST_USE;

/* Whether counts[i] of each profile i fit on an empty GPU. */
bool mig_geometry_fits(const struct mig_layout *layout, const uint32_t counts[]);

/* How many further instances of profile @i fit at once beside @have (NULL: empty), which stays
 * where it is: NVML's remaining capacity. */
uint32_t mig_geometry_count_free(const struct mig_layout *layout, const struct mig_state *have,
	uint32_t i);

/*
 * Calls @visit for every multiset of profiles that fits, without the empty one; @maximal: only those
 * that can lie so that nothing can be added (3g 2g 1g does: with the 3g at 0, slot 7 is lost).
 * Stops if it returns false. @profiles: bit i allows profile i.
 */
void mig_geometry_each(const struct mig_layout *layout, uint32_t profiles, bool maximal,
	bool (*visit)(void *arg, const uint32_t counts[]), void *arg);

/* The number of different placed sets of instances to which nothing can be added. */
uint32_t mig_geometry_count_placed(const struct mig_layout *layout, uint32_t profiles);
