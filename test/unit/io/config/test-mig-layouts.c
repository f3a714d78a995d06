/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/fd.h"
#include "io/config/mig/mig.h"

/* The grammar row by row, what mig-parted takes, our list form, the default map, and printing. */

#define HEAD       "version: v1\nmig-configs:\n  a:\n  - "
#define ENTRY(...) HEAD "{" __VA_ARGS__ "}\n"
#define ON(rows)   ENTRY("devices: all, mig-enabled: true, mig-devices: " rows)

static struct mig_configs *read_text(const char *text, struct strv *warnings)
{
	const struct yaml_source src = { .name = "m.yaml", .text = text, .len = strlen(text) };
	struct mig_configs *c = NULL;
	struct error err = ERROR_INIT;

	if (mig_configs_parse(&c, &src, warnings, &err) < 0)
		fail_msg("%s: %s", err.msg, text);
	return c;
}

static struct buf file_text(const char *path)
{
	struct buf b = BUF_INIT(MIG_FILE_MAX);
	struct error err = ERROR_INIT;

	assert_ok(file_read(path, &b, &err), &err);
	return b;
}

static void mig_configs_parse__refuses_with_the_texts_of_mig_parted(void **state)
{
	static const struct {
		const char *text, *place, *want;
	} rows[] = {
		{ "mig-configs: {a: [{devices: all, mig-enabled: false}]}", "1:1",
			"unable to parse with missing 'version' field" },
		{ "a: b", "1:1", "unable to parse with missing 'version' field" },
		{ "apiVersion: v1\nkind: ConfigMap\n", "1:1",
			"missing 'version' field; this is a Kubernetes manifest" },
		{ "version: v2", "1:10", "unknown version: v2" },
		{ "version:\n", "1:1", "unknown version: ;" },
		{ "version: 1", "1:10",
			"json: cannot unmarshal number into Go value of type string" },
		{ "[]", "1:1", "cannot unmarshal array into Go value of type" },
		{ "version: v1\nother: 1", "2:1", "unexpected field: other" },
		{ "version: v1\nMig-Configs: 1", "2:1", "unexpected field: Mig-Configs" },
		{ "version: v1\nmig-configs: {}", "2:14",
			"at least one entry in 'mig-configs' is required" },
		{ "version: v1\nmig-configs:\n", "2:1",
			"at least one entry in 'mig-configs' is required" },
		{ "version: v1\nmig-configs: []", "2:14", "cannot unmarshal array into" },
		{ "version: v1\nmig-configs:\n  x: []\n", "3:6",
			"at least one entry in 'x' is required" },
		{ "version: v1\nmig-configs:\n  x:\n", "3:3",
			"at least one entry in 'x' is required" },
		{ "version: v1\nmig-configs:\n  x: {}\n", "3:6", "cannot unmarshal object" },
		{ HEAD "x\n", "4:5", "cannot unmarshal string into Go value of type map" },
		{ "version: v1\nmig-configs: {a: [null]}", "2:19",
			"missing required field: devices" },
		{ ENTRY("mig-enabled: false"), "4:5", "missing required field: devices" },
		{ ENTRY("devices: all"), "4:5", "missing required field: mig-enabled" },
		{ ENTRY("devices: all, mig-enabled: false, x: 1"), "4:40",
			"unexpected field: x" },
		{ ENTRY("devices: some, mig-enabled: false"), "4:15",
			"invalid string input for 'devices': some" },
		{ ENTRY("devices: , mig-enabled: false"), "4:6",
			"invalid string input for 'devices': ;" },
		{ ENTRY("devices: 1, mig-enabled: false"), "4:15",
			"(json: cannot unmarshal number into Go value of type string, json: cannot "
			"unmarshal number into Go value of type []int)" },
		{ ENTRY("devices: [0, a], mig-enabled: false"), "4:19",
			"(json: cannot unmarshal array into Go value of type string, json: cannot "
			"unmarshal string into Go value of type int)" },
		{ ENTRY("devices: [0, 1.5], mig-enabled: false"), "4:19",
			"cannot unmarshal number 1.5 into Go value of type int)" },
		{ ENTRY("device-filter: 0x20B010DE, devices: all, mig-enabled: false"), "4:21",
			"(json: cannot unmarshal number into Go value of type string, json: cannot "
			"unmarshal number into Go value of type []string)" },
		{ ENTRY("device-filter: [x, {}], devices: all, mig-enabled: false"), "4:25",
			"(json: cannot unmarshal array into Go value of type string, json: cannot "
			"unmarshal object into Go value of type string)" },
		{ ENTRY("devices: all, mig-enabled: maybe"), "4:33",
			"cannot unmarshal string into Go value of type bool" },
		{ ENTRY("devices: all, mig-enabled: true"), "4:5",
			"missing required field 'mig-devices' when 'mig-enabled' is true" },
		{ ON("null"), "4:5",
			"missing required field 'mig-devices' when 'mig-enabled' is true" },
		{ ENTRY("devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}"), "4:53",
			"MIG devices included when 'mig-enabled' is false" },
		{ ON("{g.5gb: 1}"), "4:53",
			"error validating values in 'mig-devices' field: invalid format for "
			"'g.5gb': " },
		{ ON("{1g.5gb+me-gfx: 1}"), "4:53", "invalid format for '1g.5gb+me-gfx': " },
		{ ON("{1g.5gb: -1}"), "4:61",
			"error validating values in 'mig-devices' field: invalid count for '-1': " },
		{ ON("{1g.5gb: 0, 2g.10gb: 0}"), "4:52",
			"error validating values in 'mig-devices' field: all counts for all "
			"MigProfiles are 0" },
		{ ON("{1g.5gb: x}"), "4:61",
			"cannot unmarshal string into Go value of type int" },
		{ ON("{1g.5gb: 1000001}"), "4:61", "expected a count of at most 1000000" },
		{ ON("5"), "4:52", "cannot unmarshal number into Go value" },
		/* Our list form. */
		{ ON("[1g.5gb]"), "4:53", "expected an object such as {profile: 3g.20gb" },
		{ ON("[{start: 0}]"), "4:53", "missing required field: profile" },
		{ ON("[{profile: 1g.5gb, size: 1}]"), "4:71", "unexpected field: size" },
		{ ON("[{profile: 1}]"), "4:63", "cannot unmarshal number into Go value" },
		{ ON("[{profile: 1g}]"), "4:63", "invalid format for '1g': " },
		{ ON("[{profile: 1g.5gb, start: 32}]"), "4:78",
			"expected a slot of the GPU's memory from 0 to 31, found 32" },
		{ ON("[{profile: 1g.5gb, start: 0, count: 2}]"), "4:53",
			"expected one instance at one start, found the count 2" },
		{ ON("[{profile: 1g.5gb, count: 0}]"), "4:52",
			"all counts for all MigProfiles" },
		{ "version: v1\n---\nversion: v1\n", "3:1", "expected one document" },
		{ "version: v1\nversion: v1\n", "2:1", "duplicate key" },
	};
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct yaml_source src = { .name = "m.yaml",
			.text = rows[i].text,
			.len = strlen(rows[i].text) };
		struct mig_configs *c = NULL;
		char place[32];

		assert_error(mig_configs_parse(&c, &src, NULL, &err), &err, rows[i].want);
		assert_null(c);
		(void)snprintf(place, sizeof(place), "m.yaml:%s: ", rows[i].place);
		if (strncmp(err.msg, place, strlen(place)) != 0)
			fail_msg("expected %s, found %s", place, err.msg);
	}
}

