/* SPDX-License-Identifier: Apache-2.0 */

/* The kubelet's device-plugin directory: what of it is seen when it changes, goes and comes again. */
#include "unit/node/agent/agent-fixture.h"

#include "node/agent/kubelet/watch.h"
#include "lib/base/fd.h"

#include <string.h>
#include <unistd.h>

struct env {
	struct agent_fixture *f;
	struct kubelet_watch *w;
	char dir[PATH_MAX];
	unsigned n_reports;
};

static void on_kubelet_change(void *arg)
{
	((struct env *)arg)->n_reports++;
}

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));
	struct error err = ERROR_INIT;

	assert_non_null(e);
	(void)agent_fixture_setup((void **)&e->f);
	assert_ok(path_join(e->dir, sizeof(e->dir), e->f->dir, "plugins", &err), &err);
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	e->w = kubelet_watch_stop(e->w);
	(void)agent_fixture_teardown((void **)&e->f);
	free(e);
	return 0;
}

static void start_kubelet_watch(struct env *e)
{
	struct error err = ERROR_INIT;

	assert_ok(kubelet_watch_start(&e->w, &e->f->loop, e->dir, on_kubelet_change, e, &err),
		&err);
}

static void make_dir(struct env *e)
{
	struct error err = ERROR_INIT;

	assert_ok(dir_make(e->dir, 0755, &err), &err);
}

static void make_due(uv_handle_t *h, void *arg)
{
	uv_timer_t *t = (uv_timer_t *)h;

	(void)arg;
	if (h->type == UV_TIMER && uv_is_active(h) && !uv_is_closing(h))
		(void)uv_timer_start(t, t->timer_cb, 0, t->repeat);
}

/* Runs the poll that is due in a second now, with the events of inotify. */
static void poll_now(struct env *e)
{
	uv_walk(&e->f->loop, make_due, NULL);
	(void)uv_run(&e->f->loop, UV_RUN_NOWAIT);
	(void)uv_run(&e->f->loop, UV_RUN_NOWAIT);
}

static void kubelet_watch__reports_when_a_socket_is_created_or_removed(void **state)
{
	struct env *e = *state;
	char path[PATH_MAX];
	struct error err = ERROR_INIT;
	unsigned before;

	make_dir(e);
	start_kubelet_watch(e);
	assert_int_equal(e->n_reports, 0);
	test_write(e->dir, "kubelet.sock", "", 0, 0600);
	agent_fixture_until(e->f, e->n_reports > 0);
	agent_fixture_run_once(e->f);
	before = e->n_reports;
	assert_ok(path_join(path, sizeof(path), e->dir, "kubelet.sock", &err), &err);
	assert_int_equal(unlink(path), 0);
	agent_fixture_until(e->f, e->n_reports > before);
}

static void kubelet_watch__reports_nothing_without_a_change(void **state)
{
	struct env *e = *state;

	make_dir(e);
	start_kubelet_watch(e);
	for (unsigned i = 0; i < 3; i++)
		poll_now(e);
	assert_int_equal(e->n_reports, 0);
}

static void kubelet_watch__waits_for_a_missing_directory(void **state)
{
	struct env *e = *state;

	start_kubelet_watch(e);
	poll_now(e);
	assert_int_equal(e->n_reports, 0);
	make_dir(e);
	poll_now(e);
	assert_int_equal(e->n_reports, 1);
	poll_now(e);
	assert_int_equal(e->n_reports, 1);
	test_write(e->dir, "kubelet.sock", "", 0, 0600);
	agent_fixture_until(e->f, e->n_reports > 1);
}

/* The watch of the old directory reports nothing of the new one. */
static void kubelet_watch__follows_the_directory_of_that_name(void **state)
{
	struct env *e = *state;
	char old[PATH_MAX];
	struct error err = ERROR_INIT;
	unsigned before;

	make_dir(e);
	start_kubelet_watch(e);
	assert_ok(path_join(old, sizeof(old), e->f->dir, "old", &err), &err);
	assert_int_equal(rename(e->dir, old), 0);
	make_dir(e);
	poll_now(e);
	assert_true(e->n_reports > 0);
	before = e->n_reports;
	test_write(old, "other.sock", "", 0, 0600);
	poll_now(e);
	assert_int_equal(e->n_reports, before);
	test_write(e->dir, "kubelet.sock", "", 0, 0600);
	agent_fixture_until(e->f, e->n_reports > before);
}

static void kubelet_watch__detects_a_recreated_directory(void **state)
{
	struct env *e = *state;
	unsigned before;

	make_dir(e);
	start_kubelet_watch(e);
	assert_int_equal(rmdir(e->dir), 0);
	poll_now(e);
	poll_now(e);
	before = e->n_reports;
	make_dir(e);
	poll_now(e);
	assert_int_equal(e->n_reports, before + 1);
}

static void kubelet_watch_stop__calls_back_no_more(void **state)
{
	struct env *e = *state;

	make_dir(e);
	start_kubelet_watch(e);
	test_write(e->dir, "kubelet.sock", "", 0, 0600);
	e->w = kubelet_watch_stop(e->w);
	agent_fixture_run_once(e->f);
	assert_int_equal(e->n_reports, 0);
	assert_null(kubelet_watch_stop(NULL));
}

static void kubelet_watch_start__refuses_a_path_that_is_too_long(void **state)
{
	struct env *e = *state;
	struct error err = ERROR_INIT;
	struct kubelet_watch *w = NULL;
	char dir[PATH_MAX];

	memset(dir, 'd', sizeof(dir) - 1);
	dir[0] = '/';
	dir[sizeof(dir) - 1] = '\0';
	assert_error(kubelet_watch_start(&w, &e->f->loop, dir, on_kubelet_change, e, &err),
		&err, "");
	assert_null(w);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(kubelet_watch__reports_when_a_socket_is_created_or_removed),
		TEST(kubelet_watch__reports_nothing_without_a_change),
		TEST(kubelet_watch__waits_for_a_missing_directory),
		TEST(kubelet_watch__follows_the_directory_of_that_name),
		TEST(kubelet_watch__detects_a_recreated_directory),
		TEST(kubelet_watch_stop__calls_back_no_more),
		TEST(kubelet_watch_start__refuses_a_path_that_is_too_long),
	};

	return cmocka_run_group_tests_name("kubelet-watch", tests, NULL, NULL);
}
