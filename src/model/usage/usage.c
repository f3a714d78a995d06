/* SPDX-License-Identifier: Apache-2.0 */
#include "model/usage/internal.h"

#include "lib/base/array.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

/* --- life --- */

void accounts_init(struct accounts *a)
{
	*a = (struct accounts){ .devices = NULL };
}

static void account_device_free(struct account_device *device)
{
	for (size_t i = 0; i < device->n_uses; i++)
		(void)account_free(device->uses[i]);
	free(device->uses);
	free(device->uuid);
	free(device);
}

void accounts_fini(struct accounts *a)
{
	for (size_t i = 0; i < a->n_devices; i++)
		account_device_free(a->devices[i]);
	free(a->devices);
	free(a->gpu_other);
	accounts_init(a);
}

struct account_device *accounts_find_device(const struct accounts *a, const char *uuid)
{
	for (size_t i = 0; i < a->n_devices; i++)
		if (!strcmp(a->devices[i]->uuid, uuid))
			return a->devices[i];
	return NULL;
}

static struct account_device *ensure_account_device(struct accounts *a, const char *uuid,
	struct error *err)
{
	struct account_device *device = accounts_find_device(a, uuid);

	if (device)
		return device;
	if (ARRAY_GROW(&a->devices, a->n_devices, &a->room_devices, ARRAY_NO_LIMIT))
		device = calloc(1, sizeof(*device));
	if (device)
		device->uuid = strdup(uuid);
	if (!device || !device->uuid) {
		free(device);
		(void)error_nomem(err);
		return NULL;
	}
	a->devices[a->n_devices++] = device;
	return device;
}

/* --- a round of one device --- */

static uint64_t sum_shares(const struct account_use *uses, uint32_t n)
{
	account_wide sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += uses[i].share_ns;
	return sum > UINT64_MAX ? UINT64_MAX : (uint64_t)sum;
}

/*
 * Replicas of an earlier layout can come on top of the present ones. More than the whole is scaled down to it.
 */
static uint64_t scale_share_to_whole(uint64_t share_ns, uint64_t sum, uint64_t whole)
{
	return sum > whole ? account_scale(share_ns, whole, sum) : share_ns;
}

/*
 * Only the arbiter sees what a slice uses between two samples. So without its report, 0 does not mean that the
 * peak is 0.
 */
static void raise_peak(struct account *a, const struct account_use *in)
{
	bool seen = in->memory_from != ACCOUNT_FROM_NOTHING;

	a->memory_high = seen ? in->memory : 0;
	if (in->peak_known && in->peak > a->memory_peak && in->peak > a->memory_high)
		a->memory_high = in->peak;
	if (a->memory_high > a->memory_peak)
		a->memory_peak = a->memory_high;
	a->peak_known =
		a->peak_known || in->peak_known || a->memory_peak > 0 || (seen && !in->sliced);
}

static void count_memory(struct account *a, const struct account_use *in)
{
	bool known = in->memory_from != ACCOUNT_FROM_NOTHING;
	account_wide sum;

	a->memory_from = in->live ? in->memory_from : ACCOUNT_FROM_NOTHING;
	a->memory = a->memory_from ? in->memory : 0;
	a->memory_ever = a->memory_ever || known;
	/*
	 * An ended container whose memory was known lacks only the last part of a round. Memory that was never
	 * known is unknown.
	 */
	a->memory_unknown = a->memory_unknown || (!known && (in->live || !a->memory_ever));
	raise_peak(a, in);
	if (!known)
		return;
	sum = (account_wide)in->memory * in->allocated_ns + a->memory_rest;
	a->memory_rest = (uint64_t)(sum % SECOND_NS);
	a->delta.memory_byte_s = (uint64_t)(sum / SECOND_NS);
	a->total.memory_byte_s += a->delta.memory_byte_s;
}

static void count_account_use(struct account_device *device,
	const struct account_device_round *r, const struct account_use *in, uint64_t share_ns,
	uint64_t whole, uint64_t cost, uint64_t dt_ns)
{
	struct account *a = in->account;
	uint64_t held = in->allocated_ns > dt_ns ? dt_ns : in->allocated_ns;

	a->delta = (struct account_counts){
		.allocated_ns = held,
		.gpu_ns = account_scale(share_ns, r->part,
			(uint64_t)ACCOUNT_MILLION * ACCOUNT_MILLION),
		.cost_nano = whole ? account_scale(cost, share_ns, whole) : 0,
	};
	a->total.allocated_ns += held;
	a->total.gpu_ns += a->delta.gpu_ns;
	a->total.cost_nano += a->delta.cost_nano;
	device->delta.idle_gpu_ns -= a->delta.gpu_ns;
	device->delta.idle_cost_nano -= a->delta.cost_nano;
	count_memory(a, in);
}

static void count_device_presence(struct account_device *device, uint32_t part, uint64_t dt_ns)
{
	account_wide present = (account_wide)dt_ns * part + device->present_rest;

	device->present_rest = (uint64_t)(present % ACCOUNT_MILLION);
	device->delta.present_ns = (uint64_t)(present / ACCOUNT_MILLION);
	device->present_ns += device->delta.present_ns;
}