static void mig_configs_parse__accepts_an_empty_document_and_a_bare_version(void **state)
{
	static const char *const texts[] = { "", "\n# nothing\n", "---\n", "null", "{}",
		"version: v1", "{\"version\": \"v1\"}" };
	const struct mig_config *config = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct mig_configs *c = read_text(texts[i], NULL);

		assert_int_equal(c->n, 0);
		assert_error(mig_configs_select(c, "x", &config, &err), &err,
			"selected mig-config not present: x");
		assert_error(mig_configs_select(c, NULL, &config, &err), &err,
			"selected mig-config not present: ");
		(void)mig_configs_free(c);
	}
}

static void mig_configs_parse__reads_every_field(void **state)
{
	struct strv warnings = STRV_INIT;
	struct mig_configs *c = read_text(
		"version: v1\n"
		"mig-configs:\n"
		"  b:\n"
		"  - device-filter: 0x20B010DE:0x134F10DE\n"
		"    devices: [2, 0]\n"
		"    mig-enabled: yes\n"
		"    mig-devices: {1c.3g.20gb: 2, \"1g.5gb+me\": 1.0}\n"
		"  a:\n"
		"  - {devices: all, mig-enabled: false, mig-devices: {}}\n"
		"  - {device-filter: \"\", devices: all, mig-enabled: true, mig-devices: {}}\n"
		"  - {device-filter: [], devices: all, mig-enabled: off}\n"
		"  - {device-filter: , devices: all, mig-enabled: null}\n"
		"  - devices: all\n"
		"    mig-enabled: true\n"
		"    mig-devices:\n"
		"    - {profile: 3g.20gb, start: 4}\n"
		"    - profile: 1g.5gb\n"
		"      count: 2\n",
		&warnings);
	const struct mig_entry *e = c->configs[0].entries;

	(void)state;
	assert_int_equal(warnings.n, 0);
	assert_int_equal(c->n, 2);
	assert_string_equal(c->configs[0].name, "b");
	assert_int_equal(c->configs[0].line, 3);
	assert_int_equal(e->line, 4);
	assert_false(e->all);
	assert_int_equal(e->n_devices, 2);
	assert_int_equal(e->devices[0], 2);
	assert_int_equal(e->n_filters, 1);
	assert_int_equal(e->filters[0].device, 0x20B010DE);
	assert_int_equal(e->filters[0].subsystem, 0x134F10DE);
	assert_true(e->filter_text && e->enabled && e->has_rows);
	assert_int_equal(e->n_rows, 2);
	assert_int_equal(e->rows[0].profile.c, 1);
	assert_int_equal(e->rows[0].count, 2);
	assert_int_equal(e->rows[0].start, MIG_START_ANY);
	assert_int_equal(e->rows[1].count, 1);
	assert_string_equal(e->rows[1].profile.attributes, "+me");
	e = c->configs[1].entries;
	assert_int_equal(c->configs[1].n, 5);
	assert_true(e[0].all && e[0].has_rows && !e[0].enabled && !e[0].n_rows);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(e[i].n_filters, 0);
	assert_true(e[1].enabled && !e[2].enabled && !e[3].enabled && !e[3].has_rows);
	assert_int_equal(e[4].n_rows, 2);
	assert_int_equal(e[4].rows[0].start, 4);
	assert_int_equal(e[4].rows[0].count, 1);
	assert_int_equal(e[4].rows[1].start, MIG_START_ANY);
	assert_int_equal(e[4].rows[1].count, 2);
	(void)mig_configs_free(c);
	strv_fini(&warnings);
}

