/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Possible places of GPU instances. Exact: the search is exhaustive. With 12 slots and 7 instances the
 * search is small. MIG_SEARCH_MAX steps limit the search; no layout that NVML reported reaches that limit.
 *
 * The rule: an instance starts at one of its profile's starts; slots do not overlap; compute slices and
 * engines are sufficient; a profile has at most .max instances.
 *
 * Functions without an error return "nothing fits" for a layout or state that does not pass
 * mig_layout_check() or mig_state_check().
 * Thread: any (pure; no heap).
 */
#include "model/mig/layout.h"

#define MIG_SEARCH_MAX 100000 /* about 0.2 s */

/* Priority of the existing instances over new ones. */
enum mig_keep {
	MIG_KEEP_NOTHING, /* as if the GPU were empty */
	MIG_KEEP_MOST,    /* keep busy instances first, then minimize the steps */
	MIG_KEEP_BUSY,    /* as MIG_KEEP_MOST; ERR_UNAVAILABLE if a busy one must go */
};

struct mig_placement {
	uint32_t start;
	int32_t kept; /* position in the state of the reused GI; -1: a new GI */
};

/*
 * Finds places for all of @desired on a GPU with @layout and the actual state @have (NULL: empty).
 * ret[i] is for desired->gi[i]. An existing GI with the same profile is reused at its place; its CIs
 * may differ. Criteria among all solutions, in this order:
 *
 *  1. the most busy CIs kept, then the most GIs and CIs kept together (the fewest steps), then the
 *     most GIs;
 *  2. the most room left for further instances, of the largest profiles first. NVML itself places
 *     instances by this rule: a first 3g.20gb at 4, as a 4g.20gb could only be at 0;
 *  3. the lowest starts, of the largest instances first.
 *
 * Deterministic. ERR_LIMIT: impossible; the text has the requested and the available amounts.
 * ERR_UNAVAILABLE: see MIG_KEEP_BUSY; the text names the busy instances. ERR_INVALID: malformed layout,
 * state or desired layout.
 */
int mig_geometry_place(const struct mig_layout *layout, const struct mig_state *have,
	const struct mig_desired *desired, enum mig_keep keep,
	struct mig_placement ret[MIG_GIS_MAX], struct error *err) MUST_USE;

/* Whether a busy CI of @have must go for @desired at @placements. All arguments are those of
 * mig_geometry_place(). ERR_UNAVAILABLE names all such CIs. */
int mig_geometry_check_busy(const struct mig_layout *layout, const struct mig_state *have,
	const struct mig_desired *desired, const struct mig_placement *placements,
	struct error *err) MUST_USE;

/* Whether counts[i] of each profile i fit together on an empty GPU. */
bool mig_geometry_fits(const struct mig_layout *layout, const uint32_t counts[]);

/* How many further instances of profile @i fit at once beside @have (NULL: empty), which does not move.
 * This is NVML's remaining capacity. */
uint32_t mig_geometry_count_free(const struct mig_layout *layout, const struct mig_state *have,
	uint32_t i);
