/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/config/test-config-read.h"

#include <inttypes.h>

#include "lib/base/fd.h"
#include "io/config/read.h"

/* --- precedence, flags and start-up validation --- */

struct env_row {
	const char *name, *value;
};

static const struct env_row *env_rows;

static const char *test_env(const char *name)
{
	for (const struct env_row *e = env_rows; e && e->name; e++) {
		if (!strcmp(e->name, name))
			return e->value;
	}
	return NULL;
}

static void options_finip(struct options *o)
{
	options_fini(o);
}

/* One source each; NULL or an empty list: it is silent. */
struct input {
	const char *args[4];
	struct env_row env[4];
	const char *file;
};

static int read_input(const struct input *in, struct config **ret, struct strv *warnings,
	struct error *err)
{
	CLEANUP(options_finip) struct options o = { 0 };
	struct config_sources sources = { .options = &o, .env = test_env };
	char *argv[8] = { (char *)(uintptr_t) "gpusliced" };
	int argc = 1;

	for (size_t i = 0; i < ARRAY_LEN(in->args) && in->args[i]; i++)
		argv[argc++] = (char *)(uintptr_t)in->args[i];
	env_rows = in->env;
	if (options_parse(&o, config_options, config_n_options, argc, argv, 0, test_env, err) <
		0)
		return -1;
	if (!in->file)
		return config_parse(ret, "", 0, "", 0, &sources, warnings, err);
	return config_parse_any(ret, "c.yaml", 0, in->file, strlen(in->file), &sources,
		warnings, err);
}

