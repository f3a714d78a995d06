/* SPDX-License-Identifier: Apache-2.0 */

/* A config of one file or none: when the agent starts, what it refuses, and the saved config of an earlier run. */
#include "unit/node/agent/config/config-env.h"

#include "lib/base/fd.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define DEFAULTS "version: v1\n"

static int setup(void **state)
{
	int r = config_env_setup(state);
	struct config_env *e = *state;

	e->options.file = e->file;
	return r;
}

#define FILE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, config_env_teardown)

/* A start with that file; NULL: there is none. */
static int try_file(struct config_env *e, const char *text, struct error *err)
{
	config_env_stop(e);
	if (text)
		config_env_file(e, text);
	else
		(void)unlink(e->file);
	return config_env_try(e, err);
}

static void start_file(struct config_env *e, const char *text)
{
	struct error err = ERROR_INIT;

	assert_ok(try_file(e, text, &err), &err);
}

/* Writes @text to the file, and requests a reload. */
static void reload_text(struct config_env *e, const char *text)
{
	if (text)
		config_env_file(e, text);
	else
		(void)unlink(e->file);
	agent_config_reload(&e->config);
}

static const struct {
	const char *text, *says;
} bad_files[] = {
	{ NULL, "No such file" },
	{ "version: v2\n", "unknown version: v2" },
	{ "version: v1\nsharing: [", "closing bracket" },
	{ "version: v1\nflags: {deviceDiscoveryStrategy: tegra}\n", "not supported" },
	{ "version: v1\n# \xff\xfe\n", ":2:" },
	{ "flags: {migStrategi: none}\n", "unknown key 'migStrategi'" },
};

/* --- the start --- */

static void agent_config_start__needs_a_valid_file_the_first_time(void **state)
{
	struct config_env *e = *state;
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(bad_files); i++) {
		assert_error(try_file(e, bad_files[i].text, &err), &err, bad_files[i].says);
		assert_undecided(e);
		assert_int_equal(access(e->kept, F_OK), -1);
	}
	start_file(e, SHARING(2));
	assert_good(e, 2);
	assert_string_equal(e->config.where, e->file);
	assert_int_equal(e->f->facts.config_generation, 1);
	assert_int_equal(e->changes, 1);
	assert_int_equal(e->f->n_events, 0); /* it is no news */
}

static void agent_config_start__accepts_an_empty_file_without_a_saved_config(void **state)
{
	static const char *const empty[] = { "", "\n \n", "# soon\n", "{}\n", "---\n" };
	struct config_env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(empty); i++) {
		start_file(e, empty[i]);
		assert_good(e, 0);
	}
}

static void agent_config_start__uses_the_last_valid_config_where_the_file_is_invalid(
	void **state)
{
	struct config_env *e = *state;

	start_file(e, SHARING(2));
	for (size_t i = 0; i < ARRAY_LEN(bad_files); i++) {
		start_file(e, bad_files[i].text);
		assert_refused(e, 2, bad_files[i].says);
		assert_int_equal(e->f->facts.config_generation, 1);
		assert_int_equal(agent_fixture_count(e->f, "ConfigInvalid"), 1);
		assert_non_null(strstr(agent_fixture_last(e->f, "ConfigInvalid")->message,
			"; the config in force stays"));
	}
	start_file(e, "# emptied\n");
	assert_refused(e, 2, "is empty");
	/* A config that is valid again is active, and saved. */
	start_file(e, SHARING(3));
	assert_good(e, 3);
	config_env_probe(e, 2);
	start_file(e, NULL);
	assert_refused(e, 3, "No such file");
}

static void agent_config_start__uses_no_saved_config_of_another_source(void **state)
{
	struct config_env *e = *state;
	struct error err = ERROR_INIT;
	char other[PATH_MAX];

	start_file(e, SHARING(2));
	assert_true(snprintf(other, sizeof(other), "%s.other", e->file) > 0);
	e->options.file = other;
	assert_error(config_env_try(e, &err), &err, "No such file");
	assert_undecided(e);
	config_env_stop(e);
	e->options.file = e->file;
}

