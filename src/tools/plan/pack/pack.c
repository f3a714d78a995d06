/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/pack/internal.h"

#include "io/price/price.h"
#include "lib/base/array.h"

#include <stdlib.h>
#include <string.h>

/* --- a cache of fit checks --- */

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

static int memo_new(struct packer *p, struct error *err)
{
	p->memo = calloc(UINT64_C(1) << BITS, sizeof(*p->memo));
	return p->memo ? 0 : error_nomem(err);
}

/* The order of tenants does not matter, so the hash is a sum. */
bool pack_check_fit(struct packer *p, const struct pack_shape *s, const uint32_t *workloads,
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

/* --- open nodes --- */

int pack_open_add(struct packer *p, const struct pack_node *plan, struct error *err)
{
	struct pack_open *o;

	if (!ARRAY_GROW(&p->open, p->n_open, &p->room_open, ARRAY_NO_LIMIT))
		return error_nomem(err);
	o = &p->open[p->n_open];
	*o = (struct pack_open){ .shape = (uint32_t)(plan->shape - p->shapes) };
	o->workloads = malloc((plan->n + 1) * sizeof(*o->workloads));
	if (!o->workloads)
		return error_nomem(err);
	for (uint32_t g = 0; g < plan->shape->offer->gpus; g++)
		for (uint32_t i = 0; i < plan->n_on_gpu[g]; i++)
			o->workloads[o->n++] = plan->workloads[g][i] << 8 | g;
	p->n_open++;
	return 0;
}

bool pack_may_continue(struct packer *p, double done, int64_t nano_per_hour)
{
	if (!p->stopped && p->s->go_on && !p->s->go_on(p->s->arg, done, nano_per_hour))
		p->stopped = true;
	return !p->stopped;
}

int64_t pack_open_price(const struct packer *p)
{
	int64_t sum = 0;

	for (size_t i = 0; i < p->n_open; i++)
		sum = price_plus(sum, p->shapes[p->open[i].shape].offer->nano_per_hour);
	return sum;
}

static void packer_fini(struct packer *p)
{
	for (size_t i = 0; i < p->n_open; i++)
		free(p->open[i].workloads);
	for (size_t c = 0; p->order && c < p->n_configs; c++)
		free(p->order[c]);
	free(p->open);
	free(p->order);
	free(p->n_order);
	free(p->size);
	free(p->shapes);
	free(p->first_ratio);
	free(p->class);
	free(p->slot);
	free(p->worth);
	free(p->unplaced);
	free(p->unused_nodes);
	free(p->memo);
}

/* --- results --- */

void pack_result_fini(struct pack_result *r)
{
	for (size_t i = 0; i < r->n_nodes; i++)
		free(r->nodes[i].tenants);
	free(r->nodes);
	free(r->unplaced);
	*r = (struct pack_result){ 0 };
}

/* The tenants of one node, by GPU, with their sizes. */
static int fill_plan_node(const struct packer *p, const struct pack_open *o,
	struct plan_node *ret, struct error *err)
{
	const struct pack_shape *s = &p->shapes[o->shape];
	uint32_t n = 0;

	*ret = (struct plan_node){ .offer = s->offer, .mode = s->mode, .slots = s->slots };
	ret->tenants = calloc(o->n + 1, sizeof(*ret->tenants));
	if (!ret->tenants)
		return error_nomem(err);
	for (uint32_t g = 0; g < s->offer->gpus; g++) {
		uint32_t who[PLAN_PODS_MAX], there = 0;
		struct fit_gpu look = { .offer = s->offer,
			.mode = s->mode,
			.slots = s->slots,
			.workloads = who };

		for (uint32_t i = 0; i < o->n; i++)
			if ((o->workloads[i] & 0xFF) == g)
				who[there++] = o->workloads[i] >> 8;
		look.n = there;
		if (there &&
			fit_check(p->fit, &look, ret->tenants + n, NULL, NULL) != PLAN_FITS)
			return error_set(err, ERR_INTERNAL, "a plan that does not hold");
		for (uint32_t i = 0; i < there; i++)
			ret->tenants[n + i].gpu = (uint16_t)g;
		n += there;
		/* Time-slicing has no slots in the search: as many as the fullest GPU needs. */
		if (s->mode == PLAN_TIME_SLICING && there > ret->slots)
			ret->slots = there;
	}
	ret->n = n;
	if (s->mode == PLAN_TIME_SLICING && ret->slots <= 1) { /* no GPU is shared */
		ret->mode = PLAN_EXCLUSIVE;
		ret->slots = 0;
	}
	return 0;
}

/* The reason that is nearest to a fit, over all offers and modes. */
static enum plan_reason find_reject_reason(const struct packer *p, uint32_t workload)
{
	static const enum plan_reason nearest[] = { PLAN_MISSES_SLO, PLAN_RHO,
		PLAN_PROFILE_INCOMPLETE, PLAN_HOST_CPU, PLAN_HOST_MEMORY, PLAN_NO_MEMORY,
		PLAN_MIG_GEOMETRY, PLAN_NO_ISOLATION_IN_MODE, PLAN_MODEL_NOT_ALLOWED };
	const struct plan_workload *w = &p->fit->workloads[workload];
	bool seen[PLAN_REASONS] = { false };

	for (size_t i = 0; i < p->n_shapes; i++) {
		const struct pack_shape *s = &p->shapes[i];
		struct fit_gpu g = { s->offer, s->mode, s->slots, &workload, 1 };
		enum plan_reason r;

		if (s->slots > pack_mps_min_replicas) /* stricter than with fewer slots */
			continue;
		r = fit_check(p->fit, &g, NULL, NULL, NULL);
		if (r == PLAN_FITS && w->cpu_milli > s->offer->cpu_milli)
			r = PLAN_HOST_CPU;
		else if (r == PLAN_FITS && w->memory_mib > s->offer->memory_mib)
			r = PLAN_HOST_MEMORY;
		else if (r == PLAN_FITS && w->gpus > s->offer->gpus)
			r = PLAN_MODEL_NOT_ALLOWED;
		seen[r] = true;
	}
	if (seen[PLAN_FITS]) /* all nodes of the kind are used */
		return PLAN_PRICE_UNKNOWN;
	for (size_t i = 0; i < ARRAY_LEN(nearest); i++)
		if (seen[nearest[i]])
			return nearest[i];
	return p->n_shapes ? PLAN_PRICE_UNKNOWN : PLAN_MIG_UNSUPPORTED;
}

static int fill_pack_result(struct packer *p, struct pack_result *ret, struct error *err)
{
	ret->nodes = calloc(p->n_open + 1, sizeof(*ret->nodes));
	ret->unplaced = calloc(p->fit->n_workloads + 1, sizeof(*ret->unplaced));
	if (!ret->nodes || !ret->unplaced)
		return error_nomem(err);
	for (; ret->n_nodes < p->n_open; ret->n_nodes++)
		if (fill_plan_node(p, &p->open[ret->n_nodes], &ret->nodes[ret->n_nodes], err) <
			0) {
			free(ret->nodes[ret->n_nodes].tenants);
			return -1;
		}
	for (uint32_t w = 0; w < p->fit->n_workloads; w++)
		if (p->unplaced[w])
			ret->unplaced[ret->n_unplaced++] = (struct pack_unplaced){ w,
				p->unplaced[w], find_reject_reason(p, w) };
	ret->nano_per_hour = pack_open_price(p);
	ret->bound_nano = ret->exact ? ret->nano_per_hour : pack_compute_bound(p);
	ret->stopped = p->stopped;
	return 0;
}

/* --- solve --- */

static bool can_solve_exactly(const struct packer *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->fit->n_workloads; i++) {
		if (p->fit->workloads[i].gpus > 1)
			return false;
		sum += p->unplaced[i];
	}
	return sum <= PACK_EXACT_MAX && !p->s->limits && !p->s->never_exact;
}

