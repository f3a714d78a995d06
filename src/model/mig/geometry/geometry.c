/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/geometry/geometry.h"

#include <inttypes.h>

#include "model/mig/geometry/internal.h"

static bool is_valid_layout_state(const struct mig_layout *layout, const struct mig_state *have)
{
	return mig_layout_check(layout, NULL) == 0 &&
	       (!have || mig_state_check(layout, have, NULL) == 0);
}

/* Error for a start that the profile does not have; the text lists the valid starts. */
static int check_start(const struct mig_layout *l, const struct mig_desired_gi *desired,
	struct error *err)
{
	uint32_t starts = l->profiles[desired->profile].starts;
	struct mig_list list = MIG_LIST_INIT;
	char name[MIG_PROFILE_NAME_MAX];

	if (desired->start == MIG_START_ANY ||
		(desired->start < MIG_SLOTS_MAX && starts >> desired->start & 1))
		return 0;
	for (uint32_t m = starts; m; m &= m - 1)
		mig_list_add(&list, "%d", __builtin_ctz(m));
	mig_layout_name(l, desired->profile, 0, name);
	return error_set(err, ERR_LIMIT,
		"%s wanted at memory slot %" PRIu32 ", it can start at %s", name,
		desired->start, starts ? list.text : "none");
}

static bool is_same_desired_gi(const struct mig_desired_gi *a, const struct mig_desired_gi *b)
{
	return a->profile == b->profile && a->start == b->start;
}

static void list_wanted(struct mig_list *list, const struct mig_layout *l,
	const struct mig_desired *desired)
{
	for (uint32_t i = 0; i < desired->n; i++) {
		const struct mig_desired_gi *w = &desired->gi[i];
		char name[MIG_PROFILE_NAME_MAX];
		uint32_t first = 0, n = 0;

		while (!is_same_desired_gi(&desired->gi[first], w))
			first++;
		if (first < i)
			continue;
		for (uint32_t j = i; j < desired->n; j++)
			n += is_same_desired_gi(&desired->gi[j], w);
		mig_layout_name(l, w->profile, 0, name);
		if (w->start == MIG_START_ANY)
			mig_list_add(list, "%" PRIu32 " x %s", n, name);
		else
			mig_list_add(list, "%" PRIu32 " x %s at %" PRIu32, n, name, w->start);
	}
}

static int check_wanted(const struct mig_layout *layout, const struct mig_desired *desired,
	struct error *err)
{
	uint32_t counts[MIG_PROFILES_MAX] = { 0 };

	if (mig_desired_check(layout, desired, err) < 0)
		return -1;
	for (uint32_t i = 0; i < desired->n; i++) {
		if (check_start(layout, &desired->gi[i], err) < 0)
			return -1;
		counts[desired->gi[i].profile]++;
	}
	return mig_budget_check(layout, counts, err);
}

int mig_geometry_place(const struct mig_layout *layout, const struct mig_state *have,
	const struct mig_desired *desired, enum mig_keep keep,
	struct mig_placement ret[MIG_GIS_MAX], struct error *err)
{
	struct mig_placement placements[MIG_GIS_MAX];
	struct mig_list list = MIG_LIST_INIT;
	uint32_t steps = MIG_SEARCH_MAX;
	enum mig_search_result r;

	if (keep == MIG_KEEP_NOTHING)
		have = NULL;
	if (mig_layout_check(layout, err) < 0 ||
		(have && mig_state_check(layout, have, err) < 0) ||
		check_wanted(layout, desired, err) < 0)
		return -1;
	r = mig_search(layout, have, desired, &steps, placements);
	if (r == MIG_SEARCH_NONE || r == MIG_SEARCH_OPEN) {
		list_wanted(&list, layout, desired);
		return error_set(err, ERR_LIMIT,
			r == MIG_SEARCH_NONE
				? "%s do not fit side by side on the GPU's %" PRIu32
				  " memory slots: each profile starts at certain slots only"
				: "%s: no way found to place them on the GPU's %" PRIu32
				  " memory slots, and there are too many to try",
			list.text, layout->slots);
	}
	if (keep == MIG_KEEP_BUSY && have &&
		mig_geometry_check_busy(layout, have, desired, placements, err) < 0)
		return -1;
	for (uint32_t i = 0; i < desired->n; i++)
		ret[i] = placements[i];
	return 0;
}

