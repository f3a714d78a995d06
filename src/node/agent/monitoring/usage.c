/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/usage.h"

#include <stdlib.h>
#include <string.h>

#define SHARE_MAX (1000 * ACCOUNT_MILLION)

/* What one replica adds to a usage entry. */
struct usage_piece {
	struct monitoring_allocation *allocation;
	uint32_t device;
	bool live;
	uint64_t allocated_ns;
};

struct usage_pieces {
	struct usage_piece *v;
	uint32_t n;
};

static int compare_allocation_text(const char *a, const char *b, int before)
{
	return before ? before : strcmp(a, b);
}

/* 0: the pieces belong to one usage entry. */
static int compare_pieces_by_usage(const struct usage_piece *x, const struct usage_piece *y)
{
	const struct monitoring_allocation *a = x->allocation, *b = y->allocation;
	int r;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	r = compare_allocation_text(a->namespace_, b->namespace_, 0);
	r = compare_allocation_text(a->pod, b->pod, r);
	r = compare_allocation_text(a->container, b->container, r);
	r = compare_allocation_text(a->resource, b->resource, r);
	r = compare_allocation_text(a->uid, b->uid, r);
	if (r)
		return r;
	if (a->mode != b->mode)
		return a->mode < b->mode ? -1 : 1;
	return (int)a->fresh - (int)b->fresh;
}

/* Within a usage entry, held replicas come first, in the order of the offer. */
static int compare_pieces(const void *a, const void *b)
{
	const struct usage_piece *x = a, *y = b;
	int r = compare_pieces_by_usage(x, y);

	if (r)
		return r;
	if (x->live != y->live)
		return x->live ? -1 : 1;
	if (x->allocation->replica != y->allocation->replica)
		return x->allocation->replica < y->allocation->replica ? -1 : 1;
	return strcmp(x->allocation->id, y->allocation->id);
}

static int compare_replica_allocs(const struct monitoring_allocation *a,
	const struct monitoring_allocation *b)
{
	int r = compare_allocation_text(a->resource, b->resource, 0);

	r = compare_allocation_text(a->id, b->id, r);
	r = compare_allocation_text(a->namespace_, b->namespace_, r);
	r = compare_allocation_text(a->pod, b->pod, r);
	return compare_allocation_text(a->container, b->container, r);
}

/* When the replica of @allocation, which is no longer listed, went to the next holder; 0: it did not. */
static uint64_t find_reallocation_ns(const struct monitoring_allocations *now,
	const struct monitoring_allocation *allocation)
{
	size_t low = 0, high = now->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int r = compare_allocation_text(now->v[mid].resource, allocation->resource, 0);

		if (compare_allocation_text(now->v[mid].id, allocation->id, r) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < now->n && !strcmp(now->v[low].id, allocation->id) &&
		!strcmp(now->v[low].resource, allocation->resource);
		low++)
		if (now->v[low].fresh)
			return now->v[low].since_ns;
	return 0;
}

static void add_allocation_piece(struct usage_pieces *p,
	const struct monitoring_devices *devices, struct monitoring_allocation *allocation,
	bool live, uint64_t held_ns)
{
	uint32_t device = monitoring_devices_find_uuid(devices, allocation->device_uuid);

	allocation->usage = MONITORING_NONE;
	if (device == MONITORING_NONE || allocation->superseded)
		return;
	p->v[p->n++] = (struct usage_piece){ .allocation = allocation,
		.device = device,
		.live = live,
		.allocated_ns = held_ns };
}

/* @again: in the previous list too. */
static uint64_t get_allocated_ns(const struct monitoring_allocation *allocation, bool again,
	struct monitoring_span span)
{
	if (allocation->fresh)
		return span.to_ns - allocation->since_ns;
	return again ? span.to_ns - span.from_ns : 0;
}

static uint64_t get_allocated_before_ns(const struct monitoring_allocations *now,
	const struct monitoring_allocation *allocation, struct monitoring_span span)
{
	uint64_t until = find_reallocation_ns(now, allocation);

	return until ? until - span.from_ns : (span.to_ns - span.from_ns) / 2;
}

/* Both lists have the same order. */
static void collect_pieces(struct usage_pieces *p, const struct monitoring_devices *devices,
	struct monitoring_allocations *now, struct monitoring_allocations *before,
	struct monitoring_span span)
{
	size_t i = 0, k = 0;

