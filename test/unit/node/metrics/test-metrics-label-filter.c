/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "node/metrics/label-filter.h"

static struct metrics_label_filter *make_filter(const char *const *patterns, size_t n,
	size_t n_warnings)
{
	CLEANUP(strv_fini) struct strv list = STRV_INIT;
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	struct metrics_label_filter *f = NULL;
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < n; i++)
		assert_ok(strv_add(&list, patterns[i], &err), &err);
	assert_ok(metrics_label_filter_new(&f, &list, &warnings, &err), &err);
	if (warnings.n != n_warnings)
		fail_msg("'%s': %zu warnings", n ? patterns[0] : "", warnings.n);
	return f;
}

/* Go's expressions, written as POSIX's. */
static void metrics_label_filter_has__matches_like_go_expressions(void **state)
{
	static const struct {
		const char *pattern, *yes, *no; /* NULL: none */
	} rows[] = {
		{ "^app$", "app", "apps" },
		{ "app", "my-app-1", "ap" },
		{ "^app\\.kubernetes\\.io/.*", "app.kubernetes.io/name",
			"appxkubernetes.io/name" },
		{ "^app\\.kubernetes\\.io\\/", "app.kubernetes.io/name", "app" },
		{ "^(app|tier)$", "tier", "tiers" },
		{ "^(?:app|tier)$", "app", "xapp" },
		{ "^(?P<kind>a+)(?<rest>b)$", "aab", "b" },
		{ "^v\\d+$", "v12", "vd" },
		{ "^\\w+$", "a_B9", "a-b" },
		{ "^\\W\\D\\S$", "-a.", "a1." },
		{ "^[\\w.-]+$", "a-b.c_1", "a/b" },
		{ "^[\\d]$", "7", "d" },
		{ "^[a\\-z]+$", "a-z", "b" },
		{ "^[\\]x]+$", "]x", "\\" },
		{ "^[]a]$", "]", "b" },
		{ "^[^]a]$", "b", "]" },
		{ "^[[:upper:][]+$", "A[", "a" },
		{ "^a+?b??c*?$", "aabcc", "ac1" },
		{ "^a{2,3}$", "aaa", "aaaa" },
		{ "^a{2}?$", "aa", "a" },
		{ "^a{x$", "a{x", "a" },
		{ "^a{,2}$", "a{,2}", "aa" },
		{ "(?i)^APP$", "app", "ap" },
		{ "\\Aapp\\z", "app", "app2" },
		{ "\\bapp\\b", "x-app-y", "apple" },
		{ "^a\\<b$", "a<b", "ab" },
		{ "^\\?\\+\\*$", "?+*", "a" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(metrics_label_filter_freep)
		struct metrics_label_filter *f = make_filter(&rows[i].pattern, 1, 0);

		if (!metrics_label_filter_has(f, rows[i].yes))
			fail_msg("'%s' does not match '%s'", rows[i].pattern, rows[i].yes);
		if (metrics_label_filter_has(f, rows[i].no))
			fail_msg("'%s' matches '%s'", rows[i].pattern, rows[i].no);
	}
}

/* A filter with unsupported syntax passes nothing rather than all. */
static void metrics_label_filter_has__matches_nothing_by_unsupported_syntax(void **state)
{
	static const char *const rows[] = { "[invalid", "(", "a(?m)b", "(?!a)", "\\pL", "\\x41",
		"\\Qa", "(a)\\1", "[\\D]", "[\\x41]", "a\\", "(?P<x", "(?P=x)", "[a" };
	char longest[METRICS_LABEL_PATTERN_MAX + 2];
	const char *p = longest;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(metrics_label_filter_freep)
		struct metrics_label_filter *f = make_filter(&rows[i], 1, 1);

		assert_false(metrics_label_filter_has(f, "a"));
		assert_false(metrics_label_filter_has(f, ""));
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	(void)metrics_label_filter_free(make_filter(&p, 1, 1));
}

static void metrics_label_filter_has__matches_any_of_the_patterns(void **state)
{
	static const char *const some[] = { "^app$", "[wrong", "", "^tier$" };
	static const char *const none[] = { "" };
	CLEANUP(metrics_label_filter_freep)
	struct metrics_label_filter *f = make_filter(some, 4, 1);
	CLEANUP(metrics_label_filter_freep)
	struct metrics_label_filter *all = make_filter(none, 1, 0);
	const char *many[METRICS_LABEL_PATTERNS_MAX + 1];

	(void)state;
	assert_true(metrics_label_filter_has(f, "app"));
	assert_true(metrics_label_filter_has(f, "tier"));
	assert_false(metrics_label_filter_has(f, "build-id"));
	assert_true(metrics_label_filter_has(all, "build-id"));
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = "a";
	(void)metrics_label_filter_free(make_filter(many, ARRAY_LEN(many), 1));
}

static void metrics_label_name__is_valid_for_prometheus(void **state)
{
	static const struct {
		const char *key, *name;
	} rows[] = {
		{ "app", "app" },
		{ "app.kubernetes.io/name", "app_kubernetes_io_name" },
		{ "build-ID", "build_ID" },
		{ "3scale.net/x", "_3scale_net_x" },
		{ "caf\xc3\xa9", "caf__" },
		{ "abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrstuvwxyz01234" },
	};
	char got[32], least[1] = { 'x' };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		metrics_label_name(got, sizeof(got), rows[i].key);
		assert_string_equal(got, rows[i].name);
	}
	metrics_label_name(least, sizeof(least), "1");
	assert_int_equal(least[0], '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metrics_label_filter_has__matches_like_go_expressions),
		cmocka_unit_test(
			metrics_label_filter_has__matches_nothing_by_unsupported_syntax),
		cmocka_unit_test(metrics_label_filter_has__matches_any_of_the_patterns),
		cmocka_unit_test(metrics_label_name__is_valid_for_prometheus),
	};

	return cmocka_run_group_tests_name("metrics-label-filter", tests, NULL, NULL);
}
