/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/geometry/internal.h"

#include <assert.h>
#include <string.h>

/*
 * Depth-first search over the desired instances, each at every free start. The start of an instance decides
 * which existing GI is reused, so a solution is one start for each instance. Two rules keep the search small:
 *  - Equal desired instances take their starts in ascending order.
 *  - A branch ends when even the best case of everything still to be kept is worse than the best solution
 *    so far.
 */

/* Value of keeping an instance, as one number in the order of geometry.h. */
enum {
	WORTH_GI = 1,
	WORTH_STEP = 1 << 5,  /* each kept GI and CI */
	WORTH_BUSY = 1 << 13, /* each kept busy CI */
};

static_assert(MIG_GIS_MAX * WORTH_GI < WORTH_STEP, "all GIs are less than one step");
static_assert(MIG_GIS_MAX * (1 + MIG_CIS_MAX + 1) * WORTH_STEP < WORTH_BUSY,
	"all steps are less than one busy CI");

/* One desired instance. */
struct mig_search_instance {
	uint32_t position;             /* in the desired layout */
	struct mig_desired_gi desired; /* with sorted CIs */
	uint32_t size;                 /* slots */
	uint32_t starts;               /* bit s: slot s is an allowed start */
	uint32_t served;               /* bit s: an existing GI at slot s can be reused */
	int32_t gi[MIG_SLOTS_MAX];     /* [start] that GI */
	uint32_t worth[MIG_SLOTS_MAX]; /* [start] value of keeping that GI */
	bool twin;                     /* equal to the previous item: starts after that item */
};

/* A solution. Greater .worth is better, then greater .room, then smaller .start. */
struct score {
	uint32_t worth;
	uint8_t room[MIG_PROFILES_MAX]; /* by profile, the largest first */
	uint8_t start[MIG_GIS_MAX];     /* of each item */
};

struct mig_search_state {
	const struct mig_layout *layout;
	uint32_t n;
	struct mig_search_instance items[MIG_GIS_MAX]; /* hardest to place first */
	uint32_t most[MIG_GIS_MAX + 1];   /* upper bound of the worth of items i and later */
	uint32_t order[MIG_PROFILES_MAX]; /* profiles, the largest first */
	/* budget for further instances of profile i beside all items */
	uint32_t budget[MIG_PROFILES_MAX];
	uint32_t steps; /* remaining */
	bool any;       /* stop at the first solution */
	bool found;
	uint8_t start[MIG_GIS_MAX]; /* of the items on the current path */
	struct score best;
};

static bool is_better_score(const struct score *a, const struct score *b)
{
	int room = memcmp(a->room, b->room, sizeof(a->room));

	if (a->worth != b->worth)
		return a->worth > b->worth;
	return room ? room > 0 : memcmp(a->start, b->start, sizeof(a->start)) < 0;
}

/* All items have places: keeps the solution if it is the best so far. */
static void save_best_solution(struct mig_search_state *s, uint32_t used, uint32_t worth)
{
	struct score score = { .worth = worth };

	memcpy(score.start, s->start, s->n * sizeof(s->start[0]));
	for (uint32_t i = 0; i < s->layout->n && !s->any; i++) {
		uint32_t profile = s->order[i];

		score.room[i] = (uint8_t)mig_slots_count_free(&s->layout->profiles[profile],
			used, s->budget[profile]);
	}
	if (!s->found || is_better_score(&score, &s->best))
		s->best = score;
	s->found = true;
}

static void search_item_starts(struct mig_search_state *s, uint32_t i, uint32_t used,
	uint32_t worth)
{
	const struct mig_search_instance *it = &s->items[i];
	uint32_t starts;

	if (!s->steps || (s->found && (s->any || worth + s->most[i] < s->best.worth)))
		return;
	s->steps--;
	if (i == s->n) {
		save_best_solution(s, used, worth);
		return;
	}
	starts = it->starts;
	if (i > 0 && it->twin) /* never set for item 0, which compilers cannot see */
		starts &= ~(UINT32_MAX >> (MIG_SLOTS_MAX - 1 - s->start[i - 1]));
	/* Reuse first: the bound then cuts most of the other branches. */
	for (int stay = 1; stay >= 0; stay--) {
		for (uint32_t m = starts & (stay ? it->served : ~it->served); m; m &= m - 1) {
			uint32_t start = (uint32_t)__builtin_ctz(m);
			uint32_t slots = mig_slots(it->size, start);

			if (used & slots)
				continue;
			s->start[i] = (uint8_t)start;
			search_item_starts(s, i + 1, used | slots, worth + it->worth[start]);
		}
	}
}

/* Finds the GIs of @have that @it can reuse. */
static void find_serving_gis(struct mig_search_instance *it, const struct mig_state *have)
{
	for (uint32_t i = 0; i < have->n; i++) {
		const struct mig_gi *gi = &have->gi[i];
		uint32_t bit = it->starts & 1u << gi->start, kept, busy = 0;

		if (gi->profile != it->desired.profile || !bit || it->served & bit)
			continue;
		kept = mig_match_cis(gi, &it->desired).kept;
		for (uint32_t j = 0; j < gi->n_ci; j++)
			busy += gi->ci[j].busy && kept >> j & 1;
		it->served |= bit;
		it->gi[gi->start] = (int32_t)i;
		it->worth[gi->start] = WORTH_GI + busy * WORTH_BUSY +
				       (1 + (uint32_t)__builtin_popcount(kept)) * WORTH_STEP;
	}
}

