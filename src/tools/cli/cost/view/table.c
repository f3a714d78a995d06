/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of `gpuslice cost` as a table (view.h). */
#include "tools/cli/cost/view/view.h"

#include "io/price/price.h"
#include "lib/base/time.h"
#include "lib/report/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- cells --- */

#define NANO_HOUR_NS 3600 /* nanoseconds in a billionth of an hour */

const char *cost_hours(int64_t ns, unsigned decimals, char *buf)
{
	int64_t unit = NANO_HOUR_NS, v;

	if (decimals >= 9)
		return price_text(ns / NANO_HOUR_NS, 0, buf);
	for (unsigned i = decimals; i < 9; i++)
		unit *= 10;
	v = ns / unit + (ns % unit >= unit / 2);
	for (unsigned i = decimals; i < 9; i++)
		v *= 10;
	return price_text(v, decimals, buf);
}

/* --- the table --- */

/* `gpuslice cost` as a table. */

#define HOUR_DECIMALS  2
#define MONEY_DECIMALS 4 /* minimum; all significant digits are shown */
#define COLUMNS_MAX    12

static const char *const name_heads[][4] = {
	[COST_BY_NAMESPACE] = { "NAMESPACE" },
	[COST_BY_POD] = { "NAMESPACE", "POD" },
	[COST_BY_CONTAINER] = { "NAMESPACE", "POD", "CONTAINER" },
	[COST_BY_GPU] = { "GPU" },
	[COST_BY_MODE] = { "MODE" },
	[COST_BY_CHARGE] = { "NAMESPACE", "POD", "CONTAINER" },
};

static const char *const number_heads[] = { "HELD HOURS", "GPU HOURS", "USED GPU HOURS", "USED",
	"COST", "CURRENCY" };

static size_t count_names(enum cost_by by)
{
	size_t n = 0;

	while (n < 4 && name_heads[by][n])
		n++;
	return n;
}

/* @instead ("(idle)", "total") fills the first name column of a line without names. */
static void add_cost_names(struct table *t, enum cost_by by, const struct cost_line *l,
	const char *instead)
{
	const struct usage_db_row *r = &l->row;
	const char *names[] = { r->namespace_, r->pod, r->container };

	if (by == COST_BY_GPU)
		names[0] = r->gpu;
	else if (by == COST_BY_MODE)
		names[0] = r->mode;
	for (size_t i = 0; i < count_names(by); i++) {
		if (instead && (i > 0 || by != COST_BY_GPU || !names[0] || !*names[0]))
			table_add(t, i ? "" : instead);
		else if (instead)
			table_addf(t, "%s %s", names[0], instead);
		else
			table_add(t, *names[i] ? names[i] : "(unknown)");
	}
}

static void add_hours(struct table *t, bool known, int64_t ns)
{
	char text[COST_HOURS_MAX];

	table_add(t, known ? cost_hours(ns, HOUR_DECIMALS, text) : "-");
}

static void add_used(struct table *t, const struct cost_line *l)
{
	const struct usage_db_row *r = &l->row;
	bool known = (l->parts & COST_BUSY) && !(r->busy_unknown && r->busy_ns == 0);
	bool of_known = (cost_line_is_known(l) & COST_GPU) && r->gpu_ns > 0;
	const char *at_least = r->busy_unknown ? ">=" : "";
	char text[COST_HOURS_MAX];

	if (!known) {
		table_add(t, "-");
		table_add(t, "-");
		return;
	}
	table_addf(t, "%s%s", at_least, cost_hours(r->busy_ns, HOUR_DECIMALS, text));
	if (of_known)
		table_addf(t, "%s%.1f%%", at_least,
			100.0 * (double)r->busy_ns / (double)r->gpu_ns);
	else
		table_add(t, "-");
}

static void add_cost_numbers(struct table *t, const struct cost_line *l, bool idle)
{
	unsigned known = cost_line_is_known(l);
	bool priced = (known & COST_MONEY) && *l->period.currency;
	char text[PRICE_TEXT_MAX];

	add_hours(t, !idle && (known & COST_ALLOCATED), l->row.allocated_ns);
	add_hours(t, known & COST_GPU, l->row.gpu_ns);
	if (idle) {
		table_add(t, "-");
		table_add(t, "-");
	} else {
		add_used(t, l);
	}
	table_add(t, priced ? price_text(l->row.cost_nano, MONEY_DECIMALS, text) : "-");
	table_add(t, priced ? l->period.currency : "-");
}

