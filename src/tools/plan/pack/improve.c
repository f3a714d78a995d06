/* SPDX-License-Identifier: Apache-2.0 */
/* Improves a plan by simulated annealing, with the most promising kinds of nodes (pack.h). */
#include "tools/plan/pack/internal.h"

#include "io/price/price.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- kinds of nodes for a round --- */

/* Kinds of nodes for the search: .all are the likely ones, .use is the selection of a round. */
struct pack_kinds {
	uint32_t *all, *use;
	size_t n, n_use;
};

#define KINDS_BEST     64 /* kinds with the highest ratio at first */
#define KINDS_CHEAPEST 24 /* cheapest kinds, in addition to KINDS_BEST */

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

static int pack_kinds_choose(struct pack_kinds *k, const struct packer *p, struct error *err)
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
	pick_best_kinds(k, key, n, KINDS_BEST);
	for (size_t i = 0; i < n; i++)
		if (key[i] > 0)
			key[i] = 1 / (1 + (double)p->shapes[i].offer->nano_per_hour);
	pick_best_kinds(k, key, n, KINDS_CHEAPEST);
	return 0;
}

static void pack_kinds_fini(struct pack_kinds *k)
{
	free(k->all);
	free(k->use);
}

/* To .use, once. */
static void pack_kinds_add(struct pack_kinds *k, uint32_t shape)
{
	for (size_t i = 0; i < k->n_use; i++)
		if (k->use[i] == shape)
			return;
	k->use[k->n_use++] = shape;
}

/* Pseudo-random, below @below. */
static uint64_t pack_draw_random(uint64_t *state, uint64_t below)
{
	uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15); /* SplitMix64 */

	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	return (z ^ z >> 31) % below;
}

/* A partial shuffle. */
static void pack_kinds_draw(struct pack_kinds *k, size_t n, uint64_t *state)
{
	for (size_t i = 0; i < n && i < k->n; i++) {
		size_t at = i + pack_draw_random(state, k->n - i);
		uint32_t drawn = k->all[at];

		k->all[at] = k->all[i];
		k->all[i] = drawn;
		pack_kinds_add(k, drawn);
	}
}

/* --- the search --- */

/*
 * Simulated annealing from a first plan with all kinds of nodes. Each round closes a few nodes and places their
 * replicas again, with the kinds of those nodes and a few others. The search keeps a better result, and in the
 * beginning also some more expensive ones, to leave a local optimum.
 *
 * Many rounds with few kinds find more than few rounds with all kinds: bench-plan's 100 workloads became 5 %
 * cheaper (2026-11-27).
 */

#define CLOSE_MAX          6 /* nodes of a round */
#define CLOSED_TENANTS_MAX (PLAN_NODE_GPUS_MAX * PLAN_PODS_MAX)
#define EXACT_MAX          7 /* replicas of a round up to which the search is exhaustive */
#define KINDS_MAX          3 /* drawn for a round, beside the kinds of the closed nodes */
/*
 * The initial heat is the extra cost that a round may have at first: HEAT / sqrt(nodes) of a node's price, between
 * HEAT_MIN and HEAT_MAX.
 */
#define HEAT        1.5
#define HEAT_MAX    0.6
#define HEAT_MIN    0.05
#define ASK_EVERY   64        /* rounds */
#define FEWER_NODES 16        /* divisor of the remaining budget once no plan can cost less */
#define BOUND_ERROR 100000000 /* divisor of a bound: the effect of rounding */

struct improve_round {
	struct packer *p;
	struct pack_kinds kinds;
	uint64_t state;
	uint32_t **fill; /* of each config: workloads to place, the largest first */
	size_t *n_fill;
	uint32_t *unplaced; /* the workloads of .fill, in any order */
	size_t n_unplaced;
	struct pack_open *closed;
	size_t n_closed;
	int64_t price; /* price of the closed nodes */
	bool whole;    /* a closed replica needs several GPUs */
	bool limited;  /* a closed node is of a limited offer */
	int64_t total; /* price of all open nodes */
	double heat;   /* nano; probability 1/e for a round that costs this much more */
	struct pack_open *best; /* best plan so far, unless it is the open one */
	size_t n_best;
	int64_t best_total;
	int64_t least; /* lower bound of the price, with the error of floats */
};

static void free_nodes(struct pack_open *nodes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(nodes[i].workloads);
	free(nodes);
}

static void round_fini(struct improve_round *r)
{
	for (size_t c = 0; r->fill && c < r->p->n_configs; c++)
		free(r->fill[c]);
	free(r->fill);
	free(r->n_fill);
	for (size_t i = 0; i < r->n_closed; i++) /* of a round that failed */
		free(r->closed[i].workloads);
	free_nodes(r->best, r->n_best);
	pack_kinds_fini(&r->kinds);
	free(r->unplaced);
	free(r->closed);
}

