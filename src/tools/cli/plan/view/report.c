/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a plan's report: costs, nodes, and what is not placed (view.h). page.h has the forms. */
#include "tools/cli/plan/view/view.h"

#include "tools/plan/answer/answer.h"

#include <stdio.h>

#define TEXT_MAX  8192
#define LABEL_MAX 192
#define BARS_MAX  6

struct plan_report_writer {
	struct buf *b;
	const struct plan_answer *a;
	const struct page_form *form;
};

/* --- texts and tables --- */

static void add_report_paragraph(const struct plan_report_writer *r,
	void (*say)(struct buf *b, const struct plan_answer *a))
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);

	say(&text, r->a);
	if (text.len)
		r->form->paragraph(r->b, buf_str(&text));
}

static void add_report_table(const struct plan_report_writer *r,
	size_t (*fill)(struct table *t, const struct plan_answer *a))
{
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	size_t more = fill(&t, r->a);

	if (table_has_rows(&t))
		r->form->table(r->b, &t);
	if (more)
		r->form->paragraph(r->b, "There are more; all are in the JSON form.");
}

/* --- money --- */

static void format_report_money(char *buf, size_t size, const struct plan_answer *a,
	int64_t nano, const char *each)
{
	char money[PLAN_MONEY_MAX];

	(void)snprintf(buf, size, "%s %s%s", plan_money(nano, true, money), a->currency, each);
}

static void add_report_tiles(const struct plan_report_writer *r)
{
	const struct plan_answer *a = r->a;
	char hour[LABEL_MAX], month[LABEL_MAX], saving[LABEL_MAX], nodes[LABEL_MAX],
		idle[LABEL_MAX];
	bool compared =
		a->baseline.offer && a->baseline.reason == PLAN_FITS && !a->plan.n_unplaced;
	const struct page_tile all[] = { { "an hour", hour }, { "a month", month },
		{ "less than a GPU each", saving }, { "nodes", nodes },
		{ "of it for parts that nobody has", idle } };

	format_report_money(hour, sizeof(hour), a, a->plan.nano_per_hour, "");
	format_report_money(month, sizeof(month), a,
		a->plan.nano_per_hour * ANSWER_HOURS_A_MONTH, "");
	(void)snprintf(saving, sizeof(saving), "-");
	if (compared)
		(void)snprintf(saving, sizeof(saving), "%.1f %%",
			plan_saving(a->plan.nano_per_hour, a->baseline.nano_per_hour));
	(void)snprintf(nodes, sizeof(nodes), "%zu", a->plan.n_nodes);
	(void)snprintf(idle, sizeof(idle), "%.0f %%",
		a->plan.nano_per_hour
			? 100.0 * (double)a->money.idle_nano / (double)a->plan.nano_per_hour
			: 0.0);
	r->form->tiles(r->b, all, ARRAY_LEN(all));
}

/* Bars, and the texts that they point to. */
struct plan_bars {
	const struct plan_answer *a;
	struct page_bar v[BARS_MAX];
	char label[BARS_MAX][LABEL_MAX], amount[BARS_MAX][LABEL_MAX];
	size_t n;
};

static void add_report_bar(struct plan_bars *s, int64_t nano, enum bar_kind kind)
{
	format_report_money(s->amount[s->n], LABEL_MAX, s->a, nano, "");
	s->v[s->n] = (struct page_bar){ s->label[s->n], s->amount[s->n], (double)nano, kind };
	s->n++;
}

static void line_bar(struct plan_bars *s, const char *what, const struct answer_line *l)
{
	char slices[LABEL_MAX] = "";

	if (l->slices > 1)
		(void)snprintf(slices, sizeof(slices), ", %u slices of each GPU", l->slices);
	(void)snprintf(s->label[s->n], LABEL_MAX, "%s: %llu x %s, %s%s%s", what,
		(unsigned long long)l->nodes, l->offer->type, plan_capacity(l->offer), slices,
		l->reason == PLAN_FITS ? "" : " (does not hold)");
	add_report_bar(s, l->nano_per_hour, l->reason == PLAN_FITS ? BAR_PLAIN : BAR_BROKEN);
}

static void cost_bars(const struct plan_report_writer *r)
{
	const struct plan_answer *a = r->a;
	struct plan_bars s = { .a = a };

	if (a->baseline.offer)
		line_bar(&s, "A GPU each", &a->baseline);
	if (a->layout.offer)
		line_bar(&s, "What you have in mind", &a->layout);
	if (a->unsliced.n_nodes && !a->unsliced.n_unplaced) {
		(void)snprintf(s.label[s.n], LABEL_MAX, "The cheapest without slicing");
		add_report_bar(&s, a->unsliced.nano_per_hour, BAR_PLAIN);
	}
	(void)snprintf(s.label[s.n], LABEL_MAX, "The plan%s",
		a->plan.n_unplaced ? " (not all have a place)" : "");
	add_report_bar(&s, a->plan.nano_per_hour, a->plan.n_unplaced ? BAR_BROKEN : BAR_PLAN);
	if (!a->plan.exact && a->plan.bound_nano && !a->plan.n_unplaced) {
		(void)snprintf(s.label[s.n], LABEL_MAX, "No plan costs less than");
		add_report_bar(&s, a->plan.bound_nano, BAR_PLAIN);
	}
	r->form->heading(r->b, "What it costs an hour");
	r->form->bars(r->b, s.v, s.n);
	add_report_paragraph(r, plan_summary_total);
}

