/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/mig/mig-enumerate.h"

#include "model/mig/geometry/internal.h"

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

uint32_t mig_enumerate_count_placed(const struct mig_layout *layout, uint32_t profiles)
{
	uint32_t steps = MIG_SEARCH_MAX;
	struct mig_fill f = { .layout = layout, .profiles = profiles, .steps = &steps };
	struct mig_budget all;

	if (mig_layout_check(layout, NULL) < 0)
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
		 mig_search_counts(e->layout, e->counts, &e->steps));
	e->total -= e->counts[i];
	e->counts[i] = 0;
	return on;
}

void mig_enumerate(const struct mig_layout *layout, uint32_t profiles, bool maximal,
	bool (*visit)(void *arg, const uint32_t counts[]), void *arg)
{
	struct counts_visit e = { .layout = layout,
		.profiles = profiles,
		.maximal = maximal,
		.visit = visit,
		.arg = arg,
		.steps = MIG_SEARCH_MAX };

	if (mig_layout_check(layout, NULL) == 0)
		(void)visit_profile_counts(&e, 0);
}