static void agent_config_start__uses_no_malformed_saved_config(void **state)
{
	static const char *const texts[] = { "", "{", "[]", "{\"source\": 1}" };
	struct config_env *e = *state;
	struct error err = ERROR_INIT;

	start_file(e, SHARING(2));
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		test_write(e->state_dir, "config/last.json", texts[i], strlen(texts[i]), 0600);
		assert_error(try_file(e, NULL, &err), &err, "No such file");
		assert_undecided(e);
	}
}

static void agent_config_start__has_no_source_without_a_file(void **state)
{
	struct config_env *e = *state;

	e->options.file = "";
	e->options.dir = "";
	config_env_start(e);
	assert_good(e, 0);
	assert_null(e->config.where);
	assert_null(e->config.source);
	assert_int_equal(e->f->facts.config_generation, 1);
	/* None of these has a file to read. */
	config_env_probe(e, 2);
	agent_config_reload(&e->config);
	agent_config_retry(&e->config);
	agent_config_label(&e->config, "u1", "a");
	agent_config_without_api(&e->config);
	assert_good(e, 0);
	assert_int_equal(e->changes, 0);
	assert_int_equal(access(e->kept, F_OK), -1);
}

static void agent_config_start__refuses_invalid_options(void **state)
{
	struct config_env *e = *state;
	struct error err = ERROR_INIT;

	assert_ok(strv_add(&e->fallbacks, "first", &err), &err);
	config_env_file(e, SHARING(2));
	assert_error(config_env_try(e, &err), &err, "unknown fallback strategy: first");
	assert_undecided(e);
}

/* --- another text --- */

static void agent_config_reload__applies_another_config(void **state)
{
	struct config_env *e = *state;

	start_file(e, SHARING(2));
	reload_text(e, SHARING(3));
	assert_good(e, 3);
	assert_int_equal(e->f->facts.config_generation, 2);
	assert_int_equal(e->changes, 2);
	assert_int_equal(agent_fixture_count(e->f, "ConfigApplied"), 1);
	/* The file gets another text with the same meaning, and then the same text. */
	reload_text(e, "# a comment\n" SHARING(3));
	agent_config_reload(&e->config);
	assert_int_equal(e->f->facts.config_generation, 2);
	assert_int_equal(e->changes, 2);
	assert_int_equal(e->f->n_events, 1);
}

static void agent_config_reload__keeps_the_active_config_over_an_invalid_one(void **state)
{
	struct config_env *e = *state;

	start_file(e, SHARING(2));
	for (size_t i = 0; i < ARRAY_LEN(bad_files); i++) {
		reload_text(e, bad_files[i].text);
		assert_refused(e, 2, bad_files[i].says);
		assert_int_equal(agent_fixture_count(e->f, "ConfigInvalid"), i + 1);
		assert_true(e->config.last_error_wall_ns > 0);
	}
	reload_text(e, SHARING(2));
	assert_good(e, 2);
	assert_int_equal(e->f->facts.config_generation, 1);
	assert_non_null(
		strstr(agent_fixture_last(e->f, "ConfigApplied")->message, "is good again"));
	assert_int_equal(e->changes, 1);
}

static void agent_config_reload__refuses_an_empty_text_in_place_of_a_config(void **state)
{
	struct config_env *e = *state;

	start_file(e, SHARING(2));
	reload_text(e, "# emptied\n");
	assert_refused(e, 2, "found no key; 'version: v1' alone stands for the defaults");
	reload_text(e, DEFAULTS);
	assert_good(e, 0);
	assert_int_equal(e->f->facts.config_generation, 2);
}

static void agent_config__reports_a_changed_driver_root(void **state)
{
	static const char moved[] =
		"version: v1\nflags: {plugin: {containerDriverRoot: /run/nvidia/driver}}\n";
	struct config_env *e = *state;

	start_file(e, SHARING(2));
	assert_int_equal(e->moves, 0);
	reload_text(e, moved);
	assert_int_equal(e->moves, 1);
	reload_text(e, SHARING(2));
	assert_int_equal(e->moves, 2);
	reload_text(e, SHARING(3));
	assert_int_equal(e->moves, 2);
}

