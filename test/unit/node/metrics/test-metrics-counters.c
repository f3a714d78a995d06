/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "node/metrics/metrics.h"

static struct metrics_counters *parse_counters(const char *csv, struct strv *warnings)
{
	struct metrics_counters *c = NULL;
	struct error err = ERROR_INIT;

	assert_ok(metrics_counters_parse(&c, "f.csv", csv, strlen(csv), warnings, &err), &err);
	return c;
}

static void metrics_counters_read__has_the_default_set(void **state)
{
	CLEANUP(metrics_counters_unrefp) struct metrics_counters *c = NULL;
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	struct error err = ERROR_INIT;
	bool wanted[FIELDS_MAX] = { false };
	uint32_t n = 0;

	(void)state;
	assert_ok(metrics_counters_read(&c, NULL, &warnings, &err), &err);
	assert_int_equal(warnings.n, 0);
	assert_int_equal(c->n, 26);
	assert_int_equal(c->n_families, 25);
	assert_string_equal(c->rows[0].name, "DCGM_FI_DEV_SM_CLOCK");
	assert_string_equal(c->rows[24].name, "DCGM_FI_PROF_PCIE_RX_BYTES");
	assert_string_equal(c->rows[25].name, "DCGM_FI_DRIVER_VERSION");
	assert_true(c->rows[25].label);
	for (uint32_t i = 1; i < c->n_families; i++)
		assert_true(c->rows[i].id > c->rows[i - 1].id);
	assert_false(metrics_counters_changed(c));
	metrics_counters_fields(c, wanted);
	for (size_t i = 0; i < FIELDS_MAX; i++)
		n += wanted[i];
	/* The XID is the agent's. */
	assert_int_equal(n, 25);
}

static void metrics_counters_parse__accepts_the_files_of_dcgm_exporter(void **state)
{
	static const char csv[] =
		"# Format: field, type, help\r\n"
		"\r\n"
		"   # indented\n"
		"DCGM_FI_DEV_DEC_UTIL ,\tgauge , Blank before the comma.  \r\n"
		"DCGM_FI_DEV_GPU_TEMP_CELSIUS, gauge, \"Said \"\"so\"\", new\"\n"
		"DCGM_FI_DEV_GPU_TEMP, counter,\n"
		"DCGM_FI_DRIVER_VERSION, label, Driver\n"
		"DCGM_EXP_XID_ERRORS_COUNT, gauge, x";
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	CLEANUP(metrics_counters_unrefp)
	struct metrics_counters *c = parse_counters(csv, &warnings);

	(void)state;
	assert_int_equal(warnings.n, 0);
	assert_int_equal(c->n, 5);
	assert_string_equal(c->rows[0].name, "DCGM_FI_DEV_GPU_TEMP");
	assert_string_equal(c->rows[0].help, "");
	assert_int_equal(c->rows[0].type, METRICS_COUNTER);
	assert_string_equal(c->rows[1].name, "DCGM_FI_DEV_GPU_TEMP_CELSIUS");
	assert_string_equal(c->rows[1].help, "Said \"so\", new");
	assert_int_equal(c->rows[1].field, c->rows[0].field);
	assert_string_equal(c->rows[2].name, "DCGM_FI_DEV_DEC_UTIL");
	assert_string_equal(c->rows[2].help, "Blank before the comma.");
	assert_int_equal(c->rows[3].source, METRICS_FROM_XIDS);
	assert_true(c->rows[4].label);
}

static void metrics_counters_parse__accepts_files_of_other_editors(void **state)
{
	static const char *const files[] = {
		"\xef\xbb\xbf\r\nDCGM_FI_DEV_GPU_TEMP, gauge, a\r\nDCGM_FI_DEV_SM_CLOCK, gauge, b\r\n",
		"\xef\xbb\xbf\"DCGM_FI_DEV_GPU_TEMP\",gauge,a\nDCGM_FI_DEV_SM_CLOCK,gauge,b",
		"\xef\xbb\xbf# a comment\nDCGM_FI_DEV_GPU_TEMP,gauge,a\nDCGM_FI_DEV_SM_CLOCK,gauge,b",
		"\"DCGM_FI_DEV_GPU_TEMP\",\"gauge\",\"a\"\n \"DCGM_FI_DEV_SM_CLOCK\" , gauge,\"b\" ",
		"\tDCGM_FI_DEV_GPU_TEMP\t,\tgauge\t,\ta\t\n\n\n\t\nDCGM_FI_DEV_SM_CLOCK,gauge,",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
		CLEANUP(metrics_counters_unrefp)
		struct metrics_counters *c = parse_counters(files[i], &warnings);

		if (warnings.n)
			fail_msg("file %zu: %s", i, warnings.v[0]);
		assert_int_equal(c->n, 2);
		assert_string_equal(c->rows[0].name, "DCGM_FI_DEV_SM_CLOCK");
		assert_string_equal(c->rows[1].help, "a");
	}
}

