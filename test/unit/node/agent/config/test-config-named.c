/* SPDX-License-Identifier: Apache-2.0 */

/* Named configs of a directory: which of them is in force, by the label or without it, and what stays. */
#include "unit/node/agent/config/config-env.h"

#include "node/agent/config/saved.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the clock --- */

static uint64_t skipped_ns;

uint64_t __real_time_mono_ns(void);
uint64_t __wrap_time_mono_ns(void);

uint64_t __wrap_time_mono_ns(void)
{
	return __real_time_mono_ns() + skipped_ns;
}

/* --- the directory --- */

static int setup(void **state)
{
	int r = config_env_setup(state);
	struct config_env *e = *state;

	e->options.dir = e->dir;
	return r;
}

#define NAMED_TEST(f) cmocka_unit_test_setup_teardown(f, setup, config_env_teardown)

static void use_fallbacks(struct config_env *e, const char *list)
{
	struct error err = ERROR_INIT;

	assert_ok(strv_split(&e->fallbacks, list, ',', &err), &err);
}

static void remove_entry(struct config_env *e, const char *name)
{
	struct error err = ERROR_INIT;
	char path[PATH_MAX];

	assert_ok(path_join(path, sizeof(path), e->dir, name, &err), &err);
	assert_int_equal(unlink(path), 0);
}

/* The source checks its entries as after a change: it does not read unchanged files again. */
static void check_entries(struct config_env *e)
{
	config_source_check(e->config.source);
}

/* The entries a, b and default, with 2, 3 and 4 replicas. */
static void make_entries(struct config_env *e)
{
	config_env_entry(e, "a", SHARING(2));
	config_env_entry(e, "b", SHARING(3));
	config_env_entry(e, "default", SHARING(4));
}

/* --- the choice without a label --- */

static void agent_config__uses_the_default_and_follows_its_text_alone(void **state)
{
	struct config_env *e = *state;

	e->options.default_name = "a";
	make_entries(e);
	config_env_start(e);
	assert_good(e, 2);
	assert_chosen(e, CHOICE_DEFAULT, "a");
	config_env_entry(e, "b", SHARING(5));
	check_entries(e);
	assert_int_equal(e->f->facts.config_generation, 1);
	config_env_entry(e, "a", SHARING(5));
	check_entries(e);
	assert_good(e, 5);
	assert_int_equal(e->f->facts.config_generation, 2);
	assert_non_null(
		strstr(agent_fixture_last(e->f, "ConfigApplied")->message, "configs/a"));
}

static void agent_config__falls_back_in_the_documented_order(void **state)
{
	static const struct {
		const char *fallbacks, *entries[3];
		enum config_choice_by by;
		const char *entry; /* NULL: nothing can be chosen */
	} rows[] = {
		{ "named,single", { "default", "x" }, CHOICE_NAMED, "default" },
		{ "named,single", { "x" }, CHOICE_SINGLE, "x" },
		{ "named,single", { "x", "y" }, CHOICE_NAMED, NULL },
		{ "named,single,empty", { "x", "y" }, CHOICE_EMPTY, "" },
		{ "empty,named", { "default" }, CHOICE_EMPTY, "" },
		{ "named,empty", { NULL }, CHOICE_EMPTY, "" },
		{ "named,single", { NULL }, CHOICE_NAMED, NULL },
	};
	struct config_env *e = *state;
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		(void)unlink(e->kept);
		assert_ok(dir_make(e->dir, 0755, &err), &err);
		for (size_t k = 0; k < 3 && rows[i].entries[k]; k++)
			config_env_entry(e, rows[i].entries[k], SHARING(2));
		strv_fini(&e->fallbacks);
		use_fallbacks(e, rows[i].fallbacks);
		config_env_start(e);
		if (rows[i].entry) {
			assert_good(e, *rows[i].entry ? 2 : 0);
			assert_chosen(e, rows[i].by, rows[i].entry);
		} else {
			assert_undecided(e);
			assert_int_equal(agent_fixture_count(e->f, "ConfigNotFound"), 1);
		}
		config_env_stop(e);
		for (size_t k = 0; k < 3 && rows[i].entries[k]; k++)
			remove_entry(e, rows[i].entries[k]);
	}
}

