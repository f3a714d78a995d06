/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/charges.h"

#include "lib/json/by-id.h"
#include "lib/base/buf.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MAX 4096

bool see_number(const json_t *o, const char *key, uint64_t *ret)
{
	const json_t *v = json_object_get(o, key);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return false;
	*ret = (uint64_t)json_integer_value(v);
	return true;
}

/* --- slices of now --- */

static const json_t *gpu_of(const json_t *seen, const char *uuid)
{
	const json_t *gpus = json_object_get(seen, "gpus");

	for (size_t i = 0; i < json_array_size(gpus); i++) {
		const json_t *g = json_array_get(gpus, i);
		const char *own = json_string_value(json_object_get(g, "uuid"));

		if (own && !strcasecmp(own, uuid))
			return g;
	}
	return NULL;
}

/* The use on that unit of who holds one of the slice's devices. */
static uint32_t use_of(const struct slice *slice, const char *uuid,
	const struct see_holds *holds)
{
	for (size_t i = 0; i < slice->file.devices.n; i++) {
		const struct see_hold *h =
			see_holds_find(holds, slice->file.resource, slice->file.devices.v[i]);

		if (h && !strcasecmp(h->unit, uuid))
			return h->use;
	}
	return SEE_NONE;
}

static int by_use(const void *a, const void *b)
{
	const struct see_slice *x = a, *y = b;

	if (x->use != y->use)
		return x->use < y->use ? -1 : 1;
	if (x->slice->file.created_s != y->slice->file.created_s)
		return x->slice->file.created_s < y->slice->file.created_s ? -1 : 1;
	return strcmp(x->slice->file.id, y->slice->file.id);
}

int see_slices_make(struct see_slices *ret, const struct slices *s,
	const struct see_holds *holds, struct error *err)
{
	size_t room = 1;

	*ret = (struct see_slices){ .n = 0 };
	for (size_t i = 0; i < s->store.n; i++)
		room += s->store.v[i]->file.plan.n;
	ret->v = calloc(room, sizeof(*ret->v));
	ret->by_id = json_by_id(s->seen);
	if (!ret->v || !ret->by_id) {
		see_slices_fini(ret);
		return error_nomem(err);
	}
	for (size_t i = 0; i < s->store.n; i++) {
		const struct slice *slice = s->store.v[i];
		const json_t *seen = json_object_get(ret->by_id, slice->file.id);

		for (uint32_t k = 0; k < slice->file.plan.n && !slice->superseded; k++) {
			const char *uuid = slice->file.plan.gpus[k].uuid;
			uint32_t use = use_of(slice, uuid, holds);

			if (use != SEE_NONE)
				ret->v[ret->n++] = (struct see_slice){ .slice = slice,
					.place = k,
					.use = use,
					.seen = seen,
					.gpu = gpu_of(seen, uuid) };
		}
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_use);
	return 0;
}

void see_slices_fini(struct see_slices *s)
{
	free(s->v);
	json_decref(s->by_id);
	*s = (struct see_slices){ .n = 0 };
}

const struct see_slice *see_slices_of(const struct see_slices *s, uint32_t use)
{
	uint32_t low = 0, high = s->n;

	while (low < high) { /* the first behind those of @use */
		uint32_t mid = low + (high - low) / 2;

		if (s->v[mid].use <= use)
			low = mid + 1;
		else
			high = mid;
	}
	return low && s->v[low - 1].use == use ? &s->v[low - 1] : NULL;
}

static bool has_process(const json_t *list, uint32_t pid)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (json_integer_value(json_object_get(json_array_get(list, i), "host_pid")) ==
			(json_int_t)pid)
			return true;
	return false;
}

