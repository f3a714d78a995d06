/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/table/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void table_init(struct table *t, const char *const *heads)
{
	*t = (struct table){ .columns = 0 };
	for (; heads[t->columns]; t->columns++)
		table_add(t, heads[t->columns]);
}

void table_fini(struct table *t)
{
	strv_fini(&t->cells);
}

void table_add(struct table *t, const char *text)
{
	if (strv_add(&t->cells, text ? text : "", NULL) < 0)
		t->failed = true;
}

void table_addf(struct table *t, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	table_add(t, text);
}

bool table_has_rows(const struct table *t)
{
	return t->cells.n > t->columns;
}

static size_t measure_table_column(const struct table *t, size_t column)
{
	size_t width = 0;

	for (size_t i = column; i < t->cells.n; i += t->columns) {
		size_t len = strlen(t->cells.v[i]);

		if (len > width)
			width = len;
	}
	return width;
}

void table_print(const struct table *t, struct buf *b)
{
	for (size_t i = 0; i < t->cells.n && !t->failed; i++) {
		size_t column = i % t->columns;

		if (column + 1 == t->columns)
			buf_printf(b, "%s\n", t->cells.v[i]);
		else
			buf_printf(b, "%-*s", (int)measure_table_column(t, column) + 3,
				t->cells.v[i]);
	}
}
