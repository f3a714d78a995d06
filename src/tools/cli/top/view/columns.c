/* SPDX-License-Identifier: Apache-2.0 */
/* The cells of a row, the columns that have room, and numbers for narrow columns. */
#include "tools/cli/top/view/view.h"

#include "lib/base/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- numbers as text --- */

#define PERCENT    10000U  /* in millionths */
#define MONEY_STEP 100000U /* nano-units; value of the last digit shown */

static char *format_unknown_figure(char ret[FIGURE_MAX])
{
	(void)snprintf(ret, FIGURE_MAX, "-");
	return ret;
}

/* @n tenths, such as "7.5". From 100 on without the tenths, which do not fit the column. */
static void format_tenths(char ret[FIGURE_MAX], uint64_t n, const char *unit)
{
	if (n >= 1000)
		(void)snprintf(ret, FIGURE_MAX, "%" PRIu64 "%s", (n + 5) / 10, unit);
	else
		(void)snprintf(ret, FIGURE_MAX, "%" PRIu64 ".%" PRIu64 "%s", n / 10, n % 10,
			unit);
}

char *figure_percent(char ret[FIGURE_MAX], uint64_t millionths)
{
	if (millionths == TOP_UNKNOWN)
		return format_unknown_figure(ret);
	format_tenths(ret,
		millionths / (PERCENT / 10) + (millionths % (PERCENT / 10) >= PERCENT / 20),
		"%");
	return ret;
}

char *figure_whole_percent(char ret[FIGURE_MAX], uint64_t millionths)
{
	if (millionths == TOP_UNKNOWN)
		return format_unknown_figure(ret);
	(void)snprintf(ret, FIGURE_MAX, "%" PRIu64 "%%",
		millionths / PERCENT + (millionths % PERCENT >= PERCENT / 2));
	return ret;
}

char *figure_bytes(char ret[FIGURE_MAX], uint64_t bytes)
{
	static const char *const units[] = { "Ki", "Mi", "Gi", "Ti", "Pi", "Ei" };
	uint64_t kib_tenths;
	size_t i = 0;

	if (bytes == TOP_UNKNOWN)
		return format_unknown_figure(ret);
	if (bytes == 0) {
		(void)snprintf(ret, FIGURE_MAX, "0");
		return ret;
	}
	/* chooses the unit in which the number is below 1024; Mi and smaller need no tenths */
	for (kib_tenths = bytes / KIB * 10 + bytes % KIB * 10 / KIB;
		kib_tenths >= KIB * 10 && i + 1 < sizeof(units) / sizeof(units[0]); i++)
		kib_tenths /= KIB;
	if (i < 2)
		(void)snprintf(ret, FIGURE_MAX, "%" PRIu64 "%s", kib_tenths / 10, units[i]);
	else
		format_tenths(ret, kib_tenths, units[i]);
	return ret;
}

char *figure_mib(char ret[FIGURE_MAX], uint64_t bytes)
{
	if (bytes == TOP_UNKNOWN)
		(void)snprintf(ret, FIGURE_MAX, "N/A");
	else
		(void)snprintf(ret, FIGURE_MAX, "%" PRIu64 "MiB", bytes / MIB);
	return ret;
}

char *figure_count(char ret[FIGURE_MAX], uint64_t n)
{
	static const char *const units[] = { "", "k", "M", "G", "T", "P", "E" };
	size_t i = 0;

	if (n == TOP_UNKNOWN)
		return format_unknown_figure(ret);
	if (n < 100000) {
		(void)snprintf(ret, FIGURE_MAX, "%" PRIu64, n);
		return ret;
	}
	for (; n >= 1000000 && i + 2 < sizeof(units) / sizeof(units[0]); i++)
		n /= 1000;
	format_tenths(ret, n / 100, units[i + 1]);
	return ret;
}

char *figure_money(char ret[FIGURE_MAX], uint64_t nano)
{
	uint64_t steps;

	if (nano == TOP_UNKNOWN)
		return format_unknown_figure(ret);
	steps = nano / MONEY_STEP + (nano % MONEY_STEP >= MONEY_STEP / 2);
	(void)snprintf(ret, FIGURE_MAX, "%" PRIu64 ".%04" PRIu64, steps / 10000, steps % 10000);
	return ret;
}

char *figure_real(char ret[FIGURE_MAX], double value, const char *unit)
{
	if (isnan(value))
		(void)snprintf(ret, FIGURE_MAX, "N/A");
	else
		(void)snprintf(ret, FIGURE_MAX, "%.0f%s", fmin(fmax(value, -1e6), 1e6), unit);
	return ret;
}