/* {CLI, env, env empty, file, none} x {string, bool, list, list of numbers}. */
static void config__follows_the_order_of_precedence(void **state)
{
	static const struct {
		struct input in;
		const char *want; /* in the printed configuration */
		const char *error;
	} rows[] = {
		/* string */
		{ { .file = NULL }, "\"deviceIDStrategy\": \"uuid\"", NULL },
		{ { .file = "flags: {plugin: {deviceIDStrategy: index}}" },
			"\"deviceIDStrategy\": \"index\"", NULL },
		{ { .file = "flags: {plugin: {deviceIDStrategy: bogus}}",
			  .env = { { "DEVICE_ID_STRATEGY", "index" } } },
			"\"deviceIDStrategy\": \"index\"", NULL },
		{ { .file = "flags: {plugin: {deviceIDStrategy: bogus}}",
			  .env = { { "DEVICE_ID_STRATEGY", "bogus" } },
			  .args = { "--device-id-strategy=index" } },
			"\"deviceIDStrategy\": \"index\"", NULL },
		{ { .file = "flags: {plugin: {deviceIDStrategy: index}}",
			  .env = { { "DEVICE_ID_STRATEGY", "" } } },
			NULL, "$DEVICE_ID_STRATEGY: invalid --device-id-strategy option: " },
		{ { .file = "flags: {migStrategy: mixed}", .env = { { "MIG_STRATEGY", "" } } },
			NULL, "$MIG_STRATEGY: unknown MIG strategy: " },
		{ { .file = "flags: {nvidiaDriverRoot: /a}",
			  .env = { { "NVIDIA_DRIVER_ROOT", "/b" } } },
			"\"nvidiaDriverRoot\": \"/b\"", NULL },
		{ { .args = { "--nvidia-driver-root", "/c" },
			  .env = { { "NVIDIA_DRIVER_ROOT", "/b" } } },
			"\"nvidiaDriverRoot\": \"/c\"", NULL },
		{ { .file = "flags: {plugin: {nvidiaCTKPath: /f}}",
			  .env = { { "NVIDIA_CTK_PATH", "/2" } } },
			"\"nvidiaCTKPath\": \"/2\"", NULL },
		{ { .env = { { "NVIDIA_CTK_PATH", "/2" }, { "NVIDIA_CDI_HOOK_PATH", "/1" } } },
			"\"nvidiaCTKPath\": \"/1\"", NULL },
		{ { .env = { { "NVIDIA_CTK_PATH", "/2" }, { "NVIDIA_CDI_HOOK_PATH", "" } } },
			"\"nvidiaCTKPath\": \"\"", NULL },
		{ { .file = "flags: {nvidiaDevRoot: /a}",
			  .env = { { "NVIDIA_DEV_ROOT", "" } },
			  .args = { "-driver-root=/d" } },
			"\"nvidiaDevRoot\": \"/d\"", NULL },
		/* bool */
		{ { .file = NULL }, "\"failOnInitError\": true", NULL },
		{ { .file = "flags: {failOnInitError: false}" }, "\"failOnInitError\": false",
			NULL },
		{ { .file = "flags: {failOnInitError: true}",
			  .env = { { "FAIL_ON_INIT_ERROR", "f" } } },
			"\"failOnInitError\": false", NULL },
		{ { .file = "flags: {failOnInitError: true}",
			  .env = { { "FAIL_ON_INIT_ERROR", "" } } },
			"\"failOnInitError\": false", NULL },
		{ { .file = "flags: {failOnInitError: false}",
			  .env = { { "FAIL_ON_INIT_ERROR", "" } },
			  .args = { "--fail-on-init-error" } },
			"\"failOnInitError\": true", NULL },
		{ { .env = { { "FAIL_ON_INIT_ERROR", "yes" } } }, NULL,
			"FAIL_ON_INIT_ERROR: expected true or false, found 'yes'" },
		{ { .args = { "--fail-on-init-error=on" } }, NULL, "found 'on'" },
		/* list */
		{ { .file = NULL }, "\"deviceListStrategy\": [\"envvar\"]", NULL },
		{ { .file = "flags: {plugin: {deviceListStrategy: volume-mounts}}" },
			"\"deviceListStrategy\": [\"volume-mounts\"]", NULL },
		{ { .file = "flags: {plugin: {deviceListStrategy: \"envvar,volume-mounts\"}}" },
			NULL,
			"c.yaml:1:38: flags.plugin.deviceListStrategy: invalid "
			"--device-list-strategy option: invalid strategy: envvar,volume-mounts" },
		{ { .file = "flags: {plugin: {deviceListStrategy: volume-mounts}}",
			  .env = { { "DEVICE_LIST_STRATEGY", "envvar" } } },
			"\"deviceListStrategy\": [\"envvar\"]", NULL },
		{ { .file = "flags: {plugin: {deviceListStrategy: volume-mounts}}",
			  .env = { { "DEVICE_LIST_STRATEGY", "" } } },
			NULL,
			"$DEVICE_LIST_STRATEGY: invalid --device-list-strategy option: invalid "
			"strategy: ;" },
		{ { .env = { { "DEVICE_LIST_STRATEGY", "bogus" } },
			  .args = { "--device-list-strategy", " envvar , volume-mounts",
				  "--device-list-strategy=envvar" } },
			"\"deviceListStrategy\": [\"envvar\", \"volume-mounts\"]", NULL },
		/* list of numbers */
		{ { .file = NULL }, "\"channelIDs\": []", NULL },
		{ { .file = "imex: {channelIDs: [0]}" }, "\"channelIDs\": [0]", NULL },
		{ { .env = { { "IMEX_CHANNEL_IDS", "0" } } }, "\"channelIDs\": [0]", NULL },
		{ { .file = "imex: {channelIDs: [0]}", .env = { { "IMEX_CHANNEL_IDS", "" } } },
			"\"channelIDs\": [0]", NULL },
		{ { .file = "imex: {channelIDs: []}",
			  .env = { { "IMEX_CHANNEL_IDS", "7" } },
			  .args = { "--imex-channel-ids=0" } },
			"\"channelIDs\": [0]", NULL },
		{ { .env = { { "IMEX_CHANNEL_IDS", "0,1" } } }, NULL,
			"$IMEX_CHANNEL_IDS: invalid IMEX channel IDs: invalid IMEX config: channelIDs "
			"must be [] or [0]; found [0 1]" },
		{ { .args = { "--imex-channel-ids=x" } }, NULL, "invalid value 'x'" },
		{ { .args = { "--imex-channel-ids=" } }, NULL, "invalid value ''" },
		/* two names of one flag */
		{ { .args = { "--driver-root=/a", "--nvidia-driver-root=/b" } }, NULL,
			"Cannot use two forms of the same flag: driver-root nvidia-driver-root" },
		{ { .args = { "--no-such" } }, NULL, "unknown option '--no-such'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct error err = ERROR_INIT;
		struct config *c = NULL;
		int r = read_input(&rows[i].in, &c, NULL, &err);
		char *json, *flat;
		size_t len = 0;

		if (rows[i].error) {
			if (r >= 0 || !strstr(err.msg, rows[i].error))
				fail_msg("row %zu: %s -- expected %s", i, err.msg,
					rows[i].error);
			continue;
		}
		if (r < 0)
			fail_msg("row %zu: %s", i, err.msg);
		json = config_to_json(c);
		flat = malloc(strlen(json) + 1);
		for (const char *p = json; *p; p++) { /* one line, blanks after commas only */
			if (*p == '\n')
				while (p[1] == ' ')
					p++;
			else
				flat[len++] = *p;
			if (*p == ',' && p[1] == '\n')
				flat[len++] = ' ';
		}
		flat[len] = '\0';
		if (!strstr(flat, rows[i].want))
			fail_msg("row %zu: no %s in %s", i, rows[i].want, flat);
		free(flat);
		free(json);
		(void)config_free(c);
	}
}

/* Section 3: in this order, with these texts. Each row also has all faults of the rows below it. */
static void config__validates_in_nvidias_order(void **state)
{
	static const char *const texts[] = {
		"invalid --device-list-strategy option: invalid strategy: X",
		"invalid --device-id-strategy option: X",
		"invalid --shared-devices-allocation-policy option: X",
		"flags.mpsRoot: expected an absolute path, found 'mps'",
		"invalid --device-discovery-strategy option X",
		"unknown MIG strategy: X",
		"invalid IMEX channel IDs: invalid IMEX config: channelIDs must be [] or [0]; found [0 1]",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		char text[512];

		(void)snprintf(text, sizeof(text),
			"flags: {migStrategy: %s, mpsRoot: \"%s\", deviceDiscoveryStrategy: %s, plugin: "
			"{deviceListStrategy: %s, deviceIDStrategy: %s, "
			"sharedDevicesAllocationPolicy: %s}}\n"
			"imex: {channelIDs: [0, 1]}\n"
			"sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}\n",
			i <= 5 ? "X" : "none", i > 3 ? "/mps" : "mps", i <= 4 ? "X" : "auto",
			i == 0 ? "X" : "envvar", i <= 1 ? "X" : "uuid",
			i <= 2 ? "X" : "packed");
		read_expect_error(text, texts[i]);
	}
}

static void config__warns_when_the_file_is_overridden(void **state)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	struct error err = ERROR_INIT;
	struct config *c = NULL;
	struct input in = { .file = "flags:\n  migStrategy: single\n  failOnInitError: true\n",
		.env = { { "MIG_STRATEGY", "none" }, { "FAIL_ON_INIT_ERROR", "true" } } };

	(void)state;
	assert_ok(read_input(&in, &c, &warnings, &err), &err);
	assert_int_equal(warnings.n, 1);
	assert_string_equal(warnings.v[0],
		"c.yaml:2:16: flags.migStrategy: has no effect: $MIG_STRATEGY overrides it");
	(void)config_free(c);
	strv_clear(&warnings);
	c = NULL;
	in = (struct input){ .file = "flags: {migStrategy: single}",
		.args = { "--mig-strategy=none", "--cdi-feature-flags=a" } };
	assert_ok(read_input(&in, &c, &warnings, &err), &err);
	assert_int_equal(warnings.n, 2);
	assert_non_null(strstr(warnings.v[0], "--mig-strategy overrides it"));
	assert_non_null(strstr(warnings.v[1],
		"--cdi-feature-flags: 'a' has no effect: it is not known"));
	(void)config_free(c);
}

