/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "tools/cli/top/view/canvas.h"

#include <locale.h>

static void width_fit__pads_and_truncates_by_columns(void **state)
{
	static const struct {
		const char *text;
		size_t width;
		enum width_side side;
		bool utf8;
		const char *fitted;
	} rows[] = {
		{ "abc", 5, WIDTH_LEFT, true, "abc  " },
		{ "abc", 5, WIDTH_RIGHT, true, "  abc" },
		{ "abc", 5, WIDTH_CUT, true, "abc" },
		{ "abc", 3, WIDTH_LEFT, true, "abc" },
		{ "abcd", 3, WIDTH_LEFT, true, "ab…" },
		{ "abcd", 3, WIDTH_RIGHT, true, "ab…" },
		{ "abcd", 1, WIDTH_LEFT, true, "…" },
		{ "abcd", 0, WIDTH_LEFT, true, "" },
		{ "abcd", 3, WIDTH_LEFT, false, "ab~" },
		/* the end of a name stays */
		{ "web-7d9f8b6c5d-x9k2p", 20, WIDTH_NAME, true, "web-7d9f8b6c5d-x9k2p" },
		{ "web-7d9f8b6c5d-x9k2p", 16, WIDTH_NAME, true, "web-7d9…5d-x9k2p" },
		{ "web-7d9f8b6c5d-x9k2p", 8, WIDTH_NAME, true, "we…x9k2p" },
		{ "web-7d9f8b6c5d-x9k2p", 4, WIDTH_NAME, true, "…k2p" },
		{ "web-7d9f8b6c5d-x9k2p", 1, WIDTH_NAME, false, "~" },
		{ "abc", 5, WIDTH_NAME, true, "abc  " },
		{ "語語語語語語", 8, WIDTH_NAME, true, "語…語語 " },
		{ "abcdefgh\u0301ijk", 7, WIDTH_NAME, true, "a…gh\u0301ijk" },
		{ "abcdefgh\u0301ijk", 4, WIDTH_NAME, true, "…ijk" },
		/* two columns each: the rest of a truncated one is blank */
		{ "語語", 4, WIDTH_LEFT, true, "語語" },
		{ "語語語", 4, WIDTH_LEFT, true, "語… " },
		{ "語語語", 5, WIDTH_LEFT, true, "語語…" },
		{ "語語語", 4, WIDTH_CUT, true, "語…" },
		/* no columns */
		{ "e\u0301x", 2, WIDTH_LEFT, true, "e\u0301x" },
		{ "größer", 6, WIDTH_LEFT, true, "größer" },
		{ "größer", 6, WIDTH_LEFT, false, "gr??er" },
		/* what would drive the terminal */
		{ "a\033[2J\n\t\x7f", 8, WIDTH_LEFT, true, "a?[2J???" },
		{ "a\xc2\x9b"
		  "2J",
			4, WIDTH_LEFT, true, "a?2J" },
		{ "a\u200fgnp", 5, WIDTH_LEFT, true, "a?gnp" },
		/* no UTF-8 */
		{ "a\xff\xc3", 4, WIDTH_LEFT, true, "a?? " },
		{ "\xe8\xaa", 3, WIDTH_LEFT, true, "?  " },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(256);
		size_t columns =
			width_fit(&b, rows[i].text, rows[i].width, rows[i].side, rows[i].utf8);

		assert_string_equal(buf_str(&b), rows[i].fitted);
		assert_int_equal(columns, width_measure_text(rows[i].fitted, true));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(width_fit__pads_and_truncates_by_columns),
	};

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