/* What mig-parted passes over in silence. */
static void mig_configs_parse__warns_of_settings_without_effect(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ ENTRY("device-filter: A100-SXM4-40GB, devices: all, mig-enabled: false"),
			"m.yaml:4:21: mig-configs.a[0].device-filter: 'A100-SXM4-40GB' matches no "
			"GPU: expected a PCI id" },
		{ ENTRY("device-filter: [\"0x20B010DE\", \"0x1:0x2:0x3\"], devices: all, "
			"mig-enabled: false"),
			"m.yaml:4:36: mig-configs.a[0].device-filter[1]: '0x1:0x2:0x3' matches no" },
		{ ENTRY("device-filter: \"0x10DE20B0\", devices: all, mig-enabled: false"),
			"its last four digits are the vendor" },
		{ ENTRY("devices: [], mig-enabled: false"), "an empty list is about no GPU" },
		{ ENTRY("devices: [-1], mig-enabled: false"), "no GPU has the index -1" },
		{ ENTRY("devices: [1, 1], mig-enabled: false"), "1 is in the list already" },
		{ ON("{1g.5gb: 0, 2g.10gb: 1}"), "a count of 0 beside others never counts" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct strv warnings = STRV_INIT;
		struct mig_configs *c = read_text(rows[i].text, &warnings);

		assert_int_equal(warnings.n, 1);
		if (!strstr(warnings.v[0], rows[i].want))
			fail_msg("'%s', expected '%s' in it", warnings.v[0], rows[i].want);
		(void)mig_configs_free(c);
		strv_fini(&warnings);
	}
}

