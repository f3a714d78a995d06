/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/uses.h"

#include <stdlib.h>
#include <string.h>

#define SHARE_MAX (1000 * ACCOUNT_MILLION)

/* One seat's part of a use. */
struct piece {
	struct see_hold *hold;
	uint32_t unit;
	bool live;
	uint64_t held_ns;
};

struct pieces {
	struct piece *v;
	uint32_t n;
};

static int compare_text(const char *a, const char *b, int before)
{
	return before ? before : strcmp(a, b);
}

/* 0: they are of one use. */
static int by_use(const struct piece *x, const struct piece *y)
{
	const struct see_hold *a = x->hold, *b = y->hold;
	int r;

	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	r = compare_text(a->namespace_, b->namespace_, 0);
	r = compare_text(a->pod, b->pod, r);
	r = compare_text(a->container, b->container, r);
	r = compare_text(a->resource, b->resource, r);
	r = compare_text(a->uid, b->uid, r);
	if (r)
		return r;
	if (a->mode != b->mode)
		return a->mode < b->mode ? -1 : 1;
	return (int)a->fresh - (int)b->fresh;
}

/* Within a use those that are held now first, by their place in the offer. */
static int in_order(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	int r = by_use(x, y);

	if (r)
		return r;
	if (x->live != y->live)
		return x->live ? -1 : 1;
	if (x->hold->seat != y->hold->seat)
		return x->hold->seat < y->hold->seat ? -1 : 1;
	return strcmp(x->hold->id, y->hold->id);
}

static int compare_holds(const struct see_hold *a, const struct see_hold *b)
{
	int r = compare_text(a->resource, b->resource, 0);

	r = compare_text(a->id, b->id, r);
	r = compare_text(a->namespace_, b->namespace_, r);
	r = compare_text(a->pod, b->pod, r);
	return compare_text(a->container, b->container, r);
}

/* When the seat of @h, which is not listed any more, was given to the next; 0: it was not. */
static uint64_t given_again(const struct see_holds *now, const struct see_hold *h)
{
	size_t low = 0, high = now->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int r = compare_text(now->v[mid].resource, h->resource, 0);

		if (compare_text(now->v[mid].id, h->id, r) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < now->n && !strcmp(now->v[low].id, h->id) &&
		!strcmp(now->v[low].resource, h->resource);
		low++)
		if (now->v[low].fresh)
			return now->v[low].since_ns;
	return 0;
}

static void add(struct pieces *p, const struct see_units *units, struct see_hold *h, bool live,
	uint64_t held_ns)
{
	uint32_t unit = see_unit_find(units, h->unit);

	h->use = SEE_NONE;
	if (unit == SEE_NONE || h->superseded)
		return;
	p->v[p->n++] =
		(struct piece){ .hold = h, .unit = unit, .live = live, .held_ns = held_ns };
}

/* @again: listed before too. */
static uint64_t held_now(const struct see_hold *h, bool again, struct see_span span)
{
	if (h->fresh)
		return span.to_ns - h->since_ns;
	return again ? span.to_ns - span.from_ns : 0;
}

static uint64_t held_then(const struct see_holds *now, const struct see_hold *h,
	struct see_span span)
{
	uint64_t until = given_again(now, h);

	return until ? until - span.from_ns : (span.to_ns - span.from_ns) / 2;
}

/* Both lists are in the same order. */
static void collect(struct pieces *p, const struct see_units *units, struct see_holds *now,
	struct see_holds *before, struct see_span span)
{
	size_t i = 0, k = 0;

	while (i < now->n || k < before->n) {
		int r = i == now->n      ? 1
			: k == before->n ? -1
					 : compare_holds(&now->v[i], &before->v[k]);
		struct see_hold *h = r <= 0 ? &now->v[i] : NULL;
		struct see_hold *old = r >= 0 ? &before->v[k] : NULL;

		if (old) /* that was news of the round before */
			old->fresh = false;
		if (h)
			add(p, units, h, true, held_now(h, old && !old->superseded, span));
		if (old && (!h || h->fresh || h->superseded) && !old->superseded)
			add(p, units, old, false, held_then(now, old, span));
		i += h != NULL;
		k += old != NULL;
	}
}

static void collect_now(struct pieces *p, const struct see_units *units, struct see_holds *now,
	uint64_t held_ns)
{
	for (size_t i = 0; i < now->n; i++)
		add(p, units, &now->v[i], true, held_ns);
}

/* --- pieces become uses --- */

static void begin(struct see_use *u, const struct piece *p)
{
	const struct see_hold *h = p->hold;

	*u = (struct see_use){
		.in = { .namespace_ = h->namespace_,
			.pod = h->pod,
			.container = h->container,
			.resource = h->resource,
			.uid = h->uid,
			.mode = h->mode,
			.fresh = h->fresh },
		.unit = p->unit,
		.first = h,
		.offered = true,
	};
}

/* More than the whole is scaled down by the accounts, whatever it is. */
static uint64_t add_up(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void add_piece(struct see_use *u, const struct piece *p)
{
	const struct see_hold *h = p->hold;

	u->in.live = u->in.live || p->live;
	if (p->held_ns > u->in.held_ns)
		u->in.held_ns = p->held_ns;
	u->in.share_ns = add_up(u->in.share_ns, p->held_ns * h->share);
	u->n_seats++;
	u->offered = u->offered && h->seat != SEE_NONE;
	if (h->memory_limit == UINT64_MAX || u->memory_limit > UINT64_MAX - h->memory_limit)
		u->memory_limit = UINT64_MAX;
	else
		u->memory_limit += h->memory_limit;
	if (p->live && u->in.share <= SHARE_MAX)
		u->in.share += h->share;
}

static int group(struct see_uses *ret, struct pieces *p, struct error *err)
{
	ret->v = calloc(p->n + 1, sizeof(*ret->v));
	if (!ret->v)
		return error_nomem(err);
	if (p->n)
		qsort(p->v, p->n, sizeof(*p->v), in_order);
	for (uint32_t i = 0; i < p->n; i++) {
		if (!i || by_use(&p->v[i - 1], &p->v[i]) != 0)
			begin(&ret->v[ret->n++], &p->v[i]);
		add_piece(&ret->v[ret->n - 1], &p->v[i]);
		if (p->v[i].live)
			p->v[i].hold->use = ret->n - 1;
	}
	return 0;
}

int see_uses_make(struct see_uses *ret, struct see_holds *now, struct see_holds *before,
	const struct see_units *units, struct see_span span, bool counted, struct error *err)
{
	CLEANUP(freep) struct piece *v = calloc(now->n + before->n + 1, sizeof(*v));
	struct pieces p = { .v = v };

	*ret = (struct see_uses){ .n = 0 };
	if (!v)
		return error_nomem(err);
	if (now == before || !counted)
		collect_now(&p, units, now, counted ? span.to_ns - span.from_ns : 0);
	else
		collect(&p, units, now, before, span);
	return group(ret, &p, err);
}

void see_uses_fini(struct see_uses *u)
{
	free(u->v);
	*u = (struct see_uses){ .n = 0 };
}
