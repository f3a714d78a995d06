/* SPDX-License-Identifier: Apache-2.0 */
/* Divides the busy time and the cost of one round among the accounts (usage.h). */
#include "model/usage/internal.h"

#include <stdlib.h>

/* --- busy time --- */

/*
 * Shares out the busy time of a device, in this order:
 * 1. The slice runtime measures the time of its containers exactly, where NVML samples. The device is at least
 *    as busy as that.
 * 2. NVML's figures of processes share the rest.
 * 3. What is left then belongs to no known container.
 * Where NVML does not report how busy the device is, there is no rest, and the time of its processes is not
 * known.
 */

static uint64_t sum_of(const struct account_use *uses, uint32_t n, enum account_source kind)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		if (uses[i].busy_from == kind)
			sum += uses[i].busy_ns;
	return sum;
}

/* Gives the usages of @kind their figures, scaled down to @room if they exceed it. Returns the sum. */
static uint64_t assign_busy_time(const struct account_use *uses, uint32_t n,
	enum account_source kind, uint64_t room)
{
	uint64_t sum = sum_of(uses, n, kind), given = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t ns = uses[i].busy_ns;

		if (uses[i].busy_from != kind)
			continue;
		if (sum > room)
			ns = account_scale(ns, room, sum);
		uses[i].account->delta.busy_ns = ns;
		uses[i].account->total.busy_ns += ns;
		given += ns;
	}
	return given;
}

/* A container that alone has a device, without other programs there, does all the work on it. */
static void assign_sole_busy(const struct account_device_round *r, struct account_use *uses)
{
	if (r->n_uses != 1 || r->has_other_users || !r->busy_known ||
		uses[0].busy_from == ACCOUNT_FROM_SLICE)
		return;
	uses[0].busy_from = ACCOUNT_FROM_DEVICE;
	uses[0].busy_ns = r->busy_ns;
}

static void clear_busy_shares(const struct account_device_round *r, struct account_use *uses)
{
	for (uint32_t i = 0; i < r->n_uses && !r->busy_known; i++)
		if (uses[i].busy_from == ACCOUNT_FROM_PROCESSES)
			uses[i].busy_from = ACCOUNT_FROM_NOTHING;
}

/* The growth of a counter can cover more time than the round. Then it is limited by that time. */
static uint64_t find_longest_interval(const struct account_device_round *r,
	const struct account_use *uses, uint64_t dt_ns)
{
	uint64_t max = r->busy_known && r->busy_of_ns > dt_ns ? r->busy_of_ns : dt_ns;

	for (uint32_t i = 0; i < r->n_uses; i++)
		if (uses[i].busy_from && uses[i].busy_of_ns > max)
			max = uses[i].busy_of_ns;
	return max;
}

void account_busy(struct account_device *device, const struct account_device_round *r,
	struct account_use *uses, uint64_t dt_ns)
{
	uint64_t busy = r->busy_known ? r->busy_ns : 0, max, exact, rest;

	clear_busy_shares(r, uses);
	max = find_longest_interval(r, uses, dt_ns);
	assign_sole_busy(r, uses);
	for (uint32_t i = 0; i < r->n_uses; i++) {
		struct account *a = uses[i].account;

		a->busy_from = uses[i].busy_from;
		a->busy_unknown = a->busy_unknown || !a->busy_from;
		a->busy_ever = a->busy_ever || a->busy_from;
	}
	exact = sum_of(uses, r->n_uses, ACCOUNT_FROM_SLICE);
	if (busy > max)
		busy = max;
	if (busy < exact)
		busy = exact < max ? exact : max;
	exact = assign_busy_time(uses, r->n_uses, ACCOUNT_FROM_SLICE, busy);
	rest = busy - exact;
	rest -= assign_busy_time(uses, r->n_uses, ACCOUNT_FROM_PROCESSES, rest);
	rest -= assign_busy_time(uses, r->n_uses, ACCOUNT_FROM_DEVICE, rest);
	device->delta.busy_ns = busy;
	device->delta.other_busy_ns = rest;
	device->busy_ns += busy;
	device->other_busy_ns += rest;
}

/* --- cost --- */

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
