/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The rule and the order of model/mig/geometry/geometry.h once more, as plainly as they can be written:
 * every start for every instance, and all of it counted again for each solution. Shares no code
 * with what it checks.
 */
#include "model/mig/geometry/geometry.h"

#include <string.h>

#define NAIVE_ENGINES 5

static inline uint32_t naive_engine(const struct mig_gi_profile *p, int e)
{
	const uint32_t all[NAIVE_ENGINES] = { p->copy, p->decoder, p->encoder, p->jpeg,
		p->ofa };

	return all[e];
}

/* An instance of profile .i at slot .at. */
struct naive_placement {
	uint32_t i, at;
};

static inline bool naive_overlap(const struct mig_layout *l, struct naive_placement a,
	struct naive_placement b)
{
	return a.at < b.at + l->profiles[b.i].size && b.at < a.at + l->profiles[a.i].size;
}

/* Do they obey all rules but that of places? */
static inline bool naive_enough(const struct mig_layout *l, const struct naive_placement *v,
	uint32_t n)
{
	uint32_t slices = 0;

	for (uint32_t k = 0; k < n; k++)
		slices += l->profiles[v[k].i].slices;
	if (slices > l->slices)
		return false;
	for (uint32_t i = 0; i < l->n; i++) {
		uint32_t count = 0;

		for (uint32_t k = 0; k < n; k++)
			count += v[k].i == i;
		if (count > l->profiles[i].max)
			return false;
	}
	for (int e = 0; e < NAIVE_ENGINES; e++) {
		uint32_t has = 0, wanted = 0;

		for (uint32_t i = 0; i < l->n; i++)
			if (naive_engine(&l->profiles[i], e) * l->profiles[i].max > has)
				has = naive_engine(&l->profiles[i], e) * l->profiles[i].max;
		for (uint32_t k = 0; k < n; k++)
			wanted += naive_engine(&l->profiles[v[k].i], e);
		if (wanted > has)
			return false;
	}
	return true;
}

static inline bool naive_legal(const struct mig_layout *l, const struct naive_placement *v,
	uint32_t n)
{
	for (uint32_t a = 0; a < n; a++) {
		if (v[a].at >= 32 || !(l->profiles[v[a].i].starts >> v[a].at & 1))
			return false;
		for (uint32_t b = 0; b < a; b++)
			if (naive_overlap(l, v[a], v[b]))
				return false;
	}
	return naive_enough(l, v, n);
}

/* How many more of profile @i, tried at every start or not at all. */
static inline uint32_t naive_count_free(const struct mig_layout *l, struct naive_placement *v,
	uint32_t n, uint32_t i, uint32_t from)
{
	uint32_t best = 0;

	for (uint32_t at = from; at < l->slots; at++) {
		bool free_there = l->profiles[i].starts >> at & 1;

		v[n] = (struct naive_placement){ i, at };
		for (uint32_t k = 0; k < n; k++)
			free_there = free_there && !naive_overlap(l, v[k], v[n]);
		if (free_there && naive_enough(l, v, n + 1)) {
			uint32_t more = 1 + naive_count_free(l, v, n + 1, i, at + 1);

			best = more > best ? more : best;
		}
	}
	return best;
}

struct naive_worth {
	uint32_t busy, steps, gis; /* kept: busy CIs; GIs and CIs; GIs */
	uint32_t room[MIG_PROFILES_MAX];
};

static inline int naive_compare(const struct naive_worth *a, const struct naive_worth *b)
{
	const uint32_t x[] = { a->busy, a->steps, a->gis }, y[] = { b->busy, b->steps, b->gis };

	for (int i = 0; i < 3; i++)
		if (x[i] != y[i])
			return x[i] > y[i] ? 1 : -1;
	for (uint32_t i = 0; i < MIG_PROFILES_MAX; i++)
		if (a->room[i] != b->room[i])
			return a->room[i] > b->room[i] ? 1 : -1;
	return 0;
}

static inline bool naive_full(const struct naive_worth *w)
{
	for (uint32_t i = 0; i < MIG_PROFILES_MAX; i++)
		if (w->room[i])
			return false;
	return true;
}

static inline void naive_count_kept(struct naive_worth *w, const struct mig_gi *gi,
	const struct mig_desired_gi *desired)
{
	w->gis++;
	w->steps++;
	for (uint32_t slices = 1; slices <= 10; slices++) {
		uint32_t have = 0, busy = 0, wanted = 0;

		for (uint32_t j = 0; j < gi->n_ci; j++) {
			have += gi->ci[j].slices == slices;
			busy += gi->ci[j].slices == slices && gi->ci[j].busy;
		}
		for (uint32_t j = 0; j < desired->n_ci; j++)
			wanted += desired->ci[j] == slices;
		w->steps += have < wanted ? have : wanted;
		w->busy += busy < wanted ? busy : wanted;
	}
}

/* What the starts @v of @desired's instances are worth; @gis: those of @have that stay, as bits. */
static inline struct naive_worth naive_worth(const struct mig_layout *l,
	const struct mig_state *have, const struct mig_desired *desired,
	struct naive_placement *v, uint32_t *gis)
{
	struct naive_worth w = { 0 };
	uint32_t order[MIG_PROFILES_MAX], n = 0;

	*gis = 0;
	for (uint32_t k = 0; k < desired->n; k++) {
		for (uint32_t i = 0; have && i < have->n; i++) {
			if (have->gi[i].profile == v[k].i && have->gi[i].start == v[k].at) {
				naive_count_kept(&w, &have->gi[i], &desired->gi[k]);
				*gis |= 1u << i;
			}
		}
	}
	/* Most slices first, then most slots, then by position. */
	for (uint32_t slices = 10; slices > 0; slices--)
		for (uint32_t size = 32; size > 0; size--)
			for (uint32_t i = 0; i < l->n; i++)
				if (l->profiles[i].slices == slices &&
					l->profiles[i].size == size)
					order[n++] = i;
	for (uint32_t i = 0; i < n; i++)
		w.room[i] = naive_count_free(l, v, desired->n, order[i], 0);
	return w;
}

struct naive_best {
	bool found, full; /* .full: there is one to which nothing can be added */
	struct naive_worth worth;
	uint32_t solutions;
};

static inline void naive_try(const struct mig_layout *l, const struct mig_state *have,
	const struct mig_desired *desired, uint32_t k, struct naive_placement *v,
	struct naive_best *best)
{
	struct naive_worth w;
	uint32_t gis;

	if (k == desired->n) {
		if (!naive_legal(l, v, k))
			return;
		w = naive_worth(l, have, desired, v, &gis);
		if (!best->found || naive_compare(&w, &best->worth) > 0)
			best->worth = w;
		best->found = true;
		best->full = best->full || naive_full(&w);
		best->solutions++;
		return;
	}
	for (uint32_t at = 0; at < l->slots; at++) {
		bool ok = desired->gi[k].start == MIG_START_ANY || desired->gi[k].start == at;

		v[k] = (struct naive_placement){ desired->gi[k].profile, at };
		for (uint32_t j = 0; j < k; j++)
			ok = ok && !naive_overlap(l, v[j], v[k]);
		if (ok && l->profiles[v[k].i].starts >> at & 1)
			naive_try(l, have, desired, k + 1, v, best);
	}
}

static inline struct naive_best naive_solve(const struct mig_layout *l,
	const struct mig_state *have, const struct mig_desired *desired)
{
	struct naive_placement v[MIG_GIS_MAX + MIG_SLOTS_MAX];
	struct naive_best best = { .found = false };

	naive_try(l, have, desired, 0, v, &best);
	return best;
}