static void config__reads_the_strategies_of_cdi(void **state)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	struct error err = ERROR_INIT;
	struct config *c = NULL;
	struct input in = { .env = { { "CDI_FEATURE_FLAGS", "" },
				    { "CDI_DISABLE_HOOKS", "all" },
				    { "NVIDIA_CTK_PATH", "/usr/bin/nvidia-ctk" } },
		.args = { "--cdi-feature-flags=disable-ipc-discoverer,disable-ipc-discoverer,"
			  "enable-coherent-annotations" } };

	(void)state;
	assert_ok(read_input(&in, &c, &warnings, &err), &err);
	assert_int_equal(c->cdi_features.n, 2);
	assert_string_equal(c->cdi_features.v[0], "disable-ipc-discoverer");
	assert_int_equal(c->cdi_disabled_hooks.n, 1);
	assert_string_equal(c->cdi_disabled_hooks.v[0], "all");
	assert_true(c->cdi_hook_path_set); /* though it is the default's path */
	assert_int_equal(warnings.n, 1);
	assert_non_null(strstr(warnings.v[0], "'enable-coherent-annotations' has no effect"));
	(void)config_free(c);
	c = NULL;
	in = (struct input){ .env = { { "CDI_FEATURE_FLAGS", "" },
				     { "NVIDIA_CDI_HOOK_PATH", "" } } };
	assert_ok(read_input(&in, &c, NULL, &err), &err);
	assert_int_equal(c->cdi_features.n, 0);
	assert_false(c->cdi_hook_path_set);
	(void)config_free(c);
	c = NULL;
	in = (struct input){ .file = "flags: {plugin: {nvidiaCTKPath: /x,"
				     " deviceListStrategy: [envvar, cdi-cri]}}" };
	assert_ok(read_input(&in, &c, NULL, &err), &err);
	assert_true(c->cdi_hook_path_set);
	assert_int_equal(c->device_lists, DEVICE_LIST_ENVVAR | DEVICE_LIST_CDI_CRI);
	(void)config_free(c);
}