	while (i < now->n || k < before->n) {
		int r = i == now->n      ? 1
			: k == before->n ? -1
					 : compare_replica_allocs(&now->v[i], &before->v[k]);
		struct monitoring_allocation *allocation = r <= 0 ? &now->v[i] : NULL;
		struct monitoring_allocation *old = r >= 0 ? &before->v[k] : NULL;

		if (old) /* fresh in the previous round */
			old->fresh = false;
		if (allocation)
			add_allocation_piece(p, devices, allocation, true,
				get_allocated_ns(allocation, old && !old->superseded, span));
		if (old && (!allocation || allocation->fresh || allocation->superseded) &&
			!old->superseded)
			add_allocation_piece(p, devices, old, false,
				get_allocated_before_ns(now, old, span));
		i += allocation != NULL;
		k += old != NULL;
	}
}

static void collect_current_pieces(struct usage_pieces *p,
	const struct monitoring_devices *devices, struct monitoring_allocations *now,
	uint64_t held_ns)
{
	for (size_t i = 0; i < now->n; i++)
		add_allocation_piece(p, devices, &now->v[i], true, held_ns);
}

/* --- pieces become usage entries --- */

static void init_usage_group(struct monitoring_usage_entry *u, const struct usage_piece *p)
{
	const struct monitoring_allocation *allocation = p->allocation;

	*u = (struct monitoring_usage_entry){
		.in = { .namespace_ = allocation->namespace_,
			.pod = allocation->pod,
			.container = allocation->container,
			.resource = allocation->resource,
			.uid = allocation->uid,
			.mode = allocation->mode,
			.fresh = allocation->fresh },
		.device_index = p->device,
		.first_allocation = allocation,
		.offered = true,
	};
}

/* The accounts scale down any sum beyond the whole, so a saturated sum is good enough. */
static uint64_t add_saturated_shares(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void add_piece(struct monitoring_usage_entry *u, const struct usage_piece *p)
{
	const struct monitoring_allocation *allocation = p->allocation;

	u->in.live = u->in.live || p->live;
	if (p->allocated_ns > u->in.allocated_ns)
		u->in.allocated_ns = p->allocated_ns;
	u->in.share_ns =
		add_saturated_shares(u->in.share_ns, p->allocated_ns * allocation->share);
	u->n_replicas++;
	u->offered = u->offered && allocation->replica != MONITORING_NONE;
	if (allocation->memory_limit == UINT64_MAX ||
		u->memory_limit > UINT64_MAX - allocation->memory_limit)
		u->memory_limit = UINT64_MAX;
	else
		u->memory_limit += allocation->memory_limit;
	if (p->live && u->in.share <= SHARE_MAX)
		u->in.share += allocation->share;
}

static int group_pieces(struct monitoring_usage *ret, struct usage_pieces *p, struct error *err)
{
	ret->v = calloc(p->n + 1, sizeof(*ret->v));
	if (!ret->v)
		return error_nomem(err);
	if (p->n)
		qsort(p->v, p->n, sizeof(*p->v), compare_pieces);
	for (uint32_t i = 0; i < p->n; i++) {
		if (!i || compare_pieces_by_usage(&p->v[i - 1], &p->v[i]) != 0)
			init_usage_group(&ret->v[ret->n++], &p->v[i]);
		add_piece(&ret->v[ret->n - 1], &p->v[i]);
		if (p->v[i].live)
			p->v[i].allocation->usage = ret->n - 1;
	}
	return 0;
}

int monitoring_usage_make(struct monitoring_usage *ret, struct monitoring_allocations *now,
	struct monitoring_allocations *before, const struct monitoring_devices *devices,
	struct monitoring_span span, bool counted, struct error *err)
{
	CLEANUP(freep) struct usage_piece *v = calloc(now->n + before->n + 1, sizeof(*v));
	struct usage_pieces p = { .v = v };

	*ret = (struct monitoring_usage){ .n = 0 };
	if (!v)
		return error_nomem(err);
	if (now == before || !counted)
		collect_current_pieces(&p, devices, now,
			counted ? span.to_ns - span.from_ns : 0);
	else
		collect_pieces(&p, devices, now, before, span);
	return group_pieces(ret, &p, err);
}

void monitoring_usage_fini(struct monitoring_usage *u)
{
	free(u->v);
	*u = (struct monitoring_usage){ .n = 0 };
}
