/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/pack/internal.h"
#include "io/price/price.h"

#include <math.h>

/*
 * A lower bound of a plan's cost. On each node, a replica takes a share of the GPUs' memory, of their slots, of
 * the processors and of the RAM. The shares of one resource sum to 1 at most. So for any weights that sum to 1,
 * the weighted shares of all replicas on a node sum to 1 at most. Hence a replica costs at least its weighted
 * share of an offer, where that is cheapest. The bound is the largest over a set of weights.
 */
static const double weights[][SHARES] = {
	{ 1, 0, 0, 0 },
	{ 0, 1, 0, 0 },
	{ 0, 0, 1, 0 },
	{ 0, 0, 0, 1 },
	{ 0.5, 0.5, 0, 0 },
	{ 0.5, 0, 0.5, 0 },
	{ 0.5, 0, 0, 0.5 },
	{ 0, 0.5, 0.5, 0 },
	{ 0.75, 0.25, 0, 0 },
	{ 0.75, 0, 0.25, 0 },
	{ 0.75, 0, 0, 0.25 },
	{ 0.25, 0.75, 0, 0 },
	{ 0.25, 0, 0.75, 0 },
	{ 0.25, 0.25, 0.25, 0.25 },
};

int64_t pack_compute_bound(const struct packer *p)
{
	double sums[ARRAY_LEN(weights)] = { 0 }, best = 0;

	for (uint32_t w = 0; w < p->fit->n_workloads; w++) {
		double least[ARRAY_LEN(weights)];
		uint32_t placed = p->fit->workloads[w].replicas - p->unplaced[w];

		for (size_t k = 0; k < ARRAY_LEN(weights); k++)
			least[k] = INFINITY;
		for (size_t i = 0; placed && i < p->s->n_offers; i++) {
			const struct plan_offer *o = &p->s->offers[i];
			double share[SHARES];

			if (!pack_compute_shares(p, w, i, share))
				continue;
			for (size_t k = 0; k < ARRAY_LEN(weights); k++) {
				double sum = 0;

				for (int d = 0; d < SHARES; d++)
					sum += weights[k][d] * share[d];
				least[k] = fmin(least[k], sum * (double)o->nano_per_hour);
			}
		}
		for (size_t k = 0; placed && k < ARRAY_LEN(weights); k++)
			sums[k] += isfinite(least[k]) ? placed * least[k] : 0;
	}
	for (size_t k = 0; k < ARRAY_LEN(weights); k++)
		best = fmax(best, sums[k]);
	return best < (double)PRICE_SUM_MAX ? (int64_t)floor(best * (1 - 1e-9)) : PRICE_SUM_MAX;
}