uint32_t see_slices_process(const struct see_slices *s, const struct see_uses *uses,
	uint32_t unit, uint32_t pid)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const json_t *seen = s->v[i].seen;

		if (uses->v[s->v[i].use].unit == unit &&
			(has_process(json_object_get(seen, "processes"), pid) ||
				has_process(json_object_get(seen, "unhooked_processes"), pid)))
			return s->v[i].use;
	}
	return SEE_NONE;
}

/* --- charges --- */

static int key_of(const struct see_use *u, struct buf *b, struct error *err)
{
	buf_clear(b);
	buf_printf(b, "%s\n%s\n%s\n%s\n%s", u->in.namespace_, u->in.pod, u->in.container,
		u->in.resource, u->in.uid);
	return buf_ok(b) ? 0 : error_nomem(err);
}

static struct see_charge *charge_of(struct see_charges *c, const char *id, const char *unit)
{
	struct see_charge *more;

	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->v[i].id, id) && !strcmp(c->v[i].unit, unit))
			return &c->v[i];
	more = reallocarray(c->v, c->n + 1, sizeof(*more));
	if (!more)
		return NULL;
	c->v = more;
	more = &c->v[c->n++];
	*more = (struct see_charge){ .at_ns = 0 };
	(void)snprintf(more->id, sizeof(more->id), "%s", id);
	(void)snprintf(more->unit, sizeof(more->unit), "%s", unit);
	return more;
}

static void add_busy(struct see_charge *c, struct account_use *in, uint64_t charged_ns,
	uint64_t now_ns)
{
	uint64_t grown = charged_ns > c->charged_ns ? charged_ns - c->charged_ns : 0;

	grown = grown > c->lent_ns ? grown - c->lent_ns : 0;
	if (in->busy_from != ACCOUNT_FROM_SLICE) /* what NVML says of it counts no more */
		in->busy_ns = in->busy_of_ns = 0;
	in->busy_from = ACCOUNT_FROM_SLICE;
	in->busy_ns += grown;
	if (now_ns - c->at_ns > in->busy_of_ns)
		in->busy_of_ns = now_ns - c->at_ns;
	c->charged_ns = charged_ns;
	c->at_ns = now_ns;
	c->lent_ns = 0;
}

/* From when on it counts that is seen for the first time. */
static void begin(struct see_charge *c, const struct slice *slice, uint64_t charged_ns,
	uint64_t started_wall_ns, uint64_t wall_ns, uint64_t now_ns)
{
	uint64_t created = slice->file.created_s * NS_PER_SEC;
	uint64_t age = wall_ns > created ? wall_ns - created : 0;

	if (c->kept) {
		created = c->at_wall_ns;
		age = wall_ns > created ? wall_ns - created : 0;
		c->at_ns = now_ns > age ? now_ns - age : 1;
		return;
	}
	c->at_ns = now_ns;
	c->charged_ns = charged_ns;
	if (created + NS_PER_SEC <= started_wall_ns)
		return;
	c->charged_ns = 0;
	c->at_ns = now_ns > age ? now_ns - age : 1;
}

/* A process without the libraries uses time that nobody is charged for. */
static void take_memory(struct see_use *u, const struct see_slice *s)
{
	uint64_t used, peak;

	u->in.sliced = true;
	if (see_number(s->gpu, "peak", &peak)) {
		u->in.peak_known = true;
		u->in.peak = peak > u->in.peak ? peak : u->in.peak;
	}
	if (!see_number(s->gpu, "used", &used))
		return;
	if (u->in.memory_from && u->in.memory >= used)
		return;
	u->in.memory = used;
	u->in.memory_from = ACCOUNT_FROM_SLICE;
}