static void config__adds_the_health_variables(void **state)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;
	struct error err = ERROR_INIT;
	struct config *c = NULL;
	struct input in = { .file = "health: {ignoreXids: [48]}",
		.env = { { "DP_DISABLE_HEALTHCHECKS", "62,x" },
			{ "DP_ENABLE_HEALTHCHECKS", "48" } } };

	(void)state;
	assert_ok(read_input(&in, &c, &warnings, &err), &err);
	assert_true(health_policy_acts(&c->health, 48));
	assert_false(health_policy_acts(&c->health, 62));
	assert_int_equal(warnings.n, 1);
	assert_non_null(strstr(warnings.v[0], "skipped 'x'"));
	(void)config_free(c);
	c = NULL;
	in = (struct input){ .env = { { "DP_DISABLE_HEALTHCHECKS", "all" },
				     { "DP_ENABLE_HEALTHCHECKS", "48" } } };
	assert_ok(read_input(&in, &c, NULL, &err), &err);
	assert_true(health_policy_acts(&c->health, 48));
	assert_false(health_policy_acts(&c->health, 79));
	(void)config_free(c);
}

static void config__names_the_place_of_unsupported_settings(void **state)
{
	struct error err = ERROR_INIT;
	struct config *c = NULL;
	struct input in = { .args = { "--device-discovery-strategy=tegra" } };

	(void)state;
	assert_error(read_input(&in, &c, NULL, &err), &err,
		"--device-discovery-strategy: Tegra GPUs are not supported");
}

