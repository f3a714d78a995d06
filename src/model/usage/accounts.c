/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accounts of a device: finds the account of a container, and ends the accounts of containers that are
 * gone (usage.h).
 */
#include "model/usage/internal.h"

#include "lib/base/array.h"

#include <stdlib.h>
#include <string.h>

/* --- the account of a container --- */

struct account *account_free(struct account *a)
{
	if (!a)
		return NULL;
	free(a->namespace_);
	free(a->pod);
	free(a->uid);
	free(a->container);
	free(a->resource);
	free(a);
	return NULL;
}

struct account *account_new(struct account_device *device, const struct account_use *in,
	struct error *err)
{
	struct account *a = calloc(1, sizeof(*a));

	if (!a ||
		!ARRAY_GROW(&device->uses, device->n_uses, &device->room_uses, ARRAY_NO_LIMIT))
		goto no_memory;
	a->namespace_ = strdup(in->namespace_);
	a->pod = strdup(in->pod);
	a->uid = strdup(in->uid);
	a->container = strdup(in->container);
	a->resource = strdup(in->resource);
	if (!a->namespace_ || !a->pod || !a->uid || !a->container || !a->resource)
		goto no_memory;
	a->mode = in->mode;
	device->uses[device->n_uses++] = a;
	return a;

no_memory:
	(void)account_free(a);
	(void)error_nomem(err);
	return NULL;
}

static bool is_same_account_name(const struct account *a, const struct account_use *in)
{
	return a->mode == in->mode && !strcmp(a->pod, in->pod) &&
	       !strcmp(a->namespace_, in->namespace_) && !strcmp(a->container, in->container) &&
	       !strcmp(a->resource, in->resource);
}

/* The account of the pod with that UID. */
static struct account *by_uid(const struct account_device *device, const struct account_use *in)
{
	for (size_t i = 0; i < device->n_uses; i++)
		if (!device->uses[i]->matched && is_same_account_name(device->uses[i], in) &&
			!strcmp(device->uses[i]->uid, in->uid))
			return device->uses[i];
	return NULL;
}

/* The live account of that name. If the pod has a UID, only an account without one. */
static struct account *find_account_by_name(const struct account_device *device,
	const struct account_use *in)
{
	for (size_t i = 0; i < device->n_uses; i++)
		if (!device->uses[i]->matched && device->uses[i]->live &&
			is_same_account_name(device->uses[i], in) &&
			(!*in->uid || !*device->uses[i]->uid))
			return device->uses[i];
	return NULL;
}

static int set_account_uid(struct account *a, const char *uid, struct error *err)
{
	char *copy;

	if (*a->uid || !*uid)
		return 0;
	copy = strdup(uid);
	if (!copy)
		return error_nomem(err);
	free(a->uid);
	a->uid = copy;
	return 0;
}

struct account *account_match(struct account_device *device, const struct account_use *in,
	uint64_t began_wall_ns, struct error *err)
{
	struct account *a = *in->uid ? by_uid(device, in) : NULL;

	if (!a && !in->fresh)
		a = find_account_by_name(device, in);
	if (a) {
		if (set_account_uid(a, in->uid, err) < 0)
			return NULL;
	} else {
		a = account_new(device, in, err);
		if (!a)
			return NULL;
		a->began_wall_ns = began_wall_ns;
	}
	a->matched = true;
	return a;
}

/* --- the end of accounts --- */

static void add_account_to_past(struct account_device *device, size_t i)
{
	struct account *a = device->uses[i];

	device->past.busy_ns += a->total.busy_ns;
	device->past.gpu_ns += a->total.gpu_ns;
	device->past.cost_nano += a->total.cost_nano;
	(void)account_free(a);
	device->n_uses--;
	memmove(&device->uses[i], &device->uses[i + 1],
		(device->n_uses - i) * sizeof(device->uses[0]));
}

/* The account that ended first; n_uses: none has. *ret_n: how many have ended. */
static size_t find_oldest_ended(const struct account_device *device, size_t *ret_n)
{
	size_t found = device->n_uses;

	*ret_n = 0;
	for (size_t i = 0; i < device->n_uses; i++) {
		if (device->uses[i]->live)
			continue;
		++*ret_n;
		if (found == device->n_uses ||
			device->uses[i]->ended_for_ns > device->uses[found]->ended_for_ns)
			found = i;
	}
	return found;
}

static void end_live_account(struct account *a, uint64_t wall_ns)
{
	a->live = false;
	a->ended_wall_ns = wall_ns;
	a->ended_for_ns = 0;
	a->share = 0;
	a->memory_from = ACCOUNT_FROM_NOTHING;
	a->memory = a->memory_high = 0;
}

void account_end_others(struct account_device *device, uint64_t dt_ns, uint64_t wall_ns)
{
	size_t n_ended, at;

	for (size_t i = device->n_uses; i-- > 0;) {
		struct account *a = device->uses[i];

		if (a->matched)
			continue;
		a->delta = (struct account_counts){ 0 };
		if (a->live)
			end_live_account(a, wall_ns);
		else
			a->ended_for_ns += dt_ns;
		if (a->ended_for_ns >= ACCOUNT_ENDED_RETAIN_NS)
			add_account_to_past(device, i);
	}
	for (at = find_oldest_ended(device, &n_ended); n_ended > ACCOUNT_ENDED_MAX;
		at = find_oldest_ended(device, &n_ended)) {
		/* A use that matched in this round stays: it is reported once with the figures of this
		 * round. */
		if (device->uses[at]->matched)
			break;
		add_account_to_past(device, at);
	}
}
