/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/report/table.h"

#include <string.h>

static void table_print__makes_columns_as_wide_as_their_cells(void **state)
{
	static const char *const heads[] = { "NAME", "N", "NOTE", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1024);

	(void)state;
	table_init(&t, heads);
	assert_false(table_has_rows(&t));
	table_add(&t, "burn");
	table_addf(&t, "%d", 1000);
	table_add(&t, NULL);
	assert_true(table_has_rows(&t));
	table_add(&t, "a");
	table_add(&t, "2");
	table_add(&t, "no blanks after this");
	table_print(&t, &b);
	assert_string_equal(buf_str(&b), "NAME   N      NOTE\n"
					 "burn   1000   \n"
					 "a      2      no blanks after this\n");
}

static void table_print_row__has_the_callers_alignment_gap_and_widths(void **state)
{
	static const char *const cells[] = { "A", "B", "C", "a", "1", "22" };
	CLEANUP(table_fini)
	struct table t = { .columns = 3, .gap = 1, .right = 1U << 1 | 1U << 2 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1024);

	(void)state;
	t.widths[1] = 4;
	for (size_t i = 0; i < ARRAY_LEN(cells); i++)
		table_add(&t, cells[i]);
	table_print_row(&t, 0, &b);
	buf_putc(&b, '|');
	table_print_row(&t, 1, &b);
	assert_string_equal(buf_str(&b), "A    B  C|a    1 22");
}

/* Each of these is as wide as the "xx" below it. */
static void table_print__counts_columns_of_the_terminal_and_not_bytes(void **state)
{
	static const char *const two_wide[] = {
		"\xc3\xa4\xc2\xb1",             /* a umlaut, plus-minus */
		"e\xcc\x81x",                   /* e and an acute upon it */
		"\xe4\xb8\xad",                 /* a Chinese character */
		"\xed\x95\x9c",                 /* a Korean one */
		"\xef\xbc\xa1",                 /* a wide Latin letter */
		"\xf0\x9f\x8d\xba",             /* a picture */
		"\xe2\x96\x88\xf0\x90\x8d\x88", /* a block, a Gothic letter */
	};
	char expected[32];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(two_wide); i++) {
		CLEANUP(table_fini) struct table t = { .columns = 2, .gap = 1 };
		CLEANUP(buf_fini) struct buf b = BUF_INIT(1024);

		table_add(&t, two_wide[i]);
		table_add(&t, "|");
		table_add(&t, "xx");
		table_add(&t, "|");
		table_print(&t, &b);
		(void)snprintf(expected, sizeof(expected), "%s |\nxx |\n", two_wide[i]);
		assert_string_equal(buf_str(&b), expected);
		assert_int_equal(table_text(NULL, two_wide[i]), 2);
	}
}

static void table_text__lets_no_text_control_the_terminal(void **state)
{
	/* No string literal, as no source may have such marks. */
	static const char right_to_left[] = { '\xe2', '\x80', '\xae', 'c', 'b', 'a', '\xd8',
		'\x9c', '\0' };
	static const struct {
		const char *text, *becomes;
	} rows[] = { { "a\033[2J\tb\n\x7f", "a?[2J?b??" },
		{ "\xc2\x9b[2J", "?[2J" }, /* CSI as one character */
		{ right_to_left, "?cba?" },
		{ "\xff\xc3x\xed\xa0\x80", "??x???" }, /* not UTF-8: a surrogate, too */
		{ "cut \xe4\xb8", "cut ??" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(1024);

		assert_int_equal(table_text(&b, rows[i].text), strlen(rows[i].becomes));
		assert_string_equal(buf_str(&b), rows[i].becomes);
	}
}

static void table_print__fails_the_buffer_of_a_table_without_memory(void **state)
{
	CLEANUP(table_fini) struct table t = { .columns = 1, .failed = true };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1024);

	(void)state;
	table_print(&t, &b);
	assert_false(buf_ok(&b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_print__makes_columns_as_wide_as_their_cells),
		cmocka_unit_test(table_print_row__has_the_callers_alignment_gap_and_widths),
		cmocka_unit_test(table_print__counts_columns_of_the_terminal_and_not_bytes),
		cmocka_unit_test(table_text__lets_no_text_control_the_terminal),
		cmocka_unit_test(table_print__fails_the_buffer_of_a_table_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
