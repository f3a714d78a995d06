/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/pack/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMPACT_EVERY 16 /* nodes that are opened */

/*
 * Opens nodes that take most for their price until nothing is left: first only those on which everybody is about
 * as cheap as can be, then less and less good ones. How much a kind of node takes only becomes
 * less, so kinds wait in a heap by what they took when last asked, and only the first is asked again.
 */

/* Better: takes more for its price; then the cheaper one, then the first. */
static bool better(const struct packer *p, uint32_t a, uint32_t b)
{
	const struct shape *x = &p->shapes[a], *y = &p->shapes[b];

	if (x->ratio != y->ratio)
		return x->ratio > y->ratio;
	if (x->offer->nano_per_hour != y->offer->nano_per_hour)
		return x->offer->nano_per_hour < y->offer->nano_per_hour;
	return a < b;
}

static void sink(const struct packer *p, uint32_t *heap, size_t n, size_t at)
{
	while (2 * at + 1 < n) {
		size_t child = 2 * at + 1;
		uint32_t moved = heap[at];

		if (child + 1 < n && better(p, heap[child + 1], heap[child]))
			child++;
		if (!better(p, heap[child], moved))
			return;
		heap[at] = heap[child];
		heap[child] = moved;
		at = child;
	}
}

/* Nodes of existing clusters cost nothing more: they come first, whatever they take. */
static double ratio_of(const struct draft *d)
{
	double price = (double)d->shape->offer->nano_per_hour;

	return d->worth <= 0 ? 0 : d->worth / (price > 1 ? price : 1);
}

static uint32_t *nodes_left(struct packer *p, const struct shape *s)
{
	return &p->left_nodes[s->offer - p->s->offers];
}

void look(struct packer *p, uint32_t shape, struct draft *d)
{
	struct shape *s = &p->shapes[shape];

	draft_begin(d, s);
	s->ratio = 0;
	if (!*nodes_left(p, s))
		return;
	draft_fill(p, d);
	s->ratio = ratio_of(d);
}

/* How many such nodes can be filled alike with what is left: at least one. */
static uint32_t times(const struct packer *p, const struct draft *d, uint32_t *counts)
{
	uint32_t n = p->left_nodes[d->shape->offer - p->s->offers];

	for (uint32_t g = 0; g < d->shape->offer->gpus; g++)
		for (uint32_t i = 0; i < d->on[g]; i++)
			counts[d->who[g][i]]++;
	for (uint32_t g = 0; g < d->shape->offer->gpus; g++) {
		for (uint32_t i = 0; i < d->on[g]; i++) {
			uint32_t w = d->who[g][i];

			if (p->left[w] / counts[w] < n)
				n = p->left[w] / counts[w];
		}
	}
	return n;
}

static int take(struct packer *p, const struct draft *d, uint32_t *counts, struct error *err)
{
	uint32_t n = times(p, d, counts);

	*nodes_left(p, d->shape) -= *nodes_left(p, d->shape) == UINT32_MAX ? 0 : n;
	for (uint32_t g = 0; g < d->shape->offer->gpus; g++) {
		for (uint32_t i = 0; i < d->on[g]; i++) {
			uint32_t w = d->who[g][i];

			p->left[w] -= n;
			counts[w] = 0;
		}
	}
	for (uint32_t i = 0; i < n; i++)
		if (open_add(p, d, err) < 0)
			return -1;
	return 0;
}

static size_t left_of(const struct packer *p)
{
	size_t n = 0;

	for (size_t w = 0; w < p->fit->n_workloads; w++)
		n += p->left[w] > 0;
	return n;
}

/* As long as some kind of node takes something. */
static int one_pass(struct packer *p, const uint32_t *use, uint32_t *heap, size_t n_use,
	uint32_t *counts, struct draft *d, struct error *err)
{
	size_t n = 0, before = left_of(p), opened = 0;

	for (size_t i = 0; i < n_use; i++) {
		look(p, use[i], d);
		if (p->shapes[use[i]].ratio <= 0)
			continue;
		heap[n++] = use[i];
	}
	for (size_t i = n / 2; i-- > 0;)
		sink(p, heap, n, i);
	while (n) {
		uint32_t first = heap[0];
		double was = p->shapes[first].ratio;

		look(p, first, d);
		if (p->shapes[first].ratio <= 0)
			heap[0] = heap[--n];
		if (p->shapes[first].ratio < was) {
			sink(p, heap, n, 0);
			continue;
		}
		if (p->shapes[first].ratio * p->dear < 1)
			break; /* with those for whom it is dearer it may be worth it later */
		if (take(p, d, counts, err) < 0)
			return -1;
		if (++opened % COMPACT_EVERY == 0 && p->fill == p->order &&
			left_of(p) < before / 2) {
			shapes_compact(p);
			before = left_of(p);
		}
	}
	return 0;
}

int greedy(struct packer *p, const uint32_t *use, size_t n_use, struct error *err)
{
	/* How much more than it is worth a replica may cost on a node, and a node than what is on it. */
	static const double dear[] = { 1.05, 1.2, 1.5, 2, INFINITY };
	CLEANUP(freep) uint32_t *heap = malloc((n_use + 1) * sizeof(*heap));
	CLEANUP(freep) uint32_t *counts = calloc(p->fit->n_workloads + 1, sizeof(*counts));
	CLEANUP(freep) struct draft *d = malloc(sizeof(*d));

	if (!heap || !counts || !d)
		return error_nomem(err);
	for (size_t i = p->fill == p->order ? 0 : ARRAY_LEN(dear) - 1; i < ARRAY_LEN(dear);
		i++) {
		p->dear = dear[i];
		if (one_pass(p, use, heap, n_use, counts, d, err) < 0)
			return -1;
	}
	return 0;
}