#define CELL_MAX     300 /* bytes; a pod's name has at most 253 */
#define NARROW       60  /* below this width there is one blank between columns */
#define COLUMNS_MAX  24
#define NICE_TO_HAVE 9 /* from this rank on, columns go before names are cut */

struct cell {
	char text[CELL_MAX];
	enum canvas_style style;
};

#define IN_PODS   (1U << TOP_PODS)
#define IN_SLICES (1U << TOP_SLICES)
#define IN_GPUS   (1U << TOP_GPUS)
#define IN_BOARDS (1U << TOP_BOARDS)

struct top_column {
	const char *head;
	unsigned tables;
	unsigned rank; /* columns with the highest rank are left out first; 0: never */
	size_t min;    /* minimum width of a name, which may be cut; 0: never cut */
	size_t good;   /* of a name, until the columns from NICE_TO_HAVE on are left out */
	enum width_side side;
	enum top_sort sort; /* TOP_SORT_COUNT_: no sorting by this column */
	bool priced;        /* only if there is a price */
	void (*fill)(struct cell *ret, const struct top_row *r);
};

/* --- cells --- */

static void set_cell_text(struct cell *ret, const char *s)
{
	(void)snprintf(ret->text, sizeof(ret->text), "%s", *s ? s : "-");
}

static uint64_t widen_cell_figure(uint32_t v)
{
	return v == TOP_NONE ? TOP_UNKNOWN : v;
}

static void fill_gpu(struct cell *ret, const struct top_row *r)
{
	if (r->gpu->index == TOP_NONE)
		set_cell_text(ret, "");
	else if (r->device && *r->device->label)
		set_cell_text(ret, r->device->label);
	else
		(void)snprintf(ret->text, sizeof(ret->text), "%" PRIu32, r->gpu->index);
}

static void fill_gpu_name(struct cell *ret, const struct top_row *r)
{
	set_cell_text(ret, r->gpu->name);
}

static void fill_namespace(struct cell *ret, const struct top_row *r)
{
	set_cell_text(ret, r->usage ? r->usage->namespace_ : "");
}

static void fill_pod(struct cell *ret, const struct top_row *r)
{
	if (!r->usage)
		ret->style = CANVAS_DIM;
	set_cell_text(ret, r->usage ? r->usage->pod : top_row_is_free(r) ? "free" : "");
}

static void fill_container(struct cell *ret, const struct top_row *r)
{
	set_cell_text(ret, r->usage ? r->usage->container : "");
}

static void fill_mode(struct cell *ret, const struct top_row *r)
{
	set_cell_text(ret, r->usage ? r->usage->mode : r->device ? r->device->mode : "");
}

static void fill_profile(struct cell *ret, const struct top_row *r)
{
	set_cell_text(ret, r->device && r->device->mig ? r->device->profile : "");
}

static void fill_resource(struct cell *ret, const struct top_row *r)
{
	set_cell_text(ret, r->replica  ? r->replica->resource
			   : r->device ? r->device->resource
				       : "");
}

static void fill_replica(struct cell *ret, const struct top_row *r)
{
	(void)figure_count(ret->text, widen_cell_figure(r->replica->replica));
}

static void fill_replicas(struct cell *ret, const struct top_row *r)
{
	char used[FIGURE_MAX];

	if (!r->device)
		set_cell_text(ret, "");
	else
		(void)snprintf(ret->text, sizeof(ret->text), "%s/%" PRIu32,
			figure_count(used, widen_cell_figure(r->device->replicas_used)),
			r->device->n_replicas);
}

static void fill_share_cell(struct cell *ret, const struct top_row *r)
{
	(void)figure_percent(ret->text, top_row_share(r));
}

static void fill_allocated(struct cell *ret, const struct top_row *r)
{
	(void)figure_whole_percent(ret->text,
		widen_cell_figure(r->device ? r->device->allocated : r->gpu->allocated));
}

/* Bold: more than its share. That is allowed while other slices have no work. */
static void fill_received(struct cell *ret, const struct top_row *r)
{
	uint64_t got = top_row_received(r), share = top_row_share(r);

	if (got == 0)
		ret->style = CANVAS_DIM;
	else if (r->usage && got != TOP_UNKNOWN && share != TOP_UNKNOWN && got > share)
		ret->style = CANVAS_BOLD;
	(void)figure_percent(ret->text, got);
}

