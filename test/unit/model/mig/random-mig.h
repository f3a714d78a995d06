/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Random layouts, states and desired states, also odd ones that no GPU has, from a seed. The number of a failing
 * case reproduces it.
 */
#include "model/mig/layout.h"

struct chance {
	uint64_t x;
};

/* 0 to @n - 1 (xorshift64*). */
static inline uint32_t chance(struct chance *c, uint32_t n)
{
	c->x ^= c->x >> 12;
	c->x ^= c->x << 25;
	c->x ^= c->x >> 27;
	return (uint32_t)((c->x * 0x2545f4914f6cdd1dull) >> 33) % n;
}

static inline struct chance chance_of(uint32_t number)
{
	struct chance c = { .x = 0x9e3779b97f4a7c15ull * (number + 1) };

	(void)chance(&c, 2);
	return c;
}

static inline struct mig_layout random_layout(struct chance *c)
{
	struct mig_layout l = { .memory_total_mib = 40960,
		.slots = 1 + chance(c, 12),
		.slices = 1 + chance(c, 10),
		.n = 1 + chance(c, 6) };

	for (uint32_t i = 0; i < l.n; i++) {
		struct mig_gi_profile *p = &l.profiles[i];
		uint32_t size = 1 + chance(c, l.slots < 4 ? l.slots : 4);
		uint32_t all = (1u << (l.slots - size + 1)) - 1;

		*p = (struct mig_gi_profile){ .number = i,
			.id = 40 - i,
			.slices = 1 + chance(c, 4),
			.max = chance(c, 6),
			.memory_mib = 1024,
			.size = size,
			.starts = chance(c, 3) ? chance(c, all + 1) : all };
		p->name = (struct mig_profile){ .c = p->slices, .g = p->slices, .gb = 1 + i };
		if (chance(c, 4) == 0) {
			p->copy = chance(c, 4);
			p->decoder = chance(c, 3);
			p->encoder = chance(c, 3);
			p->jpeg = chance(c, 2);
			p->ofa = chance(c, 2);
		}
	}
	return l;
}

/* Sizes of CIs in a GI of @slices; at most three. */
static inline uint32_t random_cis(struct chance *c, uint32_t slices, uint32_t ret[MIG_CIS_MAX])
{
	uint32_t n = 0;

	for (uint32_t left = slices; left && n < 3 && chance(c, 5); n++) {
		ret[n] = chance(c, 2) ? left : 1 + chance(c, left);
		left -= ret[n];
	}
	return n;
}

static inline uint32_t random_start(struct chance *c, uint32_t starts)
{
	uint32_t nth = chance(c, (uint32_t)__builtin_popcount(starts));

	while (nth--)
		starts &= starts - 1;
	return (uint32_t)__builtin_ctz(starts);
}

/* Instances that do not overlap; @busy: percent of the CIs that are busy. The slices that the instances use
 * up are not checked. */
static inline struct mig_state random_state(struct chance *c, const struct mig_layout *l,
	uint32_t max, uint32_t busy)
{
	struct mig_state s = { .capable = true, .enabled = true, .pending_enabled = true };
	uint32_t used = 0;

	for (uint32_t tries = chance(c, 2 * max + 1); tries-- && s.n < max;) {
		struct mig_gi *gi = &s.gi[s.n];
		uint32_t i = chance(c, l->n), slots, cis[MIG_CIS_MAX];

		if (!l->profiles[i].starts)
			continue;
		*gi = (struct mig_gi){ .id = 3 + 2 * s.n,
			.profile = i,
			.start = random_start(c, l->profiles[i].starts) };
		slots = ((1u << l->profiles[i].size) - 1) << gi->start;
		if (used & slots)
			continue;
		used |= slots;
		gi->n_ci = random_cis(c, l->profiles[i].slices, cis);
		for (uint32_t j = 0; j < gi->n_ci; j++)
			gi->ci[j] = (struct mig_ci){ .id = 2 * j,
				.slices = cis[j],
				.busy = chance(c, 100) < busy };
		s.n++;
	}
	return s;
}

/* Half of it is what @s has, so that there is something to keep. */
static inline struct mig_desired random_want(struct chance *c, const struct mig_layout *l,
	const struct mig_state *s, uint32_t max)
{
	struct mig_desired desired = { .enabled = true };

	for (uint32_t n = chance(c, max + 1); desired.n < n;) {
		struct mig_desired_gi *gi = &desired.gi[desired.n++];
		const struct mig_gi *like =
			s->n && chance(c, 2) ? &s->gi[chance(c, s->n)] : NULL;
		uint32_t i = like ? like->profile : chance(c, l->n);

		*gi = (struct mig_desired_gi){ .profile = i, .start = MIG_START_ANY };
		gi->n_ci = random_cis(c, l->profiles[i].slices, gi->ci);
		if (like && chance(c, 2)) {
			gi->n_ci = like->n_ci;
			for (uint32_t j = 0; j < like->n_ci; j++)
				gi->ci[j] = like->ci[like->n_ci - 1 - j].slices;
		}
		if (chance(c, 4) == 0 && l->profiles[i].starts)
			gi->start = random_start(c, l->profiles[i].starts);
	}
	return desired;
}
