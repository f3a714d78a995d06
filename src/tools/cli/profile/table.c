/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/profile/write.h"
#include "tools/bench/report/number.h"
#include "tools/cli/profile/profile.h"
#include "tools/cli/table/table.h"

#include <math.h>
#include <string.h>

static void add_profile_value(struct table *t, const struct profile_figure *f,
	const struct profile_value *v)
{
	char cell[BENCH_NUMBER_MAX];

	if (isnan(v->v))
		table_add(t, "-");
	else if (!strcmp(f->unit, "%"))
		table_addf(t, "%.*f %%", v->v < 0.1 ? 2 : 1, 100 * v->v);
	else if (!strcmp(f->unit, "s"))
		table_add(t, bench_print_ns(v->v * 1e9, cell));
	else
		table_addf(t, "%s%s%s", profile_number(f, v->v, cell), *f->unit ? " " : "",
			f->unit);
	if (isnan(v->v) || isnan(v->half))
		table_add(t, "");
	else
		table_addf(t, "%.1f%%", 100 * v->half);
}

void profile_table(struct buf *b, const struct profile *p)
{
	static const char *const heads[] = { "FIGURE", "VALUE", "+-", "KEY", "HOW", NULL };
	struct table t;

	table_init(&t, heads);
	for (size_t i = 0; i < PROFILE_FIGURES; i++) {
		const struct profile_figure *f = &profile_figures[i];
		const struct profile_value *v = profile_figure_of(p, f);

		if (f->only_open && strcmp(p->kind, "inference-open") != 0)
			continue;
		table_add(&t, f->words);
		add_profile_value(&t, f, v);
		table_add(&t, f->key ? f->key : "");
		table_add(&t, v->how);
	}
	buf_putc(b, '\n');
	table_print(&t, b);
	table_fini(&t);
}
