/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a plan, and the plan as text. */
#include "tools/cli/plan/view/view.h"

#include "lib/base/text.h"
#include "tools/plan/answer/answer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* --- tables --- */

#define PERCENT 100.0

const char *plan_capacity(const struct plan_offer *o)
{
	return o->capacity == PLAN_SPOT ? "spot" : "on demand";
}

const char *plan_gpus_text(const struct plan_offer *o, char *buf)
{
	if (o->gpu_milli < 1000)
		(void)snprintf(buf, PLAN_GPUS_TEXT, "%u x %.3g of %s", o->gpus,
			o->gpu_milli / 1000.0, o->gpu->name);
	else
		(void)snprintf(buf, PLAN_GPUS_TEXT, "%u x %s", o->gpus, o->gpu->name);
	return buf;
}

double plan_saving(int64_t less, int64_t than)
{
	return than ? PERCENT * (double)(than - less) / (double)than : 0;
}

static int64_t get_table_month_nano(int64_t nano_per_hour)
{
	return nano_per_hour * ANSWER_HOURS_A_MONTH;
}

static void money_cell(struct table *t, int64_t nano)
{
	char money[PLAN_MONEY_MAX];

	table_add(t, nano >= 0 ? plan_money(nano, true, money) : "-");
}

/* --- the user's layout --- */

static void line_row(struct table *t, const char *what, const struct answer_line *l)
{
	table_add(t, what);
	table_addf(t, "%llu x %s, %s", (unsigned long long)l->nodes, l->offer->type,
		plan_capacity(l->offer));
	money_cell(t, l->nano_per_hour);
	money_cell(t, get_table_month_nano(l->nano_per_hour));
	table_add(t, "");
}

void plan_table_layout(struct table *t, const struct plan_answer *a)
{
	static const char *const heads[] = { "WHAT YOU HAVE IN MIND", "NODES", "PER HOUR",
		"PER MONTH", "SAVED", NULL };
	int64_t less = a->baseline.nano_per_hour - a->layout.nano_per_hour;
	char what[64];

	table_init(t, heads);
	line_row(t, "a GPU each", &a->baseline);
	(void)snprintf(what, sizeof(what), "%u slices of each GPU, %s", a->layout.slices,
		plan_mode_names[a->in->layout.mode]);
	line_row(t, what, &a->layout);
	table_add(t, less < 0 ? "more" : "saving");
	table_add(t, "");
	money_cell(t, llabs(less));
	money_cell(t, get_table_month_nano(llabs(less)));
	table_addf(t, "%.1f %%",
		plan_saving(a->layout.nano_per_hour, a->baseline.nano_per_hour));
}

void plan_table_lines(struct table *t, const struct plan_answer *a)
{
	static const char *const heads[] = { "CHEAPER THAN A GPU EACH", "PER HOUR", "SAVING",
		"HOLDS", NULL };

	table_init(t, heads);
	for (size_t i = 0; i < a->n_lines; i++) {
		const struct answer_line *l = &a->lines[i];
		CLEANUP(buf_fini) struct buf why = BUF_INIT(512);

		table_addf(t, "%llu x %s, %s%s", (unsigned long long)l->nodes, l->offer->type,
			plan_capacity(l->offer), l->slices > 1 ? ", sliced" : "");
		money_cell(t, l->nano_per_hour);
		table_addf(t, "%.0f %%",
			plan_saving(l->nano_per_hour, a->baseline.nano_per_hour));
		if (l->reason == PLAN_RHO)
			buf_printf(&why, "they ask for %.*f %% of the GPU's time",
				digits_to_differ(l->rho * PERCENT, PERCENT, 0),
				l->rho * PERCENT);
		else if (l->reason != PLAN_FITS)
			plan_format_reason(&why, a, l);
		if (l->reason != PLAN_FITS)
			table_addf(t, "no: %s", buf_str(&why));
		else
			table_add(t,
				plan_find_untimed(a) ? "yes; how fast is not known" : "yes");
	}
}

/* --- nodes --- */

static bool is_same_plan_node(const struct plan_node *a, const struct plan_node *b)
{
	if (a->offer != b->offer || a->mode != b->mode || a->slots != b->slots || a->n != b->n)
		return false;
	for (uint32_t i = 0; i < a->n; i++)
		if (a->tenants[i].workload != b->tenants[i].workload ||
			a->tenants[i].gpu != b->tenants[i].gpu)
			return false;
	return true;
}

