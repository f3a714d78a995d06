/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a table of `gpuslice top`: selected, sorted, and with their numbers (view.h). */
#include "tools/cli/top/view/view.h"

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
	[TOP_BY_QUANTA] = "turns",
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
	return s != TOP_BY_NAME && s != TOP_BY_PEAK && s != TOP_BY_QUANTA && s != TOP_BY_WAITS;
}

/* --- the numbers of a row --- */

static uint64_t widen_row_figure(uint32_t v)
{
	return v == TOP_NONE ? TOP_UNKNOWN : v;
}

/* @v times @part millionths. The agent's figures are not trusted, so the product has 128 bits. */
static uint64_t scale_by_millionths(uint64_t v, uint64_t part)
{
	if (v == TOP_UNKNOWN || part == TOP_UNKNOWN)
		return TOP_UNKNOWN;
	return (uint64_t)((unsigned __int128)v * part / MILLION);
}

uint64_t top_row_share(const struct top_row *r)
{
	if (r->replica)
		return scale_by_millionths(widen_row_figure(r->replica->share),
			widen_row_figure(r->device->share));
	if (r->usage)
		return widen_row_figure(r->usage->share);
	return r->device ? widen_row_figure(r->device->share) : MILLION;
}

bool top_row_is_free(const struct top_row *r)
{
	return r->replica && !r->usage && r->device->allocated != TOP_NONE;
}

const struct top_usage *top_row_figures(const struct top_row *r)
{
	return r->replica && !r->replica->first ? NULL : r->usage;
}

uint64_t top_row_received(const struct top_row *r)
{
	if (top_row_figures(r))
		return widen_row_figure(r->usage->received);
	if (r->replica)
		return TOP_UNKNOWN;
	return widen_row_figure(r->device ? r->device->busy : r->gpu->busy);
}

uint64_t top_row_memory(const struct top_row *r)
{
	if (top_row_figures(r))
		return r->usage->memory_used;
	if (r->replica)
		return TOP_UNKNOWN;
	return r->device ? r->device->memory_used : r->gpu->memory_used;
}

uint64_t top_row_limit(const struct top_row *r)
{
	if (r->replica)
		return r->replica->memory_limit;
	if (r->usage)
		return r->usage->memory_limit;
	return r->device ? r->device->memory_total : r->gpu->memory_total;
}

uint64_t top_row_cost(const struct top_row *r)
{
	if (r->usage && !r->usage->live)
		return TOP_UNKNOWN;
	return scale_by_millionths(r->gpu->cost_nano_per_hour, top_row_share(r));
}

/* --- selection --- */

static bool has_filter_text(const char *text, const char *part)
{
	return strcasestr(text, part) != NULL;
}

static bool use_matches(const struct top_usage *u, const char *filter)
{
	char path[1024];

	(void)snprintf(path, sizeof(path), "%s/%s/%s", u->namespace_, u->pod, u->container);
	return has_filter_text(path, filter) || has_filter_text(u->resource, filter) ||
	       has_filter_text(u->uid, filter);
}

static bool is_filter_match(const struct top_row *r, const char *filter)
{
	assert(r->gpu); /* every row belongs to a GPU */
	if (!*filter)
		return true;
	if (has_filter_text(r->gpu->uuid, filter))
		return true;
	if (r->device && has_filter_text(r->device->uuid, filter))
		return true;
	if (r->replica && (has_filter_text(r->replica->resource, filter) ||
				  has_filter_text(r->replica->id, filter)))
		return true;
	if (r->usage)
		return use_matches(r->usage, filter);
	return r->device && !r->replica && has_filter_text(r->device->resource, filter);
}

static bool is_top_row_idle(const struct top_row *r)
{
	if (r->usage)
		return !r->usage->live || r->usage->received == 0;
	if (r->replica)
		return top_row_is_free(r);
	if (!r->device)
		return true;
	return r->device->replicas_used == 0 && r->device->busy == 0;
}

/* --- order --- */

