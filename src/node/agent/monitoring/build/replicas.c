/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include <stdlib.h>
#include <string.h>

/* Position in the view of the live use that belongs to a usage entry of the round. */
static uint32_t find_view_use(const struct monitoring_round *r, const struct view *v,
	uint32_t use)
{
	const struct account *a;
	const struct view_device *u;

	if (use >= r->usage.n)
		return VIEW_NONE;
	a = r->usage.v[use].in.account;
	u = &v->devices[r->usage.v[use].device_index];
	for (uint32_t i = 0; i < u->n_uses; i++) {
		const struct view_use *x = &v->uses[u->first_use + i];

		if (x->live && !strcmp(x->pod, a->pod) && !strcmp(x->container, a->container) &&
			!strcmp(x->namespace_, a->namespace_) &&
			!strcmp(x->resource, a->resource) && !strcmp(x->uid, a->uid) &&
			x->mode == (enum view_mode)a->mode)
			return u->first_use + i;
	}
	return VIEW_NONE;
}

static void fill_replica_usage(const struct monitoring *s, const struct monitoring_round *r,
	struct view *v)
{
	for (size_t i = 0; i < s->allocation_list.n; i++) {
		const struct monitoring_allocation *h = &s->allocation_list.v[i];

		if (h->superseded || h->replica == MONITORING_NONE ||
			h->replica >= v->n_replicas || h->usage == MONITORING_NONE)
			continue;
		v->replicas[h->replica].use = find_view_use(r, v, h->usage);
		if (v->replicas[h->replica].use != VIEW_NONE)
			v->devices[v->replicas[h->replica].device].replicas_used++;
	}
}

void monitoring_build_replicas(const struct monitoring *mon, const struct monitoring_round *r,
	struct view *v)
{
	v->replicas = view_array(v, r->replicas.n, sizeof(*v->replicas));
	if (!v->replicas)
		return;
	for (uint32_t i = 0; i < r->replicas.n; i++) {
		const struct monitoring_replica *s = &r->replicas.v[i];
		struct view_device *u = &v->devices[s->device_index];

		v->replicas[i] = (struct view_replica){ .device = s->device_index,
			.id = view_text(v, s->device->id),
			.resource = view_text(v, s->resource->name),
			.replica = s->device->replica,
			.share = s->share,
			.memory_limit = s->memory_limit,
			.healthy = mon->c.ops->device_ok(mon->c.arg, s->resource, s->device),
			.use = VIEW_NONE };
		if (!u->n_replicas++)
			u->first_replica = i;
	}
	v->n_replicas = r->replicas.n;
	fill_replica_usage(mon, r, v);
}

static void count_devices(const struct view *v, const struct monitoring_round *r,
	const struct resource *resource, const struct monitoring *mon, struct view_resource *to)
{
	for (uint32_t i = 0; i < resource->n_devices; i++)
		to->allocatable +=
			mon->c.ops->device_ok(mon->c.arg, resource, &resource->devices[i]);
	for (uint32_t i = 0; i < v->n_replicas; i++) {
		if (r->replicas.v[i].resource != resource)
			continue;
		to->used += v->replicas[i].use != VIEW_NONE;
		to->idle += v->replicas[i].use == VIEW_NONE && v->replicas[i].healthy;
	}
}

static enum view_mode get_view_sharing_mode(const struct resource *resource)
{
	switch (resource->strategy) {
	case SHARING_TIME_SLICING:
		return VIEW_TIME_SLICING;
	case SHARING_MPS:
		return VIEW_MPS;
	case SHARING_SLICES:
		return VIEW_SLICES;
	case SHARING_NONE:
	default:
		return VIEW_EXCLUSIVE;
	}
}

void monitoring_build_resources(const struct monitoring *mon, const struct monitoring_round *r,
	struct view *v)
{
	const struct offer *o = r->replicas.offer;
	uint32_t n = o ? o->n : 0;

	v->resources = view_array(v, n, sizeof(*v->resources));
	if (!v->resources)
		return;
	for (uint32_t i = 0; i < n; i++) {
		const struct resource *from = &o->resources[i];
		struct view_resource *to = &v->resources[i];
		const char *why = "";

		to->name = view_text(v, from->name);
		to->mode = get_view_sharing_mode(from);
		to->replicas = from->replicas;
		to->capacity = from->n_devices;
		to->allocated_known = monitoring_allocations_known(mon);
		count_devices(v, r, from, mon, to);
		to->state = mon->c.ops->resource_state(mon->c.arg, from->name, &why);
		to->reason = view_text(v, why);
	}
	v->n_resources = n;
}
