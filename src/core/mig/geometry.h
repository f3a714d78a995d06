/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where GPU instances can lie. Exact: the search is exhaustive, which at 12 slots and 7 instances
 * is small, and bounded (MIG_SEARCH_MAX nodes; never reached by a layout that NVML reported).
 *
 * The rule (mig.md 17.1): an instance starts at one of its profile's starts, slots do not overlap,
 * compute slices and engines suffice, and there are at most .max of a profile.
 * Thread: any (pure; no heap).
 */
#include "core/mig/layout.h"

#define MIG_SEARCH_MAX 2000000

/* How today's instances weigh against new ones. */
enum mig_keep {
	MIG_KEEP_NOTHING, /* as if the GPU were empty */
	MIG_KEEP_MOST,    /* as many as possible; busy ones count for more than all others */
	MIG_KEEP_BUSY,    /* the same, and ERR_UNAVAILABLE if a busy one would have to go */
};

struct mig_place {
	uint32_t start;
	int32_t kept; /* position in the state of the GI that serves; -1: a new one */
};

/*
 * Finds places for all of @want on a GPU of @layout that is now @have (NULL: empty): ret[i] is for
 * want->gi[i]. A GI is kept where it lies, if the profile is the same and its start is what is
 * wanted or any; its CIs may differ, and one whose CIs are the same is preferred. Of all
 * solutions: the most kept, then the most CIs kept, then the largest holes left (new instances go
 * where NVML's own choice is best described: mig.md 17.3), then the lowest start. Deterministic.
 *
 * ERR_LIMIT: it cannot be, with the reason: too many of a profile, slices, slots; the text counts
 * what is wanted and what there is.
 */
int mig_geometry_place(const struct mig_layout *layout, const struct mig_state *have,
	const struct mig_want *want, enum mig_keep keep, struct mig_place ret[MIG_GIS_MAX],
	struct error *err) MUST_USE;

/* Whether counts[i] of each profile i fit on an empty GPU. */
bool mig_geometry_fits(const struct mig_layout *layout, const uint32_t counts[]);

/* How many more of profile @i fit beside @have (NULL: empty): NVML's remaining capacity. */
uint32_t mig_geometry_room(const struct mig_layout *layout, const struct mig_state *have,
	uint32_t i);

/*
 * Calls @see for every multiset of profiles that fits, without the empty one; @maximal: only those
 * to which nothing can be added. Stops if it returns false. @profiles: bit i allows profile i.
 */
void mig_geometry_each(const struct mig_layout *layout, uint32_t profiles, bool maximal,
	bool (*see)(void *arg, const uint32_t counts[]), void *arg);

/* The number of different placed sets of instances to which nothing can be added. */
uint32_t mig_geometry_count_placed(const struct mig_layout *layout, uint32_t profiles);
