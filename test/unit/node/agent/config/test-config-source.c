/* SPDX-License-Identifier: Apache-2.0 */

/* The sources of configs: which files are entries, and that the source notices each way in which files
 * change, once they are whole. */
#include "unit/node/agent/agent-fixture.h"

#include "node/agent/config/source/source.h"
#include "lib/base/fd.h"
#include "lib/base/strv.h"
#include "io/config/config.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct source_env {
	struct agent_fixture *f;
	struct config_source *source;
	char root[PATH_MAX]; /* of the source: the directory or the file */
	unsigned changes;
	uv_timer_t writer;
};

static void on_changed(void *arg)
{
	((struct source_env *)arg)->changes++;
}

static const struct config_source_ops ops = { .changed = on_changed };

static int setup(void **state)
{
	struct source_env *e = calloc(1, sizeof(*e));
	struct error err = ERROR_INIT;
	void *f = NULL;

	assert_non_null(e);
	assert_int_equal(agent_fixture_setup(&f), 0);
	e->f = f;
	(void)uv_timer_init(&e->f->loop, &e->writer);
	e->writer.data = e;
	assert_ok(path_join(e->root, sizeof(e->root), e->f->dir, "configs", &err), &err);
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct source_env *e = *state;
	void *f = e->f;

	e->source = config_source_stop(e->source);
	uv_close((uv_handle_t *)&e->writer, NULL);
	agent_fixture_run_once(e->f);
	free(e);
	return agent_fixture_teardown(&f);
}

#define SOURCE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* NAME below the fixture's directory. Valid until the next but one. */
static const char *path_of(const struct source_env *e, const char *name)
{
	static char paths[2][PATH_MAX];
	static unsigned n_swaps;
	struct error err = ERROR_INIT;
	char *path = paths[n_swaps++ % 2];

	assert_ok(path_join(path, PATH_MAX, e->f->dir, name, &err), &err);
	return path;
}

/* Replaces the file by a rename. */
static void write_source_file(const struct source_env *e, const char *name, const char *text)
{
	test_write(e->f->dir, name, text, strlen(text), 0644);
}

