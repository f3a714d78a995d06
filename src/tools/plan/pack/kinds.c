/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/pack/internal.h"

#include <stdlib.h>

#define BEST 64 /* kinds with the highest ratio at first, */
#define LOW  24 /* and the cheapest kinds */

/* Takes the @n kinds with the highest score in @key, and sets their score to -1. */
static void pick_best_kinds(struct pack_kinds *k, double *key, size_t n_keys, size_t n)
{
	while (n-- && k->n < n_keys) {
		size_t best = n_keys;

		for (size_t i = 0; i < n_keys; i++)
			if (key[i] > 0 && (best == n_keys || key[i] > key[best]))
				best = i;
		if (best == n_keys)
			return;
		k->all[k->n++] = (uint32_t)best;
		key[best] = -1;
	}
}

/* The best kind of each mode, capacity and GPU model: some workload may be allowed nowhere else. */
static int pick_one_of_each(struct pack_kinds *k, const struct packer *p, double *key,
	struct error *err)
{
	size_t n = p->fit->n_gpus * PLAN_MODES * 2;
	CLEANUP(freep) double *best = calloc(n + 1, sizeof(*best));
	CLEANUP(freep) uint32_t *of = calloc(n + 1, sizeof(*of));

	if (!best || !of)
		return error_nomem(err);
	for (uint32_t i = 0; i < p->n_shapes; i++) {
		const struct pack_shape *s = &p->shapes[i];
		size_t at =
			((size_t)(s->offer->gpu - p->fit->gpus) * PLAN_MODES + s->mode) * 2 +
			s->offer->capacity;

		if (key[i] > best[at]) {
			best[at] = key[i];
			of[at] = i;
		}
	}
	for (size_t at = 0; at < n; at++) {
		if (best[at] > 0) {
			k->all[k->n++] = of[at];
			key[of[at]] = -1;
		}
	}
	return 0;
}

int pack_kinds_choose(struct pack_kinds *k, const struct packer *p, struct error *err)
{
	size_t n = p->n_shapes;
	CLEANUP(freep) double *key = calloc(n + 1, sizeof(*key));

	k->all = calloc(n + 1, sizeof(*k->all));
	k->use = calloc(n + 1, sizeof(*k->use));
	if (!key || !k->all || !k->use)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++)
		key[i] = p->first_ratio[i];
	if (pick_one_of_each(k, p, key, err) < 0)
		return -1;
	pick_best_kinds(k, key, n, BEST);
	for (size_t i = 0; i < n; i++)
		if (key[i] > 0)
			key[i] = 1 / (1 + (double)p->shapes[i].offer->nano_per_hour);
	pick_best_kinds(k, key, n, LOW);
	return 0;
}

void pack_kinds_fini(struct pack_kinds *k)
{
	free(k->all);
	free(k->use);
}

void pack_kinds_add(struct pack_kinds *k, uint32_t shape)
{
	for (size_t i = 0; i < k->n_use; i++)
		if (k->use[i] == shape)
			return;
	k->use[k->n_use++] = shape;
}

/* A partial shuffle. */
void pack_kinds_draw(struct pack_kinds *k, size_t n, uint64_t *state)
{
	for (size_t i = 0; i < n && i < k->n; i++) {
		size_t at = i + pack_draw_random(state, k->n - i);
		uint32_t drawn = k->all[at];

		k->all[at] = k->all[i];
		k->all[i] = drawn;
		pack_kinds_add(k, drawn);
	}
}
