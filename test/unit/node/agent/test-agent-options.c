/* SPDX-License-Identifier: Apache-2.0 */

/* What the agent reads before it starts: its options, and the config that it kept. */
#include "support/test.h"

#include "node/agent/config/saved.h"
#include "node/agent/options.h"

/* --- the kept config --- */

static void saved_config_parse__rejects_text_of_others(void **state)
{
	static const struct {
		const char *json, *says; /* NULL: it is good */
	} rows[] = {
		{ "{\"source\":\"/c\",\"label\":\"a\",\"entry\":\"a\",\"by\":0,\"text\":\"x\"}",
			NULL },
		{ "{\"source\":\"/c\",\"label\":\"\",\"entry\":\"\",\"by\":4,\"text\":\"\"}",
			NULL },
		{ "{\"source\":\"/d\",\"label\":\"a\",\"entry\":\"a\",\"by\":0,\"text\":\"x\"}",
			"is of '/d'" },
		{ "", "kept config" },
		{ "[]", "other JSON" },
		{ "{\"source\":\"/c\",\"label\":\"a\",\"entry\":\"../a\",\"by\":0,\"text\":\"\"}",
			"other JSON" },
		{ "{\"source\":\"/c\",\"label\":\"a\",\"entry\":\"a\",\"by\":5,\"text\":\"\"}",
			"other JSON" },
		{ "{\"source\":\"/c\",\"label\":\"a\",\"entry\":\"a\",\"by\":0,\"text\":1}",
			"other JSON" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct saved_config saved = { .text = BUF_INIT(0) };
		struct error err = ERROR_INIT;
		size_t len = strlen(rows[i].json);

		if (rows[i].says)
			assert_error(saved_config_parse(&saved, rows[i].json, len, "/c", &err),
				&err, rows[i].says);
		else
			assert_ok(saved_config_parse(&saved, rows[i].json, len, "/c", &err),
				&err);
		buf_fini(&saved.text);
	}
}

/* --- options --- */

static const char *no_env(const char *name)
{
	(void)name;
	return NULL;
}

static const char *chart_env(const char *name)
{
	return !strcmp(name, "CONFIG_FILE")          ? "/config/config.yaml"
	       : !strcmp(name, "CONFIG_FILE_SRCDIR") ? "/available-configs"
						     : NULL;
}

/* Devices are worth more than labels. */
static void agent_options_read__ignores_an_invalid_secondary_option(void **state)
{
	char *argv[] = { (char *)(uintptr_t) "gpusliced", (char *)(uintptr_t) "--labels=nodes",
		NULL };
	struct agent_options a = { .listen = NULL };
	struct options o = { .defs = NULL };
	struct error err = ERROR_INIT;
	size_t n = 0;
	CLEANUP(freep) struct option_def *defs = agent_options(&n);

	(void)state;
	assert_ok(options_parse(&o, defs, n, 2, argv, 0, no_env, &err), &err);
	assert_ok(agent_options_read(&a, &o, &err), &err);
	assert_int_equal(a.errors.n, 1);
	assert_non_null(strstr(a.errors.v[0],
		"--labels: expected off, node, nfd or file, found 'nodes'"));
	assert_int_equal(a.cluster.labels, LABELS_OFF);
	agent_options_fini(&a);
	options_fini(&o);
}

static void agent_options_read__accepts_one_option_that_names_the_config(void **state)
{
	static const struct {
		const char *(*env)(const char *name);
		const char *args[3];
		const char *file, *dir, *map;
		size_t warnings;
		const char *says; /* NULL: it is good */
	} rows[] = {
		{ no_env, { NULL }, NULL, NULL, NULL, 0, NULL },
		{ no_env, { "--config-file=f" }, "f", NULL, NULL, 0, NULL },
		{ no_env, { "--config-map=m" }, NULL, NULL, "m", 0, NULL },
		{ chart_env, { NULL }, NULL, "/available-configs", NULL, 1, NULL },
		{ chart_env, { "--config-file=f" }, "f", NULL, NULL, 1, NULL },
		{ chart_env, { "--config-map=m" }, NULL, NULL, "m", 2, NULL },
		{ no_env, { "--config-file=f", "--config-dir=d" }, NULL, NULL, NULL, 0,
			"--config-dir and --config-file: only one" },
		{ no_env, { "--config-map=f", "--config-dir=d" }, NULL, NULL, NULL, 0,
			"--config-map and --config-dir: only one" },
	};
	size_t n = 0;
	CLEANUP(freep) struct option_def *defs = agent_options(&n);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *argv[4] = { (char *)(uintptr_t) "gpusliced" };
		struct agent_options a = { 0 };
		struct options o = { 0 };
		struct error err = ERROR_INIT;
		int argc = 1;

		for (; rows[i].args[argc - 1]; argc++)
			argv[argc] = (char *)(uintptr_t)rows[i].args[argc - 1];
		assert_ok(options_parse(&o, defs, n, argc, argv, 0, rows[i].env, &err), &err);
		if (rows[i].says) {
			assert_error(agent_options_read(&a, &o, &err), &err, rows[i].says);
		} else {
			assert_ok(agent_options_read(&a, &o, &err), &err);
			assert_int_equal(a.warnings.n, rows[i].warnings);
			assert_string_equal(a.config_path ? a.config_path : "",
				rows[i].file ? rows[i].file : "");
			assert_string_equal(a.config_dir ? a.config_dir : "",
				rows[i].dir ? rows[i].dir : "");
			assert_string_equal(a.config_map ? a.config_map : "",
				rows[i].map ? rows[i].map : "");
			assert_int_equal(a.fallbacks.n, 2);
		}
		agent_options_fini(&a);
		options_fini(&o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(saved_config_parse__rejects_text_of_others),
		cmocka_unit_test(agent_options_read__ignores_an_invalid_secondary_option),
		cmocka_unit_test(agent_options_read__accepts_one_option_that_names_the_config),
	};

	return cmocka_run_group_tests_name("agent-options", tests, NULL, NULL);
}