/* Warns above 85 % of the limit. Above 95 % the next allocation may be refused. */
static enum canvas_style get_memory_style(uint64_t used, uint64_t limit)
{
	if (used == TOP_UNKNOWN || limit == TOP_UNKNOWN || limit == 0)
		return CANVAS_PLAIN;
	if (used > limit / 100 * 95)
		return CANVAS_BAD;
	return used > limit / 100 * 85 ? CANVAS_WARN : CANVAS_PLAIN;
}

static void fill_memory(struct cell *ret, const struct top_row *r)
{
	ret->style = get_memory_style(top_row_memory(r), top_row_limit(r));
	(void)figure_bytes(ret->text, top_row_memory(r));
}

static void fill_limit(struct cell *ret, const struct top_row *r)
{
	(void)figure_bytes(ret->text, top_row_limit(r));
}

static void fill_peak(struct cell *ret, const struct top_row *r)
{
	(void)figure_bytes(ret->text, top_row_figures(r) ? r->usage->memory_peak : TOP_UNKNOWN);
}

static void fill_quanta(struct cell *ret, const struct top_row *r)
{
	(void)figure_count(ret->text, top_row_figures(r) ? r->usage->quanta : TOP_UNKNOWN);
}

static void fill_waits(struct cell *ret, const struct top_row *r)
{
	(void)figure_count(ret->text, top_row_figures(r) ? r->usage->waits : TOP_UNKNOWN);
}

static void fill_cost(struct cell *ret, const struct top_row *r)
{
	(void)figure_money(ret->text, top_row_cost(r));
}

static void fill_temperature(struct cell *ret, const struct top_row *r)
{
	(void)figure_real(ret->text, r->gpu->temperature, "C");
}

static void fill_power(struct cell *ret, const struct top_row *r)
{
	(void)figure_real(ret->text, r->gpu->power_watts, "W");
}

static void fill_mig(struct cell *ret, const struct top_row *r)
{
	set_cell_text(ret, top_mig_mode(r->gpu));
}

static void set_styled_cell(struct cell *ret, enum canvas_style style, const char *words)
{
	ret->style = style;
	set_cell_text(ret, words);
}

/* One or two words; the reason is shown with the GPU. */
static void set_health_cell(struct cell *ret, const char *health, const char *refused,
	bool present)
{
	if (!present)
		set_styled_cell(ret, CANVAS_BAD, "gone");
	else if (strcmp(health, "healthy") != 0)
		set_styled_cell(ret, CANVAS_BAD, *health ? health : "unknown");
	else if (*refused)
		set_styled_cell(ret, CANVAS_WARN, "refused");
	else
		set_styled_cell(ret, CANVAS_PLAIN, "healthy");
}

static void fill_health(struct cell *ret, const struct top_row *r)
{
	if (r->device)
		set_health_cell(ret, r->device->health, r->device->refused, r->gpu->present);
	else
		set_health_cell(ret, r->gpu->health, r->gpu->refused, r->gpu->present);
}

static void fill_xid(struct cell *ret, const struct top_row *r)
{
	if (r->gpu->last_xid != 0 && r->gpu->last_xid != TOP_NONE) {
		ret->style = CANVAS_WARN;
		(void)snprintf(ret->text, sizeof(ret->text), "%" PRIu32, r->gpu->last_xid);
	} else {
		set_cell_text(ret, "");
	}
}

/* The most important note about a row. */
static void fill_note(struct cell *ret, const struct top_row *r)
{
	const struct top_usage *u = r->usage;

	if (!*r->device->health)
		set_styled_cell(ret, CANVAS_WARN, "health unknown");
	else if (strcmp(r->device->health, "healthy") != 0 ||
		 (r->replica && !r->replica->healthy))
		set_styled_cell(ret, CANVAS_BAD, "unhealthy");
	else if (!u)
		set_cell_text(ret, "");
	else if (!u->live)
		set_styled_cell(ret, CANVAS_DIM, "ended");
	else if (u->over)
		set_styled_cell(ret, CANVAS_BAD, "over limit");
	else if (u->stuck)
		set_styled_cell(ret, CANVAS_BAD, "stuck");
	else if (!u->offered_now)
		set_styled_cell(ret, CANVAS_WARN, "old config");
	else if (!top_row_figures(r))
		set_cell_text(ret, "other seat");
	else if (u->demoted)
		set_styled_cell(ret, CANVAS_WARN, "demoted");
	else if (u->has_quantum)
		set_styled_cell(ret, CANVAS_GOOD, "on turn");
	else
		set_cell_text(ret, "");
}

