/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/uses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what was given out --- */

static void given_free(struct see_givens *g, size_t i)
{
	free(g->v[i].resource);
	free(g->v[i].id);
	g->n--;
	memmove(&g->v[i], &g->v[i + 1], (g->n - i) * sizeof(g->v[0]));
}

static size_t given_find(const struct see_givens *g, const char *resource, const char *id)
{
	size_t i = 0;

	while (i < g->n &&
		(strcmp(g->v[i].id, id) != 0 || strcmp(g->v[i].resource, resource) != 0))
		i++;
	return i;
}

int see_givens_add(struct see_givens *g, const char *resource, const char *id, uint64_t at_ns,
	struct error *err)
{
	size_t at = given_find(g, resource, id);
	struct see_given *more;

	if (at < g->n) {
		g->v[at].at_ns = at_ns;
		return 0;
	}
	if (g->n == SEE_GIVEN_MAX)
		given_free(g, 0);
	more = reallocarray(g->v, g->n + 1, sizeof(*more));
	if (!more)
		return error_nomem(err);
	g->v = more;
	g->v[g->n] = (struct see_given){ .resource = strdup(resource),
		.id = strdup(id),
		.at_ns = at_ns };
	g->n++;
	if (g->v[g->n - 1].resource && g->v[g->n - 1].id)
		return 0;
	given_free(g, g->n - 1);
	return error_nomem(err);
}

void see_givens_fini(struct see_givens *g)
{
	while (g->n)
		given_free(g, g->n - 1);
	free(g->v);
	*g = (struct see_givens){ .n = 0 };
}

/* --- holds --- */

static void hold_fini(struct see_hold *h)
{
	free(h->namespace_);
	free(h->pod);
	free(h->container);
	free(h->resource);
	free(h->id);
	free(h->uid);
}

void see_holds_fini(struct see_holds *h)
{
	for (size_t i = 0; i < h->n; i++)
		hold_fini(&h->v[i]);
	free(h->v);
	*h = (struct see_holds){ .n = 0 };
}

static int by_seat(const struct see_hold *x, const struct see_hold *y)
{
	int r = strcmp(x->resource, y->resource);

	return r ? r : strcmp(x->id, y->id);
}

static int by_pod(const struct see_hold *x, const struct see_hold *y)
{
	int r = strcmp(x->namespace_, y->namespace_);

	if (!r)
		r = strcmp(x->pod, y->pod);
	return r ? r : strcmp(x->container, y->container);
}

static int in_order(const void *a, const void *b)
{
	int r = by_seat(a, b);

	return r ? r : by_pod(a, b);
}

