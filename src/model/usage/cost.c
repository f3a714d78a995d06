/* SPDX-License-Identifier: Apache-2.0 */
#include "model/usage/internal.h"

#include <stdlib.h>

#define HOUR_NS (UINT64_C(3600) * 1000000000)

/* The cost of the node in the round. */
static uint64_t node_cost(struct accounts *a, uint64_t price, uint64_t dt_ns)
{
	account_wide all = (account_wide)price * dt_ns + a->price_rest;

	a->price_rest = (uint64_t)(all % HOUR_NS);
	return (uint64_t)(all / HOUR_NS);
}

/* Equal parts of @cost. Odd nano-units rotate, so that no GPU has more than another for long. */
static void spread_cost_to_gpus(struct accounts *a, uint64_t cost, uint64_t *gpus, uint32_t n)
{
	uint32_t odd = (uint32_t)(cost % n);

	for (uint32_t i = 0; i < n; i++)
		gpus[i] = cost / n;
	for (uint32_t i = 0; i < odd; i++)
		gpus[(a->next_odd % n + i) % n]++;
	a->next_odd = (a->next_odd % n + odd) % n;
}

int account_cost(struct accounts *a, const struct account_round *r, uint64_t dt_ns,
	uint64_t *ret, struct error *err)
{
	CLEANUP(freep) uint64_t *gpus = calloc(r->n_gpus ? r->n_gpus : 1, sizeof(*gpus));
	CLEANUP(freep) uint64_t *left = calloc(r->n_gpus ? r->n_gpus : 1, sizeof(*left));
	uint64_t cost, other;

	if (!gpus || !left)
		return error_nomem(err);
	cost = other = node_cost(a, r->price_nano_per_hour, dt_ns);
	if (r->n_gpus)
		spread_cost_to_gpus(a, cost, gpus, r->n_gpus);
	for (uint32_t i = 0; i < r->n_gpus; i++)
		left[i] = gpus[i];
	for (uint32_t i = 0; i < r->n_devices; i++) {
		const struct account_device_round *u = &r->devices[i];

		ret[i] = 0;
		if (!u->priced || r->allocations_unknown || u->gpu >= r->n_gpus)
			continue;
		ret[i] = account_scale(gpus[u->gpu], u->part, ACCOUNT_MILLION);
		if (ret[i] > left[u->gpu])
			ret[i] = left[u->gpu];
		left[u->gpu] -= ret[i];
		other -= ret[i];
	}
	a->cost_nano += cost;
	a->other_cost_nano += other;
	a->delta.cost_nano = cost;
	a->delta.other_cost_nano = other;
	free(a->gpu_other);
	a->gpu_other = STEAL_PTR(left);
	a->n_gpu_other = r->n_gpus;
	return 0;
}
