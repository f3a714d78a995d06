/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/devices.h"

#include "model/usage/usage.h"
#include "model/mps/mps.h"
#include "model/slice/slice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- devices --- */

/* By product name: NVML does not report this for a GPU that is not in MIG mode. */
uint32_t monitoring_mig_compute_slices(const struct gpu *g)
{
	if (!g->mig_capable && !g->mig_enabled)
		return 0;
	return strstr(g->name, "A30") || strstr(g->name, "RTX PRO") ? 4 : 7;
}

uint32_t monitoring_mig_memory_slices(const struct gpu *g)
{
	if (!g->mig_capable && !g->mig_enabled)
		return 0;
	return strstr(g->name, "A30") ? 4 : strstr(g->name, "RTX PRO") ? 12 : 8;
}

static bool is_offered_whole(const struct offer *offer, const struct inventory *of,
	const char *uuid)
{
	for (uint32_t i = 0; offer && of && i < offer->n; i++)
		for (uint32_t k = 0; k < offer->resources[i].n_devices; k++) {
			const struct offer_device *d = &offer->resources[i].devices[k];

			if (d->mig == OFFER_WHOLE && d->gpu < of->n &&
				!strcmp(of->gpus[d->gpu].uuid, uuid))
				return true;
		}
	return false;
}

static void add_gpu_device(struct monitoring_devices *devices, const struct gpu *g, uint32_t at)
{
	devices->v[devices->n++] = (struct monitoring_device){ .gpu = g,
		.gpu_index = at,
		.mig_index = MONITORING_NONE,
		.part = ACCOUNT_MILLION,
		.uuid = g->uuid };
}

static void add_gpu_mig_devices(struct monitoring_devices *devices, const struct inventory *inv,
	uint32_t at)
{
	uint32_t slices = monitoring_mig_compute_slices(&inv->gpus[at]), left = ACCOUNT_MILLION;

	for (uint32_t i = 0; i < inv->n_mig; i++) {
		const struct gpu_mig *m = &inv->mig[i];
		uint64_t part =
			(uint64_t)ACCOUNT_MILLION * m->ci_slices / (slices ? slices : 7);

		if (m->gpu != at || !*m->uuid)
			continue;
		if (part > left)
			part = left;
		left -= (uint32_t)part;
		devices->v[devices->n++] = (struct monitoring_device){ .gpu = &inv->gpus[at],
			.mig = m,
			.gpu_index = at,
			.mig_index = i,
			.part = (uint32_t)part,
			.uuid = m->uuid };
	}
}

int monitoring_devices_make(struct monitoring_devices *ret, const struct inventory *inv,
	const struct offer *offer, const struct inventory *of, struct error *err)
{
	*ret = (struct monitoring_devices){ .n = 0 };
	if (!inv)
		return 0;
	ret->v = calloc(inv->n + inv->n_mig + 1, sizeof(*ret->v));
	if (!ret->v)
		return error_nomem(err);
	for (uint32_t i = 0; i < inv->n; i++) {
		if (!*inv->gpus[i].uuid)
			continue;
		if (!inv->gpus[i].mig_enabled || is_offered_whole(offer, of, inv->gpus[i].uuid))
			add_gpu_device(ret, &inv->gpus[i], i);
		else
			add_gpu_mig_devices(ret, inv, i);
	}
	return 0;
}

void monitoring_devices_fini(struct monitoring_devices *devices)
{
	free(devices->v);
	*devices = (struct monitoring_devices){ .n = 0 };
}

uint32_t monitoring_devices_find_uuid(const struct monitoring_devices *devices,
	const char *uuid)
{
	for (uint32_t i = 0; i < devices->n; i++)
		if (!strcmp(devices->v[i].uuid, uuid))
			return i;
	return MONITORING_NONE;
}

/* --- ids --- */

static uint32_t find_device_by_uuid(const struct monitoring_devices *devices, const char *id,
	size_t len)
{
	for (uint32_t i = 0; i < devices->n; i++)
		if (strlen(devices->v[i].uuid) == len &&
			!strncasecmp(devices->v[i].uuid, id, len))
			return i;
	return MONITORING_NONE;
}

/* "MIG-GPU-…/7/0" */
static uint32_t by_old_name(const struct monitoring_devices *devices, const char *id,
	size_t len)
{
	char text[GPU_UUID_MAX + 32];

	for (uint32_t i = 0; i < devices->n; i++) {
		int n;

		if (!devices->v[i].mig)
			continue;
		n = snprintf(text, sizeof(text), "MIG-%s/%u/%u", devices->v[i].gpu->uuid,
			devices->v[i].mig->gi, devices->v[i].mig->ci);
		if (n > 0 && (size_t)n == len && !strncasecmp(text, id, len))
			return i;
	}
	return MONITORING_NONE;
}

/* Reads a number of at most six digits at *p; false: none. */
static bool parse_device_id_number(const char **p, const char *end, uint32_t *ret)
{
	uint32_t n = 0;
	const char *s = *p;

	while (s < end && *s >= '0' && *s <= '9' && s - *p < 6)
		n = n * 10 + (uint32_t)(*s++ - '0');
	if (s == *p)
		return false;
	*p = s;
	*ret = n;
	return true;
}

static bool skip_device_id_word(const char **p, const char *end, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(end - *p) < n || strncmp(*p, word, n) != 0)
		return false;
	*p += n;
	return true;
}

static bool is_minor(const struct gpu *g, uint32_t minor)
{
	return g->has_minor ? g->minor == minor : g->index == minor;
}