static void agent_config__changes_from_empty_to_entries_and_not_back(void **state)
{
	struct config_env *e = *state;
	struct error err = ERROR_INIT;

	use_fallbacks(e, "named,single,empty");
	assert_ok(dir_make(e->dir, 0755, &err), &err);
	config_env_start(e);
	assert_good(e, 0);
	assert_chosen(e, CHOICE_EMPTY, "");
	config_env_entry(e, "a", SHARING(2));
	check_entries(e);
	assert_good(e, 2);
	assert_chosen(e, CHOICE_SINGLE, "a");
	remove_entry(e, "a");
	check_entries(e);
	assert_refused(e, 2, "no configuration files available");
}

/* --- invalid configs --- */

static void agent_config__waits_for_a_directory_that_comes_late(void **state)
{
	struct config_env *e = *state;

	e->options.default_name = "a";
	config_env_start(e);
	assert_undecided(e);
	assert_non_null(strstr(e->config.last_error.msg, "No such file"));
	assert_non_null(strstr(agent_fixture_last(e->f, "ConfigNotFound")->message,
		"; nothing is offered yet"));
	check_entries(e); /* no news */
	assert_int_equal(e->f->n_events, 1);
	agent_config_reload(&e->config); /* the operator requests a reload */
	assert_int_equal(e->f->n_events, 2);
	config_env_entry(e, "a", SHARING(2));
	check_entries(e);
	assert_good(e, 2);
	assert_int_equal(e->f->facts.config_generation, 1);
}

static void agent_config__logs_an_error_once_and_keeps_the_config(void **state)
{
	struct config_env *e = *state;

	e->options.default_name = "a";
	make_entries(e);
	config_env_start(e);
	config_env_entry(e, "a", "version: v2\n");
	check_entries(e);
	check_entries(e);
	assert_refused(e, 2, "configs/a:1:10: version: unknown version");
	assert_int_equal(agent_fixture_count(e->f, "ConfigInvalid"), 1);
	remove_entry(e, "a");
	check_entries(e);
	assert_refused(e, 2, "does not exist (from the default); there are b, default");
	remove_entry(e, "b"); /* other names are no news, but are shown */
	check_entries(e);
	assert_refused(e, 2, "there are default");
	assert_int_equal(agent_fixture_count(e->f, "ConfigNotFound"), 1);
	config_env_entry(e, "a", "");
	check_entries(e);
	assert_refused(e, 2, "is empty");
	config_env_entry(e, "a", SHARING(2));
	check_entries(e);
	assert_good(e, 2);
	assert_int_equal(e->f->facts.config_generation, 1);
	assert_non_null(
		strstr(agent_fixture_last(e->f, "ConfigApplied")->message, "is good again"));
}

static void agent_config__remembers_a_reload_while_the_directory_is_written(void **state)
{
	struct config_env *e = *state;

	e->options.default_name = "a";
	config_env_entry(e, "a", SHARING(2));
	config_env_start(e);
	config_env_entry(e, "a", "version: v2\n");
	check_entries(e);
	assert_int_equal(agent_fixture_count(e->f, "ConfigInvalid"), 1);
	/* The loop notices the write, and waits until it settles. */
	agent_fixture_run_once(e->f);
	agent_config_reload(&e->config);
	assert_int_equal(agent_fixture_count(e->f, "ConfigInvalid"), 1);
	assert_true(e->config.forced);
	agent_fixture_until(e->f, agent_fixture_count(e->f, "ConfigInvalid") == 2);
	assert_false(e->config.forced);
	assert_refused(e, 2, "unknown version");
}

/* --- the label --- */

static void agent_config_label__selects_an_entry_and_nothing_is_offered_before(void **state)
{
	struct config_env *e = *state;

	e->link.possible = true;
	e->options.default_name = "default";
	make_entries(e);
	config_env_start(e);
	assert_undecided(e);
	assert_non_null(strstr(e->config.waiting, "waiting for the label of this node"));
	assert_int_equal(e->f->n_events, 0);
	agent_config_label(&e->config, "u1", "b");
	assert_good(e, 3);
	assert_chosen(e, CHOICE_LABEL, "b");
	assert_string_equal(e->config.waiting, "");
	agent_config_label(&e->config, "u1", "a");
	assert_good(e, 2);
	agent_config_label(&e->config, "u1", "c");
	assert_refused(e, 2, "specified config c does not exist (from the node label)");
	assert_chosen(e, CHOICE_LABEL, "a");
	agent_config_label(&e->config, "u1", NULL);
	assert_good(e, 4);
	assert_chosen(e, CHOICE_DEFAULT, "default");
	assert_int_equal(e->f->facts.config_generation, 3);
}

