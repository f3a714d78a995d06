/* SPDX-License-Identifier: Apache-2.0 */
/* What MPS gives a container: the limits of one replica, and the grant for a request of replicas (mps.h). */
#include "model/mps/mps.h"

#include "model/slice/slice.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- limits of a client --- */

#define PERCENT_ALL 100

uint32_t mps_replicas_max(uint32_t cc_major, uint32_t cc_minor)
{
	return cc_major > 7 || (cc_major == 7 && cc_minor >= 5) ? 48 : 16;
}

bool mps_shares(const struct resource *r, const struct offer_device *d)
{
	const struct offer_share *s = resource_share(r, d);

	return s && s->strategy == SHARING_MPS;
}

uint32_t mps_active_thread_percent(const struct offer_share *s, uint32_t k)
{
	uint64_t weight = (uint64_t)s->weight * k, percent = 0;
	uint64_t all = s->weights > weight ? s->weights : weight;

	switch (s->isolation.compute) {
	case ISOLATION_COMPUTE_NONE:
		percent = (uint64_t)PERCENT_ALL / (s->replicas ? s->replicas : 1) * k;
		break;
	case ISOLATION_COMPUTE_FAIR:
		percent = 2 * PERCENT_ALL * weight / (all ? all : 1);
		break;
	case ISOLATION_COMPUTE_CAPPED:
		percent = PERCENT_ALL * weight / (all ? all : 1);
		break;
	}
	return percent < 1 ? 1 : percent > PERCENT_ALL ? PERCENT_ALL : (uint32_t)percent;
}

static uint64_t total_of(const struct inventory *inv, uint32_t gpu, uint32_t mig)
{
	return mig == OFFER_WHOLE ? inv->gpus[gpu].memory_total_bytes
				  : inv->mig[mig].memory_mib << 20;
}

uint64_t mps_limit_mib(const struct resource *r, const struct offer_device *d,
	const struct inventory *inv, uint32_t k)
{
	const struct offer_share *s = resource_share(r, d);
	uint64_t limit;

	if (s->isolation.memory == ISOLATION_MEMORY_NONE && r->strategy != SHARING_SLICES)
		return total_of(inv, d->gpu, d->mig) / (s->replicas ? s->replicas : 1) / 1024 /
		       1024 * k;
	limit = slice_limit(&s->isolation, s->replicas, slice_usable(inv, d->gpu, d->mig), k);
	return limit == SLICE_NO_LIMIT ? 0 : limit >> 20;
}

/* --- the grant of a request --- */

/* A physical device of the request. */
struct grant_part {
	const struct offer_device *device; /* that of its first replica in the request */
	uint32_t count;
};

static int compare_grant_parts(const void *a, const void *b)
{
	const struct offer_device *x = ((const struct grant_part *)a)->device;
	const struct offer_device *y = ((const struct grant_part *)b)->device;

	if (x->gpu != y->gpu)
		return x->gpu < y->gpu ? -1 : 1;
	return (x->mig > y->mig) - (x->mig < y->mig);
}

static size_t collect_grant_parts(struct grant_part *parts, const struct resource *r,
	const char *const *ids, size_t n_ids)
{
	size_t n = 0;

	for (size_t i = 0; i < n_ids; i++) {
		const struct offer_device *d = resource_find(r, ids[i]);
		size_t at = 0;

		if (!d)
			continue;
		while (at < n &&
			(parts[at].device->gpu != d->gpu || parts[at].device->mig != d->mig))
			at++;
		if (at == n)
			parts[n++] = (struct grant_part){ .device = d };
		parts[at].count++;
	}
	if (n)
		qsort(parts, n, sizeof(*parts), compare_grant_parts);
	return n;
}

/* Finds the daemon of a device, which must be @ret, the one of the devices before (if any). */
static int one_daemon(const struct mps_daemon **ret, const struct mps_plan *p,
	const struct resource *r, const struct inventory *inv, const struct grant_part *parts,
	size_t at, struct error *err)
{
	const struct offer_device *d = parts[at].device, *first = parts[0].device;
	const struct mps_daemon *own = NULL;

	if (mps_shares(r, d)) {
		own = mps_plan_find(p, d->gpu, d->mig);
		if (!own)
			return error_set(err, ERR_UNAVAILABLE,
				"resource \"%s\": '%s' cannot be had, and has no MPS daemon",
				r->name, mps_uuid(inv, d->gpu, d->mig));
	}
	if (at > 0 && own != *ret)
		return error_set(err, ERR_INVALID,
			"resource \"%s\": a process can have one MPS daemon only, and '%s' and "
			"'%s' have not the same",
			r->name, mps_uuid(inv, first->gpu, first->mig),
			mps_uuid(inv, d->gpu, d->mig));
	*ret = own;
	return 0;
}

static int add_mps_memory_limit(struct mps_grant *g, size_t place, uint64_t mib,
	const struct resource *r, struct error *err)
{
	size_t len = strlen(g->memory), room = sizeof(g->memory) - len;
	int n;

	if (!mib)
		return 0;
	n = snprintf(g->memory + len, room, "%s%zu=%" PRIu64 "M", len ? "," : "", place, mib);
	if (n < 0 || (size_t)n >= room)
		return error_set(err, ERR_LIMIT,
			"resource \"%s\": more devices are asked for than MPS can be told the "
			"memory of",
			r->name);
	return 0;
}

/* Latency if all devices that isolate compute have that class, as in a slice. */
static void set_mps_priority(struct mps_grant *g, const struct offer_share *s)
{
	if (s->isolation.compute == ISOLATION_COMPUTE_NONE)
		return;
	if (s->isolation.class_ == SLICE_CLASS_BATCH)
		g->priority = 1;
	else if (g->priority == MPS_PRIORITY_UNSET)
		g->priority = 0;
}

int mps_grant_make(struct mps_grant *ret, const struct mps_plan *p, const struct resource *r,
	const struct inventory *inv, const char *const *ids, size_t n_ids, struct error *err)
{
	CLEANUP(freep) struct grant_part *parts = calloc(n_ids + 1, sizeof(*parts));
	struct mps_grant g = { .priority = MPS_PRIORITY_UNSET };
	size_t n;

	if (!parts)
		return error_nomem(err);
	n = collect_grant_parts(parts, r, ids, n_ids);
	for (size_t i = 0; i < n; i++)
		if (one_daemon(&g.daemon, p, r, inv, parts, i, err) < 0)
			return -1;
	for (size_t i = 0; g.daemon && i < n; i++) {
		const struct offer_device *d = parts[i].device;
		const struct offer_share *s = resource_share(r, d);
		uint32_t percent = mps_active_thread_percent(s, parts[i].count);

		if (!g.percent || percent < g.percent)
			g.percent = percent;
		set_mps_priority(&g, s);
		if (add_mps_memory_limit(&g, i, mps_limit_mib(r, d, inv, parts[i].count), r,
			    err) < 0)
			return -1;
	}
	*ret = g;
	return 0;
}
