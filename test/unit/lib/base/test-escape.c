/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/text.h"

typedef void escape_fn(struct buf *b, const char *text);

static const struct {
	escape_fn *escape;
	const char *text, *becomes;
} rows[] = {
	{ escape_csv, "plain", "plain" },
	{ escape_csv, "3 burn, latency", "\"3 burn, latency\"" },
	{ escape_csv, "say \"x\"", "\"say \"\"x\"\"\"" },
	{ escape_csv, "=1+1", "\"'=1+1\"" },
	{ escape_csv, "  @SUM(A1)", "\"'  @SUM(A1)\"" },
	{ escape_csv, "a\x1b[2Jb", "a\\x1b[2Jb" },
	{ escape_csv, "", "" },
	{ escape_shell, "plain", "'plain'" },
	{ escape_shell, "it's $HOME `id`", "'it'\\''s $HOME `id`'" },
	{ escape_shell, "", "''" },
};

static void escape__keeps_text_in_its_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(1024);

		rows[i].escape(&b, rows[i].text);
		assert_true(buf_ok(&b));
		assert_string_equal(buf_str(&b), rows[i].becomes);
	}
}

static void escape_csv__fails_the_buffer_that_is_too_small(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4);

	(void)state;
	escape_csv(&b, "much more than four");
	assert_false(buf_ok(&b));
}

static void escape_line__replaces_control_characters_by_blanks(void **state)
{
	char text[] = "near 'a\n\tb\x1b\xc2\x85' \xc3\xa4";

	(void)state;
	assert_string_equal(escape_line(text), "near 'a  b   ' \xc3\xa4");
}

static void yaml_text_is_safe__rejects_text_that_libfyaml_cannot_parse(void **state)
{
	static const struct {
		const char *text;
		uint32_t line, column; /* 0: it may */
	} cases[] = { { "a: b\n", 0, 0 }, { "a:\tb\n", 0, 0 }, { "? a\n: b\n", 0, 0 },
		{ "? a\n:\tb\n", 2, 2 }, { "a: b # why?\nc: \td\n", 2, 4 },
		{ "; !:\t  : ? !:\t", 1, 5 }, { "a\tb?", 0, 0 }, { "a\n\xff", 2, 1 } };
	char why[YAML_TEXT_WHY_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct utf8_position at = { .line = 0 };
		bool safe = yaml_text_is_safe(cases[i].text, strlen(cases[i].text), &at, why);

		if (safe != (cases[i].line == 0) ||
			(!safe && (at.line != cases[i].line || at.column != cases[i].column)))
			fail_msg("case %zu: %d, %u:%u", i, safe, at.line, at.column);
	}
}

static void escape_control_len__knows_both_sets(void **state)
{
	(void)state;
	assert_int_equal(escape_control_len(""), 0);
	assert_int_equal(escape_control_len("a"), 0);
	assert_int_equal(escape_control_len("\n"), 1);
	assert_int_equal(escape_control_len("\x7f"), 1);
	assert_int_equal(escape_control_len("\xc2\x85"), 2);
	assert_int_equal(escape_control_len("\xc2\xa0"), 0);
	assert_int_equal(escape_control_len("\xc2"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escape__keeps_text_in_its_place),
		cmocka_unit_test(escape_csv__fails_the_buffer_that_is_too_small),
		cmocka_unit_test(escape_line__replaces_control_characters_by_blanks),
		cmocka_unit_test(yaml_text_is_safe__rejects_text_that_libfyaml_cannot_parse),
		cmocka_unit_test(escape_control_len__knows_both_sets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
