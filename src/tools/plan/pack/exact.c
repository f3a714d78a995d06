/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/pack/internal.h"

#include <stdlib.h>
#include <string.h>

/*
 * Exhaustive search for few replicas, by dynamic programming over sets of them (bits):
 *
 *	1. which sets fit on one GPU of each kind;
 *	2. the fewest such GPUs for each set;
 *	3. the cheapest offer for a set on one node;
 *	4. the cheapest nodes for each set.
 *
 * A set with a subset that does not fit does not fit.
 */

struct exact_pack_table {
	struct packer *p;
	uint32_t n;                         /* replicas */
	uint32_t workloads[PACK_EXACT_MAX]; /* workload of each */
	uint32_t sets;                      /* number of sets: 1 << n */
	uint8_t *fits;   /* whether the set fits on one GPU of the present kind */
	uint8_t *gpus;   /* fewest such GPUs for the set; UINT8_MAX: not possible */
	uint16_t *last;  /* the subset on one of these GPUs */
	uint32_t *shape; /* cheapest shape for the set on one node; UINT32_MAX: none */
	int64_t *price;  /* price of that shape */
	int64_t *total;  /* price of the cheapest nodes for the set */
	uint16_t *node;  /* the subset on one of these nodes */
};

static void exact_table_fini(struct exact_pack_table *t)
{
	free(t->fits);
	free(t->gpus);
	free(t->last);
	free(t->shape);
	free(t->price);
	free(t->total);
	free(t->node);
}

static bool is_set_feasible(struct exact_pack_table *t, const struct pack_shape *s,
	uint32_t set)
{
	uint32_t who[PACK_EXACT_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		if (!(set >> i & 1))
			continue;
		if (set != UINT32_C(1) << i && !t->fits[set & ~(UINT32_C(1) << i)])
			return false;
		who[n++] = t->workloads[i];
	}
	return pack_check_fit(t->p, s, who, n);
}

/* For all sets: the fewest GPUs of the kind of @s. */
static void count_gpus(struct exact_pack_table *t, const struct pack_shape *s)
{
	t->gpus[0] = 0;
	for (uint32_t set = 1; set < t->sets; set++) {
		uint32_t first = set & -set;

		t->fits[set] = is_set_feasible(t, s, set);
		t->gpus[set] = UINT8_MAX;
		/* All subsets with the first replica. */
		for (uint32_t rest = set ^ first, sub = rest;; sub = (sub - 1) & rest) {
			uint32_t one = sub | first, others = set ^ one;

			if (t->fits[one] && t->gpus[others] != UINT8_MAX &&
				t->gpus[others] + 1 < t->gpus[set]) {
				t->gpus[set] = (uint8_t)(t->gpus[others] + 1);
				t->last[set] = (uint16_t)one;
			}
			if (!sub)
				break;
		}
	}
}

static bool host_fits(const struct exact_pack_table *t, const struct plan_offer *o,
	uint32_t set)
{
	uint64_t cpu = 0, memory = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct plan_workload *w = &t->p->fit->workloads[t->workloads[i]];

		cpu += set >> i & 1 ? w->cpu_milli : 0;
		memory += set >> i & 1 ? w->memory_mib : 0;
	}
	return cpu <= o->cpu_milli && memory <= o->memory_mib;
}

/* False: @set has two replicas of a workload whose replicas must be on different nodes. Replicas of one
 * workload are adjacent. */
static bool are_apart(const struct exact_pack_table *t, uint32_t set)
{
	for (uint32_t i = 0; i + 1 < t->n; i++)
		for (uint32_t k = i + 1; k < t->n && t->workloads[k] == t->workloads[i]; k++)
			if (t->p->fit->workloads[t->workloads[i]].anti_affinity &&
				set >> i & 1 && set >> k & 1)
				return false;
	return true;
}

static bool same_kind(const struct pack_shape *a, const struct pack_shape *b)
{
	return a->config == b->config && a->offer->capacity == b->offer->capacity;
}

/* Updates the prices with use[0] and those of @use that differ from it only in the offer. */
static void price_nodes(struct exact_pack_table *t, const uint32_t *use, size_t n)
{
	const struct packer *p = t->p;

	for (size_t i = 0; i < n; i++) {
		const struct plan_offer *o = p->shapes[use[i]].offer;

		if (!same_kind(&p->shapes[use[0]], &p->shapes[use[i]]))
			continue;
		for (uint32_t set = 1; set < t->sets; set++) {
			if (t->gpus[set] > o->gpus || o->nano_per_hour >= t->price[set] ||
				!host_fits(t, o, set) || !are_apart(t, set))
				continue;
			t->price[set] = o->nano_per_hour;
			t->shape[set] = use[i];
		}
	}
}