/* Writes the file in place. */
static void write_over(const struct source_env *e, const char *name, const char *text)
{
	CLEANUP(closep) int fd = open(path_of(e, name), O_WRONLY | O_TRUNC | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void link_to(const struct source_env *e, const char *target, const char *name)
{
	assert_int_equal(symlink(target, path_of(e, "link.new")), 0);
	assert_int_equal(rename(path_of(e, "link.new"), path_of(e, name)), 0);
}

static void make_dir(const struct source_env *e, const char *name)
{
	struct error err = ERROR_INIT;

	assert_ok(dir_make(path_of(e, name), 0755, &err), &err);
}

/* The text of the entry as the source has it, or why it has none. Valid until the next. */
static const char *text_of(struct source_env *e, const char *name)
{
	static char ret[ERROR_MSG_MAX + 16];
	CLEANUP(buf_fini) struct buf text = BUF_INIT(CONFIG_FILE_MAX);
	struct error err = ERROR_INIT;

	if (config_source_read(e->source, name, &text, &err) < 0)
		(void)snprintf(ret, sizeof(ret), "error: %s", err.msg);
	else
		(void)snprintf(ret, sizeof(ret), "%.100s", buf_str(&text));
	return ret;
}

/* Each source polls every ten seconds as well: inotify reports changes long before that. */
#define SOON_MS 5000
#define until_soon(e, condition)                                                             \
	do {                                                                                 \
		uint64_t began_ms_ = (uv_update_time(&(e)->f->loop), uv_now(&(e)->f->loop)); \
		agent_fixture_until((e)->f, condition);                                      \
		assert_true(uv_now(&(e)->f->loop) < began_ms_ + SOON_MS);                    \
	} while (0)

/* --- entries of a directory --- */

static void start_dir(struct source_env *e, const char *path)
{
	struct error err = ERROR_INIT;

	assert_ok(config_source_dir(&e->source, &e->f->loop, path, &ops, e, &err), &err);
}

/* "a b c" */
static void assert_names(struct source_env *e, const char *expected)
{
	CLEANUP(strv_fini) struct strv names = STRV_INIT;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(4096);
	struct error err = ERROR_INIT;

	assert_ok(config_source_names(e->source, &names, &err), &err);
	for (size_t i = 0; i < names.n; i++)
		buf_printf(&text, "%s%s", i ? " " : "", names.v[i]);
	assert_string_equal(buf_str(&text), expected);
}

static void config_source_dir__has_the_files_that_can_be_entries(void **state)
{
	struct source_env *e = *state;
	char slash[PATH_MAX + 1];

	write_source_file(e, "configs/b", "of b");
	write_source_file(e, "configs/a", "of a");
	write_source_file(e, "configs/..2026/c", "of c");
	write_source_file(e, "configs/.hidden", "");
	make_dir(e, "configs/folder");
	link_to(e, "..2026", "configs/..data");
	link_to(e, "..data/c", "configs/c");
	link_to(e, "nowhere", "configs/dangling");
	link_to(e, "folder", "configs/link-to-folder");
	assert_true(snprintf(slash, sizeof(slash), "%s/", e->root) > 0);
	start_dir(e, slash);
	assert_names(e, ".hidden a b c");
	assert_string_equal(config_source_text(e->source), e->root);
	assert_string_equal(text_of(e, "c"), "of c");
	assert_non_null(strstr(text_of(e, "d"), "No such file"));
	assert_null(config_source_error(e->source));
}

static void config_source_dir__has_limits(void **state)
{
	struct source_env *e = *state;
	CLEANUP(strv_fini) struct strv names = STRV_INIT;
	CLEANUP(freep) char *text = calloc(1, CONFIG_FILE_MAX + 1);
	struct error err = ERROR_INIT;
	char name[32];

	assert_non_null(text);
	memset(text, '#', CONFIG_FILE_MAX + 1);
	test_write(e->f->dir, "configs/0000", text, CONFIG_FILE_MAX, 0644);
	test_write(e->f->dir, "configs/0001", text, CONFIG_FILE_MAX + 1, 0644);
	for (int i = 2; i < CONFIG_ENTRIES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "configs/%04d", i);
		assert_int_equal(symlink("0000", path_of(e, name)), 0);
	}
	start_dir(e, e->root);
	assert_ok(config_source_names(e->source, &names, &err), &err);
	assert_int_equal(names.n, CONFIG_ENTRIES_MAX);
	assert_null(strstr(text_of(e, "0000"), "error"));
	assert_non_null(strstr(text_of(e, "0001"), "larger than the limit"));
	write_source_file(e, "configs/one-more", "");
	strv_fini(&names);
	assert_error(config_source_names(e->source, &names, &err), &err,
		"more than 1000 entries");
}

/* --- changes of a directory --- */

static bool is_settled(struct source_env *e)
{
	CLEANUP(strv_fini) struct strv names = STRV_INIT;

	return config_source_names(e->source, &names, NULL) != CONFIG_SOURCE_WAIT;
}

static void config_source_dir__waits_while_a_file_is_being_written(void **state)
{
	struct source_env *e = *state;
	CLEANUP(strv_fini) struct strv names = STRV_INIT;
	struct error err = ERROR_INIT;

	write_source_file(e, "configs/a", "1");
	start_dir(e, e->root);
	write_over(e, "configs/a", "half");
	agent_fixture_run_once(e->f);
	assert_int_equal(config_source_names(e->source, &names, &err), CONFIG_SOURCE_WAIT);
	assert_non_null(strstr(err.msg, "is being written"));
	write_over(e, "configs/a", "whole");
	until_soon(e, e->changes == 1);
	assert_names(e, "a");
	assert_string_equal(text_of(e, "a"), "whole");
}

static void on_write(uv_timer_t *t)
{
	write_over(t->data, "configs/noise", "x");
}

static void config_source_dir__does_not_wait_for_a_writer_that_never_stops(void **state)
{
	struct source_env *e = *state;

	write_source_file(e, "configs/noise", "");
	start_dir(e, e->root);
	(void)uv_timer_start(&e->writer, on_write, 0, 50);
	until_soon(e, e->changes == 1);
}

static void config_source_dir__detects_that_the_kubelet_swaps_a_volume(void **state)
{
	struct source_env *e = *state;

	write_source_file(e, "configs/..1/a", "1");
	write_source_file(e, "configs/..2/a", "2");
	link_to(e, "..1", "configs/..data");
	link_to(e, "..data/a", "configs/a");
	start_dir(e, e->root);
	assert_string_equal(text_of(e, "a"), "1");
	link_to(e, "..2", "configs/..data");
	until_soon(e, e->changes == 1);
	assert_string_equal(text_of(e, "a"), "2");
}

static void config_source_dir__detects_a_directory_that_is_created_late(void **state)
{
	struct source_env *e = *state;
	CLEANUP(strv_fini) struct strv names = STRV_INIT;
	struct error err = ERROR_INIT;

	start_dir(e, e->root);
	assert_error(config_source_names(e->source, &names, &err), &err,
		"error getting list of configuration files: open");
	assert_int_equal(err.code, ERR_NOT_FOUND);
	until_soon(e, e->changes == 1); /* a slow poll; one of several while it is missing */
	write_source_file(e, "configs/a", "1");
	until_soon(e, e->changes == 2);
	assert_names(e, "a");
}

static void config_source_check__watches_the_directory_of_that_name(void **state)
{
	struct source_env *e = *state;
	unsigned before;

	write_source_file(e, "configs/a", "1");
	write_source_file(e, "other/b", "2");
	start_dir(e, e->root);
	until_soon(e,
		e->changes == 1); /* the first slow poll; the second is ten seconds later */
	assert_int_equal(rename(path_of(e, "configs"), path_of(e, "away")), 0);
	assert_int_equal(rename(path_of(e, "other"), path_of(e, "configs")), 0);
	config_source_check(e->source);
	assert_int_equal(e->changes, 2);
	agent_fixture_run_once(e->f); /* that the old one was moved may be an event as well */
	until_soon(e, is_settled(e));
	before = e->changes;
	write_source_file(e, "configs/c", "3");
	until_soon(e, e->changes > before);
	assert_names(e, "b c");
}

/* --- one file --- */

static void start_file(struct source_env *e, const char *text)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(CONFIG_FILE_MAX);
	struct error err = ERROR_INIT;

	buf_puts(&b, text);
	assert_ok(config_source_file(&e->source, &e->f->loop, e->root, &b, &ops, e, &err),
		&err);
}

