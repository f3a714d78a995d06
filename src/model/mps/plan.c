/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which MPS control daemons exist and which devices each one has (mps.h, "Daemons"). */
#include "model/mps/mps.h"

#include "lib/base/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A device that MPS shares, and the limits of what a container may have of it. */
struct mps_plan_device {
	uint32_t gpu, mig;
	uint32_t set; /* index of the first device with the same daemon */
	uint32_t percent;
	uint64_t limit_mib;
	bool unlimited, exclusive;
};

struct mps_planning {
	const struct inventory *inv;
	const struct config *config;
	struct mps_plan_device *nodes;
	uint32_t n;
	size_t room;
};

static struct mps_plan_device *node_at(struct mps_planning *planning,
	const struct offer_device *d, struct error *err)
{
	for (uint32_t i = 0; i < planning->n; i++)
		if (planning->nodes[i].gpu == d->gpu && planning->nodes[i].mig == d->mig)
			return &planning->nodes[i];
	if (!ARRAY_GROW(&planning->nodes, planning->n, &planning->room, UINT32_MAX)) {
		(void)error_nomem(err);
		return NULL;
	}
	planning->nodes[planning->n] = (struct mps_plan_device){ .gpu = d->gpu,
		.mig = d->mig,
		.set = planning->n,
		.exclusive =
			d->mig == OFFER_WHOLE && !planning->inv->gpus[d->gpu].mig_enabled };
	return &planning->nodes[planning->n++];
}

static void merge_daemon_sets(struct mps_planning *planning, uint32_t a, uint32_t b)
{
	uint32_t keep = a < b ? a : b, drop = a < b ? b : a;

	for (uint32_t i = 0; keep != drop && i < planning->n; i++)
		if (planning->nodes[i].set == drop)
			planning->nodes[i].set = keep;
}

/* The replicas of a physical device are adjacent. Only the first of them is read. */
static int add_resource(struct mps_planning *planning, const struct resource *r,
	struct error *err)
{
	uint32_t joined = UINT32_MAX;

	for (uint32_t i = 0; i < r->n_devices; i++) {
		const struct offer_device *d = &r->devices[i];
		const struct offer_share *s = resource_share(r, d);
		uint64_t limit;
		uint32_t max;
		struct mps_plan_device *n;

		if (!mps_shares(r, d) || d->why || d->replica > 0)
			continue;
		n = node_at(planning, d, err);
		if (!n)
			return -1;
		max = s->fail_requests_greater_than_one ? 1 : s->replicas;
		if (mps_active_thread_percent(s, max) > n->percent)
			n->percent = mps_active_thread_percent(s, max);
		limit = mps_limit_mib(r, d, planning->inv, max);
		if (limit > n->limit_mib)
			n->limit_mib = limit;
		n->unlimited = n->unlimited || limit == 0;
		n->exclusive = n->exclusive && planning->config->sharing.mps_exclusive &&
			       r->strategy != SHARING_SLICES;
		if (r->strategy == SHARING_SLICES || s->fail_requests_greater_than_one ||
			d->mig != OFFER_WHOLE)
			continue;
		if (joined != UINT32_MAX)
			merge_daemon_sets(planning, planning->nodes[joined].set, n->set);
		joined = (uint32_t)(n - planning->nodes);
	}
	return 0;
}

static int node_cmp(const void *a, const void *b)
{
	const struct mps_plan_device *x = a, *y = b;

	if (x->gpu != y->gpu)
		return x->gpu < y->gpu ? -1 : 1;
	return (x->mig > y->mig) - (x->mig < y->mig);
}

/*
 * FNV-1a of all UUIDs with their NULs, 48 bits of it. Users do not choose UUIDs, so they cannot cause a
 * collision.
 */
static uint64_t hash_daemon_uuids(const struct mps_daemon *d)
{
	uint64_t h = UINT64_C(14695981039346656037);

	for (uint32_t i = 0; i < d->n; i++)
		for (const char *p = d->devices[i].uuid;; p++) {
			h = (h ^ (uint8_t)*p) * UINT64_C(1099511628211);
			if (!*p)
				break;
		}
	return (h ^ h >> 48) & ((UINT64_C(1) << 48) - 1);
}