static void total_up(struct exact_pack_table *t)
{
	t->total[0] = 0;
	for (uint32_t set = 1; set < t->sets; set++) {
		uint32_t first = set & -set;

		t->total[set] = INT64_MAX;
		for (uint32_t rest = set ^ first, sub = rest;; sub = (sub - 1) & rest) {
			uint32_t one = sub | first;

			if (t->price[one] != INT64_MAX && t->total[set ^ one] != INT64_MAX &&
				t->price[one] + t->total[set ^ one] < t->total[set]) {
				t->total[set] = t->price[one] + t->total[set ^ one];
				t->node[set] = (uint16_t)one;
			}
			if (!sub)
				break;
		}
	}
}

static int open_node(struct exact_pack_table *t, uint32_t set, struct error *err)
{
	const struct pack_shape *s = &t->p->shapes[t->shape[set]];
	CLEANUP(freep) struct pack_node *plan = malloc(sizeof(*plan));
	uint32_t gpu = 0;

	if (!plan)
		return error_nomem(err);
	pack_node_begin(plan, s);
	count_gpus(t, s);
	for (uint32_t left = set; left; left ^= t->last[left], gpu++) {
		for (uint32_t i = 0; i < t->n; i++) {
			if (!(t->last[left] >> i & 1))
				continue;
			plan->workloads[gpu][plan->n_on_gpu[gpu]++] = t->workloads[i];
			plan->n++;
			t->p->unplaced[t->workloads[i]]--;
		}
	}
	return pack_open_add(t->p, plan, err);
}

static bool can_place_workload(struct exact_pack_table *t, const uint32_t *use, size_t n_use,
	uint32_t workload)
{
	const struct packer *p = t->p;
	const struct plan_workload *w = &p->fit->workloads[workload];

	for (size_t i = 0; i < n_use; i++) {
		const struct pack_shape *s = &p->shapes[use[i]];
		struct fit_gpu g = { s->offer, s->mode, s->slots, &workload, 1 };

		if (w->cpu_milli <= s->offer->cpu_milli &&
			w->memory_mib <= s->offer->memory_mib &&
			fit_check(p->fit, &g, NULL, NULL, NULL) == PLAN_FITS)
			return true;
	}
	return false;
}

/* Lists the replicas that fit on a node by themselves; the others stay unplaced. */
static void list_items(struct exact_pack_table *t, const uint32_t *use, size_t n_use)
{
	const struct packer *p = t->p;

	for (uint32_t w = 0; w < p->fit->n_workloads; w++) {
		if (!p->unplaced[w] || !can_place_workload(t, use, n_use, w))
			continue;
		for (uint32_t i = 0; i < p->unplaced[w]; i++)
			t->workloads[t->n++] = w;
	}
	t->sets = UINT32_C(1) << t->n;
}

static int allocate_exact_table(struct exact_pack_table *t, struct error *err)
{
	t->fits = calloc(t->sets, sizeof(*t->fits));
	t->gpus = calloc(t->sets, sizeof(*t->gpus));
	t->last = calloc(t->sets, sizeof(*t->last));
	t->shape = calloc(t->sets, sizeof(*t->shape));
	t->price = calloc(t->sets, sizeof(*t->price));
	t->total = calloc(t->sets, sizeof(*t->total));
	t->node = calloc(t->sets, sizeof(*t->node));
	if (!t->fits || !t->gpus || !t->last || !t->shape || !t->price || !t->total || !t->node)
		return error_nomem(err);
	for (uint32_t set = 0; set < t->sets; set++)
		t->price[set] = INT64_MAX;
	return 0;
}

int pack_solve_exact(struct packer *p, const uint32_t *use, size_t n_use, bool ask,
	struct error *err)
{
	CLEANUP(exact_table_fini) struct exact_pack_table t = { .p = p };

	list_items(&t, use, n_use);
	if (allocate_exact_table(&t, err) < 0)
		return -1;
	for (size_t i = 0; i < n_use; i++) {
		bool seen = false;

		for (size_t k = 0; k < i && !seen; k++)
			seen = same_kind(&p->shapes[use[k]], &p->shapes[use[i]]);
		if (seen)
			continue;
		if (ask && !pack_may_continue(p, (double)i / (double)n_use, 0))
			return 0;
		count_gpus(&t, &p->shapes[use[i]]);
		price_nodes(&t, use + i, n_use - i);
	}
	total_up(&t);
	for (uint32_t left = t.sets - 1; left; left ^= t.node[left])
		if (open_node(&t, t.node[left], err) < 0)
			return -1;
	return 0;
}
