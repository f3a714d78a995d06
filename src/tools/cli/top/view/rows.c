/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/top/view/rows.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define MILLION 1000000U

static const char *const sort_names[] = {
	[TOP_BY_GPU] = "gpu",
	[TOP_BY_NAME] = "name",
	[TOP_BY_MODE] = "mode",
	[TOP_BY_SHARE] = "share",
	[TOP_BY_RECEIVED] = "received",
	[TOP_BY_MEMORY] = "memory",
	[TOP_BY_LIMIT] = "limit",
	[TOP_BY_PEAK] = "peak",
	[TOP_BY_TURNS] = "turns",
	[TOP_BY_WAITS] = "waits",
	[TOP_BY_COST] = "cost",
};
_Static_assert(ARRAY_LEN(sort_names) == TOP_SORT_COUNT_, "a name for each");

const char *top_sort_name(enum top_sort s)
{
	return sort_names[s < TOP_SORT_COUNT_ ? s : TOP_BY_GPU];
}

int top_sort_find(const char *name, enum top_sort *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(sort_names); i++) {
		if (!strcmp(name, sort_names[i])) {
			*ret = (enum top_sort)i;
			return 0;
		}
	}
	return -1;
}

bool top_sort_fits(enum top_sort s, enum top_table table)
{
	if (table == TOP_PODS || table == TOP_SLICES)
		return true;
	return s != TOP_BY_NAME && s != TOP_BY_PEAK && s != TOP_BY_TURNS && s != TOP_BY_WAITS;
}

/* --- numbers of a row --- */

static uint64_t wide(uint32_t v)
{
	return v == TOP_NONE ? TOP_UNKNOWN : v;
}

/* @v by @part millionths. Both may be a stranger's. */
static uint64_t part_of(uint64_t v, uint64_t part)
{
	if (v == TOP_UNKNOWN || part == TOP_UNKNOWN)
		return TOP_UNKNOWN;
	return (uint64_t)((unsigned __int128)v * part / MILLION);
}

uint64_t top_row_share(const struct top_row *r)
{
	if (r->seat)
		return part_of(wide(r->seat->share), wide(r->unit->part));
	if (r->use)
		return wide(r->use->share);
	return r->unit ? wide(r->unit->part) : MILLION;
}

bool top_row_is_free(const struct top_row *r)
{
	return r->seat && !r->use && r->unit->held != TOP_NONE;
}

const struct top_use *top_row_figures(const struct top_row *r)
{
	return r->seat && !r->seat->first ? NULL : r->use;
}

uint64_t top_row_received(const struct top_row *r)
{
	if (top_row_figures(r))
		return wide(r->use->received);
	if (r->seat)
		return TOP_UNKNOWN;
	return wide(r->unit ? r->unit->busy : r->gpu->busy);
}

uint64_t top_row_memory(const struct top_row *r)
{
	if (top_row_figures(r))
		return r->use->memory_used;
	if (r->seat)
		return TOP_UNKNOWN;
	return r->unit ? r->unit->memory_used : r->gpu->memory_used;
}

uint64_t top_row_limit(const struct top_row *r)
{
	if (r->seat)
		return r->seat->memory_limit;
	if (r->use)
		return r->use->memory_limit;
	return r->unit ? r->unit->memory_total : r->gpu->memory_total;
}

uint64_t top_row_cost(const struct top_row *r)
{
	if (r->use && !r->use->live)
		return TOP_UNKNOWN;
	return part_of(r->gpu->cost_nano_per_hour, top_row_share(r));
}

/* --- which --- */

static bool has(const char *text, const char *part)
{
	return strcasestr(text, part) != NULL;
}

static bool use_matches(const struct top_use *u, const char *filter)
{
	char path[1024];

	(void)snprintf(path, sizeof(path), "%s/%s/%s", u->namespace_, u->pod, u->container);
	return has(path, filter) || has(u->resource, filter) || has(u->uid, filter);
}

static bool matches(const struct top_row *r, const char *filter)
{
	assert(r->gpu); /* every row is of one */
	if (!*filter)
		return true;
	if (has(r->gpu->uuid, filter))
		return true;
	if (r->unit && has(r->unit->uuid, filter))
		return true;
	if (r->seat && (has(r->seat->resource, filter) || has(r->seat->id, filter)))
		return true;
	if (r->use)
		return use_matches(r->use, filter);
	return r->unit && !r->seat && has(r->unit->resource, filter);
}

static bool idle(const struct top_row *r)
{
	if (r->use)
		return !r->use->live || r->use->received == 0;
	if (r->seat)
		return top_row_is_free(r);
	if (!r->unit)
		return true;
	return r->unit->replicas_used == 0 && r->unit->busy == 0;
}

/* --- in what order --- */