static uint64_t get_sort_figure(const struct top_row *r, enum top_sort sort)
{
	const struct top_usage *u = top_row_figures(r);

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
	case TOP_BY_QUANTA:
		return u ? u->quanta : TOP_UNKNOWN;
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

static const char *get_row_mode(const struct top_row *r)
{
	if (r->usage)
		return r->usage->mode;
	return r->device ? r->device->mode : "";
}

static int compare_row_names(const struct top_row *a, const struct top_row *b)
{
	int d = strcmp(a->usage->namespace_, b->usage->namespace_);

	if (d == 0)
		d = strcmp(a->usage->pod, b->usage->pod);
	return d ? d : strcmp(a->usage->container, b->usage->container);
}

static int by_order(const struct top_row *a, const struct top_row *b)
{
	return a->order < b->order ? -1 : a->order > b->order;
}

static int compare_top_rows(const void *pa, const void *pb, void *arg)
{
	const struct top_row *a = pa, *b = pb;
	const struct top_choice *c = arg;
	uint64_t x = get_sort_figure(a, c->sort), y = get_sort_figure(b, c->sort);
	int d;

	if (c->sort == TOP_BY_NAME && (!a->usage || !b->usage))
		return !a->usage == !b->usage ? by_order(a, b) : !a->usage - !b->usage;
	if (c->sort == TOP_BY_NAME)
		d = compare_row_names(a, b);
	else if (c->sort == TOP_BY_MODE)
		d = strcmp(get_row_mode(a), get_row_mode(b));
	else if (c->sort == TOP_BY_GPU)
		d = by_order(a, b);
	else if (x == TOP_UNKNOWN || y == TOP_UNKNOWN)
		return x == y ? by_order(a, b)
			      : (x == TOP_UNKNOWN ? 1
						  : -1); /* unknown: last in both directions */
	else
		d = x > y ? -1 : x < y;
	if (d == 0)
		return by_order(a, b);
	return c->reverse ? -d : d;
}

/* --- making the rows --- */

static bool is_gpu_without_devices(const struct top_gpu *g)
{
	return g->n_devices == 0;
}

static size_t count_table_rows(const struct top_model *m, enum top_table table)
{
	size_t n = m->n_devices;

	switch (table) {
	case TOP_PODS:
		return m->n_usages;
	case TOP_SLICES:
		return m->n_replicas;
	case TOP_GPUS:
		for (size_t i = 0; i < m->n_gpus; i++)
			n += is_gpu_without_devices(&m->gpus[i]);
		return n;
	case TOP_BOARDS:
	case TOP_TABLE_COUNT_:
		break;
	}
	return m->n_gpus;
}

/* First the devices, then the GPUs without devices (in MIG mode). .order sorts them by GPU. */
static struct top_row make_device_row(const struct top_model *m, size_t i)
{
	struct top_row r = { .device = NULL };
	size_t left = i - m->n_devices;

	if (i < m->n_devices) {
		r.device = &m->devices[i];
		r.order = r.device->gpu * (size_t)TOP_ALL_MAX + i;
		return r;
	}
	for (r.gpu = m->gpus; !is_gpu_without_devices(r.gpu) || left-- > 0; r.gpu++)
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
		r = make_device_row(m, i);
	else if (table == TOP_SLICES)
		r.replica = &m->replicas[i];
	else
		r.usage = &m->usages[i];
	if (r.replica) {
		r.device = &m->devices[r.replica->device];
		if (r.replica->usage != TOP_NONE)
			r.usage = &m->usages[r.replica->usage];
	} else if (r.usage) {
		r.device = &m->devices[r.usage->device];
	}
	if (r.device)
		r.gpu = &m->gpus[r.device->gpu];
	return r;
}

int top_rows_make(struct top_rows *ret, const struct top_model *m, const struct top_choice *c,
	struct error *err)
{
	size_t all = count_table_rows(m, c->table);
	struct top_choice choice = *c;

	*ret = (struct top_rows){ .v = calloc(all ? all : 1, sizeof(*ret->v)), .all = all };
	if (!ret->v)
		return error_nomem(err);
	for (size_t i = 0; i < all; i++) {
		struct top_row r = row_at(m, c->table, i);

		if (is_filter_match(&r, c->filter) && !(c->hide_idle && is_top_row_idle(&r)))
			ret->v[ret->n++] = r;
	}
	qsort_r(ret->v, ret->n, sizeof(*ret->v), compare_top_rows, &choice);
	return 0;
}

void top_rows_fini(struct top_rows *r)
{
	free(r->v);
	*r = (struct top_rows){ .v = NULL };
}