/* The help of an option without a default describes what happens when it is not set. */
static bool same_default(const struct option_def *d, const struct config_field *f)
{
	return d->def ? !strcmp(d->def, f->def) : strstr(d->help, "if not set") != NULL;
}

static void config_options__are_the_options_of_the_table(void **state)
{
	(void)state;
	assert_int_equal(config_n_options, 22);
	for (size_t i = 0; i < config_n_fields; i++) {
		const struct config_field *f = &config_fields[i];
		bool found = !f->option;

		for (size_t k = 0; !found && k < config_n_options; k++)
			found = !strcmp(config_options[k].name, f->option) &&
				same_default(&config_options[k], f);
		if (!found)
			fail_msg("no option --%s with the default %s", f->option, f->def);
	}
}

/* docs/config.md has a row with the default of each key, and the man page its name. */
static void config_fields__are_all_documented(void **state)
{
	CLEANUP(buf_fini) struct buf docs = BUF_INIT(1 << 20), man = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(file_read(TEST_SOURCE "/docs/config.md", &docs, &err), &err);
	assert_ok(file_read(TEST_SOURCE "/man/gpuslice-config.5.scd", &man, &err), &err);
	for (size_t i = 0; i < config_n_fields; i++) {
		const struct config_field *f = &config_fields[i];
		CLEANUP(buf_fini) struct buf want = BUF_INIT(512);
		const char *row;

		if (f->type == FIELD_OBJECT || f->path[strlen(f->path) - 1] == ']' ||
			!strcmp(f->path, "resources.gpus") ||
			!strcmp(f->path, "resources.mig") ||
			!strcmp(f->path, "sharing.slices") ||
			!strncmp(f->path, "sharing.mps.resources[].isolation.", 34))
			continue;
		buf_printf(&want, "`%s`", f->path);
		row = strstr(buf_str(&docs), buf_str(&want));
		if (!row)
			fail_msg("docs/config.md does not have %s", f->path);
		buf_clear(&want);
		buf_printf(&want, "`%s`", f->def ? f->def : "");
		if (f->def && *f->def && strncmp(f->path, "sharing.mps.", 12) != 0 &&
			!memmem(row, strcspn(row, "\n"), buf_str(&want), want.len))
			fail_msg("docs/config.md does not have the default %s of %s", f->def,
				f->path);
		if (f->option && !memmem(row, strcspn(row, "\n"), f->option, strlen(f->option)))
			fail_msg("docs/config.md does not have the option of %s", f->path);
		if ((f->flags & FIELD_STORED) && !strstr(buf_str(&man), field_key(f)))
			fail_msg("gpuslice-config(5) does not have %s", f->path);
	}
}

/* One row of deploy/helm/gpuslice/files/config-keys.yaml, by which helm checks config.map. */
static void add_chart_row(struct buf *to, const struct config_field *f)
{
	static const char *const types[] = {
		[FIELD_OBJECT] = "object",
		[FIELD_LIST] = "list",
		[FIELD_STR] = "text",
		[FIELD_BOOL] = "bool",
		[FIELD_INT] = "integer",
		[FIELD_DURATION] = "duration",
		[FIELD_WORD] = "word",
		[FIELD_STRATEGIES] = "words",
		[FIELD_IMEX] = "channels",
		[FIELD_NAME] = "name",
		[FIELD_MEMORY] = "memory",
		[FIELD_DEVICES] = "devices",
		[FIELD_XIDS] = "xids",
	};
	const struct field_range *range = field_range(f->path);
	char min[DURATION_TEXT_MAX], max[DURATION_TEXT_MAX];

	buf_printf(to, "\"%s\": {type: %s", f->path, types[f->type]);
	if (f->flags & FIELD_EXACT)
		buf_puts(to, ", exact: true");
	if (f->flags & FIELD_REQUIRED)
		buf_puts(to, ", required: true");
	if (f->flags & FIELD_NULL)
		buf_puts(to, ", nullable: true");
	for (size_t i = 0; f->words && i < f->words->n; i++)
		buf_printf(to, "%s%s", i ? ", " : ", of: [", f->words->words[i]);
	if (f->words)
		buf_puts(to, "]");
	if (range && f->type == FIELD_DURATION) {
		duration_text(range->min, min);
		duration_text(range->max, max);
		buf_printf(to, ", min: %s, max: %s", min, max);
	} else if (range) {
		buf_printf(to, ", min: %" PRId64 ", max: %" PRId64, range->min, range->max);
	}
	buf_puts(to, "}\n");
}