size_t plan_kinds(const struct plan_answer *a, struct node_kind *ret, size_t room, size_t *more)
{
	size_t n = 0;

	*more = 0;
	for (size_t i = 0; i < a->plan.n_nodes; i++) {
		const struct plan_node *node = &a->plan.nodes[i];
		size_t k = 0;

		while (k < n && !is_same_plan_node(ret[k].node, node))
			k++;
		if (k < n)
			ret[k].count++;
		else if (n < room)
			ret[n++] = (struct node_kind){ node, 1 };
		else
			++*more;
	}
	return n;
}

/* "chat x3, embed": the workloads on a GPU of @n; "-": none. */
static void plan_format_tenants(struct buf *b, const struct plan_answer *a,
	const struct plan_node *n, uint32_t gpu)
{
	bool any = false;

	for (uint32_t i = 0; i < n->n; i++) {
		uint32_t count = 0;
		bool seen = false;

		if (!outcome_has_gpu(a, &n->tenants[i], gpu))
			continue;
		for (uint32_t k = 0; k < n->n; k++) {
			if (!outcome_has_gpu(a, &n->tenants[k], gpu) ||
				n->tenants[k].workload != n->tenants[i].workload)
				continue;
			seen = seen || k < i;
			count++;
		}
		if (seen)
			continue;
		buf_printf(b, "%s%s", any ? ", " : "",
			a->in->workloads[n->tenants[i].workload].name);
		if (count > 1)
			buf_printf(b, " x%u", count);
		any = true;
	}
	if (!any)
		buf_puts(b, "-");
}

/* The columns of a kind of node, in the row of its first GPU. */
static void kind_cells(struct table *t, const struct plan_answer *a, const struct node_kind *k)
{
	const struct plan_node *n = k->node;
	bool regions = a->in->regions.n > 1;
	char gpus[PLAN_GPUS_TEXT];

	table_addf(t, "%u", k->count);
	table_addf(t, "%s, %s%s%s", n->offer->type, plan_capacity(n->offer),
		regions ? ", " : "", regions ? n->offer->region : "");
	table_add(t, plan_gpus_text(n->offer, gpus));
	money_cell(t, n->offer->nano_per_hour);
	if (n->slots)
		table_addf(t, "%s, %u", plan_mode_names[n->mode], n->slots);
	else
		table_add(t, plan_mode_names[n->mode]);
}

static size_t plan_table_nodes(struct table *t, const struct plan_answer *a)
{
	static const char *const heads[] = { "NODES", "TYPE", "GPUS", "PER HOUR", "SHARED BY",
		"GPU", "WORKLOADS", NULL };
	struct node_kind kinds[PLAN_ROWS_SHOWN];
	size_t more, n = plan_kinds(a, kinds, ARRAY_LEN(kinds), &more);

	table_init(t, heads);
	for (size_t i = 0; i < n; i++) {
		for (uint32_t g = 0; g < kinds[i].node->offer->gpus; g++) {
			CLEANUP(buf_fini) struct buf who = BUF_INIT(4096);

			plan_format_tenants(&who, a, kinds[i].node, g);
			if (g == 0)
				kind_cells(t, a, &kinds[i]);
			for (int k = 0; g && k < 5; k++)
				table_add(t, "");
			table_addf(t, "%u", g);
			table_add(t, buf_str(&who));
		}
	}
	return more;
}

/* --- workloads --- */

static void add_time_cell(struct table *t, double s)
{
	if (!isfinite(s))
		table_add(t, "-");
	else if (s < 0.9995)
		table_addf(t, "%.1f ms", s * 1000);
	else
		table_addf(t, "%.2f s", s);
}

static void times_cells(struct table *t, const struct fit_times *is)
{
	add_time_cell(t, is->times.mean_s);
	add_time_cell(t, is->times.p50_s);
	add_time_cell(t, is->times.p99_s);
	table_addf(t, "%.2f", is->slowdown);
	table_addf(t, "%.2f/s", is->times.rate);
	table_addf(t, "%.0f %%", is->band * PERCENT);
	table_add(t, is->model);
}