/* The names of dcgm-exporter 1.x are printed as they are written. */
static void metrics_counters_parse__accepts_lower_case_names(void **state)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	CLEANUP(metrics_counters_unrefp)
	struct metrics_counters *c =
		parse_counters("dcgm_gpu_temp, gauge, a\ndcgm_xid_errors, gauge, b\n"
			       "dcgm_fi_prof_dram_active, gauge, c\n",
			&warnings);

	(void)state;
	assert_int_equal(warnings.n, 0);
	assert_int_equal(c->n, 3);
	assert_string_equal(c->rows[0].name, "dcgm_gpu_temp");
	assert_int_equal(c->rows[0].id, 150);
	assert_int_equal(c->rows[1].source, METRICS_FROM_XID);
	assert_int_equal(c->rows[2].id, 1005);
}

/* Clock events are counted from a field that the file does not name. */
static void metrics_counters_fields__has_all_counted_fields(void **state)
{
	static const char *const rows[] = { "DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, a",
		"DCGM_EXP_CLOCK_EVENTS_TOTAL, counter, a",
		"DCGM_EXP_XID_ERRORS_TOTAL, counter, a" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(metrics_counters_unrefp)
		struct metrics_counters *c = parse_counters(rows[i], NULL);
		bool wanted[FIELDS_MAX] = { false };

		assert_int_equal(c->n, 1);
		assert_int_equal(metrics_counters_have(c, METRICS_FROM_CLOCKS), i == 0);
		assert_int_equal(metrics_counters_have(c, METRICS_FROM_CLOCKS_TOTAL), i == 1);
		metrics_counters_fields(c, wanted);
		for (size_t k = 0; k < FIELDS_MAX; k++)
			assert_int_equal(wanted[k],
				i < 2 && k == (size_t)field_position(
						      "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"));
	}
}