static void config_fields__agree_with_the_schema_of_the_chart(void **state)
{
	CLEANUP(buf_fini) struct buf file = BUF_INIT(1 << 16), want = BUF_INIT(1 << 16);
	struct error err = ERROR_INIT;
	const char *is, *should;

	(void)state;
	assert_ok(file_read(TEST_SOURCE "/deploy/helm/gpuslice/files/config-keys.yaml", &file,
			  &err),
		&err);
	buf_puts(&want, "\"\": {type: object}\n");
	for (size_t i = 0; i < config_n_fields; i++)
		add_chart_row(&want, &config_fields[i]);
	is = strstr(buf_str(&file), "\"\":");
	should = buf_str(&want);
	assert_non_null(is);
	while (*should) {
		size_t n = strcspn(should, "\n") + 1;

		if (strncmp(is, should, n) != 0)
			fail_msg("config-keys.yaml: expected the row %.*s, found %.*s",
				(int)n - 1, should, (int)strcspn(is, "\n"), is);
		is += n;
		should += n;
	}
	assert_string_equal(is, "");
}

/* Each line of @name up to "|", with \n for the ends of lines, as a config: good or bad. tools/check-chart.sh gives them to helm. */
static void read_texts(const char *name, bool good)
{
	CLEANUP(buf_fini) struct buf file = BUF_INIT(1 << 16), path = BUF_INIT(512);
	struct error err = ERROR_INIT;
	char *rest = NULL;
	size_t n = 0;

	buf_printf(&path, "%s/test/data/config-texts/%s", TEST_SOURCE, name);
	assert_ok(file_read(buf_str(&path), &file, &err), &err);
	buf_putc(&file, '\0');
	for (char *line = strtok_r(file.data, "\n", &rest); line;
		line = strtok_r(NULL, "\n", &rest)) {
		if (!strncmp(line, "#: ", 3))
			continue;
		line[strcspn(line, "|")] = '\0';
		for (char *end = strstr(line, "\\n"); end; end = strstr(end, "\\n")) {
			*end = '\n';
			memmove(end + 1, end + 2, strlen(end + 2) + 1);
		}
		if (good)
			(void)config_free(read_good(line, NULL));
		else
			read_expect_error(line, "");
		n++;
	}
	assert_true(n > 20);
}

static void config_parse__agrees_with_the_chart(void **state)
{
	(void)state;
	read_texts("refused", false);
	read_texts("accepted", true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config__follows_the_order_of_precedence),
		cmocka_unit_test(config__validates_in_nvidias_order),
		cmocka_unit_test(config__warns_when_the_file_is_overridden),
		cmocka_unit_test(config__reads_the_strategies_of_cdi),
		cmocka_unit_test(config__adds_the_health_variables),
		cmocka_unit_test(config__names_the_place_of_unsupported_settings),
		cmocka_unit_test(config_options__are_the_options_of_the_table),
		cmocka_unit_test(config_fields__are_all_documented),
		cmocka_unit_test(config_fields__agree_with_the_schema_of_the_chart),
		cmocka_unit_test(config_parse__agrees_with_the_chart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
