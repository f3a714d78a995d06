/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "node/view/page/page.h"

struct file {
	const char *body, *type;
	size_t len;
};

static struct file found(const char *path)
{
	struct file f = { 0 };

	if (!page_find(path, &f.body, &f.len, &f.type))
		fail_msg("there is no %s", path);
	assert_int_equal(strlen(f.body), f.len);
	return f;
}

static void page_find__gives_files_with_their_types(void **state)
{
	(void)state;
	assert_string_equal(found("/").type, "text/html; charset=utf-8");
	assert_string_equal(found("/page/style.css").type, "text/css; charset=utf-8");
	assert_string_equal(found("/page/page.js").type, "text/javascript; charset=utf-8");
}

static void page_find__knows_no_other_path(void **state)
{
	static const char *const others[] = { "", "/page", "/page/", "/page/../", "//",
		"/index.html", "page/page.js", "/page/page.js?" };
	struct file f = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_false(page_find(others[i], &f.body, &f.len, &f.type));
	assert_null(f.body);
}

/* What the page's policy would block, and what would let data become markup. */
static void page_files__keep_to_the_policy(void **state)
{
	static const char *const never[] = { "innerHTML", "outerHTML", "insertAdjacentHTML",
		"document.write", "eval(", "new Function", " style=\"",
		"onclick=", "onload=", "http://", "https://", "import(", "localStorage",
		"document.cookie", "setAttribute(\"style\"" };

	(void)state;
	for (size_t i = 0; page_path(i); i++) {
		struct file f = found(page_path(i));

		for (size_t k = 0; k < ARRAY_LEN(never); k++) {
			const char *at = strstr(f.body, never[k]);

			/* The name of SVG is no address. */
			if (at && strncmp(at, "http://www.w3.org/2000/svg\"", 27) != 0)
				fail_msg("%s has %s", page_path(i), never[k]);
		}
	}
}

/* Each file that another one names is there, and each that is there is named. */
static void page_files__name_each_other(void **state)
{
	(void)state;
	for (size_t i = 1; page_path(i); i++) {
		const char *name = strrchr(page_path(i), '/') + 1;
		char script[64], page[64];
		size_t named = 0;

		(void)snprintf(script, sizeof(script), "from \"./%s\"", name);
		(void)snprintf(page, sizeof(page), "\"page/%s\"", name);
		for (size_t k = 0; page_path(k); k++) {
			const char *body = found(page_path(k)).body;

			named += strstr(body, script) != NULL;
			named += strstr(body, page) != NULL;
		}
		if (!named)
			fail_msg("nobody names %s", name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(page_find__gives_files_with_their_types),
		cmocka_unit_test(page_find__knows_no_other_path),
		cmocka_unit_test(page_files__keep_to_the_policy),
		cmocka_unit_test(page_files__name_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