static uint64_t number(const struct top_row *r, enum top_sort sort)
{
	const struct top_use *u = top_row_figures(r);

	switch (sort) {
	case TOP_BY_SHARE:
		return top_row_share(r);
	case TOP_BY_RECEIVED:
		return top_row_received(r);
	case TOP_BY_MEMORY:
		return top_row_memory(r);
	case TOP_BY_LIMIT:
		return top_row_limit(r);
	case TOP_BY_PEAK:
		return u ? u->memory_peak : TOP_UNKNOWN;
	case TOP_BY_TURNS:
		return u ? u->turns : TOP_UNKNOWN;
	case TOP_BY_WAITS:
		return u ? u->waits : TOP_UNKNOWN;
	case TOP_BY_COST:
		return top_row_cost(r);
	case TOP_BY_GPU:
	case TOP_BY_NAME:
	case TOP_BY_MODE:
	case TOP_SORT_COUNT_:
		break;
	}
	return TOP_UNKNOWN;
}

static const char *mode_of(const struct top_row *r)
{
	if (r->use)
		return r->use->mode;
	return r->unit ? r->unit->mode : "";
}

static int by_name(const struct top_row *a, const struct top_row *b)
{
	int d = strcmp(a->use->namespace_, b->use->namespace_);

	if (d == 0)
		d = strcmp(a->use->pod, b->use->pod);
	return d ? d : strcmp(a->use->container, b->use->container);
}

static int by_order(const struct top_row *a, const struct top_row *b)
{
	return a->order < b->order ? -1 : a->order > b->order;
}

static int compare(const void *pa, const void *pb, void *arg)
{
	const struct top_row *a = pa, *b = pb;
	const struct top_choice *c = arg;
	uint64_t x = number(a, c->sort), y = number(b, c->sort);
	int d;

	if (c->sort == TOP_BY_NAME && (!a->use || !b->use))
		return !a->use == !b->use ? by_order(a, b) : !a->use - !b->use;
	if (c->sort == TOP_BY_NAME)
		d = by_name(a, b);
	else if (c->sort == TOP_BY_MODE)
		d = strcmp(mode_of(a), mode_of(b));
	else if (c->sort == TOP_BY_GPU)
		d = by_order(a, b);
	else if (x == TOP_UNKNOWN || y == TOP_UNKNOWN)
		return x == y ? by_order(a, b)
			      : (x == TOP_UNKNOWN ? 1 : -1); /* last, both ways */
	else
		d = x > y ? -1 : x < y;
	if (d == 0)
		return by_order(a, b);
	return c->reverse ? -d : d;
}

/* --- making --- */

static bool is_uncut(const struct top_gpu *g)
{
	return g->n_units == 0;
}

static size_t count(const struct top_model *m, enum top_table table)
{
	size_t n = m->n_units;

	switch (table) {
	case TOP_PODS:
		return m->n_uses;
	case TOP_SLICES:
		return m->n_seats;
	case TOP_GPUS:
		for (size_t i = 0; i < m->n_gpus; i++)
			n += is_uncut(&m->gpus[i]);
		return n;
	case TOP_BOARDS:
	case TOP_TABLE_COUNT_:
		break;
	}
	return m->n_gpus;
}

/* Units, and behind them the GPUs in MIG mode that have no device; .order puts them where they belong. */
static struct top_row unit_row(const struct top_model *m, size_t i)
{
	struct top_row r = { .unit = NULL };
	size_t left = i - m->n_units;

	if (i < m->n_units) {
		r.unit = &m->units[i];
		r.order = r.unit->gpu * (size_t)TOP_ALL_MAX + i;
		return r;
	}
	for (r.gpu = m->gpus; !is_uncut(r.gpu) || left-- > 0; r.gpu++)
		;
	r.order = (size_t)(r.gpu - m->gpus) * TOP_ALL_MAX;
	return r;
}

static struct top_row row_at(const struct top_model *m, enum top_table table, size_t i)
{
	struct top_row r = { .order = i };

	if (table == TOP_BOARDS)
		r.gpu = &m->gpus[i];
	else if (table == TOP_GPUS)
		r = unit_row(m, i);
	else if (table == TOP_SLICES)
		r.seat = &m->seats[i];
	else
		r.use = &m->uses[i];
	if (r.seat) {
		r.unit = &m->units[r.seat->unit];
		if (r.seat->use != TOP_NONE)
			r.use = &m->uses[r.seat->use];
	} else if (r.use) {
		r.unit = &m->units[r.use->unit];
	}
	if (r.unit)
		r.gpu = &m->gpus[r.unit->gpu];
	return r;
}

int top_rows_make(struct top_rows *ret, const struct top_model *m, const struct top_choice *c,
	struct error *err)
{
	size_t all = count(m, c->table);
	struct top_choice choice = *c;

	*ret = (struct top_rows){ .v = calloc(all ? all : 1, sizeof(*ret->v)), .all = all };
	if (!ret->v)
		return error_nomem(err);
	for (size_t i = 0; i < all; i++) {
		struct top_row r = row_at(m, c->table, i);

		if (matches(&r, c->filter) && !(c->hide_idle && idle(&r)))
			ret->v[ret->n++] = r;
	}
	qsort_r(ret->v, ret->n, sizeof(*ret->v), compare, &choice);
	return 0;
}

void top_rows_fini(struct top_rows *r)
{
	free(r->v);
	*r = (struct top_rows){ .v = NULL };
}
