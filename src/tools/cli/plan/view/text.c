/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/plan/view/text.h"

#include "tools/cli/plan/view/summary.h"
#include "tools/cli/plan/view/tables.h"
#include "tools/plan/answer/extras.h"

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