#define L     WIDTH_LEFT
#define N     WIDTH_NAME
#define R     WIDTH_RIGHT
#define NEVER TOP_SORT_COUNT_

/* clang-format off */
static const struct top_column columns[] = {
	/* head        tables                rank min good side sort       priced fill */
	{ "GPU",       IN_PODS | IN_SLICES | IN_GPUS | IN_BOARDS,
	                                      0,  0,  0, L, TOP_BY_GPU,      false, fill_gpu },
	{ "NAME",      IN_BOARDS,             7, 10, 24, N, NEVER,           false, fill_gpu_name },
	{ "PROFILE",   IN_GPUS,               6,  0,  0, L, NEVER,           false, fill_profile },
	{ "RESOURCE",  IN_SLICES | IN_GPUS,   8, 12, 24, N, NEVER,           false, fill_resource },
	{ "SEAT",      IN_SLICES,             5,  0,  0, R, NEVER,           false, fill_replica },
	{ "NAMESPACE", IN_PODS | IN_SLICES,   6,  6, 12, N, TOP_BY_NAME,     false, fill_namespace },
	{ "POD",       IN_PODS | IN_SLICES,   0,  8, 28, N, TOP_BY_NAME,     false, fill_pod },
	{ "CONTAINER", IN_PODS | IN_SLICES,   9,  6, 10, N, TOP_BY_NAME,     false, fill_container },
	{ "MODE",      IN_PODS | IN_GPUS,     8,  0,  0, L, TOP_BY_MODE,     false, fill_mode },
	{ "TEMP",      IN_BOARDS,             3,  0,  0, R, NEVER,           false, fill_temperature },
	{ "POWER",     IN_BOARDS,             4,  0,  0, R, NEVER,           false, fill_power },
	{ "SEATS",     IN_GPUS,               4,  0,  0, R, NEVER,           false, fill_replicas },
	{ "SHARE",     IN_PODS | IN_SLICES,   3,  0,  0, R, TOP_BY_SHARE,    false, fill_share_cell },
	{ "HELD",      IN_GPUS | IN_BOARDS,   5,  0,  0, R, NEVER,           false, fill_allocated },
	{ "GOT",       IN_PODS | IN_SLICES,   0,  0,  0, R, TOP_BY_RECEIVED, false, fill_received },
	{ "UTIL",      IN_GPUS | IN_BOARDS,   0,  0,  0, R, TOP_BY_RECEIVED, false, fill_received },
	{ "MEMORY",    IN_PODS | IN_SLICES | IN_GPUS | IN_BOARDS,
	                                      1,  0,  0, R, TOP_BY_MEMORY,   false, fill_memory },
	{ "LIMIT",     IN_PODS | IN_SLICES,   5,  0,  0, R, TOP_BY_LIMIT,    false, fill_limit },
	{ "TOTAL",     IN_GPUS | IN_BOARDS,   5,  0,  0, R, TOP_BY_LIMIT,    false, fill_limit },
	{ "PEAK",      IN_PODS,              11,  0,  0, R, TOP_BY_PEAK,     false, fill_peak },
	{ "TURNS",     IN_PODS | IN_SLICES,  12,  0,  0, R, TOP_BY_QUANTA,    false, fill_quanta },
	{ "WAITS",     IN_PODS | IN_SLICES,  13,  0,  0, R, TOP_BY_WAITS,    false, fill_waits },
	{ "COST/H",    IN_PODS | IN_SLICES | IN_GPUS,
	                                      7,  0,  0, R, TOP_BY_COST,     true,  fill_cost },
	{ "MIG",       IN_BOARDS,             8,  0,  0, L, NEVER,           false, fill_mig },
	{ "XID",       IN_BOARDS,             6,  0,  0, R, NEVER,           false, fill_xid },
	{ "HEALTH",    IN_GPUS | IN_BOARDS,   2,  0,  0, L, NEVER,           false, fill_health },
	{ "NOTE",      IN_PODS | IN_SLICES,   4,  0,  0, L, NEVER,           false, fill_note },
};
/* clang-format on */

/* --- selection and width --- */

struct layout {
	const struct top_column *columns[COLUMNS_MAX];
	size_t natural[COLUMNS_MAX], width[COLUMNS_MAX];
	size_t n, gap;
};

