/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/pack/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * A first plan with all kinds of nodes, and then again and again: a few nodes are closed, what was on them is
 * placed anew with the kinds of nodes that are likely to serve, and the better one stays.
 */

#define CLOSE_MAX          6 /* nodes at a time */
#define CLOSED_TENANTS_MAX (PLAN_NODE_GPUS_MAX * PLAN_PODS_MAX)
#define EXACT_MAX          7 /* replicas on them up to which the best of all ways is looked for */
#define KINDS_BEST \
	64 /* kinds of nodes to choose from then: those that took most for their price at first, */
#define KINDS_LOW 24 /* and the cheapest ones */
#define ASK_EVERY 64 /* rounds */

struct round {
	struct packer *p;
	uint32_t *kinds; /* in use for new nodes */
	size_t n_kinds;
	uint64_t state;
	uint32_t **fill; /* of each config: what is being placed, the largest first */
	size_t *n_fill;
	uint32_t *who; /* the same in any order */
	size_t n_who;
	struct open *closed;
	size_t n_closed;
	int64_t price;   /* of those that are closed */
	bool whole;      /* something of it needs several GPUs */
	bool limited;    /* there are only so many of one of them */
	uint32_t *plain; /* of .kinds those that there are any number of */
	size_t n_plain;
};

static void round_fini(struct round *r)
{
	for (size_t c = 0; r->fill && c < r->p->n_configs; c++)
		free(r->fill[c]);
	free(r->fill);
	free(r->n_fill);
	for (size_t i = 0; i < r->n_closed; i++) /* a round that failed */
		free(r->closed[i].who);
	free(r->kinds);
	free(r->plain);
	free(r->who);
	free(r->closed);
}

static uint64_t draw(struct round *r, uint64_t below)
{
	uint64_t z = r->state += UINT64_C(0x9E3779B97F4A7C15); /* SplitMix64 */

	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	return (z ^ z >> 31) % below;
}

/* ---- kinds ------------------------------------------------------------------------------------------------- */

/* Takes the @n best of @all by @key, which is a score; those that are taken have a key of -1 then. */
static void pick(struct round *r, double *key, size_t n_all, size_t n)
{
	for (size_t k = 0; k < n && r->n_kinds < n_all; k++) {
		size_t best = n_all;

		for (size_t i = 0; i < n_all; i++)
			if (key[i] > 0 && (best == n_all || key[i] > key[best]))
				best = i;
		if (best == n_all)
			return;
		r->kinds[r->n_kinds++] = (uint32_t)best;
		key[best] = -1;
	}
}

/* Also the best of each mode on each model of GPU: something may be allowed nowhere else. */
static int choose_kinds(struct round *r, struct error *err)
{
	struct packer *p = r->p;
	size_t n = p->n_shapes;
	CLEANUP(freep) double *key = calloc(n + 1, sizeof(*key));
	CLEANUP(freep)
	double *best = calloc(p->fit->n_gpus * PLAN_MODES * 2 + 1, sizeof(*best));
	CLEANUP(freep) uint32_t *of = calloc(p->fit->n_gpus * PLAN_MODES * 2 + 1, sizeof(*of));

	if (!key || !best || !of)
		return error_nomem(err);
	for (uint32_t i = 0; i < n; i++) {
		const struct shape *s = &p->shapes[i];
		size_t at =
			((size_t)(s->offer->gpu - p->fit->gpus) * PLAN_MODES + s->mode) * 2 +
			s->offer->capacity;

		key[i] = p->first_ratio[i];
		if (key[i] > best[at]) {
			best[at] = key[i];
			of[at] = i;
		}
	}
	for (size_t at = 0; at < p->fit->n_gpus * PLAN_MODES * 2; at++) {
		if (best[at] > 0) {
			r->kinds[r->n_kinds++] = of[at];
			key[of[at]] = -1;
		}
	}
	pick(r, key, n, KINDS_BEST);
	for (size_t i = 0; i < n; i++)
		if (key[i] > 0)
			key[i] = 1 / (1 + (double)p->shapes[i].offer->nano_per_hour);
	pick(r, key, n, KINDS_LOW);
	return 0;
}

/* ---- closing and placing anew --------------------------------------------------------------------------------- */

static void close_one(struct round *r, size_t i)
{
	struct packer *p = r->p;
	const struct shape *s = &p->shapes[p->open[i].shape];
	uint32_t *left = &p->left_nodes[s->offer - p->s->offers];

	r->price += s->offer->nano_per_hour;
	r->limited |= *left != UINT32_MAX;
	for (uint32_t k = 0; k < p->open[i].n; k++) {
		uint32_t w = p->open[i].who[k] >> 8;

		if (!p->left[w]++)
			r->who[r->n_who++] = w;
		r->whole |= p->fit->workloads[w].gpus > 1;
	}
	*left += *left == UINT32_MAX ? 0 : 1;
	r->closed[r->n_closed++] = p->open[i];
	p->open[i] = p->open[--p->n_open];
}

