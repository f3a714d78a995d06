/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "tools/simulate/trace/columns.h"

#include <stdio.h>
#include <string.h>

enum { NAME, COUNT, NOTE, COLUMNS };
static const struct csv_column columns[COLUMNS] = {
	[NAME] = { .name = "name" },
	[COUNT] = { .name = "count" },
	[NOTE] = { .name = "note", .optional = true },
};

struct columns_result {
	char text[1024];
	uint64_t sum;
};

static int add_row_text(void *arg, const struct columns_row *row)
{
	struct columns_result *g = arg;
	size_t at = strlen(g->text);
	uint64_t n;

	if (columns_uint(row, COUNT, 0, 100, &n) < 0)
		return -1;
	g->sum += n;
	(void)snprintf(g->text + at, sizeof(g->text) - at, "%u:%s/%s;", (unsigned)row->line,
		row->cell[NAME], row->cell[NOTE]);
	return 0;
}

static int read_text(struct columns_result *g, const char *text, size_t len, struct error *err)
{
	*g = (struct columns_result){ 0 };
	return columns_read("t", text, len, columns, COLUMNS, add_row_text, g, err);
}

static void columns__reads_columns_in_any_order(void **state)
{
	static const struct {
		const char *text, *rows;
		uint64_t sum;
	} rows[] = {
		{ "name,count\na,1\nb,2\n", "2:a/;3:b/;", 3 },
		{ "count,other,note,name\r\n7,x,hm,a\r\n", "2:a/hm;", 7 },
		{ "name,count,note\n\"a,b\",1,\"two\nlines\"\nc,2,\"say \"\"so\"\"\"\n",
			"2:a,b/two\nlines;4:c/say \"so\";", 3 },
		{ "name,count,note\na,1,x\n\nb,2\n", "2:a/x;4:b/;",
			3 }, /* a short row, an empty line */
		{ "name,count\na,1", "2:a/;", 1 },
		{ "name,count\n", "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct error err = ERROR_INIT;
		struct columns_result g;

		if (read_text(&g, rows[i].text, strlen(rows[i].text), &err) < 0)
			fail_msg("%s", err.msg);
		assert_string_equal(g.text, rows[i].rows);
		assert_int_equal(g.sum, rows[i].sum);
	}
}

static void columns__errors_name_the_line(void **state)
{
	static const struct {
		const char *text, *msg;
		size_t len; /* 0: of the text */
	} rows[] = {
		{ "", "t:0: expected a first line with the names of columns", 0 },
		{ "name,note\n", "t:1: no column 'count' in the first line", 0 },
		{ "name,count,name\n", "t:1: two columns 'name'", 0 },
		{ "name,count\na,1,2\n", "t:2: more cells than the first line has columns", 0 },
		{ "name,count\na,101\n",
			"t:2: count: expected a whole number from 0 to 100, found '101'", 0 },
		{ "name,count\n\na\n",
			"t:3: count: expected a whole number from 0 to 100, found ''", 0 },
		{ "name,count\n\"a,1\n", "t:2: a quoted cell without an end", 0 },
		{ "name,count\n\"a\"b,1\n",
			"t:2: quotes within a cell that is not quoted, or behind its end", 0 },
		{ "name,count\na\0b,1\n", "t:2: a cell with a NUL byte", 17 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct error err = ERROR_INIT;
		struct columns_result g;

		assert_int_equal(read_text(&g, rows[i].text,
					 rows[i].len ? rows[i].len : strlen(rows[i].text),
					 &err),
			-1);
		assert_string_equal(err.msg, rows[i].msg);
	}
}

static void columns__has_limits(void **state)
{
	static char text[8192];
	struct error err = ERROR_INIT;
	struct columns_result g;
	size_t len = (size_t)snprintf(text, sizeof(text), "name,count,other\n");

	(void)state;
	memset(text + len, 'x', COLUMNS_CELL_MAX + 1);
	(void)snprintf(text + len + COLUMNS_CELL_MAX + 1, 16, ",1,1\n");
	assert_int_equal(read_text(&g, text, strlen(text), &err), -1);
	assert_string_equal(err.msg, "t:2: a cell of more than 4096 bytes");
	memset(text, ',', COLUMNS_WIDTH_MAX + 1);
	assert_int_equal(read_text(&g, text, COLUMNS_WIDTH_MAX + 1, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns__reads_columns_in_any_order),
		cmocka_unit_test(columns__errors_name_the_line),
		cmocka_unit_test(columns__has_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
