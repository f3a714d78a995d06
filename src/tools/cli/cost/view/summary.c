/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of charges by the names that the user asked for, and charges at a price from the user (view.h). */
#include "tools/cli/cost/view/view.h"

#include "io/price/price.h"
#include "lib/base/array.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- sums --- */

struct cost_summary {
	enum cost_by by;
	void *tree; /* of struct cost_line, in the order of compare_cost_lines() */
	const struct cost_line **lines;
	size_t n, room;
	bool sorted;
	struct cost_node *nodes;
	size_t n_nodes;
};

#define ROW_TEXTS(r)                                                               \
	{                                                                          \
		(r)->namespace_, (r)->pod, (r)->pod_uid, (r)->container, (r)->gpu, \
			(r)->device, (r)->resource, (r)->mode                      \
	}
#define PERIOD_TEXTS(p)                                                                      \
	{                                                                                    \
		(p)->node, (p)->instance_type, (p)->region, (p)->currency, (p)->price_source \
	}
#define N_ROW_TEXTS    8
#define N_PERIOD_TEXTS 5

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_usage_texts(const char *const *a, const char *const *b, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = strcmp(a[i], b[i]);
	return r;
}

static int compare_periods(const struct usage_db_period *a, const struct usage_db_period *b)
{
	const char *const x[] = PERIOD_TEXTS(a), *const y[] = PERIOD_TEXTS(b);
	int r = compare_u64(a->start_s, b->start_s);

	if (r == 0)
		r = compare_u64(a->end_s, b->end_s);
	if (r == 0)
		r = compare_usage_texts(x, y, N_PERIOD_TEXTS);
	if (r == 0)
		r = compare_u64((uint64_t)a->price_nano_per_hour,
			(uint64_t)b->price_nano_per_hour);
	return r ? r : compare_u64(a->gpus, b->gpus);
}

static int compare_cost_lines(const void *a, const void *b)
{
	const struct cost_line *x = a, *y = b;
	const char *const s[] = ROW_TEXTS(&x->row), *const t[] = ROW_TEXTS(&y->row);
	int r = compare_periods(&x->period, &y->period);

	if (r == 0)
		r = compare_u64(x->row.kind, y->row.kind);
	return r ? r : compare_usage_texts(s, t, N_ROW_TEXTS);
}

static int compare_cost_line_order(const void *a, const void *b)
{
	return compare_cost_lines(*(const struct cost_line *const *)a,
		*(const struct cost_line *const *)b);
}

/* Copies @n texts into one allocation, one after the other. *to[0] is its start. */
static bool copy_usage_texts(const char **const *to, size_t n)
{
	size_t len = 0;
	char *at;

	for (size_t i = 0; i < n; i++)
		len += strlen(*to[i]) + 1;
	at = malloc(len);
	if (!at)
		return false;
	for (size_t i = 0; i < n; i++) {
		size_t part = strlen(*to[i]) + 1;

		memcpy(at, *to[i], part);
		*to[i] = at;
		at += part;
	}
	return true;
}

static bool own_period(struct usage_db_period *p)
{
	const char **const to[] = { &p->node, &p->instance_type, &p->region, &p->currency,
		&p->price_source };

	return copy_usage_texts(to, ARRAY_LEN(to));
}

static void free_period(struct usage_db_period *p)
{
	free((void *)(uintptr_t)p->node);
	p->node = NULL;
}

static bool own_row(struct usage_db_row *r)
{
	const char **const to[] = { &r->namespace_, &r->pod, &r->pod_uid, &r->container,
		&r->gpu, &r->device, &r->resource, &r->mode };

	return copy_usage_texts(to, ARRAY_LEN(to));
}

static void free_line(void *line)
{
	struct cost_line *l = line;

	free_period(&l->period);
	free((void *)(uintptr_t)l->row.namespace_);
	free(l);
}

int cost_summary_new(struct cost_summary **ret, enum cost_by by, struct error *err)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return error_nomem(err);
	(*ret)->by = by;
	return 0;
}

struct cost_summary *cost_summary_free(struct cost_summary *summary)
{
	if (!summary)
		return NULL;
	tdestroy(summary->tree, free_line);
	for (size_t i = 0; i < summary->n_nodes; i++)
		free_period(&summary->nodes[i].period);
	free(summary->nodes);
	free(summary->lines);
	free(summary);
	return NULL;
}

static const char *get_text_or_empty(const char *text)
{
	return text ? text : "";
}