static void agent_config__follows_the_file_without_a_signal(void **state)
{
	struct config_env *e = *state;

	start_file(e, SHARING(2));
	agent_fixture_run_once(e->f);
	config_env_file(e, SHARING(3));
	agent_fixture_until(e->f, e->f->facts.config_generation == 2);
	assert_good(e, 3);
	assert_int_equal(unlink(e->file), 0);
	agent_fixture_until(e->f, e->config.last_error.code != ERR_NONE);
	assert_refused(e, 3, "No such file");
}

/* --- the GPUs --- */

static void agent_config_gpus_changed__tries_a_refused_config_with_other_gpus(void **state)
{
	struct config_env *e = *state;

	start_file(e, SHARING(2));
	config_env_probe(e, 2);
	assert_int_equal(e->config.fit, FIT_GOOD);
	reload_text(e, SHARING(20001));
	assert_refused(e, 2, "40002 devices make more than 40000");
	assert_int_equal(e->config.fit, FIT_REFUSED);
	/* The same trouble is no news, another is. */
	config_env_probe(e, 2);
	assert_int_equal(agent_fixture_count(e->f, "ConfigInvalid"), 1);
	config_env_probe(e, 3);
	assert_refused(e, 2, "60003 devices make more than 40000");
	assert_int_equal(agent_fixture_count(e->f, "ConfigInvalid"), 2);
	config_env_probe(e, 1);
	assert_good(e, 20001);
	assert_int_equal(e->config.fit, FIT_GOOD);
	assert_int_equal(e->f->facts.config_generation, 2);
}

static void agent_config_gpus_changed__does_not_retry_an_invalid_config(void **state)
{
	struct config_env *e = *state;

	start_file(e, SHARING(2));
	config_env_probe(e, 2);
	reload_text(e, SHARING(20001));
	reload_text(e, "version: v2\n");
	assert_int_equal(e->config.fit, FIT_GOOD);
	config_env_file(e, SHARING(3)); /* not noticed yet */
	config_env_probe(e, 1);
	assert_refused(e, 2, "unknown version");
	assert_int_equal(agent_fixture_count(e->f, "ConfigInvalid"), 2);
}

static void agent_config_gpus_changed__reverts_a_config_that_the_first_gpus_do_not_allow(
	void **state)
{
	struct config_env *e = *state;

	start_file(e, SHARING(2));
	config_env_probe(e, 2);
	start_file(e, SHARING(20001));
	assert_good(e, 20001);  /* as far as is known */
	config_env_probe(e, 0); /* none says nothing */
	assert_int_equal(e->config.fit, FIT_UNKNOWN);
	config_env_probe(e, 2);
	assert_refused(e, 2, "40002 devices make more than 40000");
	assert_int_equal(agent_fixture_count(e->f, "ConfigInvalid"), 1);
	/* An impossible config was never saved. */
	start_file(e, NULL);
	assert_refused(e, 2, "No such file");
}

static void agent_config_gpus_changed__stays_without_an_earlier_config(void **state)
{
	struct config_env *e = *state;

	start_file(e, SHARING(20001));
	config_env_probe(e, 2);
	assert_good(e, 20001); /* reconcile reports that it cannot be offered */
	assert_int_equal(e->config.fit, FIT_REFUSED);
	config_env_probe(e, 1);
	assert_good(e, 20001);
	assert_int_equal(e->config.fit, FIT_GOOD);
	assert_int_equal(e->f->facts.config_generation, 1);
}

/* --- the saved config --- */

static void agent_config__saves_no_config_before_a_gpu_is_offered(void **state)
{
	struct config_env *e = *state;

	start_file(e, SHARING(2));
	start_file(e, SHARING(3));
	start_file(e, NULL);
	assert_refused(e, 2, "No such file");
	start_file(e, SHARING(3));
	agent_config_retry(&e->config); /* too early */
	config_env_probe(e, 2);
	start_file(e, NULL);
	assert_refused(e, 3, "No such file");
}

