/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/text.h"

#include "cli/table.h"

/* What is paid for what: workloads, idle parts, interruptions. */

#define PERCENT 100.0

static double percent(int64_t part, int64_t whole)
{
	return whole ? PERCENT * (double)part / (double)whole : 0;
}

static void money_cell(struct table *t, int64_t nano)
{
	char money[PLAN_MONEY_MAX];

	table_add(t, nano >= 0 ? plan_money(nano, true, money) : "-");
}

static void workload_row(struct table *t, const struct plan_answer *a, size_t w)
{
	const struct outcome *o = &a->outcomes[w];

	table_add(t, a->in->workloads[w].name);
	table_addf(t, "%u", o->replicas);
	money_cell(t, o->nano_per_hour);
	money_cell(t, o->before_nano ? o->before_nano : -1);
	money_cell(t, outcome_million(o->nano_per_hour, o->rate));
	money_cell(t, outcome_million(o->before_nano, o->before_rate));
	if (o->lost_high < 0)
		table_add(t, "unknown");
	else if (o->lost_high > 0)
		table_addf(t, "%.3f to %.3f %%", o->lost_low * PERCENT, o->lost_high * PERCENT);
	else
		table_add(t, "-");
}

static void say_workloads(struct buf *b, const struct plan_answer *a)
{
	static const char *const heads[] = { "WORKLOAD", "REPLICAS", "PER HOUR", "A GPU EACH",
		"PER MILLION", "A GPU EACH", "LOST TO INTERRUPTIONS", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	size_t n = a->in->n_workloads;

	table_init(&t, heads);
	for (size_t w = 0; w < n && w < PLAN_ROWS_SHOWN; w++)
		workload_row(&t, a, w);
	buf_putc(b, '\n');
	table_print(&t, b);
	if (n > PLAN_ROWS_SHOWN)
		buf_puts(b, "(more in the JSON form)\n");
}

/* Of all requests together: it is the bill that counts, with what nobody uses. */
static void say_million(struct buf *b, const struct plan_answer *a)
{
	int64_t after = outcome_million(a->plan.nano_per_hour, a->money.rate);
	int64_t before = outcome_million(a->baseline.nano_per_hour, a->money.before_rate);
	char now[PLAN_MONEY_MAX], then[PLAN_MONEY_MAX];

	if (after < 0 || a->plan.n_left)
		return;
	buf_printf(b, "A million requests, of all kinds together, cost %s %s",
		plan_money(after, true, now), a->currency);
	if (before > 0)
		buf_printf(b, ", with a GPU each %s: %.1f %% %s",
			plan_money(before, true, then),
			percent(after < before ? before - after : after - before, before),
			after <= before ? "less" : "more");
	buf_puts(b, ".\n");
}

static void say_spot(struct buf *b, const struct plan_answer *a)
{
	const struct outcome_money *m = &a->money;
	char money[PLAN_MONEY_MAX];
	bool unknown = false, unsaid = false;

	if (!m->spot_nodes)
		return;
	for (size_t w = 0; w < a->in->n_workloads; w++) {
		const struct plan_workload *is = &a->in->workloads[w];

		unknown |= a->outcomes[w].lost_high < 0;
		unsaid |= is->spot_ok && is->restart_s + is->warmup_s <= 0;
	}
	buf_printf(b,
		"Spot: %llu of %zu nodes, %s an hour. The end of one takes up to %u replica%s of %u "
		"workload%s at once.",
		(unsigned long long)m->spot_nodes, a->plan.n_nodes,
		plan_money(m->spot_nano, true, money), m->blast_replicas,
		plan_plural(m->blast_replicas), m->blast_workloads,
		plan_plural(m->blast_workloads));
	if (unknown)
		buf_puts(b,
			" How often that is nobody has said: no prices with interruptions.");
	if (unsaid)
		buf_puts(b,
			" Without t_restart and t_warmup nothing is reckoned for starting again.");
	buf_putc(b, '\n');
}

void plan_text_money(struct buf *b, const struct plan_answer *a)
{
	char money[PLAN_MONEY_MAX];

	say_workloads(b, a);
	buf_putc(b, '\n');
	say_million(b, a);
	if (a->plan.nano_per_hour)
		buf_printf(b,
			"Idle: %s an hour, %.1f %% of the plan, is for parts of GPUs that "
			"nobody has.\n",
			plan_money(a->money.idle_nano, true, money),
			percent(a->money.idle_nano, a->plan.nano_per_hour));
	say_spot(b, a);
}
