/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/buf.h"
#include "lib/yaml/yaml.h"

/* Places, which libfyaml's releases do not agree about. */

/* " line:column" of each empty value and key below @n, in the order of the text. */
static void add_empty_positions(struct buf *b, const struct yaml_node *n)
{
	if (n->type != YAML_LIST && n->type != YAML_OBJECT && !n->len)
		buf_printf(b, " %u:%u", n->line, n->column);
	for (size_t i = 0; i < n->n; i++) {
		if (n->type == YAML_OBJECT)
			add_empty_positions(b, n->pairs[i].key);
		add_empty_positions(b,
			n->type == YAML_OBJECT ? n->pairs[i].value : n->items[i]);
	}
}

static void yaml_parse__places_an_empty_value_at_the_token_before_it(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "a:\n", " 1:1" },
		{ "a:\n  b:\n  c: 1\n", " 2:3" },
		{ "a:     \n\n\n# the end\n", " 1:1" },
		{ "- \n- 1\n-\n", " 1:1 2:3" },
		{ "- a:\n  b: 1\n- c\n", " 1:3" },
		{ "a: {b: , c: 1}\n", " 1:5" },
		{ "a: {b, c: 1}\n", " 1:5" },
		{ "a: &x\nb: 2\n", " 1:1" },
		{ "a: !!str\nb: 1\n", " 1:1" },
		{ "? \n: v\n", " 1:1" },
		/* These are in the text. */
		{ "a: ''\n", " 1:4" },
		{ "a: \"\"\n", " 1:4" },
		{ "a: |\n\nb: 1\n", " 2:1" },
		/* Documents of nothing: 0 is no place. */
		{ "# x\n", "" },
		{ "x\n--- \n---\ny\n", " 2:1" },
		{ "...\n--- # x\n", " 2:1" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct yaml_source src = { .name = "f",
			.text = rows[i].text,
			.len = strlen(rows[i].text) };
		CLEANUP(buf_fini) struct buf b = BUF_INIT(200);
		CLEANUP(yaml_freep) struct yaml *y = NULL;
		struct error err = ERROR_INIT;

		assert_ok(yaml_parse(&y, &src, &err), &err);
		for (size_t k = 0; k < y->n; k++)
			add_empty_positions(&b, y->docs[k]);
		if (strcmp(buf_str(&b), rows[i].want) != 0)
			fail_msg("%s\n-- has empty values at:%s\n-- expected:%s", rows[i].text,
				buf_str(&b), rows[i].want);
	}
}

static void yaml_parse__places_an_error_at_the_invalid_character(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "a: b: c\n", "f:1:5: " },
		{ "*b\xc2\xa0:\n", "f:1:3: " },
		{ "a: 1\nb: *name\xe2\x80\xaf\n", "f:2:9: " },
		{ "a: *b\xe2\x81\x9f\nlong: 1\n", "f:1:6: " },
		/* libfyaml 0.7 reports the next line, or one further. */
		{ "a: *long-name\xe3\x80\x80\nb: 1\n", "f:1:14: " },
		{ "a: *long-name\xe2\x80\x80\n\n\n\n\n\n\n\n\n\nb: 1\n", "f:1:14: " },
		{ "a: &name\xc2\x80 x\n", "f:1:9: " },
		{ "\xc3\xa4: *\xc3\xb6\xc3\xbc\xc2\xa0x\n", "f:1:7: " },
		{ "a: x*y\xc2\xa0z\nb: *c\xc2\xa0z\n", "f:2:6: " },
		{ "*a*&b\xc2\xa0\n - cdef\n", "f:1:6: " },
		/* The end of the text is nearer than the name is long. */
		{ "a: *long-name\xc2\xa0", "f:1:14: " },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct yaml_source src = { .name = "f",
			.text = rows[i].text,
			.len = strlen(rows[i].text) };
		CLEANUP(yaml_freep) struct yaml *y = NULL;
		struct error err = ERROR_INIT;

		assert_error(yaml_parse(&y, &src, &err), &err, rows[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(yaml_parse__places_an_empty_value_at_the_token_before_it),
		cmocka_unit_test(yaml_parse__places_an_error_at_the_invalid_character),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
