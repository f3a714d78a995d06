/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/report/table.h"

#include "lib/base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- what a terminal shows of a text --- */

#define REPLACED 9 /* no number of columns: the character is not shown */

/* Characters that do not take one column: marks upon others, directions, East Asian characters, pictures; in order.
 * wcwidth() knows more of them, but only in a UTF-8 locale, which not every container has. */
static const struct {
	uint32_t first, last;
	size_t columns;
} ranges[] = { { 0x300, 0x36f, 0 }, { 0x61c, 0x61c, REPLACED }, { 0x1100, 0x115f, 2 },
	{ 0x200b, 0x200d, 0 }, { 0x200e, 0x200f, REPLACED }, { 0x202a, 0x202e, REPLACED },
	{ 0x2066, 0x2069, REPLACED }, { 0x2e80, 0xa4cf, 2 }, { 0xac00, 0xd7a3, 2 },
	{ 0xf900, 0xfaff, 2 }, { 0xfe00, 0xfe0f, 0 }, { 0xfe30, 0xfe6f, 2 },
	{ 0xff00, 0xff60, 2 }, { 0xffe0, 0xffe6, 2 }, { 0x1f300, 0x1faff, 2 },
	{ 0x20000, 0x3fffd, 2 } };

/* The columns of the character at @text, which has @len bytes. */
static size_t count_character_columns(const char *text, size_t len)
{
	uint32_t c = (unsigned char)*text & (len > 1 ? 0x7fU >> len : 0x7fU);

	for (size_t i = 1; i < len; i++)
		c = c << 6 | ((unsigned char)text[i] & 0x3f);
	for (size_t i = 0; i < ARRAY_LEN(ranges) && c >= ranges[i].first; i++)
		if (c <= ranges[i].last)
			return ranges[i].columns;
	return 1;
}

size_t table_text(struct buf *b, const char *text)
{
	size_t all = 0, columns, len;

	for (; *text; text += len) {
		len = utf8_char_len(text, strnlen(text, 4));
		columns = len ? count_character_columns(text, len) : REPLACED;
		if (!len || columns == REPLACED || escape_control_len(text)) {
			len = len ? len : 1;
			columns = 1;
			if (b)
				buf_putc(b, '?');
		} else if (b) {
			buf_add(b, text, len);
		}
		all += columns;
	}
	return all;
}

/* --- the table --- */

void table_init(struct table *t, const char *const *heads)
{
	*t = (struct table){ .gap = TABLE_GAP };
	while (heads[t->columns])
		t->columns++;
	for (size_t i = 0; i < t->columns; i++)
		table_add(t, heads[i]);
}

void table_fini(struct table *t)
{
	strv_fini(&t->cells);
}

void table_add(struct table *t, const char *text)
{
	size_t column = t->cells.n % t->columns, width = table_text(NULL, text ? text : "");

	assert(t->columns <= TABLE_COLUMNS_MAX);
	if (width > t->widths[column])
		t->widths[column] = width;
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

void table_print_row(const struct table *t, size_t row, struct buf *b)
{
	for (size_t i = 0; i < t->columns; i++) {
		const char *cell = t->cells.v[row * t->columns + i];
		int blanks = (int)(t->widths[i] - table_text(NULL, cell));
		bool right = t->right >> i & 1;

		buf_printf(b, "%*s", right ? blanks : 0, "");
		table_text(b, cell);
		if (i + 1 < t->columns)
			buf_printf(b, "%*s", (int)t->gap + (right ? 0 : blanks), "");
	}
}

void table_print(const struct table *t, struct buf *b)
{
	for (size_t i = 0; !t->failed && i < t->cells.n / t->columns; i++) {
		table_print_row(t, i, b);
		buf_putc(b, '\n');
	}
	if (t->failed)
		b->failed = true;
}
