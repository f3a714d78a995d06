/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/plan/view/text.h"

#include "tools/cli/plan/view/say.h"
#include "tools/cli/plan/view/tables.h"
#include "tools/plan/answer/extras.h"

static void sentence(struct buf *b, const struct plan_answer *a,
	void (*say)(struct buf *b, const struct plan_answer *a))
{
	size_t before = b->len;

	say(b, a);
	if (b->len > before)
		buf_putc(b, '\n');
}

static void table(struct buf *b, const struct table *t, size_t more)
{
	buf_putc(b, '\n');
	if (table_has_rows(t))
		table_print(t, b);
	if (more)
		buf_puts(b, "(more in the JSON form)\n");
}

static void say_layout(struct buf *b, const struct plan_answer *a)
{
	CLEANUP(table_fini) struct table layout = { .columns = 0 }, lines = { .columns = 0 };
	CLEANUP(buf_fini) struct buf why = BUF_INIT(4096);

	plan_table_layout(&layout, a);
	table(b, &layout, 0);
	plan_say_layout(&why, a);
	if (why.len)
		buf_printf(b, "\n%s\n", buf_str(&why));
	plan_table_lines(&lines, a);
	if (table_has_rows(&lines))
		table(b, &lines, 0);
}

static void say_plan(struct buf *b, const struct plan_answer *a)
{
	CLEANUP(table_fini) struct table nodes = { .columns = 0 };
	CLEANUP(table_fini) struct table times = { .columns = 0 };
	CLEANUP(table_fini) struct table pays = { .columns = 0 };
	CLEANUP(table_fini) struct table prices = { .columns = 0 };
	CLEANUP(table_fini) struct table extras = { .columns = 0 };
	size_t more = plan_table_nodes(&nodes, a);

	table(b, &nodes, more);
	more = plan_table_times(&times, a);
	table(b, &times, more);
	sentence(b, a, plan_say_origin);
	more = plan_table_pays(&pays, a);
	table(b, &pays, more);
	buf_putc(b, '\n');
	sentence(b, a, plan_say_million);
	sentence(b, a, plan_say_idle);
	sentence(b, a, plan_say_spot);
	if (extras_any(a)) {
		plan_table_extras(&extras, a);
		table(b, &extras, 0);
	}
	more = plan_table_prices(&prices, a);
	if (table_has_rows(&prices))
		table(b, &prices, more);
}

void plan_text(struct buf *b, const struct plan_answer *a)
{
	sentence(b, a, plan_say_stamp);
	if (a->layout.offer)
		say_layout(b, a);
	buf_putc(b, '\n');
	sentence(b, a, plan_say_sum);
	if (a->plan.n_nodes)
		say_plan(b, a);
	for (size_t i = 0; i < a->in->n_notes; i++) {
		const struct plan_note *n = &a->in->notes[i];

		buf_printf(b, "%s%s:%u: %s\n", i ? "" : "\nNOTES\n", n->file, n->line, n->text);
	}
	for (size_t i = 0; i < a->plan.n_left; i++) {
		if (!i)
			buf_putc(b, '\n');
		plan_say_left(b, a, i);
		buf_putc(b, '\n');
	}
}