/* The key of a row's sum: names that the user did not ask for are empty. */
static struct cost_line get_cost_line_key(enum cost_by by, const struct usage_db_period *p,
	const struct usage_db_row *row)
{
	bool all = by == COST_BY_CHARGE;
	bool container = all || by == COST_BY_CONTAINER, pod = container || by == COST_BY_POD;
	bool name = pod || by == COST_BY_NAMESPACE;
	struct cost_line k = { .row.kind = row->kind };

	k.row.namespace_ = name ? get_text_or_empty(row->namespace_) : "";
	k.row.pod = pod ? get_text_or_empty(row->pod) : "";
	k.row.container = container ? get_text_or_empty(row->container) : "";
	k.row.gpu = all || by == COST_BY_GPU ? get_text_or_empty(row->gpu) : "";
	k.row.mode = all || by == COST_BY_MODE ? get_text_or_empty(row->mode) : "";
	k.row.pod_uid = all ? get_text_or_empty(row->pod_uid) : "";
	k.row.device = all ? get_text_or_empty(row->device) : "";
	k.row.resource = all ? get_text_or_empty(row->resource) : "";
	k.period.node = all ? get_text_or_empty(p->node) : "";
	k.period.instance_type = all ? get_text_or_empty(p->instance_type) : "";
	k.period.region = all ? get_text_or_empty(p->region) : "";
	k.period.price_source = all ? get_text_or_empty(p->price_source) : "";
	k.period.currency = get_text_or_empty(p->currency);
	if (all) {
		k.period.start_s = p->start_s;
		k.period.end_s = p->end_s;
		k.period.price_nano_per_hour = p->price_nano_per_hour;
		k.period.gpus = p->gpus;
		k.period.covered_ns = p->covered_ns;
		k.period.cost_nano = p->cost_nano;
	}
	return k;
}

static struct cost_line *add_cost_line(struct cost_summary *summary,
	const struct cost_line *key, struct error *err)
{
	struct cost_line *l = malloc(sizeof(*l));

	if (summary->n == COST_LINES_MAX) {
		free(l);
		(void)error_set(err, ERR_LIMIT,
			"more than %d lines; ask for a shorter time, or by namespace",
			COST_LINES_MAX);
		return NULL;
	}
	if (l && !ARRAY_GROW(&summary->lines, summary->n, &summary->room, COST_LINES_MAX)) {
		free(l);
		l = NULL;
	}
	if (l) {
		*l = *key;
		if (!own_period(&l->period)) {
			free(l);
			l = NULL;
		} else if (!own_row(&l->row)) {
			l->row.namespace_ = NULL;
			free_line(l);
			l = NULL;
		}
	}
	if (l && !tsearch(l, &summary->tree, compare_cost_lines)) {
		free_line(l);
		l = NULL;
	}
	if (!l) {
		(void)error_nomem(err);
		return NULL;
	}
	summary->lines[summary->n++] = l;
	summary->sorted = false;
	return l;
}

/* Returns false on an overflow. */
static bool sum_usage_row(struct usage_db_row *to, const struct usage_db_row *r)
{
	to->busy_unknown |= r->busy_unknown;
	to->memory_unknown |= r->memory_unknown;
	if (r->memory_peak_bytes > to->memory_peak_bytes)
		to->memory_peak_bytes = r->memory_peak_bytes;
	return !__builtin_add_overflow(to->allocated_ns, r->allocated_ns, &to->allocated_ns) &&
	       !__builtin_add_overflow(to->gpu_ns, r->gpu_ns, &to->gpu_ns) &&
	       !__builtin_add_overflow(to->busy_ns, r->busy_ns, &to->busy_ns) &&
	       !__builtin_add_overflow(to->memory_byte_seconds, r->memory_byte_seconds,
		       &to->memory_byte_seconds) &&
	       !__builtin_add_overflow(to->cost_nano, r->cost_nano, &to->cost_nano);
}

static int too_large(struct error *err)
{
	return error_set(err, ERR_LIMIT, "a sum is larger than 2^63; ask for a shorter time");
}

/* The fields that a row of this kind has. Unallocated time has no allocation and no usage. */
static unsigned of_kind(enum usage_db_kind kind)
{
	return kind == USAGE_DB_UNALLOCATED ? COST_GPU | COST_MONEY : COST_ALL;
}