/* Puts @n times @text, after @head and before @tail, separated by commas. "#": which one it is. */
static char *repeat_in_list(const char *head, const char *text, size_t n, const char *tail)
{
	struct buf b = BUF_INIT(MIG_FILE_MAX * 2);

	buf_puts(&b, head);
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(&b, ',');
		for (const char *p = text; *p; p++) {
			if (*p == '#')
				buf_printf(&b, "%02zu", i);
			else
				buf_putc(&b, *p);
		}
	}
	buf_puts(&b, tail);
	return buf_steal(&b);
}

static void mig_configs_parse__has_limits(void **state)
{
	static const struct {
		const char *head, *text, *tail, *want;
		size_t most;
	} rows[] = {
		{ "version: v1\nmig-configs: {", "c#: [{devices: all, mig-enabled: false}]",
			"}\n", "expected at most 4096 configs", MIG_CONFIGS_MAX },
		{ "version: v1\nmig-configs: {a: [", "{devices: all, mig-enabled: false}",
			"]}\n", "expected at most 1024 entries", MIG_ENTRIES_MAX },
		{ "version: v1\nmig-configs: {a: [{mig-enabled: false, devices: [", "1#",
			"]}]}\n", "expected at most 1024 GPU indexes", MIG_INDEXES_MAX },
		{ "version: v1\nmig-configs: {a: [{mig-enabled: false, devices: all, "
		  "device-filter: [",
			"\"#\"", "]}]}\n", "expected at most 256 filters", MIG_FILTERS_MAX },
		{ "version: v1\nmig-configs: {a: [{mig-enabled: true, devices: all, "
		  "mig-devices: {",
			"1g.1#gb: 1", "}}]}\n", "expected at most 64 kinds of MIG devices",
			MIG_DEVICES_MAX },
	};
	struct error err = ERROR_INIT;
	char name[MIG_NAME_MAX + 1] = "";

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *good =
			repeat_in_list(rows[i].head, rows[i].text, rows[i].most, rows[i].tail);
		char *bad = repeat_in_list(rows[i].head, rows[i].text, rows[i].most + 1,
			rows[i].tail);
		const struct yaml_source src = { .name = "m", .text = bad, .len = strlen(bad) };
		struct mig_configs *c = read_text(good, NULL), *none = NULL;

		(void)mig_configs_free(c);
		assert_error(mig_configs_parse(&none, &src, NULL, &err), &err, rows[i].want);
		assert_int_equal(err.code, ERR_LIMIT);
		free(good);
		free(bad);
	}
	for (size_t len = MIG_NAME_MAX - 1; len <= MIG_NAME_MAX; len++) {
		char text[256];
		struct yaml_source src = { .name = "m", .text = text };
		struct mig_configs *c = NULL;

		memset(name, 'x', len);
		(void)snprintf(text, sizeof(text),
			"version: v1\nmig-configs: {%s: [{devices: all, mig-enabled: false}]}",
			name);
		src.len = strlen(text);
		assert_int_equal(mig_configs_parse(&c, &src, NULL, &err) == 0,
			len < MIG_NAME_MAX);
		(void)mig_configs_free(c);
	}
	assert_non_null(strstr(err.msg, "expected a name of at most 127 bytes, found 128"));
}

static void mig_configs_load__reports_read_or_unmarshal_errors(void **state)
{
	struct mig_configs *c = NULL;
	struct error err = ERROR_INIT;
	char *dir = test_tmpdir(), path[4096];

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/m.yaml", dir);
	assert_error(mig_configs_load(&c, path, NULL, &err), &err, "read error: open ");
	assert_non_null(strstr(err.msg, "m.yaml: no such file or directory"));
	assert_ok(file_write_atomic(path, "version: v9", 11, 0644, &err), &err);
	assert_error(mig_configs_load(&c, path, NULL, &err), &err, "unmarshal error: ");
	assert_non_null(strstr(err.msg, "m.yaml:1:10: version: unknown version: v9"));
	assert_ok(file_write_atomic(path, "version: v1", 11, 0644, &err), &err);
	assert_ok(mig_configs_load(&c, path, NULL, &err), &err);
	(void)mig_configs_free(c);
	test_rmdir(dir);
}