/* A copy with sorted CIs and zeros after them, so that equal items compare equal. */
static struct mig_desired_gi copy_with_sorted_cis(const struct mig_desired_gi *desired)
{
	struct mig_desired_gi ret = { .profile = desired->profile, .start = desired->start };

	for (; ret.n_ci < desired->n_ci; ret.n_ci++) {
		uint32_t at = ret.n_ci;

		for (; at > 0 && ret.ci[at - 1] < desired->ci[ret.n_ci]; at--)
			ret.ci[at] = ret.ci[at - 1];
		ret.ci[at] = desired->ci[ret.n_ci];
	}
	return ret;
}

static int compare_numbers(uint32_t a, uint32_t b)
{
	return (a > b) - (a < b);
}

/* Order of the items: given places first, then the largest; equal items are adjacent. */
static int compare_search_items(const struct mig_search_instance *a,
	const struct mig_search_instance *b)
{
	const struct mig_desired_gi *v = &a->desired, *desired = &b->desired;
	int order = compare_numbers(v->start == MIG_START_ANY, desired->start == MIG_START_ANY);

	order = order ? order : compare_numbers(b->size, a->size);
	order = order ? order : compare_numbers(v->profile, desired->profile);
	order = order ? order : compare_numbers(v->start, desired->start);
	order = order ? order : compare_numbers(v->n_ci, desired->n_ci);
	for (uint32_t i = 0; i < v->n_ci && !order; i++)
		order = compare_numbers(desired->ci[i], v->ci[i]);
	return order;
}

static void add_item(struct mig_search_state *s, uint32_t position,
	const struct mig_desired_gi *desired, const struct mig_state *have)
{
	const struct mig_gi_profile *p = &s->layout->profiles[desired->profile];
	struct mig_search_instance item = { .position = position,
		.desired = copy_with_sorted_cis(desired),
		.size = p->size,
		.starts = desired->start == MIG_START_ANY  ? p->starts
			  : desired->start < MIG_SLOTS_MAX ? p->starts & 1u << desired->start
							   : 0 };
	uint32_t at = s->n++;

	if (have)
		find_serving_gis(&item, have);
	for (; at > 0 && compare_search_items(&s->items[at - 1], &item) > 0; at--)
		s->items[at] = s->items[at - 1];
	s->items[at] = item;
}

static void add_items(struct mig_search_state *s, const struct mig_state *have,
	const struct mig_desired *desired)
{
	for (uint32_t i = 0; i < desired->n; i++)
		add_item(s, i, &desired->gi[i], have);
	for (uint32_t i = s->n; i-- > 0;) {
		const struct mig_search_instance *it = &s->items[i];
		uint32_t max = 0;

		for (uint32_t m = it->served; m; m &= m - 1)
			if (it->worth[__builtin_ctz(m)] > max)
				max = it->worth[__builtin_ctz(m)];
		s->most[i] = s->most[i + 1] + max;
		s->items[i].twin = i > 0 && compare_search_items(&s->items[i - 1], it) == 0;
	}
}

/* Compute slices count before slots: a 4g.20gb is larger than a 3g.20gb. */
static bool is_larger_profile(const struct mig_gi_profile *a, const struct mig_gi_profile *b)
{
	return a->slices != b->slices ? a->slices > b->slices : a->size > b->size;
}

static void order_profiles(struct mig_search_state *s, const struct mig_desired *desired)
{
	const struct mig_gi_profile *p = s->layout->profiles;
	struct mig_budget left;

	mig_budget_init(&left, s->layout);
	for (uint32_t i = 0; i < desired->n; i++)
		mig_budget_subtract(&left, s->layout, desired->gi[i].profile);
	for (uint32_t i = 0; i < s->layout->n; i++) {
		uint32_t at = i;

		for (; at > 0 && is_larger_profile(&p[i], &p[s->order[at - 1]]); at--)
			s->order[at] = s->order[at - 1];
		s->order[at] = i;
		s->budget[i] = mig_budget_count_free(&left, s->layout, i);
	}
}

enum mig_search_result mig_search(const struct mig_layout *layout, const struct mig_state *have,
	const struct mig_desired *desired, uint32_t *steps,
	struct mig_placement ret[MIG_GIS_MAX])
{
	struct mig_search_state s = { .layout = layout, .steps = *steps, .any = !ret };

	order_profiles(&s, desired);
	add_items(&s, have, desired);
	search_item_starts(&s, 0, 0, 0);
	*steps = s.steps;
	if (!s.found)
		return s.steps ? MIG_SEARCH_NONE : MIG_SEARCH_OPEN;
	for (uint32_t i = 0; i < s.n && ret; i++) {
		const struct mig_search_instance *it = &s.items[i];
		uint32_t start = s.best.start[i];

		ret[it->position] = (struct mig_placement){ .start = start,
			.kept = it->served >> start & 1 ? it->gi[start] : -1 };
	}
	return s.steps ? MIG_SEARCH_FOUND : MIG_SEARCH_GOOD;
}