/* The first hold that is not before @key. */
static size_t lower(const struct see_holds *h, const struct see_hold *key,
	int (*order)(const struct see_hold *, const struct see_hold *))
{
	size_t low = 0, high = h->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (order(&h->v[mid], key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int in_order_of(const struct see_hold *x, const struct see_hold *y)
{
	return in_order(x, y);
}

/* The same seat of the same pod's container; NULL: it was not held so. */
static const struct see_hold *same_in(const struct see_holds *h, const struct see_hold *key)
{
	size_t at = lower(h, key, in_order_of);

	return at < h->n && in_order(&h->v[at], key) == 0 ? &h->v[at] : NULL;
}

const struct see_hold *see_holds_find(const struct see_holds *h, const char *resource,
	const char *id)
{
	const struct see_hold key = { .resource = (char *)(uintptr_t)resource,
		.id = (char *)(uintptr_t)id };

	for (size_t at = lower(h, &key, by_seat); at < h->n && by_seat(&h->v[at], &key) == 0;
		at++)
		if (!h->v[at].superseded)
			return &h->v[at];
	return NULL;
}

static bool copy_text(struct see_hold *to, const struct pod_device *d)
{
	to->namespace_ = strdup(d->namespace_);
	to->pod = strdup(d->pod);
	to->container = strdup(d->container);
	to->resource = strdup(d->resource);
	to->id = strdup(d->id);
	to->uid = strdup("");
	return to->namespace_ && to->pod && to->container && to->resource && to->id && to->uid;
}

/* As it is offered now; what is not stays what it was, and of what was never known the most is taken. */
static void set_seat(struct see_hold *h, const struct see_hold *before,
	const struct see_seats *seats)
{
	h->seat = see_seat_find(seats, h->resource, h->id);
	if (h->seat != SEE_NONE) {
		h->share = seats->v[h->seat].share;
		h->mode = seats->v[h->seat].mode;
		h->memory_limit = seats->v[h->seat].memory_limit;
	} else if (before) {
		h->share = before->share;
		h->mode = before->mode;
		h->memory_limit = before->memory_limit;
	} else {
		bool replica = device_id_is_replica(h->id) || strstr(h->id, "/vgpu");

		h->share = ACCOUNT_MILLION;
		h->mode = replica ? ACCOUNT_TIME_SLICING : ACCOUNT_EXCLUSIVE;
		h->memory_limit = UINT64_MAX;
	}
}

static int fill(struct see_holds *ret, const struct pod_devices *list,
	const struct see_units *units, struct error *err)
{
	size_t n = list ? list->n : 0, kept = 0;

	ret->v = calloc(n + 1, sizeof(*ret->v));
	if (!ret->v)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const struct pod_device *d = &list->v[i];
		uint32_t unit = see_device_find(units, d->id, d->dynamic);
		struct see_hold *h = &ret->v[ret->n];

		if (unit == SEE_NONE)
			continue;
		ret->n++;
		h->dynamic = d->dynamic;
		if (!copy_text(h, d))
			return error_nomem(err);
		(void)snprintf(h->unit, sizeof(h->unit), "%s", units->v[unit].uuid);
	}
	qsort(ret->v, ret->n, sizeof(*ret->v), in_order);
	for (size_t i = 0; i < ret->n; i++) { /* one is one */
		if (kept && in_order(&ret->v[kept - 1], &ret->v[i]) == 0)
			hold_fini(&ret->v[i]);
		else
			ret->v[kept++] = ret->v[i];
	}
	ret->n = kept;
	return 0;
}

/* Whether that UID is of somebody who had this seat before, and so not of who has it now. */
static bool is_of_another(const struct see_holds *before, const struct see_hold *h,
	const char *uid)
{
	size_t at = lower(before, h, by_seat);

	for (; at < before->n && by_seat(&before->v[at], h) == 0; at++)
		if (!strcmp(before->v[at].uid, uid) &&
			(h->fresh || strcmp(before->v[at].pod, h->pod) != 0 ||
				strcmp(before->v[at].namespace_, h->namespace_) != 0))
			return true;
	return false;
}

static int set_uid(struct see_hold *h, const struct see_holds *before,
	const struct see_hold *same, const struct see_checkpoint *c, struct error *err)
{
	const char *uid = c ? see_checkpoint_uid(c, h->container, h->resource, h->id) : "";
	char *copy;

	if (*uid && is_of_another(before, h, uid))
		uid = "";
	if (!*uid && same && !h->fresh)
		uid = same->uid;
	if (!*uid)
		return 0;
	copy = strdup(uid);
	if (!copy)
		return error_nomem(err);
	free(h->uid);
	h->uid = copy;
	return 0;
}

/* When it was given, if it was since the list before. */
static void set_since(struct see_hold *h, const struct see_givens *g, struct see_span span)
{
	size_t at = given_find(g, h->resource, h->id);

	if (at == g->n || g->v[at].at_ns > span.to_ns)
		return;
	h->fresh = true;
	h->since_ns = g->v[at].at_ns > span.from_ns ? g->v[at].at_ns : span.from_ns;
}

static void drop_listed(struct see_givens *g, const struct see_holds *h, struct see_span span)
{
	for (size_t i = 0; i < h->n; i++) {
		size_t at = h->v[i].fresh ? given_find(g, h->v[i].resource, h->v[i].id) : g->n;

		if (at < g->n)
			given_free(g, at);
	}
	for (size_t i = g->n; i-- > 0;)
		if (g->v[i].at_ns + SEE_GIVEN_KEEP_NS < span.to_ns)
			given_free(g, i);
}

/*
 * Several pods with one seat, plugins' devices being one pod's each: it is whose it was not before; of several
 * of these, or none, the last listed one. Claims are shared by those who say so.
 */
static void supersede(struct see_hold *v, size_t n, const struct see_holds *before,
	const struct pod_devices *list)
{
	size_t keep = 0;
	long best = -1;

	for (size_t k = 0; k < n; k++) {
		const struct see_hold *old = same_in(before, &v[k]);
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
		/* Containers of one pod hand their devices on. */
		v[k].superseded = strcmp(v[k].pod, v[keep].pod) != 0 ||
				  strcmp(v[k].namespace_, v[keep].namespace_) != 0;
		if (v[k].superseded)
			v[k].fresh = false;
	}
}

static void supersede_all(struct see_holds *h, const struct see_holds *before,
	const struct pod_devices *list)
{
	for (size_t i = 0, k; i < h->n; i = k) {
		for (k = i; k < h->n && by_seat(&h->v[i], &h->v[k]) == 0; k++)
			;
		if (k - i > 1 && !h->v[i].dynamic)
			supersede(&h->v[i], k - i, before, list);
	}
}

int see_holds_make(struct see_holds *ret, const struct see_holds *before,
	const struct pod_devices *list, const struct see_checkpoint *checkpoint,
	const struct see_units *units, const struct see_seats *seats, struct see_givens *givens,
	struct see_span span, struct error *err)
{
	*ret = (struct see_holds){ .n = 0 };
	if (fill(ret, list, units, err) < 0)
		goto fail;
	for (size_t i = 0; i < ret->n; i++)
		set_since(&ret->v[i], givens, span);
	supersede_all(ret, before, list);
	for (size_t i = 0; i < ret->n; i++) {
		struct see_hold *h = &ret->v[i];
		const struct see_hold *same = same_in(before, h);

		set_seat(h, same, seats);
		if (!h->superseded && set_uid(h, before, same, checkpoint, err) < 0)
			goto fail;
	}
	drop_listed(givens, ret, span);
	return 0;

fail:
	see_holds_fini(ret);
	return -1;
}

void see_holds_stay(struct see_holds *holds, const struct see_seats *seats)
{
	for (size_t i = 0; i < holds->n; i++) {
		holds->v[i].fresh = false;
		set_seat(&holds->v[i], &holds->v[i], seats);
	}
}
