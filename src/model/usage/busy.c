/* SPDX-License-Identifier: Apache-2.0 */
#include "model/usage/internal.h"

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

void account_busy(struct account_device *u, const struct account_device_round *r,
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
	u->delta.busy_ns = busy;
	u->delta.other_busy_ns = rest;
	u->busy_ns += busy;
	u->other_busy_ns += rest;
}