static void in_mind(const struct plan_report_writer *r)
{
	CLEANUP(table_fini) struct table layout = { .columns = 0 }, lines = { .columns = 0 };

	if (!r->a->layout.offer)
		return;
	r->form->heading(r->b, "What you have in mind");
	plan_table_layout(&layout, r->a);
	r->form->table(r->b, &layout);
	add_report_paragraph(r, plan_summary_layout);
	plan_table_lines(&lines, r->a);
	if (table_has_rows(&lines))
		r->form->table(r->b, &lines);
}

/* --- nodes --- */

/* The parts of one GPU, and the rest of it. */
static size_t get_gpu_parts(const struct plan_answer *a, const struct plan_node *n,
	uint32_t gpu, struct page_part parts[PLAN_PODS_MAX + 1])
{
	double idle = 1;
	size_t k = 0;

	for (uint32_t i = 0; i < n->n && k < PLAN_PODS_MAX; i++) {
		if (!outcome_has_gpu(a, &n->tenants[i], gpu))
			continue;
		parts[k] = (struct page_part){ a->in->workloads[n->tenants[i].workload].name,
			outcome_share(n, &n->tenants[i]), n->tenants[i].workload };
		idle -= parts[k++].share;
	}
	if (idle > 0.001)
		parts[k++] = (struct page_part){ "", idle, PAGE_IDLE };
	return k;
}

static void add_report_node(const struct plan_report_writer *r, const struct node_kind *k)
{
	struct page_part parts[PLAN_NODE_GPUS_MAX][PLAN_PODS_MAX + 1];
	struct page_gpu gpus[PLAN_NODE_GPUS_MAX];
	const struct plan_offer *o = k->node->offer;
	char title[LABEL_MAX], money[PLAN_MONEY_MAX], of[PLAN_GPUS_TEXT];

	for (uint32_t g = 0; g < o->gpus; g++)
		gpus[g] = (struct page_gpu){ parts[g],
			get_gpu_parts(r->a, k->node, g, parts[g]) };
	(void)snprintf(title, sizeof(title), "%u x %s in %s, %s, %s %s an hour each: %s, %s",
		k->count, o->type, o->region, plan_capacity(o),
		plan_money(o->nano_per_hour, true, money), r->a->currency,
		plan_gpus_text(o, of), plan_mode_names[k->node->mode]);
	r->form->node(r->b, title, gpus, o->gpus);
}

static void add_report_nodes(const struct plan_report_writer *r)
{
	struct node_kind kinds[PLAN_ROWS_SHOWN];
	size_t more, n = plan_kinds(r->a, kinds, ARRAY_LEN(kinds), &more);

	r->form->heading(r->b, "Which GPU runs what");
	for (size_t i = 0; i < n; i++)
		add_report_node(r, &kinds[i]);
	if (more)
		r->form->paragraph(r->b, "There are more; all are in the JSON form.");
}

/* --- the whole report --- */

static void add_report_unplaced(const struct plan_report_writer *r)
{
	if (!r->a->plan.n_unplaced)
		return;
	r->form->heading(r->b, "Without a place");
	for (size_t i = 0; i < r->a->plan.n_unplaced && i < PLAN_ROWS_SHOWN; i++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);

		plan_summary_unplaced(&text, r->a, i);
		r->form->paragraph(r->b, buf_str(&text));
	}
}

static void add_report_notes(const struct plan_report_writer *r)
{
	if (r->a->in->n_notes)
		r->form->heading(r->b, "About the files");
	for (size_t i = 0; i < r->a->in->n_notes; i++) {
		const struct plan_note *n = &r->a->in->notes[i];
		CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);

		buf_printf(&text, "%s:%u: %s", n->file, n->line, n->text);
		r->form->paragraph(r->b, buf_str(&text));
	}
}

static void add_report_title(const struct plan_report_writer *r, const char *created)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);

	r->form->begin(r->b, "GPU plan");
	plan_summary_stamp(&text, r->a);
	buf_printf(&text, ". Made by gpuslice plan, %s.", created);
	r->form->paragraph(r->b, buf_str(&text));
}

void plan_report(struct buf *b, const struct plan_answer *a, const struct page_form *form,
	const char *created)
{
	const struct plan_report_writer r = { b, a, form };

	add_report_title(&r, created);
	add_report_tiles(&r);
	cost_bars(&r);
	in_mind(&r);
	if (a->plan.n_nodes) {
		add_report_nodes(&r);
		form->heading(b, "What each workload will feel");
		form->paragraph(b,
			"MEAN and P50 are of one request or step, P99 is a bound, SLOWDOWN is against "
			"its time where it was measured. Each may be off by as much as WITHIN says; an "
			"SLO holds at the upper end of that.");
		add_report_table(&r, plan_table_times);
		add_report_paragraph(&r, plan_summary_confidence);
		form->heading(b, "What each workload pays");
		add_report_table(&r, plan_table_pays);
		add_report_paragraph(&r, plan_summary_per_million);
		add_report_paragraph(&r, plan_summary_idle);
		add_report_paragraph(&r, plan_summary_spot);
	}
	if (a->plan.n_nodes && extras_any(a)) {
		CLEANUP(table_fini) struct table extras = { .columns = 0 };

		plan_table_extras(&extras, a);
		form->heading(b, "With what comes beside the instances");
		form->table(b, &extras);
	}
	add_report_unplaced(&r);
	add_report_notes(&r);
	if (a->plan.n_nodes) {
		form->heading(b, "Where the prices come from");
		add_report_table(&r, plan_table_prices);
	}
	form->end(b);
}