/* Who is on a node that costs nothing was put there first, and somebody else may be dearer elsewhere: 0. */
static double fullness(const struct packer *p, const struct open *o)
{
	double worth = 0;

	if (!p->shapes[o->shape].offer->nano_per_hour)
		return 0;
	for (uint32_t k = 0; k < o->n; k++)
		worth += p->worth[o->who[k] >> 8];
	return worth / (1 + (double)p->shapes[o->shape].offer->nano_per_hour);
}

/* Of three drawn ones the emptiest, so that full nodes are mostly left alone. */
static size_t pick_node(struct round *r)
{
	size_t best = draw(r, r->p->n_open);

	for (int k = 0; k < 2; k++) {
		size_t other = draw(r, r->p->n_open);

		if (fullness(r->p, &r->p->open[other]) < fullness(r->p, &r->p->open[best]))
			best = other;
	}
	return best;
}

struct sizes {
	const struct packer *p;
	const float *size;
};

static int larger_first(const void *a, const void *b, void *arg)
{
	const struct sizes *s = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	float of_x = s->size[x] + (float)s->p->fit->workloads[x].gpus;
	float of_y = s->size[y] + (float)s->p->fit->workloads[y].gpus;

	if (of_x != of_y)
		return of_x > of_y ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* The configs of the kinds in use alone. */
static void set_fill(struct round *r)
{
	struct packer *p = r->p;

	for (size_t c = 0; c < p->n_configs; c++)
		r->n_fill[c] = SIZE_MAX;
	for (size_t i = 0; i < r->n_kinds; i++) {
		uint32_t c = p->shapes[r->kinds[i]].config;
		struct sizes s = { p, p->size + c * p->fit->n_workloads };

		if (r->n_fill[c] != SIZE_MAX)
			continue;
		memcpy(r->fill[c], r->who, r->n_who * sizeof(*r->who));
		r->n_fill[c] = r->n_who;
		qsort_r(r->fill[c], r->n_who, sizeof(*r->who), larger_first, &s);
	}
	p->fill = r->fill;
	p->n_fill = r->n_fill;
}

static uint64_t unplaced(const struct round *r)
{
	uint64_t n = 0;

	for (size_t i = 0; i < r->n_who; i++)
		n += r->p->left[r->who[i]];
	return n;
}

/* The cheapest single node that takes all that is left, below @limit; opens it. */
static int cover(struct round *r, int64_t limit, bool *done, struct error *err)
{
	struct packer *p = r->p;
	CLEANUP(freep) struct draft *d = malloc(sizeof(*d));
	uint64_t wanted = unplaced(r);
	uint32_t best = UINT32_MAX;

	*done = false;
	if (!d)
		return error_nomem(err);
	for (size_t k = 0; k < r->n_kinds; k++) {
		const struct shape *s = &p->shapes[r->kinds[k]];

		if (s->offer->nano_per_hour >= limit || !p->left_nodes[s->offer - p->s->offers])
			continue;
		draft_begin(d, s);
		draft_fill(p, d);
		if (d->n < wanted)
			continue;
		best = r->kinds[k];
		limit = s->offer->nano_per_hour;
	}
	if (best == UINT32_MAX)
		return 0;
	draft_begin(d, &p->shapes[best]);
	draft_fill(p, d);
	for (size_t i = 0; i < r->n_who; i++)
		p->left[r->who[i]] = 0;
	p->left_nodes[p->shapes[best].offer - p->s->offers] -=
		p->left_nodes[p->shapes[best].offer - p->s->offers] == UINT32_MAX ? 0 : 1;
	*done = true;
	return open_add(p, d, err);
}

/* Puts back what was closed, instead of all nodes from @from on. */
static int undo(struct round *r, size_t from)
{
	struct packer *p = r->p;

	while (p->n_open > from) {
		struct open *o = &p->open[--p->n_open];
		uint32_t *left = &p->left_nodes[p->shapes[o->shape].offer - p->s->offers];

		*left += *left == UINT32_MAX ? 0 : 1;
		free(o->who);
	}
	for (size_t i = 0; i < r->n_closed; i++) {
		uint32_t *left =
			&p->left_nodes[p->shapes[r->closed[i].shape].offer - p->s->offers];

		*left -= *left == UINT32_MAX ? 0 : 1;
		p->open[p->n_open++] = r->closed[i]; /* there was room for them before */
	}
	for (size_t i = 0; i < r->n_who; i++)
		p->left[r->who[i]] = 0;
	r->n_closed = 0;
	return 0;
}

static int one_round(struct round *r, struct error *err)
{
	struct packer *p = r->p;
	size_t n = 1 + draw(r, CLOSE_MAX), from;
	int64_t price = 0;
	bool done = false;

	r->n_closed = r->n_who = 0;
	r->price = 0;
	r->whole = r->limited = false;
	for (size_t i = 0; i < n && p->n_open; i++) {
		size_t node = pick_node(r);

		if (r->n_who + p->open[node].n > CLOSED_TENANTS_MAX)
			break;
		close_one(r, node);
	}
	from = p->n_open;
	set_fill(r);
	if (unplaced(r) <= EXACT_MAX && !r->limited && !r->whole) {
		if (exact(p, r->plain, r->n_plain, false, err) < 0)
			return -1;
	} else if (cover(r, r->price, &done, err) < 0 ||
		   (!done && greedy(p, r->kinds, r->n_kinds, err) < 0)) {
		return -1;
	}
	for (size_t i = from; i < p->n_open; i++)
		price += p->shapes[p->open[i].shape].offer->nano_per_hour;
	if (unplaced(r) || price > r->price ||
		(price == r->price && p->n_open - from > r->n_closed))
		return undo(r, from);
	for (size_t i = 0; i < r->n_closed; i++)
		free(r->closed[i].who);
	r->n_closed = 0;
	return 0;
}

static int begin(struct round *r, struct error *err)
{
	struct packer *p = r->p;
	r->kinds = calloc(p->n_shapes + 1, sizeof(*r->kinds));
	r->who = calloc(CLOSED_TENANTS_MAX + 1, sizeof(*r->who));
	r->closed = calloc(CLOSE_MAX + 1, sizeof(*r->closed));
	r->fill = calloc(p->n_configs + 1, sizeof(*r->fill));
	r->n_fill = calloc(p->n_configs + 1, sizeof(*r->n_fill));
	if (!r->kinds || !r->who || !r->closed || !r->fill || !r->n_fill)
		return error_nomem(err);
	if (choose_kinds(r, err) < 0)
		return -1;
	r->plain = calloc(r->n_kinds + 1, sizeof(*r->plain));
	if (!r->plain)
		return error_nomem(err);
	for (size_t i = 0; i < r->n_kinds; i++)
		if (p->left_nodes[p->shapes[r->kinds[i]].offer - p->s->offers] == UINT32_MAX)
			r->plain[r->n_plain++] = r->kinds[i];
	for (size_t i = 0; i < r->n_kinds; i++) {
		uint32_t c = p->shapes[r->kinds[i]].config;

		if (r->fill[c])
			continue;
		r->fill[c] = calloc(CLOSED_TENANTS_MAX + 1, sizeof(**r->fill));
		if (!r->fill[c])
			return error_nomem(err);
	}
	return 0;
}

static int first_plan(struct packer *p, struct error *err)
{
	CLEANUP(freep) uint32_t *all = shapes_all(p, err);
	CLEANUP(freep) struct draft *d = malloc(sizeof(*d));

	if (!all || !d)
		return error_nomem(err);
	for (uint32_t i = 0; i < p->n_shapes; i++) {
		look(p, i, d);
		p->first_ratio[i] = p->shapes[i].ratio;
	}
	return greedy(p, all, p->n_shapes, err);
}

int improve(struct packer *p, struct error *err)
{
	CLEANUP(round_fini) struct round r = { .p = p, .state = p->s->seed };
	CLEANUP(freep) uint32_t *nowhere = NULL;
	uint64_t until;
	int got = 0;

	if (first_plan(p, err) < 0 || begin(&r, err) < 0)
		return -1;
	/* What has no place at all is not there while the rest is improved. */
	nowhere = p->left;
	p->left = calloc(p->fit->n_workloads + 1, sizeof(*p->left));
	if (!p->left) {
		p->left = STEAL_PTR(nowhere);
		return error_nomem(err);
	}
	until = p->stopped ? p->asked : p->asked + p->s->budget;
	for (uint64_t k = 0; p->n_open > 0 && p->asked < until && got == 0; k++) {
		if (k % ASK_EVERY == 0 &&
			!go_on(p, 1 - (double)(until - p->asked) / (double)p->s->budget))
			break;
		p->asked++;
		got = one_round(&r, err);
	}
	p->fill = p->order;
	p->n_fill = p->n_order;
	free(p->left);
	p->left = STEAL_PTR(nowhere);
	return got;
}
