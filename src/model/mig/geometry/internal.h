/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the geometry is made of. Inside src/model/mig/geometry only. Layouts and profiles have passed
 * mig_layout_check().
 * Thread: any (pure; no heap).
 */
#include "lib/base/cleanup.h"
#include "model/mig/layout.h"
#include "model/mig/geometry/geometry.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

/* --- lists in error texts --- */

/* "2 x 3g.20gb, 1 x 1g.5gb"; the text ends in "..." if a further item has no room. */

#define MIG_LIST_MAX 320

struct mig_list {
	char text[MIG_LIST_MAX];
	size_t len;
	bool full;
};

#define MIG_LIST_INIT         \
	{                     \
		.text = { 0 } \
	}

/* Appends one item, and ", " before it unless it is the first. */
void mig_list_add(struct mig_list *l, const char *fmt, ...) PRINTF(2, 3);

/* --- memory slots as a bit set --- */

static_assert(MIG_SLOTS_MAX <= 32, "one bit each");

/* The @size slots from @start on. */
static inline uint32_t mig_slots(uint32_t size, uint32_t start)
{
	return UINT32_MAX >> (MIG_SLOTS_MAX - size) << start;
}

/* How many instances of @p fit at once into the slots outside @used, at most @enough. All have one size, so
 * taking the first free place each time gives the maximum. */
static inline uint32_t mig_slots_count_free(const struct mig_gi_profile *p, uint32_t used,
	uint32_t enough)
{
	uint32_t n = 0;

	for (uint32_t m = p->starts; m && n < enough; m &= m - 1) {
		uint32_t slots = mig_slots(p->size, (uint32_t)__builtin_ctz(m));

		if (used & slots)
			continue;
		used |= slots;
		n++;
	}
	return n;
}

/* --- the budget --- */

/*
 * What GPU instances use independently of their place: instances of a profile, compute slices, engines, and
 * the number of memory slots. The geometry then only has to find places.
 *
 * Engines. NVML reports the engines of a GPU instance, but not those of the GPU. The GPU has at least the
 * engines of .max instances of any one profile, and this module takes that number for the whole. Then every
 * profile can reach its .max, and the media engines are enough for one `.all` profile only.
 */

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

/* Sets @b to the resources of the whole, empty GPU @l. */
void mig_budget_init(struct mig_budget *b, const struct mig_layout *l);

/* How many further instances of profile @i the budget allows. At most MIG_GIS_MAX. */
uint32_t mig_budget_count_free(const struct mig_budget *b, const struct mig_layout *l,
	uint32_t i);

/* Takes the resources of one instance of profile @i, down to 0 at most. */
void mig_budget_subtract(struct mig_budget *b, const struct mig_layout *l, uint32_t i);

/* Whether counts[i] of each profile i are possible on an empty GPU. ERR_LIMIT names the scarce resource. */
int mig_budget_check(const struct mig_layout *l, const uint32_t counts[],
	struct error *err) MUST_USE;

/* --- the search --- */

/* The best places for the desired instances, in the order of geometry.h. State and desired layout have passed
 * their checks, too. */

enum mig_search_result {
	MIG_SEARCH_FOUND, /* the best solution */
	MIG_SEARCH_GOOD,  /* the best solution until the steps ran out */
	MIG_SEARCH_NONE,  /* no solution exists */
	MIG_SEARCH_OPEN,  /* no solution found until the steps ran out */
};

/* @desired must be within the budget. @have NULL: empty GPU. Subtracts the steps taken from
 * *steps. @ret NULL: the first solution is enough. @ret is written if a solution was found. */
enum mig_search_result mig_search(const struct mig_layout *layout, const struct mig_state *have,
	const struct mig_desired *desired, uint32_t *steps,
	struct mig_placement ret[MIG_GIS_MAX]);

/* Whether counts[i] of each profile i fit together on an empty GPU; false if the steps ran out before a solution.
 * Decreases *steps by at least one, down to 0. */
bool mig_search_counts(const struct mig_layout *layout, const uint32_t counts[],
	uint32_t *steps);
