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
static int check_start(const struct mig_layout *l, const struct mig_desired_gi *w,
	struct error *err)
{
	uint32_t starts = l->profiles[w->profile].starts;
	struct mig_list list = MIG_LIST_INIT;
	char name[MIG_PROFILE_NAME_MAX];

	if (w->start == MIG_START_ANY || (w->start < MIG_SLOTS_MAX && starts >> w->start & 1))
		return 0;
	for (uint32_t m = starts; m; m &= m - 1)
		mig_list_add(&list, "%d", __builtin_ctz(m));
	mig_layout_name(l, w->profile, 0, name);
	return error_set(err, ERR_LIMIT,
		"%s wanted at memory slot %" PRIu32 ", it can start at %s", name, w->start,
		starts ? list.text : "none");
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

/* Decreases *steps by at least one, down to 0. */
static bool can_place_counts(const struct mig_layout *layout, const uint32_t counts[],
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

	return is_valid_layout_state(layout, NULL) && can_place_counts(layout, counts, &steps);
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

/* Enumerates the placements on an empty GPU to which nothing can be added, each once. */
struct mig_fill {
	const struct mig_layout *layout;
	uint32_t profiles; /* bit i: profile i may be placed, and counts as addable */
	uint32_t *steps;   /* remaining search steps */
	bool exactly;      /* place exactly .counts; else any instances */
	uint32_t counts[MIG_PROFILES_MAX]; /* instances still to be placed */
	uint32_t total;                    /* sum of .counts */
	uint32_t found;
};

/* Counts the full placements that extend @used by instances from slot @from on. */
static void count_full_placements(struct mig_fill *f, uint32_t from, uint32_t used,
	const struct mig_budget *left)
{
	bool full = true;

	if (!*f->steps || (f->exactly && f->found))
		return;
	--*f->steps;
	for (uint32_t i = 0; i < f->layout->n; i++) {
		const struct mig_gi_profile *p = &f->layout->profiles[i];
		struct mig_budget rest = *left;

		if (!(f->profiles >> i & 1) || !mig_budget_count_free(left, f->layout, i))
			continue;
		full = full && !mig_slots_count_free(p, used, 1);
		if (f->exactly && !f->counts[i])
			continue;
		f->counts[i]--;
		f->total--;
		mig_budget_subtract(&rest, f->layout, i);
		for (uint32_t m = p->starts; m; m &= m - 1) {
			uint32_t start = (uint32_t)__builtin_ctz(m);
			uint32_t slots = mig_slots(p->size, start);

			if (start >= from && !(used & slots))
				count_full_placements(f, start + 1, used | slots, &rest);
		}
		f->counts[i]++;
		f->total++;
	}
	f->found += used && full && (!f->exactly || !f->total);
}

uint32_t mig_geometry_count_placed(const struct mig_layout *layout, uint32_t profiles)
{
	uint32_t steps = MIG_SEARCH_MAX;
	struct mig_fill f = { .layout = layout, .profiles = profiles, .steps = &steps };
	struct mig_budget all;

	if (!is_valid_layout_state(layout, NULL))
		return 0;
	mig_budget_init(&all, layout);
	count_full_placements(&f, 0, 0, &all);
	return f.found;
}

struct counts_visit {
	const struct mig_layout *layout;
	uint32_t profiles;
	bool maximal;
	bool (*visit)(void *arg, const uint32_t counts[]);
	void *arg;
	uint32_t steps; /* remaining search steps */
	uint32_t total; /* instances in .counts */
	uint32_t counts[MIG_PROFILES_MAX];
};

/* Whether .counts have a placement to which nothing can be added. */
static bool has_full_placement(struct counts_visit *e)
{
	struct mig_fill f = { .layout = e->layout,
		.profiles = e->profiles,
		.steps = &e->steps,
		.exactly = true,
		.total = e->total };
	struct mig_budget all;

	for (uint32_t i = 0; i < e->layout->n; i++)
		f.counts[i] = e->counts[i];
	mig_budget_init(&all, e->layout);
	count_full_placements(&f, 0, 0, &all);
	return f.found;
}

/* Visits all counts of profile @i and the following profiles. False: stop. */
static bool visit_profile_counts(struct counts_visit *e, uint32_t i)
{
	bool on;

	if (i == e->layout->n)
		return !e->total || (e->maximal && !has_full_placement(e)) ||
		       e->visit(e->arg, e->counts);
	do {
		on = visit_profile_counts(e, i + 1);
		e->counts[i]++;
		e->total++;
	} while (on && e->profiles >> i & 1 &&
		 can_place_counts(e->layout, e->counts, &e->steps));
	e->total -= e->counts[i];
	e->counts[i] = 0;
	return on;
}

void mig_geometry_each(const struct mig_layout *layout, uint32_t profiles, bool maximal,
	bool (*visit)(void *arg, const uint32_t counts[]), void *arg)
{
	struct counts_visit e = { .layout = layout,
		.profiles = profiles,
		.maximal = maximal,
		.visit = visit,
		.arg = arg,
		.steps = MIG_SEARCH_MAX };

	if (is_valid_layout_state(layout, NULL))
		(void)visit_profile_counts(&e, 0);
}
