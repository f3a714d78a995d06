/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include <stdlib.h>
#include <string.h>

/* Position in the view of the live use that a use of the round became. */
static uint32_t view_use(const struct see_round *r, const struct view *v, uint32_t use)
{
	const struct account *a;
	const struct view_unit *u;

	if (use >= r->uses.n)
		return VIEW_NONE;
	a = r->uses.v[use].in.account;
	u = &v->units[r->uses.v[use].unit];
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

static void put_holders(const struct monitoring *s, const struct see_round *r, struct view *v)
{
	for (size_t i = 0; i < s->holds.n; i++) {
		const struct see_hold *h = &s->holds.v[i];

		if (h->superseded || h->seat == SEE_NONE || h->seat >= v->n_seats ||
			h->use == SEE_NONE)
			continue;
		v->seats[h->seat].use = view_use(r, v, h->use);
		if (v->seats[h->seat].use != VIEW_NONE)
			v->units[v->seats[h->seat].unit].replicas_used++;
	}
}

void see_build_seats(const struct monitoring *mon, const struct see_round *r, struct view *v)
{
	v->seats = view_array(v, r->seats.n, sizeof(*v->seats));
	if (!v->seats)
		return;
	for (uint32_t i = 0; i < r->seats.n; i++) {
		const struct see_seat *s = &r->seats.v[i];
		struct view_unit *u = &v->units[s->unit];

		v->seats[i] = (struct view_seat){ .unit = s->unit,
			.id = view_text(v, s->device->id),
			.resource = view_text(v, s->resource->name),
			.replica = s->device->replica,
			.share = s->share,
			.memory_limit = s->memory_limit,
			.healthy = mon->c.ops->device_ok(mon->c.arg, s->resource, s->device),
			.use = VIEW_NONE };
		if (!u->n_seats++)
			u->first_seat = i;
	}
	v->n_seats = r->seats.n;
	put_holders(mon, r, v);
}

static void count_devices(const struct view *v, const struct see_round *r,
	const struct resource *resource, const struct monitoring *mon, struct view_resource *to)
{
	for (uint32_t i = 0; i < resource->n_devices; i++)
		to->allocatable +=
			mon->c.ops->device_ok(mon->c.arg, resource, &resource->devices[i]);
	for (uint32_t i = 0; i < v->n_seats; i++) {
		if (r->seats.v[i].resource != resource)
			continue;
		to->used += v->seats[i].use != VIEW_NONE;
		to->idle += v->seats[i].use == VIEW_NONE && v->seats[i].healthy;
	}
}

static enum view_mode mode_of(const struct resource *resource)
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

void see_build_resources(const struct monitoring *mon, const struct see_round *r,
	struct view *v)
{
	const struct offer *o = r->seats.offer;
	uint32_t n = o ? o->n : 0;

	v->resources = view_array(v, n, sizeof(*v->resources));
	if (!v->resources)
		return;
	for (uint32_t i = 0; i < n; i++) {
		const struct resource *from = &o->resources[i];
		struct view_resource *to = &v->resources[i];
		const char *why = "";

		to->name = view_text(v, from->name);
		to->mode = mode_of(from);
		to->replicas = from->replicas;
		to->capacity = from->n_devices;
		to->held_known = see_holders_known(mon);
		count_devices(v, r, from, mon, to);
		to->state = mon->c.ops->resource_state(mon->c.arg, from->name, &why);
		to->reason = view_text(v, why);
	}
	v->n_resources = n;
}
