/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/replicas.h"

#include "model/mps/mps.h"
#include "model/slice/slice.h"

#include <stdlib.h>
#include <string.h>

#define ONE (UINT64_C(1) << 32) /* a whole device */

static enum account_mode get_replica_mode(const struct resource *r, const struct offer_share *s)
{
	if (r->strategy == SHARING_SLICES)
		return ACCOUNT_SLICES;
	if (!s)
		return ACCOUNT_EXCLUSIVE;
	return s->strategy == SHARING_MPS ? ACCOUNT_MPS : ACCOUNT_TIME_SLICING;
}

static uint64_t get_replica_memory_limit(const struct resource *r, const struct offer_device *d,
	const struct offer_share *s, const struct inventory *of)
{
	uint64_t limit;

	if (!s)
		return UINT64_MAX;
	limit = slice_limit(&s->isolation, s->replicas, slice_usable(of, d->gpu, d->mig), 1);
	if ((!limit || limit == SLICE_NO_LIMIT) && mps_shares(r, d))
		limit = mps_limit_mib(r, d, of, 1) << 20;
	return limit && limit != SLICE_NO_LIMIT ? limit : UINT64_MAX;
}

static const char *get_replica_device_uuid(const struct offer_device *d,
	const struct inventory *of)
{
	return d->mig == OFFER_WHOLE ? of->gpus[d->gpu].uuid : of->mig[d->mig].uuid;
}

/* The replica's share of its device, of ONE. */
static uint64_t get_replica_share(const struct monitoring_replica *replica)
{
	const struct offer_share *s = resource_share(replica->resource, replica->device);

	if (!s || s->weights <= s->weight)
		return ONE;
	return (uint64_t)s->weight * ONE / s->weights;
}

/* Shares of the @n replicas of one device. A sum below a whole counts as a whole if only rounding is missing. */
static void set_shares(struct monitoring_replica *replicas, uint32_t n)
{
	uint64_t all = 0, sum = 0, shared = 0;

	for (uint32_t i = 0; i < n; i++)
		all += get_replica_share(&replicas[i]);
	if (all + n < ONE)
		all = ONE;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t upto;

		sum += get_replica_share(&replicas[i]);
		upto = sum / all * ACCOUNT_MILLION + sum % all * ACCOUNT_MILLION / all;
		replicas[i].share = (uint32_t)(upto - shared);
		shared = upto;
	}
}

static int compare_replicas(const void *a, const void *b)
{
	const struct monitoring_replica *x = a, *y = b;

	if (x->device_index != y->device_index)
		return x->device_index < y->device_index ? -1 : 1;
	if (x->resource != y->resource)
		return x->resource < y->resource ? -1 : 1;
	return x->device < y->device ? -1 : x->device > y->device;
}

static void add_all(struct monitoring_replicas *s, const struct monitoring_devices *devices,
	const struct inventory *of)
{
	const char *last = NULL;
	uint32_t device = MONITORING_NONE;

	for (uint32_t i = 0; of && i < s->offer->n; i++) {
		const struct resource *r = &s->offer->resources[i];

		for (uint32_t k = 0; k < r->n_devices; k++) {
			const struct offer_device *d = &r->devices[k];
			const struct offer_share *share = resource_share(r, d);
			const char *uuid = get_replica_device_uuid(d, of);

			if (uuid != last)
				device = monitoring_devices_find_uuid(devices, uuid);
			last = uuid;
			if (device == MONITORING_NONE)
				continue;
			s->v[s->n++] = (struct monitoring_replica){ .device_index = device,
				.resource = r,
				.device = d,
				.mode = get_replica_mode(r, share),
				.memory_limit = get_replica_memory_limit(r, d, share, of) };
		}
	}
}

static int make_index(struct monitoring_replicas *s, uint32_t n, struct error *err)
{
	uint32_t at = 0;

	s->first = calloc(s->offer->n + 1, sizeof(*s->first));
	s->by_resource = calloc(n + 1, sizeof(*s->by_resource));
	if (!s->first || !s->by_resource)
		return error_nomem(err);
	for (uint32_t i = 0; i < s->offer->n; i++) {
		s->first[i] = at;
		at += s->offer->resources[i].n_devices;
	}
	for (uint32_t i = 0; i < n; i++)
		s->by_resource[i] = MONITORING_NONE;
	for (uint32_t i = 0; i < s->n; i++) {
		const struct resource *r = s->v[i].resource;

		s->by_resource[s->first[r - s->offer->resources] +
			       (uint32_t)(s->v[i].device - r->devices)] = i;
	}
	return 0;
}

int monitoring_replicas_make(struct monitoring_replicas *ret,
	const struct monitoring_devices *devices, const struct offer *offer,
	const struct inventory *of, struct error *err)
{
	uint32_t n = 0;

	*ret = (struct monitoring_replicas){ .offer = of ? offer : NULL };
	if (!ret->offer)
		return 0;
	for (uint32_t i = 0; i < offer->n; i++)
		n += offer->resources[i].n_devices;
	ret->v = calloc(n + 1, sizeof(*ret->v));
	if (!ret->v)
		return error_nomem(err);
	add_all(ret, devices, of);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), compare_replicas);
	for (uint32_t i = 0, k; i < ret->n; i = k) {
		for (k = i; k < ret->n && ret->v[k].device_index == ret->v[i].device_index; k++)
			;
		set_shares(&ret->v[i], k - i);
	}
	if (make_index(ret, n, err) < 0) {
		monitoring_replicas_fini(ret);
		return -1;
	}
	return 0;
}

void monitoring_replicas_fini(struct monitoring_replicas *s)
{
	free(s->v);
	free(s->first);
	free(s->by_resource);
	*s = (struct monitoring_replicas){ .n = 0 };
}

uint32_t monitoring_replicas_find(const struct monitoring_replicas *s, const char *resource,
	const char *id)
{
	const struct resource *r = s->offer ? offer_find(s->offer, resource) : NULL;
	const struct offer_device *d = r ? resource_find(r, id) : NULL;

	if (!d)
		return MONITORING_NONE;
	return s->by_resource[s->first[r - s->offer->resources] + (uint32_t)(d - r->devices)];
}
