/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/text.h"

#include "cli/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *capacity(const struct plan_offer *o)
{
	return o->capacity == PLAN_SPOT ? "spot" : "on demand";
}

static double saving(int64_t less, int64_t than)
{
	return than ? 100.0 * (double)(than - less) / (double)than : 0;
}

static int64_t month(int64_t nano_per_hour)
{
	return nano_per_hour * ANSWER_HOURS_A_MONTH;
}

/* ---- the prices ---------------------------------------------------------------------------------------- */

static void say_stamp(struct buf *b, const struct plan_answer *a)
{
	const struct plan_offer *o = a->n_offers ? &a->offers[0] : NULL;

	buf_printf(b, "%llu replica%s of %zu workload%s. Region%s",
		(unsigned long long)a->replicas, plan_plural(a->replicas), a->in->n_workloads,
		plan_plural(a->in->n_workloads), plan_plural(a->in->regions.n));
	for (size_t i = 0; i < a->in->regions.n; i++)
		buf_printf(b, "%s %s", i ? "," : "", a->in->regions.v[i]);
	if (o)
		buf_printf(b, "; prices in %s an hour of %s, %s", a->currency,
			*o->stamp ? o->stamp : "an unknown day", o->source);
	buf_putc(b, '\n');
}

/* ---- what the user has in mind ----------------------------------------------------------------------------- */

static void line_row(struct table *t, const char *what, const struct answer_line *l)
{
	char money[PLAN_MONEY_MAX];

	table_add(t, what);
	table_addf(t, "%llu x %s, %s", (unsigned long long)l->nodes, l->offer->type,
		capacity(l->offer));
	table_add(t, plan_money(l->nano_per_hour, true, money));
	table_add(t, plan_money(month(l->nano_per_hour), true, money));
	table_add(t, "");
}

static void say_layout(struct buf *b, const struct plan_answer *a)
{
	static const char *const heads[] = { "WHAT YOU HAVE IN MIND", "NODES", "PER HOUR",
		"PER MONTH", "", NULL };
	int64_t less = a->baseline.nano_per_hour - a->layout.nano_per_hour;
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	char what[64], money[PLAN_MONEY_MAX];

	buf_putc(b, '\n');
	table_init(&t, heads);
	line_row(&t, "a GPU each", &a->baseline);
	(void)snprintf(what, sizeof(what), "%u slices of each GPU, %s", a->layout.slices,
		plan_mode_names[a->in->layout.mode]);
	line_row(&t, what, &a->layout);
	table_add(&t, less < 0 ? "more" : "saving");
	table_add(&t, "");
	table_add(&t, plan_money(llabs(less), true, money));
	table_add(&t, plan_money(month(llabs(less)), true, money));
	table_addf(&t, "%.1f %%", saving(a->layout.nano_per_hour, a->baseline.nano_per_hour));
	table_print(&t, b);
	if (a->baseline.reason != PLAN_FITS) {
		buf_puts(b, "\nA GPU each does not hold: ");
		plan_why_not(b, a, &a->baseline);
		buf_puts(b, ".\n");
	}
	if (a->layout.reason != PLAN_FITS) {
		buf_puts(b, "\nBut it does not hold: ");
		plan_why_not(b, a, &a->layout);
		buf_puts(b, ".\n");
	}
}

static void say_lines(struct buf *b, const struct plan_answer *a)
{
	static const char *const heads[] = { "CHEAPER THAN A GPU EACH", "PER HOUR", "SAVING",
		"HOLDS", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };

	if (!a->n_lines)
		return;
	buf_putc(b, '\n');
	table_init(&t, heads);
	for (size_t i = 0; i < a->n_lines; i++) {
		const struct answer_line *l = &a->lines[i];
		CLEANUP(buf_fini) struct buf why = BUF_INIT(512);
		char money[PLAN_MONEY_MAX];

		table_addf(&t, "%llu x %s, %s%s", (unsigned long long)l->nodes, l->offer->type,
			capacity(l->offer), l->slices > 1 ? ", sliced" : "");
		table_add(&t, plan_money(l->nano_per_hour, true, money));
		table_addf(&t, "%.0f %%", saving(l->nano_per_hour, a->baseline.nano_per_hour));
		if (l->reason == PLAN_RHO)
			buf_printf(&why, "they ask for %.0f %% of the GPU's time",
				l->rho * 100);
		else if (l->reason != PLAN_FITS)
			plan_why_not(&why, a, l);
		table_addf(&t, "%s%s", l->reason == PLAN_FITS ? "yes" : "no: ", buf_str(&why));
	}
	table_print(&t, b);
}