static void add_lines(struct table *t, const struct cost_print *p, enum usage_db_kind kind)
{
	size_t n;
	const struct cost_line *const *lines = cost_summary_lines(p->summary, &n);

	for (size_t i = 0; i < n; i++) {
		if (lines[i]->row.kind != kind)
			continue;
		add_cost_names(t, p->by, lines[i],
			kind == USAGE_DB_UNALLOCATED ? "(idle)" : NULL);
		add_cost_numbers(t, lines[i], kind == USAGE_DB_UNALLOCATED);
	}
}

static int add_totals(struct table *t, const struct cost_print *p, struct error *err)
{
	const char *currency;

	for (size_t i = 0; (currency = cost_summary_currency(p->summary, i)) != NULL; i++) {
		struct cost_line total;

		if (cost_summary_total(p->summary, currency, &total, err) < 0)
			return -1;
		total.row.gpu = "";
		add_cost_names(t, p->by, &total, "total");
		add_cost_numbers(t, &total, false);
	}
	return 0;
}

static void print_cost_node(struct buf *b, const struct usage_db_period *n)
{
	char price[PRICE_TEXT_MAX], age[TIME_AGE_MAX], begin[TIME_RFC3339_MAX],
		end[TIME_RFC3339_MAX];

	table_text(b, *n->node ? n->node : "this node");
	if (*n->instance_type) {
		buf_puts(b, ", ");
		table_text(b, n->instance_type);
	}
	if (*n->region) {
		buf_puts(b, " in ");
		table_text(b, n->region);
	}
	buf_printf(b, ", %" PRIu32 " GPU%s: ", n->gpus, n->gpus == 1 ? "" : "s");
	if (*n->currency) {
		buf_printf(b, "%s ", price_text(n->price_nano_per_hour, 2, price));
		table_text(b, n->currency);
		buf_puts(b, " per hour (");
		table_text(b, n->price_source);
		buf_puts(b, ")");
	} else {
		buf_puts(b, "price unknown (--price gives one)");
	}
	time_age((uint64_t)n->covered_ns, age);
	buf_printf(b, ", %s accounted from %s to %s\n", age, cost_time_text(n->start_s, begin),
		cost_time_text(n->end_s, end));
}

static void print_cost_head(struct buf *b, const struct cost_print *p)
{
	char from[TIME_RFC3339_MAX], to[TIME_RFC3339_MAX];
	size_t n;
	const struct cost_node *nodes = cost_summary_nodes(p->summary, &n);

	buf_printf(b, "%s to %s%s\n", cost_time_text(p->from_s, from),
		cost_time_text(p->to_s, to),
		p->estimated ? ", as Prometheus estimates it" : "");
	for (size_t i = 0; i < n; i++)
		print_cost_node(b, &nodes[i].period);
	buf_putc(b, '\n');
}

int cost_print_table(struct buf *b, const struct cost_print *p, struct error *err)
{
	const char *heads[COLUMNS_MAX] = { NULL };
	size_t names = count_names(p->by), lines;
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	int r;

	for (size_t i = 0; i < names; i++)
		heads[i] = name_heads[p->by][i];
	for (size_t i = 0; i < ARRAY_LEN(number_heads); i++)
		heads[names + i] = number_heads[i];
	print_cost_head(b, p);
	(void)cost_summary_lines(p->summary, &lines);
	if (lines == 0) {
		buf_puts(b, "Nothing was accounted in that time.\n");
		return buf_ok(b) ? 0 : error_nomem(err);
	}
	table_init(&t, heads);
	add_lines(&t, p, USAGE_DB_ALLOCATED);
	add_lines(&t, p, USAGE_DB_UNALLOCATED);
	r = add_totals(&t, p, err);
	table_print(&t, b);
	if (r < 0)
		return -1;
	return buf_ok(b) ? 0 : error_nomem(err);
}
