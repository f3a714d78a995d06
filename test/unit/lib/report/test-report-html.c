/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/report/html.h"

#include <string.h>

static void html_text__ends_no_element_and_no_attribute(void **state)
{
	static const struct {
		const char *text, *becomes;
	} rows[] = {
		{ "plain \xc3\xa4", "plain \xc3\xa4" },
		{ "<b a='1' c=\"2\">&</b>",
			"&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;&lt;/b&gt;" },
		{ "a\tb\nc\x01\r\x7f", "a\tb\nc\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xc2\x9b[2J", "\xef\xbf\xbd[2J" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(1024);

		html_text(&b, rows[i].text);
		assert_string_equal(buf_str(&b), rows[i].becomes);
	}
}

static void html_textf__truncates_long_text_between_two_characters(void **state)
{
	char text[1024];

	(void)state;
	for (size_t odd = 0; odd < 2; odd++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);

		memset(text, 'x', odd);
		for (size_t i = odd; i + 2 < sizeof(text); i += 2)
			memcpy(text + i, "\xc3\xa4", 3);
		html_textf(&b, "%s", text);
		assert_in_range(b.len, 256, 1000);
		assert_int_equal(b.len % 2, odd);
		assert_memory_equal(buf_str(&b), text, b.len);
	}
}

static void html_span__escapes_the_text_only(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1024);

	(void)state;
	html_span(&b, "td", " class=\"a\"", "<");
	html_element(&b, "p", "'");
	assert_string_equal(buf_str(&b), "<td class=\"a\">&lt;</td><p>&#39;</p>\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(html_text__ends_no_element_and_no_attribute),
		cmocka_unit_test(html_textf__truncates_long_text_between_two_characters),
		cmocka_unit_test(html_span__escapes_the_text_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