size_t plan_table_times(struct table *t, const struct plan_answer *a)
{
	static const char *const heads[] = { "WORKLOAD", "SLOWEST ON", "MEAN", "P50", "P99",
		"SLOWDOWN", "RATE", "WITHIN", "MODEL", "TO KNOW BETTER, MEASURE", NULL };
	size_t n = a->in->n_workloads;

	table_init(t, heads);
	for (size_t w = 0; w < n && w < PLAN_ROWS_SHOWN; w++) {
		const struct plan_outcome *o = &a->outcomes[w];

		if (!o->worst)
			continue;
		table_add(t, a->in->workloads[w].name);
		table_addf(t, "%s, %s", o->worst->offer->gpu->name,
			plan_mode_names[o->worst->mode]);
		if (o->times.known)
			times_cells(t, &o->times);
		for (int k = 0; !o->times.known && k < 7; k++)
			table_add(t, "-");
		table_add(t, o->times.missing ? o->times.missing : "-");
	}
	return n > PLAN_ROWS_SHOWN ? n - PLAN_ROWS_SHOWN : 0;
}

static void pays_row(struct table *t, const struct plan_answer *a, size_t w)
{
	const struct plan_outcome *o = &a->outcomes[w];

	table_add(t, a->in->workloads[w].name);
	table_addf(t, "%u", o->replicas);
	money_cell(t, o->nano_per_hour);
	money_cell(t, o->before_nano ? o->before_nano : -1);
	money_cell(t, outcome_million(o->nano_per_hour, o->rate));
	money_cell(t, outcome_million(o->before_nano, o->before_rate));
	if (o->lost_high < 0)
		table_add(t, "unknown");
	else if (o->lost_high > 0 && o->lost_high * PERCENT < 0.001)
		table_add(t, "< 0.001 %");
	else if (o->lost_high > 0)
		table_addf(t, "%.3f to %.3f %%", o->lost_low * PERCENT, o->lost_high * PERCENT);
	else
		table_add(t, "-");
}

size_t plan_table_pays(struct table *t, const struct plan_answer *a)
{
	static const char *const heads[] = { "WORKLOAD", "REPLICAS", "PER HOUR",
		"HOUR, A GPU EACH", "PER MILLION", "MILLION, A GPU EACH",
		"LOST TO INTERRUPTIONS", NULL };
	size_t n = a->in->n_workloads;

	table_init(t, heads);
	for (size_t w = 0; w < n && w < PLAN_ROWS_SHOWN; w++)
		pays_row(t, a, w);
	return n > PLAN_ROWS_SHOWN ? n - PLAN_ROWS_SHOWN : 0;
}

/* --- prices --- */

static void price_row(struct table *t, const struct plan_offer *o)
{
	char low[PLAN_MONEY_MAX], high[PLAN_MONEY_MAX];
	struct price_parts parts;

	table_addf(t, "%s, %s", o->type, plan_capacity(o));
	table_add(t, o->region);
	money_cell(t, o->nano_per_hour);
	if (o->capacity == PLAN_SPOT)
		table_addf(t, "%s to %s", plan_money(o->low, true, low),
			plan_money(o->high, true, high));
	else
		table_add(t, "-");
	if (o->interrupt_high_milli)
		table_addf(t, "%.0f to %.0f %%", o->interrupt_low_milli / 10.0,
			o->interrupt_high_milli / 10.0);
	else
		table_add(t, "-");
	parts = price_opencost(o->nano_per_hour, o->vcpus, o->node_memory_mib, o->gpus);
	if (o->vcpus && o->node_memory_mib && o->nano_per_hour)
		table_addf(t, "%.0f %%",
			PERCENT * (double)parts.gpu * o->gpus / (double)o->nano_per_hour);
	else
		table_add(t, "-");
	table_addf(t, "%s%s%s", o->source, *o->stamp ? ", " : "", o->stamp);
}

static void extras_row(struct table *t, const char *what, int64_t instances,
	const struct extras *e)
{
	table_add(t, what);
	table_addf(t, "%llu", (unsigned long long)e->nodes);
	money_cell(t, instances);
	money_cell(t, e->cluster);
	money_cell(t, e->each_node);
	money_cell(t, e->share);
	money_cell(t, e->all);
	money_cell(t, get_table_month_nano(e->all));
}

void plan_table_extras(struct table *t, const struct plan_answer *a)
{
	static const char *const heads[] = { "WITH WHAT COMES BESIDE", "NODES", "INSTANCES",
		"CLUSTER", "EACH NODE", "SHARE OF ON DEMAND", "PER HOUR", "PER MONTH", NULL };
	struct extras e;

	table_init(t, heads);
	if (a->baseline.offer) {
		extras_of_line(a, &a->baseline, &e);
		extras_row(t, "a GPU each", a->baseline.nano_per_hour, &e);
	}
	if (a->layout.offer) {
		extras_of_line(a, &a->layout, &e);
		extras_row(t, "what you have in mind", a->layout.nano_per_hour, &e);
	}
	if (a->unsliced.n_nodes && !a->unsliced.n_unplaced) {
		extras_of_plan(a, &a->unsliced, &e);
		extras_row(t, "the cheapest without slicing", a->unsliced.nano_per_hour, &e);
	}
	extras_of_plan(a, &a->plan, &e);
	extras_row(t, "the plan", a->plan.nano_per_hour, &e);
}