static int all_at_once(struct packer *p, struct error *err)
{
	CLEANUP(freep) uint32_t *all = pack_shapes_all(p, err);

	return all ? pack_solve_exact(p, all, p->n_shapes, true, err) : -1;
}

int pack_solve(struct pack_result *ret, const struct pack_setting *s, struct error *err)
{
	CLEANUP(packer_fini) struct packer p = { .s = s, .fit = s->fit };
	size_t n = s->fit->n_workloads;

	*ret = (struct pack_result){ 0 };
	p.unplaced = calloc(n + 1, sizeof(*p.unplaced));
	p.unused_nodes = calloc(s->n_offers + 1, sizeof(*p.unused_nodes));
	if (!p.unplaced || !p.unused_nodes)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++)
		p.unplaced[i] = s->fit->workloads[i].replicas;
	for (size_t i = 0; i < s->n_offers; i++)
		p.unused_nodes[i] = s->limits ? s->limits[i] : UINT32_MAX;
	if (memo_new(&p, err) < 0 || pack_shapes_make(&p, err) < 0)
		return -1;
	if (can_solve_exactly(&p)) {
		if (all_at_once(&p, err) < 0)
			return -1;
		ret->exact = !p.stopped;
	}
	if (!ret->exact && pack_improve_plan(&p, err) < 0)
		return -1;
	if (fill_pack_result(&p, ret, err) < 0) {
		pack_result_fini(ret);
		return -1;
	}
	return 0;
}
