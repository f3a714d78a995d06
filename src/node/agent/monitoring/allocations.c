/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations: which container holds which replica since when, from the kubelet's list and the pending entries
 * (usage.h).
 */
#include "node/agent/monitoring/usage.h"

#include "lib/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- pending --- */

static void free_pending_entry(struct monitoring_pending *pending, size_t i)
{
	free(pending->v[i].resource);
	free(pending->v[i].id);
	pending->n--;
	memmove(&pending->v[i], &pending->v[i + 1], (pending->n - i) * sizeof(pending->v[0]));
}

static size_t find_pending_entry(const struct monitoring_pending *pending, const char *resource,
	const char *id)
{
	size_t i = 0;

	while (i < pending->n && (strcmp(pending->v[i].id, id) != 0 ||
					 strcmp(pending->v[i].resource, resource) != 0))
		i++;
	return i;
}

int monitoring_pending_add(struct monitoring_pending *pending, const char *resource,
	const char *id, uint64_t at_ns, struct error *err)
{
	size_t at = find_pending_entry(pending, resource, id);

	if (at < pending->n) {
		pending->v[at].at_ns = at_ns;
		return 0;
	}
	if (pending->n == MONITORING_PENDING_MAX)
		free_pending_entry(pending, 0);
	if (!ARRAY_GROW(&pending->v, pending->n, &pending->room, MONITORING_PENDING_MAX))
		return error_nomem(err);
	pending->v[pending->n] =
		(struct monitoring_pending_entry){ .resource = strdup(resource),
			.id = strdup(id),
			.at_ns = at_ns };
	pending->n++;
	if (pending->v[pending->n - 1].resource && pending->v[pending->n - 1].id)
		return 0;
	free_pending_entry(pending, pending->n - 1);
	return error_nomem(err);
}

void monitoring_pending_fini(struct monitoring_pending *pending)
{
	while (pending->n)
		free_pending_entry(pending, pending->n - 1);
	free(pending->v);
	*pending = (struct monitoring_pending){ .n = 0 };
}

/* --- allocations --- */

static void fini_allocation(struct monitoring_allocation *allocation)
{
	free(allocation->namespace_);
	free(allocation->pod);
	free(allocation->container);
	free(allocation->resource);
	free(allocation->id);
	free(allocation->uid);
}

void monitoring_allocations_fini(struct monitoring_allocations *allocations)
{
	for (size_t i = 0; i < allocations->n; i++)
		fini_allocation(&allocations->v[i]);
	free(allocations->v);
	*allocations = (struct monitoring_allocations){ .n = 0 };
}

static int compare_allocation_devices(const struct monitoring_allocation *x,
	const struct monitoring_allocation *y)
{
	int r = strcmp(x->resource, y->resource);

	return r ? r : strcmp(x->id, y->id);
}

static int compare_allocation_pods(const struct monitoring_allocation *x,
	const struct monitoring_allocation *y)
{
	int r = strcmp(x->namespace_, y->namespace_);

	if (!r)
		r = strcmp(x->pod, y->pod);
	return r ? r : strcmp(x->container, y->container);
}

static int compare_allocations(const void *a, const void *b)
{
	int r = compare_allocation_devices(a, b);

	return r ? r : compare_allocation_pods(a, b);
}

