/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/http/header.h"

#define HEADERS_MAX 3

#define H(name, value)                         \
	{                                      \
		name, value, sizeof(value) - 1 \
	}
#define BARE(name)            \
	{                     \
		name, NULL, 0 \
	}

static void http_headers_wrong__names_ambiguous_headers(void **state)
{
	static const struct {
		struct {
			const char *name, *value;
			size_t value_len;
		} headers[HEADERS_MAX];
		const char *wrong; /* NULL: nothing */
	} rows[] = {
		{ { H("Host", "a"), H("Content-Length", "0") }, NULL },
		{ { H("Host", ""), H("X", "\t a") }, NULL },
		{ { H("Transfer-Encoding", "chunked") }, NULL },
		{ { BARE("X-~!#$%&'*+.^_`|0") }, NULL },
		{ { H("Host", "a"), H("host", "a") }, "more than one Host" },
		{ { H("Content-Length", "1"), H("CONTENT-LENGTH", "1") },
			"more than one Content-Length" },
		{ { H("Content-Length", "1"), H("Transfer-Encoding", "x") },
			"Content-Length and Transfer-Encoding" },
		{ { H("Transfer-Encoding", "x"), H("Content-Length", "1") },
			"Content-Length and Transfer-Encoding" },
		{ { H("Content-Length", "") }, "is no number" },
		{ { H("Content-Length", "+1") }, "is no number" },
		{ { H("Content-Length", "1, 1") }, "is no number" },
		{ { H("Content-Length", "0x1") }, "is no number" },
		{ { H("X", "a\0b") }, "control character" },
		{ { H("X", "a\rb") }, "control character" },
		{ { H("X", "\x7f") }, "control character" },
		{ { H("X ", "a") }, "name of a header" },
		{ { H("", "a") }, "name of a header" },
		{ { H("\xc3\xa4", "a") }, "name of a header" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_headers h = { .hosts = 0 };
		const char *wrong;

		for (size_t k = 0; k < HEADERS_MAX && rows[i].headers[k].name; k++) {
			http_headers_add(&h, rows[i].headers[k].name,
				strlen(rows[i].headers[k].name), rows[i].headers[k].value,
				rows[i].headers[k].value_len);
		}
		wrong = http_headers_wrong(&h);
		if (!rows[i].wrong != !wrong || (wrong && !strstr(wrong, rows[i].wrong)))
			fail_msg("row %zu: %s", i, wrong ? wrong : "nothing is wrong");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(http_headers_wrong__names_ambiguous_headers),
	};

	return cmocka_run_group_tests_name("http-header", tests, NULL, NULL);
}
