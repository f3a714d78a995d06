/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/pack/internal.h"

#include <stdlib.h>

/*
 * The search asks nearly all of its questions again and again: who fits on a GPU together is remembered, in a
 * table with one entry at each place, where the last question stays. An entry is the hash of a question, its last
 * bit the answer. Two questions are taken for one with a chance of 2^-63; a plan is checked without the table at
 * the end.
 */
#define BITS 18
#define COST_NEW \
	12 /* of a question that has to be worked out, where one that is remembered costs 1 */

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

/* The order of tenants does not matter, so their hashes are summed. */
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