/* --- close and place again --- */

static void close_one(struct improve_round *r, size_t i)
{
	struct packer *p = r->p;
	const struct pack_shape *s = &p->shapes[p->open[i].shape];
	uint32_t *left = &p->unused_nodes[s->offer - p->s->offers];

	r->price += s->offer->nano_per_hour;
	r->limited |= *left != UINT32_MAX;
	for (uint32_t k = 0; k < p->open[i].n; k++) {
		uint32_t w = p->open[i].workloads[k] >> 8;

		if (!p->unplaced[w]++)
			r->unplaced[r->n_unplaced++] = w;
		r->whole |= p->fit->workloads[w].gpus > 1;
	}
	*left += *left == UINT32_MAX ? 0 : 1;
	r->closed[r->n_closed++] = p->open[i];
	p->open[i] = p->open[--p->n_open];
}

/* A free node was filled first, but another replica may save more on it. So it counts as empty, and
 * pick_node() prefers it. */
static double compute_node_fullness(const struct packer *p, const struct pack_open *o)
{
	double worth = 0;

	if (!p->shapes[o->shape].offer->nano_per_hour)
		return 0;
	for (uint32_t k = 0; k < o->n; k++)
		worth += p->worth[o->workloads[k] >> 8];
	return worth / (1 + (double)p->shapes[o->shape].offer->nano_per_hour);
}

/* The emptiest of three drawn nodes, so that full nodes mostly stay. */
static size_t pick_node(struct improve_round *r)
{
	size_t best = pack_draw_random(&r->state, r->p->n_open);

	for (int k = 0; k < 2; k++) {
		size_t other = pack_draw_random(&r->state, r->p->n_open);

		if (compute_node_fullness(r->p, &r->p->open[other]) <
			compute_node_fullness(r->p, &r->p->open[best]))
			best = other;
	}
	return best;
}

struct workload_sizes {
	const struct packer *p;
	const float *size;
};