static void format_daemon_key(struct mps_daemon *d)
{
	size_t len = strlen(d->devices[0].uuid);

	if (d->n > 1 || len >= sizeof(d->key)) {
		(void)snprintf(d->key, sizeof(d->key), "set-%012" PRIx64, hash_daemon_uuids(d));
		return;
	}
	memcpy(d->key, d->devices[0].uuid, len + 1);
	for (char *p = d->key; *p; p++)
		if (*p == '/')
			*p = '-';
}

/* The devices of @set, in the order of the inventory. */
static int make_daemon(struct mps_daemon *d, const struct mps_planning *planning, uint32_t set,
	struct error *err)
{
	d->devices = calloc(planning->n, sizeof(*d->devices));
	if (!d->devices)
		return error_nomem(err);
	d->exclusive = true;
	for (uint32_t i = 0; i < planning->n; i++) {
		const struct mps_plan_device *n = &planning->nodes[i];
		enum gpu_fault fault = planning->inv->gpus[n->gpu].fault;
		struct mps_device *to = &d->devices[d->n];

		if (n->set != set)
			continue;
		*to = (struct mps_device){ .gpu = n->gpu,
			.mig = n->mig,
			.limit_mib = n->unlimited ? 0 : n->limit_mib,
			.lost = fault == GPU_FAULT_LOST || fault == GPU_FAULT_GONE };
		(void)snprintf(to->uuid, sizeof(to->uuid), "%s",
			mps_uuid(planning->inv, n->gpu, n->mig));
		if (n->percent > d->percent)
			d->percent = n->percent;
		d->exclusive = d->exclusive && n->exclusive;
		d->n++;
	}
	format_daemon_key(d);
	return 0;
}

static int daemon_cmp(const void *a, const void *b)
{
	return strcmp(((const struct mps_daemon *)a)->key, ((const struct mps_daemon *)b)->key);
}

static int make_daemons(struct mps_plan *p, struct mps_planning *planning, struct error *err)
{
	CLEANUP(freep) bool *done = calloc((size_t)planning->n + 1, sizeof(*done));

	p->daemons = calloc((size_t)planning->n + 1, sizeof(*p->daemons));
	if (!done || !p->daemons)
		return error_nomem(err);
	if (planning->n) /* .set stays a name, and is no index any more */
		qsort(planning->nodes, planning->n, sizeof(*planning->nodes), node_cmp);
	for (uint32_t i = 0; i < planning->n; i++) {
		uint32_t set = planning->nodes[i].set;

		if (done[set])
			continue;
		done[set] = true;
		if (make_daemon(&p->daemons[p->n++], planning, set, err) < 0)
			return -1;
	}
	if (p->n)
		qsort(p->daemons, p->n, sizeof(*p->daemons), daemon_cmp);
	return 0;
}

int mps_plan_new(struct mps_plan **ret, const struct offer *offer, const struct inventory *inv,
	const struct config *config, struct error *err)
{
	CLEANUP(mps_plan_freep) struct mps_plan *p = calloc(1, sizeof(*p));
	struct mps_planning planning = { .inv = inv, .config = config };
	int r = 0;

	if (!p)
		return error_nomem(err);
	for (uint32_t i = 0; i < offer->n && r == 0; i++)
		r = add_resource(&planning, &offer->resources[i], err);
	if (r == 0)
		r = make_daemons(p, &planning, err);
	free(planning.nodes);
	if (r < 0)
		return -1;
	*ret = STEAL_PTR(p);
	return 0;
}

struct mps_plan *mps_plan_free(struct mps_plan *p)
{
	if (!p)
		return NULL;
	for (uint32_t i = 0; p->daemons && i < p->n; i++)
		free(p->daemons[i].devices);
	free(p->daemons);
	free(p);
	return NULL;
}

const struct mps_daemon *mps_plan_find(const struct mps_plan *p, uint32_t gpu, uint32_t mig)
{
	for (uint32_t i = 0; i < p->n; i++)
		for (uint32_t k = 0; k < p->daemons[i].n; k++)
			if (p->daemons[i].devices[k].gpu == gpu &&
				p->daemons[i].devices[k].mig == mig)
				return &p->daemons[i];
	return NULL;
}
