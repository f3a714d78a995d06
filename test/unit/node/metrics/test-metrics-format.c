/* SPDX-License-Identifier: Apache-2.0 */

/* The format that a client gets, its numbers, and the families as the docs list them. */
#include "support/test.h"

#include "lib/base/fd.h"
#include "node/metrics/metrics.h"
#include "node/metrics/write.h"

static void metrics_format_of_accept__selects_the_highest_quality(void **state)
{
	static const struct {
		const char *accept;
		enum metrics_format format;
	} rows[] = {
		{ NULL, METRICS_PROMETHEUS },
		{ "", METRICS_PROMETHEUS },
		{ "*/*", METRICS_PROMETHEUS },
		{ "text/html,*/*;q=0.8", METRICS_PROMETHEUS },
		{ "application/openmetrics-text", METRICS_OPENMETRICS },
		{ "Application/OpenMetrics-Text; Version=1.0.0", METRICS_OPENMETRICS },
		{ "application/openmetrics-text;version=1.0.0,application/"
		  "openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
			METRICS_OPENMETRICS },
		{ "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
		  "text/plain;version=0.0.4;q=0.5",
			METRICS_OPENMETRICS },
		{ "application/openmetrics-text;q=0.4,text/plain;q=0.5", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;version=2.0.0", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;q=0", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;q=abc", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;q=1.5", METRICS_PROMETHEUS },
		{ ",,;;q=,=;", METRICS_PROMETHEUS },
		{ ",,;;,", METRICS_PROMETHEUS },
		{ "application/json", METRICS_PROMETHEUS },
		{ "application/openmetrics-text ; q=0.125, TEXT/Plain;q=0.1",
			METRICS_OPENMETRICS },
		{ "application/openmetrics-text;q=0.125, TEXT/Plain;q=0.126",
			METRICS_PROMETHEUS },
		{ "text/*;q=0.5, application/openmetrics-text;q=0.25", METRICS_PROMETHEUS },
		{ "text/plain;q=0.25,application/openmetrics-text;q=1.000",
			METRICS_OPENMETRICS },
		{ "application/openmetrics-text;q=", METRICS_PROMETHEUS },
		/* Prometheus 2 and 3 */
		{ "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,"
		  "*/*;q=0.3",
			METRICS_OPENMETRICS },
		{ "application/openmetrics-text;version=1.0.0;q=0.5,"
		  "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,"
		  "*/*;q=0.2",
			METRICS_OPENMETRICS },
		{ "application/openmetrics-textual", METRICS_PROMETHEUS },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (metrics_format_of_accept(rows[i].accept) != rows[i].format)
			fail_msg("Accept: %s", rows[i].accept);
	assert_string_equal(metrics_content_type(METRICS_PROMETHEUS),
		"text/plain; version=0.0.4; charset=utf-8");
}

/* --- docs --- */

static const char *type_name(const struct metrics_family *f)
{
	static const char *const names[] = { "gauge", "counter", "info", "unknown" };

	return names[f->type];
}

static const char *suffix(const struct metrics_family *f)
{
	return f->type == METRICS_COUNTER ? "_total" : f->type == METRICS_INFO ? "_info" : "";
}

/* docs/metrics.md has a row for each family of the table, and no other. */
static void metrics_family_at__agrees_with_the_documentation(void **state)
{
	CLEANUP(buf_fini) struct buf docs = BUF_INIT(1 << 20);
	CLEANUP(buf_fini) struct buf row = BUF_INIT(4096);
	struct error err = ERROR_INIT;
	size_t n = 0, rows = 0;

	(void)state;
	assert_ok(file_read(TEST_SOURCE "/docs/metrics.md", &docs, &err), &err);
	for (const struct metrics_family *f; (f = metrics_family_at(n)); n++) {
		buf_clear(&row);
		buf_printf(&row, "\n| `%s%s` | %s | %s | %s |\n", f->name, suffix(f),
			type_name(f), f->extra ? f->extra : "", f->help);
		if (!strstr(buf_str(&docs), buf_str(&row)))
			fail_msg("docs/metrics.md has no row: %s", buf_str(&row));
		assert_true(!f->unit || strstr(f->name, f->unit));
	}
	for (const char *at = buf_str(&docs); (at = strstr(at, "\n| `")); at++)
		rows += !strncmp(at + 4, "gpuslice_", 9) || !strncmp(at + 4, "node_gpu", 8) ||
			!strncmp(at + 4, "container_gpu", 13);
	assert_int_equal(rows, n);
}

static void metrics_number__is_exact(void **state)
{
	static const struct {
		enum metrics_kind kind;
		uint64_t value;
		const char *text;
	} rows[] = {
		{ METRICS_COUNT, 0, "0" },
		{ METRICS_COUNT, UINT64_MAX, "18446744073709551615" },
		{ METRICS_NANO, 1, "0.000000001" },
		{ METRICS_NANO, 1500000000, "1.5" },
		{ METRICS_NANO, UINT64_MAX, "18446744073.709551615" },
		{ METRICS_MICRO, 10, "0.00001" },
		{ METRICS_MICRO, 30001000, "30.001" },
	};
	char text[METRICS_NUMBER_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(metrics_number(text, rows[i].kind, rows[i].value),
			strlen(rows[i].text));
		assert_string_equal(text, rows[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metrics_format_of_accept__selects_the_highest_quality),
		cmocka_unit_test(metrics_family_at__agrees_with_the_documentation),
		cmocka_unit_test(metrics_number__is_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