static void agent_config_label__may_select_the_active_entry(void **state)
{
	struct config_env *e = *state;
	struct saved_config saved = { .text = BUF_INIT(0) };
	struct error err = ERROR_INIT;

	e->link.possible = true;
	e->options.default_name = "a";
	make_entries(e);
	config_env_start(e);
	agent_config_label(&e->config, "u1", NULL);
	config_env_probe(e, 2);
	assert_chosen(e, CHOICE_DEFAULT, "a");
	agent_config_label(&e->config, "u1", "a");
	assert_chosen(e, CHOICE_LABEL, "a");
	assert_int_equal(e->f->facts.config_generation, 1);
	assert_int_equal(e->changes, 1);
	/* The next start knows it. */
	assert_ok(saved_config_read(&saved, e->kept, e->dir, &err), &err);
	assert_int_equal(saved.by, CHOICE_LABEL);
	assert_string_equal(saved.label, "a");
	assert_string_equal(saved.node_uid, "u1");
	buf_fini(&saved.text);
}

static void agent_config_label__of_another_node_is_saved_with_the_next_retry(void **state)
{
	struct config_env *e = *state;
	struct saved_config saved = { .text = BUF_INIT(0) };
	struct error err = ERROR_INIT;

	e->link.possible = true;
	make_entries(e);
	config_env_start(e);
	agent_config_label(&e->config, "u1", "a");
	config_env_probe(e, 2);
	agent_config_label(&e->config, "u2", "a");
	assert_int_equal(e->f->facts.config_generation, 1);
	assert_true(e->config.unsaved);
	agent_config_retry(&e->config);
	assert_ok(saved_config_read(&saved, e->kept, e->dir, &err), &err);
	assert_string_equal(saved.node_uid, "u2");
	buf_fini(&saved.text);
	/* A Node without the label is given time: the former Node's label counts. */
	agent_config_label(&e->config, "u3", NULL);
	assert_good(e, 2);
	assert_chosen(e, CHOICE_LABEL, "a");
}

static void agent_config_without_api__continues_without_the_label(void **state)
{
	struct config_env *e = *state;

	e->link.possible = true;
	e->options.default_name = "b";
	make_entries(e);
	config_env_start(e);
	assert_undecided(e);
	agent_config_without_api(&e->config);
	assert_good(e, 3);
	assert_chosen(e, CHOICE_DEFAULT, "b");
}

static void agent_config__continues_without_the_label_after_the_timeout(void **state)
{
	struct config_env *e = *state;

	e->link.possible = true;
	e->options.default_name = "b";
	make_entries(e);
	config_env_start(e);
	assert_undecided(e);
	skipped_ns += LABEL_WAIT_NS;
	agent_fixture_until(e->f, e->f->facts.decided);
	assert_good(e, 3);
	assert_chosen(e, CHOICE_DEFAULT, "b");
	/* After that the config waits no more. */
	agent_fixture_until(e->f, !uv_is_active((uv_handle_t *)&e->config.wait));
	agent_config_label(&e->config, "u1", "a");
	agent_fixture_until(e->f,
		e->f->facts.config_generation == 2); /* the slow poll may still run */
	assert_good(e, 2);
}

/* --- the next start --- */

static void agent_config_start__uses_the_choice_of_the_last_run_until_another_arrives(
	void **state)
{
	struct config_env *e = *state;

	e->link.possible = true;
	e->options.default_name = "default";
	make_entries(e);
	config_env_start(e);
	agent_config_label(&e->config, "u1", "b");
	config_env_start(e);
	assert_good(e, 3);
	assert_chosen(e, CHOICE_LABEL, "b");
	assert_string_equal(e->config.label.value, "b");
	/* The entry of label b gets another text, and then the Node gets another label. */
	config_env_entry(e, "b", SHARING(5));
	check_entries(e);
	assert_good(e, 5);
	agent_config_label(&e->config, "u1", "a");
	assert_good(e, 2);
}

static void agent_config_start__uses_no_saved_label_without_an_api_server(void **state)
{
	struct config_env *e = *state;

	e->link.possible = true;
	e->options.default_name = "default";
	make_entries(e);
	config_env_start(e);
	agent_config_label(&e->config, "u1", "b");
	config_env_stop(e);
	e->link.possible = false;
	config_env_start(e);
	assert_good(e, 4);
	assert_chosen(e, CHOICE_DEFAULT, "default");
	assert_string_equal(e->config.label.value, "");
}