static int compare_workload_sizes(const void *a, const void *b, void *arg)
{
	const struct workload_sizes *s = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	float of_x = s->size[x] + (float)s->p->fit->workloads[x].gpus;
	float of_y = s->size[y] + (float)s->p->fit->workloads[y].gpus;

	if (of_x != of_y)
		return of_x > of_y ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Fills only the configs of the kinds in use. */
static void set_fill(struct improve_round *r)
{
	struct packer *p = r->p;

	for (size_t c = 0; c < p->n_configs; c++)
		r->n_fill[c] = SIZE_MAX;
	for (size_t i = 0; i < r->kinds.n_use; i++) {
		uint32_t c = p->shapes[r->kinds.use[i]].config;
		struct workload_sizes s = { p, p->size + c * p->fit->n_workloads };

		if (r->n_fill[c] != SIZE_MAX)
			continue;
		memcpy(r->fill[c], r->unplaced, r->n_unplaced * sizeof(*r->unplaced));
		r->n_fill[c] = r->n_unplaced;
		qsort_r(r->fill[c], r->n_unplaced, sizeof(*r->unplaced), compare_workload_sizes,
			&s);
	}
	p->fill = r->fill;
	p->n_fill = r->n_fill;
}

static uint64_t count_unplaced_replicas(const struct improve_round *r)
{
	uint64_t n = 0;

	for (size_t i = 0; i < r->n_unplaced; i++)
		n += r->p->unplaced[r->unplaced[i]];
	return n;
}

/* Opens the cheapest single node, below @limit, that takes all unplaced replicas. */
static int open_covering_node(struct improve_round *r, int64_t limit, bool *done,
	struct error *err)
{
	struct packer *p = r->p;
	CLEANUP(freep) struct pack_node *plan = malloc(sizeof(*plan));
	uint64_t wanted = count_unplaced_replicas(r);
	uint32_t best = UINT32_MAX;

	*done = false;
	if (!plan)
		return error_nomem(err);
	for (size_t k = 0; k < r->kinds.n_use; k++) {
		const struct pack_shape *s = &p->shapes[r->kinds.use[k]];

		if (s->offer->nano_per_hour >= limit ||
			!p->unused_nodes[s->offer - p->s->offers])
			continue;
		pack_node_begin(plan, s);
		pack_node_fill(p, plan);
		if (plan->n < wanted)
			continue;
		best = r->kinds.use[k];
		limit = s->offer->nano_per_hour;
	}
	if (best == UINT32_MAX)
		return 0;
	pack_node_begin(plan, &p->shapes[best]);
	pack_node_fill(p, plan);
	for (size_t i = 0; i < r->n_unplaced; i++)
		p->unplaced[r->unplaced[i]] = 0;
	p->unused_nodes[p->shapes[best].offer - p->s->offers] -=
		p->unused_nodes[p->shapes[best].offer - p->s->offers] == UINT32_MAX ? 0 : 1;
	*done = true;
	return pack_open_add(p, plan, err);
}

/* Reopens the closed nodes, in place of all nodes from @from on. */
static int undo_round(struct improve_round *r, size_t from)
{
	struct packer *p = r->p;

	while (p->n_open > from) {
		struct pack_open *o = &p->open[--p->n_open];
		uint32_t *left = &p->unused_nodes[p->shapes[o->shape].offer - p->s->offers];

		*left += *left == UINT32_MAX ? 0 : 1;
		free(o->workloads);
	}
	for (size_t i = 0; i < r->n_closed; i++) {
		uint32_t *left =
			&p->unused_nodes[p->shapes[r->closed[i].shape].offer - p->s->offers];

		*left -= *left == UINT32_MAX ? 0 : 1;
		p->open[p->n_open++] = r->closed[i]; /* the array had room for them before */
	}
	for (size_t i = 0; i < r->n_unplaced; i++)
		p->unplaced[r->unplaced[i]] = 0;
	r->n_closed = 0;
	return 0;
}

/* Kinds for a round: those of the closed nodes, so that the same price stays possible, and some drawn ones. */
static void set_kinds(struct improve_round *r)
{
	r->kinds.n_use = 0;
	for (size_t i = 0; i < r->n_closed; i++)
		pack_kinds_add(&r->kinds, r->closed[i].shape);
	pack_kinds_draw(&r->kinds, KINDS_MAX, &r->state);
}

/* Drops the kinds with a limited number of nodes. */
static void drop_limited(struct improve_round *r)
{
	const struct packer *p = r->p;
	struct pack_kinds *k = &r->kinds;
	size_t n = 0;

	for (size_t i = 0; i < k->n_use; i++)
		if (p->unused_nodes[p->shapes[k->use[i]].offer - p->s->offers] == UINT32_MAX)
			k->use[n++] = k->use[i];
	k->n_use = n;
}

static int repack_round(struct improve_round *r, struct error *err)
{
	struct packer *p = r->p;
	bool done = false;

	set_kinds(r);
	if (count_unplaced_replicas(r) <= EXACT_MAX && !r->limited && !r->whole) {
		drop_limited(r);
		set_fill(r);
		return pack_solve_exact(p, r->kinds.use, r->kinds.n_use, false, err);
	}
	set_fill(r);
	if (open_covering_node(r, r->price, &done, err) < 0)
		return -1;
	return done ? 0 : pack_solve_greedy(p, r->kinds.use, r->kinds.n_use, err);
}

/* Simulated annealing: accepts a higher cost with a probability that falls with the cost and with time. */
static bool is_change_accepted(struct improve_round *r, int64_t more, bool more_nodes)
{
	static const uint64_t certain = UINT64_C(1) << 53;

	if (more <= 0)
		return more < 0 || !more_nodes;
	return r->heat > 0 && (double)pack_draw_random(&r->state, certain) <
				      (double)certain * exp(-(double)more / r->heat);
}

/* Saves the plan before a round that makes it more expensive. The round's nodes start at @from. */
static int save_best_plan(struct improve_round *r, size_t from, struct error *err)
{
	const struct packer *p = r->p;
	size_t n = from + r->n_closed;

	free_nodes(r->best, r->n_best);
	r->n_best = 0;
	r->best = calloc(n + 1, sizeof(*r->best));
	if (!r->best)
		return error_nomem(err);
	r->best_total = r->total;
	while (r->n_best < n) {
		const struct pack_open *o =
			r->n_best < from ? &p->open[r->n_best] : &r->closed[r->n_best - from];
		uint32_t *who = malloc((o->n + 1) * sizeof(*who));

		if (!who)
			return error_nomem(err);
		memcpy(who, o->workloads, o->n * sizeof(*who));
		r->best[r->n_best++] = (struct pack_open){ o->shape, o->n, who };
	}
	return 0;
}

static int one_round(struct improve_round *r, struct error *err)
{
	struct packer *p = r->p;
	size_t n = 1 + pack_draw_random(&r->state, CLOSE_MAX), from;
	int64_t more = 0;

	r->n_closed = r->n_unplaced = 0;
	r->price = 0;
	r->whole = r->limited = false;
	for (size_t i = 0; i < n && p->n_open; i++) {
		size_t node = pick_node(r);

		if (r->n_unplaced + p->open[node].n > CLOSED_TENANTS_MAX)
			break;
		close_one(r, node);
	}
	from = p->n_open;
	if (repack_round(r, err) < 0)
		return -1;
	for (size_t i = from; i < p->n_open; i++)
		more += p->shapes[p->open[i].shape].offer->nano_per_hour;
	more -= r->price;
	if (count_unplaced_replicas(r) ||
		!is_change_accepted(r, more, p->n_open - from > r->n_closed))
		return undo_round(r, from);
	if (more > 0 && r->total < r->best_total && save_best_plan(r, from, err) < 0)
		return -1;
	r->total += more;
	for (size_t i = 0; i < r->n_closed; i++)
		free(r->closed[i].workloads);
	r->n_closed = 0;
	return 0;
}

static int init_search_rounds(struct improve_round *r, struct error *err)
{
	struct packer *p = r->p;
	int64_t min = pack_compute_bound(p);

	r->unplaced = calloc(CLOSED_TENANTS_MAX + 1, sizeof(*r->unplaced));
	r->closed = calloc(CLOSE_MAX + 1, sizeof(*r->closed));
	r->fill = calloc(p->n_configs + 1, sizeof(*r->fill));
	r->n_fill = calloc(p->n_configs + 1, sizeof(*r->n_fill));
	if (!r->unplaced || !r->closed || !r->fill || !r->n_fill)
		return error_nomem(err);
	for (size_t c = 0; c < p->n_configs; c++) {
		r->fill[c] = calloc(CLOSED_TENANTS_MAX + 1, sizeof(**r->fill));
		if (!r->fill[c])
			return error_nomem(err);
	}
	r->total = pack_open_price(p);
	r->best_total = INT64_MAX;
	r->least = price_plus(min, min / BOUND_ERROR);
	return pack_kinds_choose(&r->kinds, p, err);
}

static int first_plan(struct packer *p, struct error *err)
{
	CLEANUP(freep) uint32_t *all = pack_shapes_all(p, err);
	CLEANUP(freep) struct pack_node *plan = malloc(sizeof(*plan));

	if (!all || !plan)
		return error_nomem(err);
	for (uint32_t i = 0; i < p->n_shapes; i++) {
		pack_rate_shape(p, i, plan);
		p->first_ratio[i] = p->shapes[i].ratio;
	}
	return pack_solve_greedy(p, all, p->n_shapes, err);
}

/* A plan of few nodes has few neighbors; one of many nodes takes long to cool down. */
static double heat_of(const struct packer *p, int64_t total)
{
	double n = (double)p->n_open + 1, heat = HEAT / sqrt(n);

	return fmin(fmax(heat, HEAT_MIN), HEAT_MAX) * (double)total / n;
}

/*
 * Rounds until the budget is spent or the caller stops the search. Once no plan can cost less, a shorter rest
 * follows, since a plan of fewer nodes may cost as much.
 */
static int all_rounds(struct improve_round *r, struct error *err)
{
	struct packer *p = r->p;
	uint64_t budget = p->stopped ? 0 : p->s->budget, until = p->fit_cost + budget;
	double hottest = heat_of(p, r->total);

	for (uint64_t k = 0; p->n_open > 0 && p->fit_cost < until; k++) {
		double left = (double)(until - p->fit_cost) / (double)budget;

		if (hottest > 0 && r->total <= r->least) {
			hottest = 0;
			until = p->fit_cost + (until - p->fit_cost) / FEWER_NODES;
		}
		if (k % ASK_EVERY == 0 &&
			!pack_may_continue(p, 1 - left,
				r->total < r->best_total ? r->total : r->best_total))
			break;
		r->heat = hottest * left * left;
		p->fit_cost++;
		if (one_round(r, err) < 0)
			return -1;
	}
	return 0;
}

static void back_to_best(struct improve_round *r)
{
	struct packer *p = r->p;

	if (r->best_total >= r->total)
		return;
	free_nodes(p->open, p->n_open);
	p->open = STEAL_PTR(r->best);
	p->n_open = p->room_open = r->n_best;
	r->n_best = 0;
}

int pack_improve_plan(struct packer *p, struct error *err)
{
	CLEANUP(round_fini) struct improve_round r = { .p = p, .state = p->s->seed };
	CLEANUP(freep) uint32_t *nowhere = NULL;
	int got;

	if (first_plan(p, err) < 0 || init_search_rounds(&r, err) < 0)
		return -1;
	/* The search ignores replicas that have no place at all. */
	nowhere = p->unplaced;
	p->unplaced = calloc(p->fit->n_workloads + 1, sizeof(*p->unplaced));
	if (!p->unplaced) {
		p->unplaced = STEAL_PTR(nowhere);
		return error_nomem(err);
	}
	got = all_rounds(&r, err);
	back_to_best(&r);
	p->fill = p->order;
	p->n_fill = p->n_order;
	free(p->unplaced);
	p->unplaced = STEAL_PTR(nowhere);
	return got;
}
