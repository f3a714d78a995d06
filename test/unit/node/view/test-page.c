/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/strv.h"
#include "node/view/page/page.h"

#include <dirent.h>

struct file {
	const char *body, *type;
	size_t len;
};

static struct file find_page_file(const char *path)
{
	struct file f = { 0 };

	if (!page_find(path, &f.body, &f.len, &f.type))
		fail_msg("there is no %s", path);
	assert_int_equal(strlen(f.body), f.len);
	return f;
}

static void page_find__returns_files_with_their_types(void **state)
{
	(void)state;
	assert_string_equal(find_page_file("/").type, "text/html; charset=utf-8");
	assert_string_equal(find_page_file("/page/style.css").type, "text/css; charset=utf-8");
	assert_string_equal(find_page_file("/page/page.js").type,
		"text/javascript; charset=utf-8");
}

static void page_find__returns_nothing_for_other_paths(void **state)
{
	static const char *const others[] = { "", "/page", "/page/", "/page/../", "//",
		"/index.html", "page/page.js", "/page/page.js?" };
	struct file f = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_false(page_find(others[i], &f.body, &f.len, &f.type));
	assert_null(f.body);
}

/* The paths of the page's files: "/", and one for each script and style of the source folder, sorted. */
static void list_page_paths(struct strv *ret)
{
	static const char folder[] = TEST_SOURCE "/src/node/view/page";
	struct dirent **entries = NULL;
	struct error err = ERROR_INIT;
	int n = scandir(folder, &entries, NULL, alphasort);

	assert_ok(strv_add(ret, "/", &err), &err);
	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name, *dot = strrchr(name, '.');
		char path[64];

		if (dot && (!strcmp(dot, ".js") || !strcmp(dot, ".css"))) {
			(void)snprintf(path, sizeof(path), "/page/%.40s", name);
			assert_ok(strv_add(ret, path, &err), &err);
		}
		free(entries[i]);
	}
	free(entries);
	assert_true(ret->n > 5);
}

/* What the page's policy would block, and what would let data become markup. */
static void page_files__keep_to_the_policy(void **state)
{
	static const char *const never[] = { "innerHTML", "outerHTML", "insertAdjacentHTML",
		"document.write", "eval(", "new Function", " style=\"",
		"onclick=", "onload=", "http://", "https://", "import(", "localStorage",
		"document.cookie", "setAttribute(\"style\"" };

	CLEANUP(strv_fini) struct strv paths = STRV_INIT;

	(void)state;
	list_page_paths(&paths);
	for (size_t i = 0; i < paths.n; i++) {
		struct file f = find_page_file(paths.v[i]);

		for (size_t k = 0; k < ARRAY_LEN(never); k++) {
			const char *at = strstr(f.body, never[k]);

			/* The name of SVG is no address. */
			if (at && strncmp(at, "http://www.w3.org/2000/svg\"", 27) != 0)
				fail_msg("%s has %s", paths.v[i], never[k]);
		}
	}
}

/* Each file that another one names is there, and each that is there is named. */
static void page_files__are_all_referenced(void **state)
{
	CLEANUP(strv_fini) struct strv paths = STRV_INIT;

	(void)state;
	list_page_paths(&paths);
	for (size_t i = 1; i < paths.n; i++) {
		const char *name = strrchr(paths.v[i], '/') + 1;
		char script[64], page[64];
		size_t named = 0;

		(void)snprintf(script, sizeof(script), "from \"./%s\"", name);
		(void)snprintf(page, sizeof(page), "\"page/%s\"", name);
		for (size_t k = 0; k < paths.n; k++) {
			const char *body = find_page_file(paths.v[k]).body;

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
		cmocka_unit_test(page_find__returns_files_with_their_types),
		cmocka_unit_test(page_find__returns_nothing_for_other_paths),
		cmocka_unit_test(page_files__keep_to_the_policy),
		cmocka_unit_test(page_files__are_all_referenced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