/* Bits of the busy CIs of GI @i of @have, and of those that stay. */
static void count_busy_cis(const struct mig_state *have, uint32_t i,
	const struct mig_desired *desired, const struct mig_placement *placements,
	uint32_t *ret_busy, uint32_t *ret_kept)
{
	const struct mig_gi *gi = &have->gi[i];

	*ret_busy = *ret_kept = 0;
	for (uint32_t j = 0; j < gi->n_ci; j++)
		*ret_busy |= (uint32_t)gi->ci[j].busy << j;
	for (uint32_t j = 0; j < desired->n; j++)
		if (placements[j].kept == (int32_t)i)
			*ret_kept = mig_match_cis(gi, &desired->gi[j]).kept & *ret_busy;
}

int mig_geometry_check_busy(const struct mig_layout *layout, const struct mig_state *have,
	const struct mig_desired *desired, const struct mig_placement *placements,
	struct error *err)
{
	struct mig_list list = MIG_LIST_INIT;

	for (uint32_t i = 0; i < have->n; i++) {
		const struct mig_gi *gi = &have->gi[i];
		char name[MIG_PROFILE_NAME_MAX];
		uint32_t busy, kept;

		count_busy_cis(have, i, desired, placements, &busy, &kept);
		mig_layout_name(layout, gi->profile, 0, name);
		for (uint32_t m = busy & ~kept; m; m &= m - 1)
			mig_list_add(&list,
				"compute instance %" PRIu32 " of GPU instance %" PRIu32
				" (%s at %" PRIu32 ")",
				gi->ci[__builtin_ctz(m)].id, gi->id, name, gi->start);
	}
	if (!list.len)
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "in use, but would have to be destroyed: %s",
		list.text);
}

bool mig_search_counts(const struct mig_layout *layout, const uint32_t counts[],
	uint32_t *steps)
{
	struct mig_desired desired = { .enabled = true };

	if (!*steps || mig_budget_check(layout, counts, NULL) < 0) {
		*steps -= *steps > 0;
		return false;
	}
	for (uint32_t i = 0; i < layout->n; i++) {
		for (uint32_t j = 0; j < counts[i]; j++) {
			if (desired.n == MIG_GIS_MAX)
				return false;
			desired.gi[desired.n++] =
				(struct mig_desired_gi){ .profile = i, .start = MIG_START_ANY };
		}
	}
	return mig_search(layout, NULL, &desired, steps, NULL) <= MIG_SEARCH_GOOD;
}

bool mig_geometry_fits(const struct mig_layout *layout, const uint32_t counts[])
{
	uint32_t steps = MIG_SEARCH_MAX;

	return is_valid_layout_state(layout, NULL) && mig_search_counts(layout, counts, &steps);
}

uint32_t mig_geometry_count_free(const struct mig_layout *layout, const struct mig_state *have,
	uint32_t i)
{
	struct mig_budget left;
	uint32_t used = 0;

	if (!is_valid_layout_state(layout, have) || i >= layout->n)
		return 0;
	mig_budget_init(&left, layout);
	for (uint32_t j = 0; have && j < have->n; j++) {
		const struct mig_gi *gi = &have->gi[j];

		mig_budget_subtract(&left, layout, gi->profile);
		used |= mig_slots(layout->profiles[gi->profile].size, gi->start);
	}
	return mig_slots_count_free(&layout->profiles[i], used,
		mig_budget_count_free(&left, layout, i));
}