/* ---- the plan -------------------------------------------------------------------------------------------------- */

/* Compared with a GPU each, and with the best of whole GPUs: where all have a place in both. */
static void say_compared(struct buf *b, const struct plan_answer *a)
{
	const struct pack_result *r = &a->plan;
	char other[PLAN_MONEY_MAX];

	if (a->baseline.offer && a->baseline.reason == PLAN_FITS)
		buf_printf(b, " A GPU each on %llu x %s: %s an hour, the plan is %.1f %% less.",
			(unsigned long long)a->baseline.nodes, a->baseline.offer->type,
			plan_money(a->baseline.nano_per_hour, true, other),
			saving(r->nano_per_hour, a->baseline.nano_per_hour));
	if (a->unsliced.n_nodes && !a->unsliced.n_left)
		buf_printf(b,
			" The cheapest without slicing: %s an hour, the plan is %.1f %% less.",
			plan_money(a->unsliced.nano_per_hour, true, other),
			saving(r->nano_per_hour, a->unsliced.nano_per_hour));
	if (r->exact)
		buf_puts(b, " Nothing is cheaper: all ways were tried.");
	else if (r->bound_nano)
		buf_printf(b, " No plan costs less than %s an hour (gap %.1f %%).",
			plan_money(r->bound_nano, true, other),
			saving(r->bound_nano, r->nano_per_hour));
}

static void say_sum(struct buf *b, const struct plan_answer *a)
{
	const struct pack_result *r = &a->plan;
	char hour[PLAN_MONEY_MAX], each_month[PLAN_MONEY_MAX];

	buf_printf(b, "\nThe plan: %zu node%s, %s %s an hour, %s a month.", r->n_nodes,
		plan_plural(r->n_nodes), plan_money(r->nano_per_hour, true, hour), a->currency,
		plan_money(month(r->nano_per_hour), true, each_month));
	if (r->n_left)
		buf_puts(b, " Not all have a place: see the end.");
	else
		say_compared(b, a);
	if (r->stopped)
		buf_puts(b, " Interrupted: there may be a better one.");
	buf_putc(b, '\n');
}

static void say_tenants(struct buf *b, const struct plan_answer *a, const struct plan_node *n,
	uint32_t gpu)
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

static bool same_node(const struct plan_node *a, const struct plan_node *b)
{
	if (a->offer != b->offer || a->mode != b->mode || a->slots != b->slots || a->n != b->n)
		return false;
	for (uint32_t i = 0; i < a->n; i++)
		if (a->tenants[i].workload != b->tenants[i].workload ||
			a->tenants[i].gpu != b->tenants[i].gpu)
			return false;
	return true;
}