static void agent_config_retry__saves_a_config_that_could_not_be_saved(void **state)
{
	struct config_env *e = *state;

	test_write(e->f->dir, "state", "", 0, 0644); /* where a directory should be */
	start_file(e, SHARING(2));
	assert_good(e, 2);
	assert_non_null(strstr(e->f->components[COMPONENT_SAVED_CONFIG].msg,
		"the config is not kept for the next start"));
	config_env_probe(e, 2);
	agent_config_retry(&e->config);
	assert_int_not_equal(e->f->components[COMPONENT_SAVED_CONFIG].code, ERR_NONE);
	assert_int_equal(unlink(e->state_dir), 0);
	/* The text of the config in force is not at hand while a newer text is refused. */
	reload_text(e, "version: v2\n");
	agent_config_retry(&e->config);
	assert_int_equal(access(e->kept, F_OK), -1);
	reload_text(e, SHARING(2));
	assert_int_equal(e->f->components[COMPONENT_SAVED_CONFIG].code, ERR_NONE);
	start_file(e, NULL);
	assert_refused(e, 2, "No such file");
}

/* Limits the size of files, so that a write fails as on a full disk. */
static void limit_files(rlim_t bytes)
{
	struct rlimit limit = { 0 };

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void agent_config__removes_the_former_config_where_the_new_one_cannot_be_saved(
	void **state)
{
	struct config_env *e = *state;
	struct rlimit before;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	start_file(e, SHARING(2));
	config_env_probe(e, 2);
	assert_int_equal(access(e->kept, F_OK), 0);
	config_env_file(e, SHARING(3));
	limit_files(8);
	agent_config_reload(&e->config);
	limit_files(before.rlim_cur);
	assert_good(e, 3);
	assert_int_not_equal(e->f->components[COMPONENT_SAVED_CONFIG].code, ERR_NONE);
	assert_int_equal(access(e->kept, F_OK), -1); /* 2 must not return */
	agent_config_retry(&e->config);
	assert_int_equal(e->f->components[COMPONENT_SAVED_CONFIG].code, ERR_NONE);
	start_file(e, NULL);
	assert_refused(e, 3, "No such file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILE_TEST(agent_config_start__needs_a_valid_file_the_first_time),
		FILE_TEST(agent_config_start__accepts_an_empty_file_without_a_saved_config),
		FILE_TEST(
			agent_config_start__uses_the_last_valid_config_where_the_file_is_invalid),
		FILE_TEST(agent_config_start__uses_no_saved_config_of_another_source),
		FILE_TEST(agent_config_start__uses_no_malformed_saved_config),
		FILE_TEST(agent_config_start__has_no_source_without_a_file),
		FILE_TEST(agent_config_start__refuses_invalid_options),
		FILE_TEST(agent_config_reload__applies_another_config),
		FILE_TEST(agent_config_reload__keeps_the_active_config_over_an_invalid_one),
		FILE_TEST(agent_config_reload__refuses_an_empty_text_in_place_of_a_config),
		FILE_TEST(agent_config__reports_a_changed_driver_root),
		FILE_TEST(agent_config__follows_the_file_without_a_signal),
		FILE_TEST(agent_config_gpus_changed__tries_a_refused_config_with_other_gpus),
		FILE_TEST(agent_config_gpus_changed__does_not_retry_an_invalid_config),
		FILE_TEST(
			agent_config_gpus_changed__reverts_a_config_that_the_first_gpus_do_not_allow),
		FILE_TEST(agent_config_gpus_changed__stays_without_an_earlier_config),
		FILE_TEST(agent_config__saves_no_config_before_a_gpu_is_offered),
		FILE_TEST(agent_config_retry__saves_a_config_that_could_not_be_saved),
		FILE_TEST(
			agent_config__removes_the_former_config_where_the_new_one_cannot_be_saved),
	};

	(void)signal(SIGXFSZ, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