static void agent_config_start__uses_the_last_valid_config_where_the_directory_has_none(
	void **state)
{
	static const char *const bad[] = { "", "version: v2\n" };
	struct config_env *e = *state;
	char away[PATH_MAX];

	e->options.default_name = "a";
	make_entries(e);
	config_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		config_env_stop(e);
		config_env_entry(e, "a", bad[i]);
		config_env_start(e);
		assert_refused(e, 2, i ? "unknown version" : "is empty");
		assert_chosen(e, CHOICE_DEFAULT, "a");
	}
	config_env_stop(e);
	assert_true(snprintf(away, sizeof(away), "%s.away", e->dir) > 0);
	assert_int_equal(rename(e->dir, away), 0);
	config_env_start(e);
	assert_refused(e, 2, "No such file");
}

/* --- the GPUs --- */

static void agent_config_gpus_changed__tries_the_chosen_entry_with_other_gpus(void **state)
{
	struct config_env *e = *state;

	e->options.default_name = "a";
	make_entries(e);
	config_env_start(e);
	config_env_probe(e, 2);
	config_env_entry(e, "a", SHARING(20001));
	check_entries(e);
	assert_refused(e, 2, "40002 devices make more than 40000");
	check_entries(e); /* the source does not read the same text twice */
	config_env_probe(e, 2);
	assert_int_equal(agent_fixture_count(e->f, "ConfigInvalid"), 1);
	config_env_probe(e, 1);
	assert_good(e, 20001);
	assert_int_equal(e->f->facts.config_generation, 2);
}

static void agent_config_gpus_changed__reverts_to_the_saved_choice(void **state)
{
	struct config_env *e = *state;

	e->link.possible = true;
	make_entries(e);
	config_env_entry(e, "big", SHARING(20001));
	config_env_start(e);
	agent_config_label(&e->config, "u1", "a");
	config_env_probe(e, 2);
	config_env_start(e);
	agent_config_label(&e->config, "u1", "big");
	assert_good(e, 20001);
	config_env_probe(e, 2);
	assert_refused(e, 2, "40002 devices make more than 40000");
	assert_chosen(e, CHOICE_LABEL, "a");
	assert_string_equal(e->config.label.value,
		"big"); /* the label of the Node stays known */
	config_env_probe(e, 1);
	assert_good(e, 20001);
	assert_chosen(e, CHOICE_LABEL, "big");
}

static void agent_config_gpus_changed__before_a_choice_decides_nothing(void **state)
{
	struct config_env *e = *state;

	e->link.possible = true;
	make_entries(e);
	config_env_entry(e, "big", SHARING(20001));
	config_env_start(e);
	config_env_probe(e, 2);
	assert_undecided(e);
	agent_config_label(&e->config, "u1", "big");
	assert_undecided(e);
	assert_non_null(strstr(e->config.last_error.msg, "40002 devices"));
	assert_int_equal(e->config.fit, FIT_REFUSED);
	config_env_probe(e, 1);
	assert_good(e, 20001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NAMED_TEST(agent_config__uses_the_default_and_follows_its_text_alone),
		NAMED_TEST(agent_config__falls_back_in_the_documented_order),
		NAMED_TEST(agent_config__changes_from_empty_to_entries_and_not_back),
		NAMED_TEST(agent_config__waits_for_a_directory_that_comes_late),
		NAMED_TEST(agent_config__logs_an_error_once_and_keeps_the_config),
		NAMED_TEST(agent_config__remembers_a_reload_while_the_directory_is_written),
		NAMED_TEST(agent_config_label__selects_an_entry_and_nothing_is_offered_before),
		NAMED_TEST(agent_config_label__may_select_the_active_entry),
		NAMED_TEST(agent_config_label__of_another_node_is_saved_with_the_next_retry),
		NAMED_TEST(agent_config_without_api__continues_without_the_label),
		NAMED_TEST(agent_config__continues_without_the_label_after_the_timeout),
		NAMED_TEST(
			agent_config_start__uses_the_choice_of_the_last_run_until_another_arrives),
		NAMED_TEST(agent_config_start__uses_no_saved_label_without_an_api_server),
		NAMED_TEST(
			agent_config_start__uses_the_last_valid_config_where_the_directory_has_none),
		NAMED_TEST(agent_config_gpus_changed__tries_the_chosen_entry_with_other_gpus),
		NAMED_TEST(agent_config_gpus_changed__reverts_to_the_saved_choice),
		NAMED_TEST(agent_config_gpus_changed__before_a_choice_decides_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