static void config_source_file__compares_with_the_text_that_the_caller_read(void **state)
{
	struct source_env *e = *state;
	CLEANUP(strv_fini) struct strv names = STRV_INIT;
	struct error err = ERROR_INIT;

	write_source_file(e, "configs", "2");
	start_file(e, "1");
	assert_ok(config_source_names(e->source, &names, &err), &err);
	assert_int_equal(names.n, 0);
	assert_string_equal(text_of(e, ""), "1");
	/* The file may have changed between the two reads. */
	until_soon(e, e->changes == 1);
	assert_string_equal(text_of(e, ""), "2");
}

static void config_source_file__reports_another_text_and_not_the_same(void **state)
{
	struct source_env *e = *state;

	write_source_file(e, "configs", "1");
	start_file(e, "1");
	agent_fixture_run_once(e->f);
	write_source_file(e, "configs", "1");
	config_source_check(e->source); /* a requested check reports the same text, too */
	assert_int_equal(e->changes, 1);
	write_source_file(e, "configs", "2");
	until_soon(e, e->changes == 2);
	assert_string_equal(text_of(e, ""), "2");
	write_over(e, "configs", "half");
	agent_fixture_run_once(e->f);
	write_over(e, "configs", "whole");
	until_soon(e, e->changes == 3);
	assert_string_equal(text_of(e, ""), "whole");
}

static void config_source_file__reports_an_unreadable_file_once(void **state)
{
	struct source_env *e = *state;

	write_source_file(e, "configs", "1");
	start_file(e, "1");
	agent_fixture_run_once(e->f);
	assert_int_equal(unlink(e->root), 0);
	until_soon(e, e->changes == 1);
	assert_non_null(strstr(text_of(e, ""), "No such file"));
	config_source_check(e->source);
	assert_int_equal(e->changes, 1);
	make_dir(e, "configs");
	config_source_check(e->source);
	assert_int_equal(e->changes, 2); /* for another reason */
	assert_non_null(strstr(text_of(e, ""), "a directory"));
	assert_int_equal(rmdir(e->root), 0);
	write_source_file(e, "configs", "1"); /* the text of before is news now */
	until_soon(e, e->changes >= 3 && !strcmp(text_of(e, ""), "1"));
}

static void config_source_file__follows_links(void **state)
{
	struct source_env *e = *state;

	write_source_file(e, "a/text", "a");
	write_source_file(e, "b/text", "b");
	link_to(e, "a/text", "configs");
	start_file(e, "a");
	agent_fixture_run_once(e->f);
	write_source_file(e, "a/text", "a2"); /* in the directory that it leads to */
	until_soon(e, !strcmp(text_of(e, ""), "a2"));
	link_to(e, "b/text", "configs");
	until_soon(e, !strcmp(text_of(e, ""), "b"));
	write_source_file(e, "b/text", "b2");
	until_soon(e, !strcmp(text_of(e, ""), "b2"));
	assert_int_equal(e->changes, 3);
}

static void config_source_stop__reports_nothing_more(void **state)
{
	struct source_env *e = *state;

	write_source_file(e, "configs", "1");
	start_file(e, "0"); /* a change is due */
	e->source = config_source_stop(e->source);
	assert_null(e->source);
	assert_null(config_source_stop(NULL));
	assert_int_equal(unlink(e->root), 0);
	write_source_file(e, "configs/a", "1");
	start_dir(e, e->root);
	config_source_check(e->source);
	assert_int_equal(e->changes, 1);
	write_over(e, "configs/a", "2");
	agent_fixture_run_once(e->f);
	e->source = config_source_stop(e->source);
	(void)uv_run(&e->f->loop, UV_RUN_DEFAULT);
	assert_int_equal(e->changes, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SOURCE_TEST(config_source_dir__has_the_files_that_can_be_entries),
		SOURCE_TEST(config_source_dir__has_limits),
		SOURCE_TEST(config_source_dir__waits_while_a_file_is_being_written),
		SOURCE_TEST(config_source_dir__does_not_wait_for_a_writer_that_never_stops),
		SOURCE_TEST(config_source_dir__detects_that_the_kubelet_swaps_a_volume),
		SOURCE_TEST(config_source_dir__detects_a_directory_that_is_created_late),
		SOURCE_TEST(config_source_check__watches_the_directory_of_that_name),
		SOURCE_TEST(config_source_file__compares_with_the_text_that_the_caller_read),
		SOURCE_TEST(config_source_file__reports_another_text_and_not_the_same),
		SOURCE_TEST(config_source_file__reports_an_unreadable_file_once),
		SOURCE_TEST(config_source_file__follows_links),
		SOURCE_TEST(config_source_stop__reports_nothing_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