/* The agent leaves out a row at which dcgm-exporter ends, and keeps its neighbors. */
static void metrics_counters_parse__skips_a_malformed_row(void **state)
{
	static const struct {
		const char *row, *text;
	} rows[] = {
		{ "DCGM_FI_DEV_GPU_TEMP, gauge",
			"'DCGM_FI_DEV_GPU_TEMP, gauge' is left out: expected 3 fields with commas between them, found 2" },
		{ "DCGM_FI_DEV_GPU_TEMP, gauge, a, b",
			"is left out: expected 3 fields with commas between them, found 4" },
		{ "DCGM_FI_DEV_GPU_TEMP, gauge, a,",
			"is left out: expected 3 fields with commas between them, found 4" },
		{ "DCGM_FI_DEV_GPU_TEMP, gauge, a;", NULL },
		{ "DCGM_FI_DEV_GPU_TEMP; gauge; a",
			"is left out: expected 3 fields with commas between them, found 1" },
		{ "DCGM_FI_DEV_GPU_TEMP, gauge, \"a", "is left out: malformed quotes" },
		{ "DCGM_FI_DEV_GPU_TEMP, gauge, \"a\"b", "is left out: malformed quotes" },
		{ "DCGM_FI_DEV_NONE, gauge, a",
			"'DCGM_FI_DEV_NONE' is left out: unknown DCGM field" },
		{ "dcgm_fi_dev_gpu_temp, gauge, a", "is left out: unknown DCGM field" },
		{ ", gauge, a", "'' is left out: unknown DCGM field" },
		{ "DCGM_FI_DEV_GPU_TEMP, Gauge, a", "label, found 'Gauge'" },
		{ "DCGM_FI_DEV_GPU_TEMP, gauge, \xff",
			"is left out: expected UTF-8 text, found the byte 0xff in column 30" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
		CLEANUP(metrics_counters_unrefp) struct metrics_counters *c = NULL;
		char csv[300];

		(void)snprintf(csv, sizeof(csv),
			"DCGM_FI_DEV_SM_CLOCK, gauge, a\n%s\nDCGM_FI_DEV_MEM_CLOCK, gauge, b\n",
			rows[i].row);
		c = parse_counters(csv, &warnings);
		assert_int_equal(c->n, rows[i].text ? 2 : 3);
		assert_int_equal(warnings.n, rows[i].text ? 1 : 0);
		if (!rows[i].text)
			continue;
		if (strncmp(warnings.v[0], "f.csv:2: ", 9) != 0 ||
			!strstr(warnings.v[0], rows[i].text))
			fail_msg("'%s' does not say '%s'", warnings.v[0], rows[i].text);
	}
}

static void metrics_counters_parse__names_a_hundred_rows_at_most(void **state)
{
	CLEANUP(buf_fini) struct buf csv = BUF_INIT(1 << 16);
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	CLEANUP(metrics_counters_unrefp) struct metrics_counters *c = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	for (int i = 0; i < 107; i++)
		buf_puts(&csv, "x\n");
	/* A file without a valid row is none. */
	assert_error(metrics_counters_parse(&c, "f.csv", buf_str(&csv), csv.len, NULL, &err),
		&err, "f.csv: no row is valid; line 1: 'x' is left out");
	assert_null(c);
	buf_puts(&csv, "DCGM_FI_DEV_GPU_TEMP, gauge, a\n");
	c = parse_counters(buf_str(&csv), &warnings);
	assert_int_equal(c->n, 1);
	assert_int_equal(warnings.n, 101);
	assert_string_equal(warnings.v[100], "f.csv: 7 more rows like these");
}

static void metrics_counters_parse__warns_of_unavailable_fields(void **state)
{
	static const struct {
		const char *csv, *text;
		uint32_t n;
	} rows[] = {
		{ "DCGM_FI_DEV_DIAG_MEMORY_RESULT, gauge, a",
			"f.csv:1: 'DCGM_FI_DEV_DIAG_MEMORY_RESULT' is left out: NVML cannot give it",
			0 },
		{ "DCGM_EXP_P2P_STATUS, label, a", "cannot be a label", 0 },
		{ "DCGM_EXP_CLOCK_EVENTS_COUNT, label, a", "cannot be a label", 0 },
		{ "DCGM_FI_DEV_UUID, gauge, a", "a text can only be a label", 0 },
		{ "DCGM_EXP_GPU_HEALTH_STATUS, label, a", "cannot be a label", 0 },
		{ "DCGM_FI_DEV_GPU_TEMP, gauge, a\nDCGM_FI_DEV_GPU_TEMP, gauge, b",
			"f.csv:2: 'DCGM_FI_DEV_GPU_TEMP' is left out: it stands above", 1 },
		{ "DCGM_FI_DEV_GPU_TEMP, histogram, a", "is written as untyped", 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
		CLEANUP(metrics_counters_unrefp)
		struct metrics_counters *c = parse_counters(rows[i].csv, &warnings);

		assert_int_equal(c->n, rows[i].n);
		assert_int_equal(warnings.n, 1);
		if (!strstr(warnings.v[0], rows[i].text))
			fail_msg("'%s' does not say '%s'", warnings.v[0], rows[i].text);
	}
}

static void metrics_counters_changed__detects_another_file(void **state)
{
	CLEANUP(metrics_counters_unrefp) struct metrics_counters *c = NULL;
	CLEANUP(freep) char *path = NULL;
	static const char one[] = "DCGM_FI_DEV_GPU_TEMP, gauge, a\n";
	char *dir = test_tmpdir();
	struct error err = ERROR_INIT;

	(void)state;
	test_write(dir, "c.csv", one, strlen(one), 0644);
	assert_true(asprintf(&path, "%s/c.csv", dir) > 0);
	assert_ok(metrics_counters_read(&c, path, NULL, &err), &err);
	assert_int_equal(c->n, 1);
	assert_false(metrics_counters_changed(c));
	test_write(dir, "c.csv", "", 0, 0644);
	assert_true(metrics_counters_changed(c));
	test_rmdir(dir);
	/* A file that is missing is a change, which reading it again reports. */
	assert_true(metrics_counters_changed(c));
	c = metrics_counters_unref(c);
	assert_error(metrics_counters_read(&c, path, NULL, &err), &err, "counters file: ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metrics_counters_read__has_the_default_set),
		cmocka_unit_test(metrics_counters_parse__accepts_the_files_of_dcgm_exporter),
		cmocka_unit_test(metrics_counters_parse__accepts_files_of_other_editors),
		cmocka_unit_test(metrics_counters_parse__accepts_lower_case_names),
		cmocka_unit_test(metrics_counters_fields__has_all_counted_fields),
		cmocka_unit_test(metrics_counters_parse__skips_a_malformed_row),
		cmocka_unit_test(metrics_counters_parse__names_a_hundred_rows_at_most),
		cmocka_unit_test(metrics_counters_parse__warns_of_unavailable_fields),
		cmocka_unit_test(metrics_counters_changed__detects_another_file),
	};

	return cmocka_run_group_tests_name("metrics-counters", tests, NULL, NULL);
}