/* @counted: the allocations are known. */
static void count_device_usage(struct account_device *device,
	const struct account_device_round *r, struct account_use *uses, uint64_t cost,
	bool counted, uint64_t dt_ns)
{
	uint64_t whole = dt_ns * ACCOUNT_MILLION, sum;
	uint32_t n = uses ? r->n_uses : 0; /* no usages */
	uint64_t held = 0;

	sum = sum_shares(uses, n);
	count_device_presence(device, r->part, counted ? dt_ns : 0);
	device->delta.idle_gpu_ns = device->delta.present_ns;
	device->delta.cost_nano = device->delta.idle_cost_nano = cost;
	for (uint32_t i = 0; i < n; i++) {
		count_account_use(device, r, &uses[i],
			counted ? scale_share_to_whole(uses[i].share_ns, sum, whole) : 0, whole,
			cost, dt_ns);
		held += uses[i].live ? uses[i].share : 0;
	}
	for (uint32_t i = 0; i < n; i++)
		uses[i].account->share = !uses[i].live
						 ? 0
						 : (uint32_t)scale_share_to_whole(uses[i].share,
							   held, ACCOUNT_MILLION);
	device->allocated = held > ACCOUNT_MILLION ? ACCOUNT_MILLION : (uint32_t)held;
	account_busy(device, r, uses, dt_ns);
	device->idle_gpu_ns += device->delta.idle_gpu_ns;
	device->cost_nano += cost;
	device->idle_cost_nano += device->delta.idle_cost_nano;
}

/* --- a round --- */

static int match_all(struct accounts *a, const struct account_round *r, struct error *err)
{
	for (size_t i = 0; i < a->n_devices; i++) {
		a->devices[i]->listed = false;
		for (size_t k = 0; k < a->devices[i]->n_uses; k++)
			a->devices[i]->uses[k]->matched = false;
	}
	for (uint32_t i = 0; i < r->n_devices; i++) {
		struct account_device *device =
			ensure_account_device(a, r->devices[i].uuid, err);

		if (!device)
			return -1;
		device->listed = true;
		for (uint32_t k = 0; k < r->devices[i].n_uses; k++) {
			struct account_use *in = &r->uses[r->devices[i].first_use + k];
			uint64_t began = r->wall_ns > in->allocated_ns
						 ? r->wall_ns - in->allocated_ns
						 : 0;

			in->account = account_match(device, in, began, err);
			if (!in->account)
				return -1;
		}
	}
	return 0;
}

/* An account that ends within the round gets its end time now. An account that comes back has not ended. */
static void set_life(const struct account_round *r, const struct account_device_round *u)
{
	for (uint32_t i = 0; i < u->n_uses; i++) {
		const struct account_use *in = &r->uses[u->first_use + i];

		if (in->live)
			in->account->ended_wall_ns = in->account->ended_for_ns = 0;
		else if (in->account->live || !in->account->ended_wall_ns)
			in->account->ended_wall_ns = r->wall_ns;
		in->account->live = in->live;
	}
}

static void drop_gone_devices(struct accounts *a)
{
	size_t kept = 0;

	for (size_t i = 0; i < a->n_devices; i++) {
		if (a->devices[i]->listed) {
			a->devices[kept++] = a->devices[i];
			continue;
		}
		a->other_cost_nano += a->devices[i]->cost_nano;
		account_device_free(a->devices[i]);
	}
	a->n_devices = kept;
}

int accounts_round(struct accounts *a, const struct account_round *r, struct error *err)
{
	CLEANUP(freep)
	uint64_t *costs = calloc(r->n_devices ? r->n_devices : 1, sizeof(*costs));
	uint64_t dt = r->dt_ns > ACCOUNT_ROUND_MAX_NS ? ACCOUNT_ROUND_MAX_NS : r->dt_ns;

	if (!costs)
		return error_nomem(err);
	if (match_all(a, r, err) < 0 || account_cost(a, r, dt, costs, err) < 0)
		return -1;
	for (uint32_t i = 0; i < r->n_devices; i++) {
		struct account_device *device = accounts_find_device(a, r->devices[i].uuid);

		count_device_usage(device, &r->devices[i],
			r->n_uses ? r->uses + r->devices[i].first_use : NULL, costs[i],
			!r->allocations_unknown, dt);
		set_life(r, &r->devices[i]);
		account_end_others(device, dt, r->wall_ns);
	}
	if (r->complete)
		drop_gone_devices(a);
	return 0;
}

/* --- restore --- */

int accounts_restore_device(struct accounts *a, const char *uuid, struct account_device **ret,
	struct error *err)
{
	*ret = ensure_account_device(a, uuid, err);
	return *ret ? 0 : -1;
}

int accounts_restore_account(struct account_device *device, const struct account_use *use,
	struct account **ret, struct error *err)
{
	*ret = account_new(device, use, err);
	return *ret ? 0 : -1;
}

/* What @parts lack of @whole. Parts that exceed the whole enlarge it. */
static uint64_t settle_remainder(uint64_t *whole, uint64_t parts)
{
	if (parts > *whole)
		*whole = parts;
	return *whole - parts;
}

void accounts_settle(struct accounts *a)
{
	uint64_t cost = a->other_cost_nano;

	for (size_t i = 0; i < a->n_devices; i++) {
		struct account_device *device = a->devices[i];
		struct account_counts sum = { 0 };

		for (size_t k = 0; k < device->n_uses; k++) {
			sum.busy_ns += device->uses[k]->total.busy_ns;
			sum.gpu_ns += device->uses[k]->total.gpu_ns;
			sum.cost_nano += device->uses[k]->total.cost_nano;
		}
		device->past.busy_ns =
			settle_remainder(&device->busy_ns, sum.busy_ns + device->other_busy_ns);
		device->past.gpu_ns =
			settle_remainder(&device->present_ns, sum.gpu_ns + device->idle_gpu_ns);
		device->past.cost_nano = settle_remainder(&device->cost_nano,
			sum.cost_nano + device->idle_cost_nano);
		cost += device->cost_nano;
	}
	a->other_cost_nano += settle_remainder(&a->cost_nano, cost);
}