static size_t measure_widest_cell(const struct top_column *column, const struct top_rows *rows,
	size_t first, size_t n, bool utf8)
{
	size_t widest = strlen(column->head);

	for (size_t i = first; i < first + n; i++) {
		struct cell cell = { .style = CANVAS_PLAIN };
		size_t width;

		column->fill(&cell, &rows->v[i]);
		width = width_measure_text(cell.text, utf8);
		if (width > widest)
			widest = width;
	}
	return widest;
}

/* Sets names to their good width, or to their minimum. */
static void narrow_columns(struct layout *l, bool good)
{
	for (size_t i = 0; i < l->n; i++) {
		size_t min = good ? l->columns[i]->good : l->columns[i]->min;

		l->width[i] = min && min < l->natural[i] ? min : l->natural[i];
	}
}

static size_t get_layout_width(const struct layout *l)
{
	size_t total = l->n ? (l->n - 1) * l->gap : 0;

	for (size_t i = 0; i < l->n; i++)
		total += l->width[i];
	return total;
}

/* Leaves out the column of the highest rank, if that is at least @rank. */
static bool leave_one_out(struct layout *l, unsigned rank)
{
	size_t worst = 0;

	for (size_t i = 1; i < l->n; i++) {
		if (l->columns[i]->rank > l->columns[worst]->rank)
			worst = i;
	}
	if (l->n == 0 || l->columns[worst]->rank < rank)
		return false;
	l->n--;
	for (size_t i = worst; i < l->n; i++) {
		l->columns[i] = l->columns[i + 1];
		l->natural[i] = l->natural[i + 1];
		l->width[i] = l->width[i + 1];
	}
	return true;
}

/* Widens the narrowest name that is cut by one column of the screen. */
static bool widen_one(struct layout *l)
{
	size_t best = l->n;

	for (size_t i = 0; i < l->n; i++) {
		if (l->width[i] < l->natural[i] &&
			(best == l->n || l->width[i] < l->width[best]))
			best = i;
	}
	if (best == l->n)
		return false;
	l->width[best]++;
	return true;
}

static void lay_out(struct layout *l, const struct canvas *c, const struct top_rows *rows,
	size_t first, size_t n, const struct columns_options *style)
{
	*l = (struct layout){ .gap = c->width < NARROW ? 1 : 2 };
	for (size_t i = 0; i < ARRAY_LEN(columns) && l->n < COLUMNS_MAX; i++) {
		if ((columns[i].tables & 1U << style->table) &&
			(style->priced || !columns[i].priced))
			l->columns[l->n++] = &columns[i];
	}
	for (size_t i = 0; i < l->n; i++)
		l->natural[i] = measure_widest_cell(l->columns[i], rows, first, n, c->utf8);
	narrow_columns(l, true);
	while (get_layout_width(l) > c->width && leave_one_out(l, NICE_TO_HAVE))
		;
	narrow_columns(l, false);
	while (get_layout_width(l) > c->width && leave_one_out(l, 1))
		;
	for (size_t left = get_layout_width(l); left < c->width && widen_one(l); left++)
		;
}

/* --- drawing --- */

static void draw_row(struct canvas *c, const struct layout *l, const struct top_row *r)
{
	bool over = r->usage && !r->usage->live;

	for (size_t i = 0; i < l->n; i++) {
		struct cell cell = { .style = CANVAS_PLAIN };

		l->columns[i]->fill(&cell, r);
		if (i)
			canvas_cell(c, CANVAS_PLAIN, "", l->gap, WIDTH_LEFT);
		canvas_cell(c, over ? CANVAS_DIM : cell.style, cell.text, l->width[i],
			l->columns[i]->side);
	}
	canvas_end_line(c);
}

void columns_draw(struct canvas *c, const struct top_rows *rows, size_t first, size_t n,
	const struct columns_options *style)
{
	struct layout l;

	if (first > rows->n)
		first = rows->n;
	if (n > rows->n - first)
		n = rows->n - first;
	lay_out(&l, c, rows, first, n, style);
	for (size_t i = 0; i < l.n; i++) {
		bool sorted = l.columns[i]->sort == style->sort;

		if (i)
			canvas_cell(c, CANVAS_HEAD, "", l.gap, WIDTH_LEFT);
		canvas_cell(c, sorted ? CANVAS_SORTED : CANVAS_HEAD, l.columns[i]->head,
			l.width[i], l.columns[i]->side);
	}
	canvas_fill(c, CANVAS_HEAD, ' ');
	canvas_end_line(c);
	for (size_t i = first; i < first + n; i++)
		draw_row(c, &l, &rows->v[i]);
}