int cost_summary_add(struct cost_summary *summary, const struct usage_db_period *p,
	const struct usage_db_row *row, unsigned parts, struct error *err)
{
	struct cost_line key = get_cost_line_key(summary->by, p, row);
	void *found = tfind(&key, &summary->tree, compare_cost_lines);
	struct cost_line *l =
		found ? *(struct cost_line **)found : add_cost_line(summary, &key, err);

	if (!l)
		return -1;
	l->parts |= parts;
	l->lacks |= of_kind(row->kind) & ~parts;
	l->row.busy_unknown |= (l->lacks & COST_BUSY) != 0;
	return sum_usage_row(&l->row, row) ? 0 : too_large(err);
}

/* The line with the same key in another currency; NULL: none. */
static struct cost_line *find_in(const struct cost_summary *summary,
	const struct cost_line *line, const char *currency)
{
	struct cost_line key = *line;
	void *found;

	key.period.currency = currency;
	found = tfind(&key, &summary->tree, compare_cost_lines);
	return found ? *(struct cost_line **)found : NULL;
}

static int fold_line(struct cost_summary *to, const struct cost_summary *from,
	const struct cost_line *line, struct error *err)
{
	struct cost_line *rest = *line->period.currency ? find_in(from, line, "") : NULL;
	struct cost_line sum = *line;

	if (line->folded)
		return 0;
	if (rest && !rest->folded) {
		rest->folded = true;
		sum.parts |= rest->parts;
		if (!sum_usage_row(&sum.row, &rest->row))
			return too_large(err);
	}
	sum.row.busy_unknown = false; /* because the parts came one by one */
	return cost_summary_add(to, &sum.period, &sum.row, sum.parts, err);
}

int cost_summary_merge(struct cost_summary *to, struct cost_summary *from, struct error *err)
{
	for (int with_currency = 1; with_currency >= 0; with_currency--)
		for (size_t i = 0; i < from->n; i++)
			if ((*from->lines[i]->period.currency != '\0') == with_currency &&
				fold_line(to, from, from->lines[i], err) < 0)
				return -1;
	return 0;
}

/* Whether two buckets are of the same node at the same price. */
static bool is_same_cost_node(const struct usage_db_period *a, const struct usage_db_period *b)
{
	const char *const x[] = PERIOD_TEXTS(a), *const y[] = PERIOD_TEXTS(b);

	return a->price_nano_per_hour == b->price_nano_per_hour && a->gpus == b->gpus &&
	       compare_usage_texts(x, y, N_PERIOD_TEXTS) == 0;
}

static int add_cost_node(struct cost_summary *summary, const struct usage_db_period *p,
	struct error *err)
{
	if (summary->n_nodes == COST_NODES_MAX)
		return error_set(err, ERR_LIMIT,
			"more than %d nodes or prices; ask for a shorter time", COST_NODES_MAX);
	if (!ARRAY_EXTEND(&summary->nodes, summary->n_nodes, 1, COST_NODES_MAX))
		return error_nomem(err);
	summary->nodes[summary->n_nodes].period = *p;
	if (!own_period(&summary->nodes[summary->n_nodes].period))
		return error_nomem(err);
	summary->n_nodes++;
	return 0;
}

/* Adds a bucket of a node: its covered time and its price. */
static int cost_summary_add_node(struct cost_summary *summary, const struct usage_db_period *p,
	struct error *err)
{
	for (size_t i = 0; i < summary->n_nodes; i++) {
		struct usage_db_period *n = &summary->nodes[i].period;

		if (!is_same_cost_node(n, p))
			continue;
		n->start_s = p->start_s < n->start_s ? p->start_s : n->start_s;
		n->end_s = p->end_s > n->end_s ? p->end_s : n->end_s;
		if (__builtin_add_overflow(n->covered_ns, p->covered_ns, &n->covered_ns) ||
			__builtin_add_overflow(n->cost_nano, p->cost_nano, &n->cost_nano))
			return too_large(err);
		return 0;
	}
	return add_cost_node(summary, p, err);
}

const struct cost_line *const *cost_summary_lines(struct cost_summary *summary, size_t *ret_n)
{
	if (!summary->sorted && summary->n)
		qsort(summary->lines, summary->n, sizeof(*summary->lines),
			compare_cost_line_order);
	summary->sorted = true;
	*ret_n = summary->n;
	return summary->lines;
}

const struct cost_node *cost_summary_nodes(const struct cost_summary *summary, size_t *ret_n)
{
	*ret_n = summary->n_nodes;
	return summary->nodes;
}