/* "nvidia0", "nvidia0/gi1", "nvidia0/vgpu2", "nvidia0/gi1/vgpu0" */
static uint32_t by_gke_name(const struct monitoring_devices *devices, const char *p,
	const char *end)
{
	uint32_t minor, gi = GPU_NO_INSTANCE, copy;

	if (!skip_device_id_word(&p, end, "nvidia") ||
		!parse_device_id_number(&p, end, &minor) ||
		(skip_device_id_word(&p, end, "/gi") &&
			!parse_device_id_number(&p, end, &gi)) ||
		(skip_device_id_word(&p, end, "/vgpu") &&
			!parse_device_id_number(&p, end, &copy)) ||
		p != end)
		return MONITORING_NONE;
	for (uint32_t i = 0; i < devices->n; i++) {
		const struct monitoring_device *x = &devices->v[i];

		if (is_minor(x->gpu, minor) &&
			(gi == GPU_NO_INSTANCE ? !x->mig : x->mig && x->mig->gi == gi))
			return i;
	}
	return MONITORING_NONE;
}

/* The number behind the last '-' of a name: the first memory slice of a MIG device. */
static uint32_t start_in(const char *p, const char *end)
{
	const char *at = end;
	uint32_t start = MONITORING_NONE;

	while (at > p && at[-1] >= '0' && at[-1] <= '9')
		at--;
	return at > p && at[-1] == '-' && parse_device_id_number(&at, end, &start)
		       ? start
		       : MONITORING_NONE;
}

/* "gpu-0"; "gpu-0-mig-…-4" by its position, or if the GPU has only one MIG device. */
static uint32_t by_driver_name(const struct monitoring_devices *devices, const char *p,
	const char *end)
{
	uint32_t minor, start, found = MONITORING_NONE;
	bool mig;

	if (!skip_device_id_word(&p, end, "gpu-") || !parse_device_id_number(&p, end, &minor))
		return MONITORING_NONE;
	mig = skip_device_id_word(&p, end, "-mig-");
	if (!mig && p != end)
		return MONITORING_NONE;
	start = mig ? start_in(p, end) : MONITORING_NONE;
	for (uint32_t i = 0; i < devices->n; i++) {
		const struct gpu_mig *m = devices->v[i].mig;

		if (!is_minor(devices->v[i].gpu, minor) || mig != (m != NULL))
			continue;
		if (m && m->placed && start != MONITORING_NONE && m->start != start)
			continue;
		if (found != MONITORING_NONE)
			return MONITORING_NONE;
		found = i;
	}
	return found;
}

uint32_t monitoring_devices_find_id(const struct monitoring_devices *devices, const char *id,
	bool dynamic)
{
	size_t len = device_id_physical_len(id);
	uint32_t found = find_device_by_uuid(devices, id, len);

	if (found == MONITORING_NONE)
		found = by_old_name(devices, id, len);
	if (found == MONITORING_NONE)
		found = dynamic ? by_driver_name(devices, id, id + len)
				: by_gke_name(devices, id, id + len);
	return found;
}

/* --- replicas --- */

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

static void add_all(struct monitoring_replicas *replicas,
	const struct monitoring_devices *devices, const struct inventory *of)
{
	const char *last = NULL;
	uint32_t device = MONITORING_NONE;

	for (uint32_t i = 0; of && i < replicas->offer->n; i++) {
		const struct resource *r = &replicas->offer->resources[i];

		for (uint32_t k = 0; k < r->n_devices; k++) {
			const struct offer_device *d = &r->devices[k];
			const struct offer_share *share = resource_share(r, d);
			const char *uuid = get_replica_device_uuid(d, of);

			if (uuid != last)
				device = monitoring_devices_find_uuid(devices, uuid);
			last = uuid;
			if (device == MONITORING_NONE)
				continue;
			replicas->v[replicas->n++] =
				(struct monitoring_replica){ .device_index = device,
					.resource = r,
					.device = d,
					.mode = get_replica_mode(r, share),
					.memory_limit =
						get_replica_memory_limit(r, d, share, of) };
		}
	}
}

static int make_index(struct monitoring_replicas *replicas, uint32_t n, struct error *err)
{
	uint32_t at = 0;

	replicas->first = calloc(replicas->offer->n + 1, sizeof(*replicas->first));
	replicas->by_resource = calloc(n + 1, sizeof(*replicas->by_resource));
	if (!replicas->first || !replicas->by_resource)
		return error_nomem(err);
	for (uint32_t i = 0; i < replicas->offer->n; i++) {
		replicas->first[i] = at;
		at += replicas->offer->resources[i].n_devices;
	}
	for (uint32_t i = 0; i < n; i++)
		replicas->by_resource[i] = MONITORING_NONE;
	for (uint32_t i = 0; i < replicas->n; i++) {
		const struct resource *r = replicas->v[i].resource;

		replicas->by_resource[replicas->first[r - replicas->offer->resources] +
				      (uint32_t)(replicas->v[i].device - r->devices)] = i;
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

void monitoring_replicas_fini(struct monitoring_replicas *replicas)
{
	free(replicas->v);
	free(replicas->first);
	free(replicas->by_resource);
	*replicas = (struct monitoring_replicas){ .n = 0 };
}

uint32_t monitoring_replicas_find(const struct monitoring_replicas *replicas,
	const char *resource, const char *id)
{
	const struct resource *r =
		replicas->offer ? offer_find(replicas->offer, resource) : NULL;
	const struct offer_device *d = r ? resource_find(r, id) : NULL;

	if (!d)
		return MONITORING_NONE;
	return replicas->by_resource[replicas->first[r - replicas->offer->resources] +
				     (uint32_t)(d - r->devices)];
}
