/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/pack/internal.h"

#include <stdlib.h>

/*
 * A cache of fit checks: the search repeats nearly all of them. The table has one entry at each place, for the
 * last check. An entry is the hash of the check, and its last bit is the result. Two checks collide with a
 * probability of 2^-63; the final plan is checked without the table.
 */
#define BITS     18
#define COST_NEW 12 /* cost of a new check; a cached one costs 1 */

static uint64_t hash_memo_key(uint64_t z)
{
	z += UINT64_C(0x9E3779B97F4A7C15); /* SplitMix64 */
	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	return z ^ z >> 31;
}

int memo_new(struct packer *p, struct error *err)
{
	p->memo = calloc(UINT64_C(1) << BITS, sizeof(*p->memo));
	return p->memo ? 0 : error_nomem(err);
}

/* The order of tenants does not matter, so the hash is a sum. */
bool memo_check_fit(struct packer *p, const struct pack_shape *s, const uint32_t *workloads,
	uint32_t n)
{
	struct fit_gpu g = { s->offer, s->mode, s->slots, workloads, n };
	uint64_t hash = hash_memo_key((uint64_t)s->config << 8 | s->offer->capacity), *entry;
	bool fits;

	for (uint32_t i = 0; i < n; i++)
		hash += hash_memo_key(~(uint64_t)workloads[i]);
	hash = hash_memo_key(hash) | 1;
	entry = &p->memo[hash >> (64 - BITS)];
	if ((*entry | 1) == hash) {
		p->fit_cost++;
		return *entry & 1;
	}
	fits = fit_check(p->fit, &g, NULL, NULL, NULL) == PLAN_FITS;
	*entry = fits ? hash : hash - 1;
	p->fit_cost += COST_NEW;
	return fits;
}