int cost_summary_total(struct cost_summary *summary, const char *currency,
	struct cost_line *ret, struct error *err)
{
	struct cost_line t = { .parts = 0 };

	for (size_t i = 0; i < summary->n; i++) {
		if (strcmp(summary->lines[i]->period.currency, currency) != 0)
			continue;
		if (!sum_usage_row(&t.row, &summary->lines[i]->row))
			return too_large(err);
		t.parts |= summary->lines[i]->parts;
		t.lacks |= summary->lines[i]->lacks;
	}
	t.period.currency = currency;
	*ret = t;
	return 0;
}

const char *cost_summary_currency(struct cost_summary *summary, size_t i)
{
	size_t n;
	const struct cost_line *const *lines = cost_summary_lines(summary, &n);
	const char *least = NULL;

	/* Few currencies, so each round searches the smallest one above the last. */
	for (size_t round = 0; round <= i; round++) {
		const char *next = NULL;

		for (size_t j = 0; j < n; j++) {
			const char *c = lines[j]->period.currency;

			if ((!least || strcmp(c, least) > 0) && (!next || strcmp(c, next) < 0))
				next = c;
		}
		if (!next)
			return NULL;
		least = next;
	}
	return least;
}

/* --- a price from the user --- */

#define NS_PER_HOUR INT64_C(3600000000000)

__extension__ typedef __int128 wide;

static int64_t cap_cost_nano(wide v, int64_t max)
{
	return v < max ? (int64_t)v : max;
}

/* The part of the bucket's price that a row pays. Never more than the rest of the price. */
static int64_t get_repriced_cost(const struct cost_reprice *r, const struct usage_db_row *row)
{
	wide v;

	if (r->period.gpus == 0)
		return 0;
	v = (wide)r->price_nano * row->gpu_ns / ((wide)NS_PER_HOUR * r->period.gpus);
	return cap_cost_nano(v, r->remaining_nano);
}

void cost_reprice_fini(struct cost_reprice *r)
{
	free((void *)(uintptr_t)r->period.node);
	free((void *)(uintptr_t)r->period.instance_type);
	free((void *)(uintptr_t)r->period.region);
	r->period = (struct usage_db_period){ .node = NULL };
	r->open = false;
}

static int begin_repriced_period(struct cost_reprice *r, const struct usage_db_period *p,
	struct error *err)
{
	r->period = *p;
	r->period.node = strdup(p->node);
	r->period.instance_type = strdup(p->instance_type);
	r->period.region = strdup(p->region);
	r->open = true;
	r->idle_gpu[0] = '\0';
	if (!r->period.node || !r->period.instance_type || !r->period.region)
		return error_nomem(err);
	r->period.currency = r->currency;
	r->period.price_source = "--price";
	r->period.price_nano_per_hour = r->price_nano;
	r->period.cost_nano =
		cap_cost_nano((wide)r->price_nano * p->covered_ns / NS_PER_HOUR, INT64_MAX);
	r->remaining_nano = r->period.cost_nano;
	return cost_summary_add_node(r->summary, &r->period, err);
}

int cost_reprice_end(struct cost_reprice *r, struct error *err)
{
	const struct usage_db_row rest = { .kind = USAGE_DB_UNALLOCATED,
		.gpu = r->idle_gpu,
		.cost_nano = r->remaining_nano };
	int got = 0;

	if (r->open && r->remaining_nano > 0)
		got = cost_summary_add(r->summary, &r->period, &rest, COST_ALL, err);
	cost_reprice_fini(r);
	return got;
}

int cost_summary_add_record(void *reprice, const struct usage_db_period *p,
	const struct usage_db_row *row, struct error *err)
{
	struct cost_reprice *r = reprice;
	struct usage_db_row now;

	if (r->price_nano < 0)
		return row ? cost_summary_add(r->summary, p, row, COST_ALL, err)
			   : cost_summary_add_node(r->summary, p, err);
	if (!row) {
		if (cost_reprice_end(r, err) < 0)
			return -1;
		return begin_repriced_period(r, p, err);
	}
	if (row->kind == USAGE_DB_UNALLOCATED)
		(void)snprintf(r->idle_gpu, sizeof(r->idle_gpu), "%s", row->gpu);
	now = *row;
	now.cost_nano = get_repriced_cost(r, row);
	r->remaining_nano -= now.cost_nano;
	return cost_summary_add(r->summary, &r->period, &now, COST_ALL, err);
}