/* What both printers of Go made of one config: read one, print the other. */
static void mig_configs_print__prints_the_bytes_of_go(void **state)
{
	struct buf yaml = file_text(TEST_SOURCE "/test/data/mig/printed.yaml");
	struct buf json = file_text(TEST_SOURCE "/test/data/mig/printed.json");
	struct mig_configs *c = read_text(buf_str(&json), NULL);
	struct mig_configs *d = read_text(buf_str(&yaml), NULL);
	char *text = mig_configs_to_yaml(c);

	(void)state;
	assert_string_equal(text, buf_str(&yaml));
	free(text);
	text = mig_configs_to_json(c);
	assert_string_equal(text, buf_str(&json));
	free(text);
	text = mig_configs_to_yaml(d);
	assert_string_equal(text, buf_str(&yaml));
	free(text);
	(void)mig_configs_free(c);
	(void)mig_configs_free(d);
	buf_fini(&yaml);
	buf_fini(&json);
}

static void mig_configs_print__prints_the_list_form(void **state)
{
	static const char yaml[] = "version: v1\n"
				   "mig-configs:\n"
				   "  a:\n"
				   "  - devices: [0]\n"
				   "    mig-enabled: true\n"
				   "    mig-devices:\n"
				   "    - {profile: 3g.20gb, start: 4}\n"
				   "    - {profile: 1g.10gb+me, count: 1}\n"
				   "    - {profile: '1g.10gb+gfx,me', count: 2}\n";
	struct mig_configs *c = read_text(yaml, NULL), *d;
	char *text = mig_configs_to_yaml(c), *json = mig_configs_to_json(c);

	(void)state;
	assert_string_equal(text, yaml);
	free(text);
	d = read_text(json, NULL);
	text = mig_configs_to_yaml(d);
	assert_string_equal(text, yaml);
	free(text);
	free(json);
	(void)mig_configs_free(c);
	(void)mig_configs_free(d);
	c = read_text("", NULL);
	text = mig_configs_to_yaml(c);
	json = mig_configs_to_json(c);
	assert_string_equal(text, "version: v1\n");
	assert_string_equal(json, "{\n  \"version\": \"v1\"\n}");
	free(text);
	free(json);
	(void)mig_configs_free(c);
}

static void mig_configs_parse__reads_the_file_of_the_user(void **state)
{
	static const char *const names[] = { "all-disabled", "all-1g.5gb", "all-balanced" };
	struct strv warnings = STRV_INIT;
	struct mig_configs *c = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(mig_configs_load(&c, TEST_FIXTURES "/default-mig-parted-config.yaml",
			  &warnings, &err),
		&err);
	assert_int_equal(warnings.n, 0);
	assert_int_equal(c->n, ARRAY_LEN(names));
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const struct mig_config *config = NULL;

		assert_ok(mig_configs_select(c, names[i], &config, &err), &err);
		assert_string_equal(config->name, names[i]);
	}
	assert_int_equal(c->configs[2].entries[0].n_filters, 4);
	assert_int_equal(c->configs[2].entries[0].n_rows, 3);
	(void)mig_configs_free(c);
	strv_fini(&warnings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mig_configs_parse__refuses_with_the_texts_of_mig_parted),
		cmocka_unit_test(
			mig_configs_parse__accepts_an_empty_document_and_a_bare_version),
		cmocka_unit_test(mig_configs_parse__reads_every_field),
		cmocka_unit_test(mig_configs_parse__warns_of_settings_without_effect),
		cmocka_unit_test(mig_configs_parse__has_limits),
		cmocka_unit_test(mig_configs_load__reports_read_or_unmarshal_errors),
		cmocka_unit_test(mig_configs_print__prints_the_bytes_of_go),
		cmocka_unit_test(mig_configs_print__prints_the_list_form),
		cmocka_unit_test(mig_configs_parse__reads_the_file_of_the_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