/* Each offer once. Existing nodes have no price and are left out. */
size_t plan_table_prices(struct table *t, const struct plan_answer *a)
{
	static const char *const heads[] = { "PRICE OF", "REGION", "PER HOUR", "ZONES",
		"INTERRUPTED A MONTH", "GPU COST TO OPENCOST", "FROM", NULL };
	const struct plan_offer *seen[PLAN_ROWS_SHOWN];
	size_t n = 0, more = 0;

	table_init(t, heads);
	for (size_t i = 0; i < a->plan.n_nodes; i++) {
		const struct plan_offer *o = a->plan.nodes[i].offer;
		size_t k = 0;

		while (k < n && seen[k] != o)
			k++;
		if (k < n || !o->nano_per_hour)
			continue;
		if (n == ARRAY_LEN(seen)) {
			more++;
			continue;
		}
		seen[n++] = o;
		price_row(t, o);
	}
	return more;
}

/* --- the text --- */

static void add_plan_sentence(struct buf *b, const struct plan_answer *a,
	void (*say)(struct buf *b, const struct plan_answer *a))
{
	size_t before = b->len;

	say(b, a);
	if (b->len > before)
		buf_putc(b, '\n');
}

static void print_plan_table(struct buf *b, const struct table *t, size_t more)
{
	buf_putc(b, '\n');
	if (table_has_rows(t))
		table_print(t, b);
	if (more)
		buf_puts(b, "(more in the JSON form)\n");
}

static void print_plan_layout(struct buf *b, const struct plan_answer *a)
{
	CLEANUP(table_fini) struct table layout = { .columns = 0 }, lines = { .columns = 0 };
	CLEANUP(buf_fini) struct buf why = BUF_INIT(4096);

	plan_table_layout(&layout, a);
	print_plan_table(b, &layout, 0);
	plan_summary_layout(&why, a);
	if (why.len)
		buf_printf(b, "\n%s\n", buf_str(&why));
	plan_table_lines(&lines, a);
	if (table_has_rows(&lines))
		print_plan_table(b, &lines, 0);
}

static void print_plan_result(struct buf *b, const struct plan_answer *a)
{
	CLEANUP(table_fini) struct table nodes = { .columns = 0 };
	CLEANUP(table_fini) struct table times = { .columns = 0 };
	CLEANUP(table_fini) struct table pays = { .columns = 0 };
	CLEANUP(table_fini) struct table prices = { .columns = 0 };
	CLEANUP(table_fini) struct table extras = { .columns = 0 };
	size_t more = plan_table_nodes(&nodes, a);

	print_plan_table(b, &nodes, more);
	more = plan_table_times(&times, a);
	print_plan_table(b, &times, more);
	add_plan_sentence(b, a, plan_summary_confidence);
	more = plan_table_pays(&pays, a);
	print_plan_table(b, &pays, more);
	buf_putc(b, '\n');
	add_plan_sentence(b, a, plan_summary_per_million);
	add_plan_sentence(b, a, plan_summary_idle);
	add_plan_sentence(b, a, plan_summary_spot);
	if (extras_any(a)) {
		plan_table_extras(&extras, a);
		print_plan_table(b, &extras, 0);
	}
	more = plan_table_prices(&prices, a);
	if (table_has_rows(&prices))
		print_plan_table(b, &prices, more);
}

void plan_text(struct buf *b, const struct plan_answer *a)
{
	add_plan_sentence(b, a, plan_summary_stamp);
	if (a->layout.offer)
		print_plan_layout(b, a);
	buf_putc(b, '\n');
	add_plan_sentence(b, a, plan_summary_total);
	if (a->plan.n_nodes)
		print_plan_result(b, a);
	for (size_t i = 0; i < a->in->n_notes; i++) {
		const struct plan_note *n = &a->in->notes[i];

		buf_printf(b, "%s%s:%u: %s\n", i ? "" : "\nNOTES\n", n->file, n->line, n->text);
	}
	for (size_t i = 0; i < a->plan.n_unplaced; i++) {
		if (!i)
			buf_putc(b, '\n');
		plan_summary_unplaced(b, a, i);
		buf_putc(b, '\n');
	}
}