static int count_slice(struct see_charges *c, const struct see_slice *s, struct see_uses *uses,
	const struct see_units *units, uint64_t started_wall_ns, uint64_t wall_ns,
	uint64_t now_ns, struct error *err)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KEY_MAX);
	struct see_use *u = &uses->v[s->use];
	struct see_charge *ch = charge_of(c, s->slice->file.id, units->v[u->unit].uuid);
	uint64_t charged;

	if (!ch || key_of(u, &key, err) < 0)
		return ch ? -1 : error_nomem(err);
	if (!ch->holder || strcmp(ch->holder, buf_str(&key)) != 0) {
		free(ch->holder);
		ch->holder = strdup(buf_str(&key));
		if (!ch->holder)
			return error_nomem(err);
	}
	ch->use = s->use;
	ch->here = true;
	take_memory(u, s);
	if (s->slice->file.plan.compute == SLICE_COMPUTE_NONE ||
		!see_number(s->gpu, "charged_ns", &charged))
		return 0;
	if (!ch->at_ns)
		begin(ch, s->slice, charged, started_wall_ns, wall_ns, now_ns);
	add_busy(ch, &u->in, charged, now_ns);
	return 0;
}

/* Its pod is not listed any more: what it did last still is that one's. */
static void count_last(struct see_charge *c, struct see_uses *uses,
	const struct see_units *units, const json_t *by_id, uint64_t now_ns)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KEY_MAX);
	uint64_t charged;

	if (!c->holder || !c->at_ns ||
		!see_number(gpu_of(json_object_get(by_id, c->id), c->unit), "charged_ns",
			&charged))
		return;
	for (uint32_t i = 0; i < uses->n; i++) {
		struct see_use *u = &uses->v[i];

		if (u->in.live || strcmp(units->v[u->unit].uuid, c->unit) != 0 ||
			key_of(u, &key, NULL) < 0 || strcmp(buf_str(&key), c->holder) != 0)
			continue;
		c->use = i;
		add_busy(c, &u->in, charged, now_ns);
		return;
	}
}

/* Those whose slice is gone. */
static void drop_old(struct see_charges *c, const json_t *by_id, bool known)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n; i++) {
		if (c->v[i].here || !known || json_object_get(by_id, c->v[i].id))
			c->v[kept++] = c->v[i];
		else
			free(c->v[i].holder);
	}
	c->n = kept;
}

int see_charges_round(struct see_charges *c, const struct see_slices *slices,
	struct see_uses *uses, const struct see_units *units, uint64_t started_wall_ns,
	uint64_t wall_ns, uint64_t now_ns, struct error *err)
{
	for (size_t i = 0; i < c->n; i++) {
		c->v[i].use = SEE_NONE;
		c->v[i].here = false;
	}
	for (uint32_t i = 0; i < slices->n; i++)
		if (count_slice(c, &slices->v[i], uses, units, started_wall_ns, wall_ns, now_ns,
			    err) < 0)
			return -1;
	for (size_t i = 0; i < c->n; i++)
		if (!c->v[i].here)
			count_last(&c->v[i], uses, units, slices->by_id, now_ns);
	drop_old(c, slices->by_id, json_object_size(slices->by_id) > 0);
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].at_ns == now_ns)
			c->v[i].at_wall_ns = wall_ns;
	return 0;
}

void see_charges_lend(struct see_charges *c, const struct see_uses *uses)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct account_use *in;

		if (c->v[i].use == SEE_NONE || (!c->v[i].at_ns && !c->v[i].kept))
			continue;
		in = &uses->v[c->v[i].use].in;
		if (in->busy_from != ACCOUNT_FROM_SLICE && in->account)
			c->v[i].lent_ns += in->account->delta.busy_ns;
	}
}

int see_charges_restore(struct see_charges *c, const char *id, const char *unit,
	const struct see_charge *as, struct error *err)
{
	struct see_charge *own = charge_of(c, id, unit);

	if (!own)
		return error_nomem(err);
	own->charged_ns = as->charged_ns;
	own->at_wall_ns = as->at_wall_ns;
	own->lent_ns = as->lent_ns;
	own->kept = true;
	return 0;
}

void see_charges_fini(struct see_charges *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i].holder);
	free(c->v);
	*c = (struct see_charges){ .n = 0 };
}