static void say_nodes(struct buf *b, const struct plan_answer *a)
{
	static const char *const heads[] = { "NODES", "TYPE", "GPUS", "PER HOUR", "SHARED BY",
		"GPU", "WORKLOADS", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	size_t shown = 0;

	table_init(&t, heads);
	for (size_t i = 0; i < a->plan.n_nodes && shown < PLAN_ROWS_SHOWN; i++) {
		const struct plan_node *n = &a->plan.nodes[i];
		uint32_t count = 1;
		bool seen = false;

		for (size_t k = 0; k < i && !seen; k++)
			seen = same_node(&a->plan.nodes[k], n);
		if (seen)
			continue;
		for (size_t k = i + 1; k < a->plan.n_nodes; k++)
			count += same_node(&a->plan.nodes[k], n);
		for (uint32_t g = 0; g < n->offer->gpus; g++) {
			CLEANUP(buf_fini) struct buf who = BUF_INIT(4096);
			char money[PLAN_MONEY_MAX];

			say_tenants(&who, a, n, g);
			if (g == 0) {
				table_addf(&t, "%u", count);
				table_addf(&t, "%s, %s%s%s", n->offer->type, capacity(n->offer),
					a->in->regions.n > 1 ? ", " : "",
					a->in->regions.n > 1 ? n->offer->region : "");
				table_addf(&t, "%u x %s", n->offer->gpus, n->offer->gpu->name);
				table_add(&t, plan_money(n->offer->nano_per_hour, true, money));
				if (n->slots)
					table_addf(&t, "%s, %u", plan_mode_names[n->mode],
						n->slots);
				else
					table_add(&t, plan_mode_names[n->mode]);
			} else {
				for (int k = 0; k < 5; k++)
					table_add(&t, "");
			}
			table_addf(&t, "%u", g);
			table_add(&t, buf_str(&who));
		}
		shown++;
	}
	buf_putc(b, '\n');
	table_print(&t, b);
	if (shown == PLAN_ROWS_SHOWN)
		buf_puts(b, "(more in the JSON form)\n");
}

static void time_cell(struct table *t, double s)
{
	if (!isfinite(s))
		table_add(t, "-");
	else if (s < 0.9995)
		table_addf(t, "%.1f ms", s * 1000);
	else
		table_addf(t, "%.2f s", s);
}

static void say_times(struct buf *b, const struct plan_answer *a)
{
	static const char *const heads[] = { "WORKLOAD", "ON", "MEAN", "P50", "P99", "SLOWDOWN",
		"RATE", "WITHIN", "MODEL", "TO KNOW BETTER, MEASURE", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	uint32_t n = (uint32_t)a->in->n_workloads;

	table_init(&t, heads);
	for (uint32_t w = 0; w < n && w < PLAN_ROWS_SHOWN; w++) {
		const struct outcome *o = &a->outcomes[w];
		const struct fit_times *is = &o->times;

		if (!o->worst)
			continue;
		table_add(&t, a->in->workloads[w].name);
		table_addf(&t, "%s, %s", o->worst->offer->gpu->name,
			plan_mode_names[o->worst->mode]);
		if (is->known) {
			time_cell(&t, is->times.mean_s);
			time_cell(&t, is->times.p50_s);
			time_cell(&t, is->times.p99_s);
			table_addf(&t, "%.2f", is->slowdown);
			table_addf(&t, "%.2f/s", is->times.rate);
			table_addf(&t, "%.0f %%", is->band * 100);
			table_add(&t, is->model);
		} else {
			for (int k = 0; k < 7; k++)
				table_add(&t, "-");
		}
		table_add(&t, is->missing ? is->missing : "-");
	}
	buf_putc(b, '\n');
	if (table_has_rows(&t))
		table_print(&t, b);
	if (n > PLAN_ROWS_SHOWN)
		buf_puts(b, "(more in the JSON form)\n");
}

static void say_left(struct buf *b, const struct plan_answer *a)
{
	for (size_t i = 0; i < a->plan.n_left; i++) {
		const struct pack_left *l = &a->plan.left[i];
		const struct plan_workload *w = &a->in->workloads[l->workload];

		buf_printf(b, "%s%s:%u: no place for %u of '%s': %s\n", i ? "" : "\n", w->file,
			w->line, l->replicas, w->name,
			l->reason == PLAN_PRICE_UNKNOWN
				? "no such node may be had (spot_ok, nodes)"
				: plan_reason_names[l->reason]);
	}
}

void plan_text(struct buf *b, const struct plan_answer *a)
{
	say_stamp(b, a);
	if (a->layout.offer) {
		say_layout(b, a);
		say_lines(b, a);
	}
	say_sum(b, a);
	if (a->plan.n_nodes) {
		say_nodes(b, a);
		say_times(b, a);
		plan_text_money(b, a);
	}
	say_left(b, a);
}
