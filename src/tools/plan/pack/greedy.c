/* SPDX-License-Identifier: Apache-2.0 */
/* Opens nodes until nothing is left. */
#include "tools/plan/pack/internal.h"

#include <math.h>
#include <stdlib.h>

#define COMPACT_EVERY 16 /* opened nodes */

/*
 * Opens the node that takes the most worth for its price until nothing is left. Passes with a rising cost limit:
 * at first only replicas that cost about their worth on the node. What a kind of node takes can only shrink. So
 * the kinds are in a heap by their last ratio, and only the first is rated again.
 */

/* Better: a higher ratio; then the cheaper one, then the first. */
static bool is_better_shape(const struct packer *p, uint32_t a, uint32_t b)
{
	const struct pack_shape *x = &p->shapes[a], *y = &p->shapes[b];

	if (x->ratio != y->ratio)
		return x->ratio > y->ratio;
	if (x->offer->nano_per_hour != y->offer->nano_per_hour)
		return x->offer->nano_per_hour < y->offer->nano_per_hour;
	return a < b;
}

static void sift_down_shape(const struct packer *p, uint32_t *heap, size_t n, size_t at)
{
	while (2 * at + 1 < n) {
		size_t child = 2 * at + 1;
		uint32_t moved = heap[at];

		if (child + 1 < n && is_better_shape(p, heap[child + 1], heap[child]))
			child++;
		if (!is_better_shape(p, heap[child], moved))
			return;
		heap[at] = heap[child];
		heap[child] = moved;
		at = child;
	}
}

/* A node of an existing cluster costs nothing: it comes first, whatever it takes. */
static double ratio_of(const struct pack_node *plan)
{
	double price = (double)plan->shape->offer->nano_per_hour;

	return plan->worth <= 0 ? 0 : plan->worth / (price > 1 ? price : 1);
}

static uint32_t *nodes_left(struct packer *p, const struct pack_shape *s)
{
	return &p->unused_nodes[s->offer - p->s->offers];
}

void pack_rate_shape(struct packer *p, uint32_t shape, struct pack_node *plan)
{
	struct pack_shape *s = &p->shapes[shape];

	pack_node_begin(plan, s);
	s->ratio = 0;
	if (!*nodes_left(p, s))
		return;
	pack_node_fill(p, plan);
	s->ratio = ratio_of(plan);
}

/* How many identical nodes the unplaced replicas can fill: at least one. */
static uint32_t count_equal_nodes(const struct packer *p, const struct pack_node *plan,
	uint32_t *counts)
{
	uint32_t n = p->unused_nodes[plan->shape->offer - p->s->offers];

	for (uint32_t g = 0; g < plan->shape->offer->gpus; g++)
		for (uint32_t i = 0; i < plan->n_on_gpu[g]; i++)
			counts[plan->workloads[g][i]]++;
	for (uint32_t g = 0; g < plan->shape->offer->gpus; g++) {
		for (uint32_t i = 0; i < plan->n_on_gpu[g]; i++) {
			uint32_t w = plan->workloads[g][i];

			if (p->unplaced[w] / counts[w] < n)
				n = p->unplaced[w] / counts[w];
		}
	}
	return n;
}

static int open_equal_nodes(struct packer *p, const struct pack_node *plan, uint32_t *counts,
	struct error *err)
{
	uint32_t n = count_equal_nodes(p, plan, counts);

	*nodes_left(p, plan->shape) -= *nodes_left(p, plan->shape) == UINT32_MAX ? 0 : n;
	for (uint32_t g = 0; g < plan->shape->offer->gpus; g++) {
		for (uint32_t i = 0; i < plan->n_on_gpu[g]; i++) {
			uint32_t w = plan->workloads[g][i];

			p->unplaced[w] -= n;
			counts[w] = 0;
		}
	}
	for (uint32_t i = 0; i < n; i++)
		if (pack_open_add(p, plan, err) < 0)
			return -1;
	return 0;
}

static size_t count_left_workloads(const struct packer *p)
{
	size_t n = 0;

	for (size_t w = 0; w < p->fit->n_workloads; w++)
		n += p->unplaced[w] > 0;
	return n;
}

/* One pass: as long as some kind of node takes something. */
static int one_pass(struct packer *p, const uint32_t *use, uint32_t *heap, size_t n_use,
	uint32_t *counts, struct pack_node *plan, struct error *err)
{
	size_t n = 0, before = count_left_workloads(p), opened = 0;

	for (size_t i = 0; i < n_use; i++) {
		pack_rate_shape(p, use[i], plan);
		if (p->shapes[use[i]].ratio <= 0)
			continue;
		heap[n++] = use[i];
	}
	for (size_t i = n / 2; i-- > 0;)
		sift_down_shape(p, heap, n, i);
	while (n) {
		uint32_t first = heap[0];
		double was = p->shapes[first].ratio;

		pack_rate_shape(p, first, plan);
		if (p->shapes[first].ratio <= 0)
			heap[0] = heap[--n];
		if (p->shapes[first].ratio < was) {
			sift_down_shape(p, heap, n, 0);
			continue;
		}
		if (p->shapes[first].ratio * p->max_cost_ratio < 1)
			break; /* a later pass with a higher limit may open it */
		if (open_equal_nodes(p, plan, counts, err) < 0)
			return -1;
		if (++opened % COMPACT_EVERY == 0 && p->fill == p->order &&
			count_left_workloads(p) < before / 2) {
			pack_shapes_compact(p);
			before = count_left_workloads(p);
		}
	}
	return 0;
}

int pack_solve_greedy(struct packer *p, const uint32_t *use, size_t n_use, struct error *err)
{
	/* Limits for both ratios: the cost of a replica on a node to its worth, and the price of a node to
	 * the worth on it. */
	static const double dear[] = { 1.05, 1.2, 1.5, 2, INFINITY };
	CLEANUP(freep) uint32_t *heap = malloc((n_use + 1) * sizeof(*heap));
	CLEANUP(freep) uint32_t *counts = calloc(p->fit->n_workloads + 1, sizeof(*counts));
	CLEANUP(freep) struct pack_node *plan = malloc(sizeof(*plan));

	if (!heap || !counts || !plan)
		return error_nomem(err);
	for (size_t i = p->fill == p->order ? 0 : ARRAY_LEN(dear) - 1; i < ARRAY_LEN(dear);
		i++) {
		p->max_cost_ratio = dear[i];
		if (one_pass(p, use, heap, n_use, counts, plan, err) < 0)
			return -1;
	}
	return 0;
}