/* The first allocation that is not ordered before @key. */
static size_t find_first_allocation(const struct monitoring_allocations *allocations,
	const struct monitoring_allocation *key,
	int (*order)(const struct monitoring_allocation *,
		const struct monitoring_allocation *))
{
	size_t low = 0, high = allocations->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (order(&allocations->v[mid], key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int in_order_of(const struct monitoring_allocation *x,
	const struct monitoring_allocation *y)
{
	return compare_allocations(x, y);
}

/* The same replica of the same container in @allocations; NULL: that container did not hold the replica. */
static const struct monitoring_allocation *same_in(
	const struct monitoring_allocations *allocations,
	const struct monitoring_allocation *key)
{
	size_t at = find_first_allocation(allocations, key, in_order_of);

	return at < allocations->n && compare_allocations(&allocations->v[at], key) == 0
		       ? &allocations->v[at]
		       : NULL;
}

const struct monitoring_allocation *monitoring_allocations_find(
	const struct monitoring_allocations *allocations, const char *resource, const char *id)
{
	const struct monitoring_allocation key = { .resource = (char *)(uintptr_t)resource,
		.id = (char *)(uintptr_t)id };

	for (size_t at = find_first_allocation(allocations, &key, compare_allocation_devices);
		at < allocations->n &&
		compare_allocation_devices(&allocations->v[at], &key) == 0;
		at++)
		if (!allocations->v[at].superseded)
			return &allocations->v[at];
	return NULL;
}

static bool copy_allocation_text(struct monitoring_allocation *to, const struct pod_device *d)
{
	to->namespace_ = strdup(d->namespace_);
	to->pod = strdup(d->pod);
	to->container = strdup(d->container);
	to->resource = strdup(d->resource);
	to->id = strdup(d->id);
	to->uid = strdup("");
	return to->namespace_ && to->pod && to->container && to->resource && to->id && to->uid;
}

/* Sets the figures of the replica as now offered. A replica that is no longer offered keeps its last figures. A
 * replica that was never known counts as the whole device, without a memory limit. */
static void set_allocation_replica(struct monitoring_allocation *allocation,
	const struct monitoring_allocation *before, const struct monitoring_replicas *replicas)
{
	allocation->replica =
		monitoring_replicas_find(replicas, allocation->resource, allocation->id);
	if (allocation->replica != MONITORING_NONE) {
		allocation->share = replicas->v[allocation->replica].share;
		allocation->mode = replicas->v[allocation->replica].mode;
		allocation->memory_limit = replicas->v[allocation->replica].memory_limit;
	} else if (before) {
		allocation->share = before->share;
		allocation->mode = before->mode;
		allocation->memory_limit = before->memory_limit;
	} else {
		bool replica =
			device_id_is_replica(allocation->id) || strstr(allocation->id, "/vgpu");

		allocation->share = ACCOUNT_MILLION;
		allocation->mode = replica ? ACCOUNT_TIME_SLICING : ACCOUNT_EXCLUSIVE;
		allocation->memory_limit = UINT64_MAX;
	}
}

static int fill_allocations(struct monitoring_allocations *ret, const struct pod_devices *list,
	const struct monitoring_devices *devices, struct error *err)
{
	size_t n = list ? list->n : 0, kept = 0;

	ret->v = calloc(n + 1, sizeof(*ret->v));
	if (!ret->v)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const struct pod_device *d = &list->v[i];
		uint32_t device = monitoring_devices_find_id(devices, d->id, d->dynamic);
		struct monitoring_allocation *allocation = &ret->v[ret->n];

		if (device == MONITORING_NONE)
			continue;
		ret->n++;
		allocation->dynamic = d->dynamic;
		if (!copy_allocation_text(allocation, d))
			return error_nomem(err);
		(void)snprintf(allocation->device_uuid, sizeof(allocation->device_uuid), "%s",
			devices->v[device].uuid);
	}
	qsort(ret->v, ret->n, sizeof(*ret->v), compare_allocations);
	for (size_t i = 0; i < ret->n; i++) { /* duplicates count once */
		if (kept && compare_allocations(&ret->v[kept - 1], &ret->v[i]) == 0)
			fini_allocation(&ret->v[i]);
		else
			ret->v[kept++] = ret->v[i];
	}
	ret->n = kept;
	return 0;
}

/* Whether @uid belongs to a previous holder of this replica, and so not to the holder of @allocation. The checkpoint may
 * be older than the list. */
static bool is_previous_owner_uid(const struct monitoring_allocations *before,
	const struct monitoring_allocation *allocation, const char *uid)
{
	size_t at = find_first_allocation(before, allocation, compare_allocation_devices);

	for (; at < before->n && compare_allocation_devices(&before->v[at], allocation) == 0;
		at++)
		if (!strcmp(before->v[at].uid, uid) &&
			(allocation->fresh || strcmp(before->v[at].pod, allocation->pod) != 0 ||
				strcmp(before->v[at].namespace_, allocation->namespace_) != 0))
			return true;
	return false;
}

static int set_uid(struct monitoring_allocation *allocation,
	const struct monitoring_allocations *before, const struct monitoring_allocation *same,
	const struct monitoring_checkpoint *c, struct error *err)
{
	const char *uid = c ? monitoring_checkpoint_find_uid(c, allocation->container,
				      allocation->resource, allocation->id)
			    : "";
	char *copy;

	if (*uid && is_previous_owner_uid(before, allocation, uid))
		uid = "";
	if (!*uid && same && !allocation->fresh)
		uid = same->uid;
	if (!*uid)
		return 0;
	copy = strdup(uid);
	if (!copy)
		return error_nomem(err);
	free(allocation->uid);
	allocation->uid = copy;
	return 0;
}

/* Sets the time of the allocation, if the agent allocated the replica after the previous list. */
static void set_since(struct monitoring_allocation *allocation,
	const struct monitoring_pending *pending, struct monitoring_span span)
{
	size_t at = find_pending_entry(pending, allocation->resource, allocation->id);

	if (at == pending->n || pending->v[at].at_ns > span.to_ns)
		return;
	allocation->fresh = true;
	allocation->since_ns =
		pending->v[at].at_ns > span.from_ns ? pending->v[at].at_ns : span.from_ns;
}

static void drop_listed(struct monitoring_pending *pending,
	const struct monitoring_allocations *allocations, struct monitoring_span span)
{
	for (size_t i = 0; i < allocations->n; i++) {
		size_t at = allocations->v[i].fresh
				    ? find_pending_entry(pending, allocations->v[i].resource,
					      allocations->v[i].id)
				    : pending->n;

		if (at < pending->n)
			free_pending_entry(pending, at);
	}
	for (size_t i = pending->n; i-- > 0;)
		if (pending->v[i].at_ns + MONITORING_PENDING_TIMEOUT_NS < span.to_ns)
			free_pending_entry(pending, i);
}

/*
 * Several pods list one replica, but a device of a plugin belongs to one pod. Only one pod keeps the replica:
 *	1. A pod that did not hold the replica in the previous list goes before the pods that did.
 *	2. Among equals, the pod that the kubelet lists last keeps the replica.
 *	3. A pod that was superseded before stays superseded, if another pod remains.
 *
 * Resource claims are not affected: several pods may share a claim.
 */
static void supersede_allocations(struct monitoring_allocation *v, size_t n,
	const struct monitoring_allocations *before, const struct pod_devices *list)
{
	size_t keep = 0;
	long best = -1;

	for (size_t k = 0; k < n; k++) {
		const struct monitoring_allocation *old = same_in(before, &v[k]);
		long rank = 0;

		for (size_t i = 0; i < list->n; i++)
			if (!strcmp(list->v[i].pod, v[k].pod) &&
				!strcmp(list->v[i].namespace_, v[k].namespace_))
				rank = (long)i;
		if (!old)
			rank += (long)list->n;
		if (old && old->superseded)
			rank = -1;
		if (rank >= best) {
			best = rank;
			keep = k;
		}
	}
	for (size_t k = 0; k < n; k++) {
		/* Containers of one pod pass their devices on. */
		v[k].superseded = strcmp(v[k].pod, v[keep].pod) != 0 ||
				  strcmp(v[k].namespace_, v[keep].namespace_) != 0;
		if (v[k].superseded)
			v[k].fresh = false;
	}
}

static void supersede_all(struct monitoring_allocations *allocations,
	const struct monitoring_allocations *before, const struct pod_devices *list)
{
	for (size_t i = 0, k; i < allocations->n; i = k) {
		for (k = i; k < allocations->n && compare_allocation_devices(&allocations->v[i],
							  &allocations->v[k]) == 0;
			k++)
			;
		if (k - i > 1 && !allocations->v[i].dynamic)
			supersede_allocations(&allocations->v[i], k - i, before, list);
	}
}

int monitoring_allocations_make(struct monitoring_allocations *ret,
	const struct monitoring_allocations *before, const struct pod_devices *list,
	const struct monitoring_checkpoint *checkpoint,
	const struct monitoring_devices *devices, const struct monitoring_replicas *replicas,
	struct monitoring_pending *pending, struct monitoring_span span, struct error *err)
{
	*ret = (struct monitoring_allocations){ .n = 0 };
	if (fill_allocations(ret, list, devices, err) < 0)
		goto fail;
	for (size_t i = 0; i < ret->n; i++)
		set_since(&ret->v[i], pending, span);
	supersede_all(ret, before, list);
	for (size_t i = 0; i < ret->n; i++) {
		struct monitoring_allocation *allocation = &ret->v[i];
		const struct monitoring_allocation *same = same_in(before, allocation);

		set_allocation_replica(allocation, same, replicas);
		if (!allocation->superseded &&
			set_uid(allocation, before, same, checkpoint, err) < 0)
			goto fail;
	}
	drop_listed(pending, ret, span);
	return 0;

fail:
	monitoring_allocations_fini(ret);
	return -1;
}

void monitoring_allocations_carry(struct monitoring_allocations *allocations,
	const struct monitoring_replicas *replicas)
{
	for (size_t i = 0; i < allocations->n; i++) {
		allocations->v[i].fresh = false;
		set_allocation_replica(&allocations->v[i], &allocations->v[i], replicas);
	}
}
