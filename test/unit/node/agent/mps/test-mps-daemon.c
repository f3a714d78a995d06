/* SPDX-License-Identifier: Apache-2.0 */

/* One MPS daemon from its start to its end, as the config wants it: states, retries, questions without an answer. */
#include "unit/node/agent/mps/mps-env.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define GPU "GPU-0"
#define CHECK_NS \
	(10 * NS_PER_SEC) /* as in supervisor.c: between questions to one that is ready */
#define QUIT_NS  (10 * NS_PER_SEC) /* until a daemon without clients is killed */
#define PAUSE_NS (30 * NS_PER_SEC) /* the longest before a start */

/* The reason why it cannot be used has @text in it, and nothing is under way. */
static void assert_down(struct mps_env *e, const char *text)
{
	const struct mps_supervisor *sup = mps_env_find_daemon(e, GPU);

	agent_fixture_until(e->f, mps_env_rests(e, GPU, MPS_DOWN) && !sup->process);
	if (!strstr(sup->why, text))
		fail_msg("down since '%s', expected '%s' in it", sup->why, text);
	assert_false(mps_env_ok(e, "GPU-0::0", NULL));
}

/* --- the start --- */

static void mps_sync__starts_a_daemon_and_sets_its_limits(void **state)
{
	struct mps_env *e = *state;
	const char *why = NULL;

	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	assert_false(mps_env_ok(e, "GPU-0::0", &why));
	assert_string_equal(why, "the MPS control daemon is starting");
	mps_env_until_state(e, GPU, MPS_READY);
	assert_true(mps_env_ok(e, "GPU-0::0", NULL));
	assert_int_equal(mps_env_lines(e, "started", ""), 1);
	assert_int_equal(
		mps_env_lines(e, "asked", "set_default_device_pinned_mem_limit 0 4096M"), 1);
	assert_int_equal(mps_env_lines(e, "asked", "set_default_active_thread_percentage 25"),
		1);
	assert_int_equal(mps_env_lines(e, "asked", "start_server"), 0); /* not exclusive */
	assert_int_equal(agent_fixture_count(e->f, ""), 0); /* a start is no Event */
	assert_true(e->wakes > 0);                          /* that it can be used is news */
}

static void mps_sync__does_nothing_before_the_first_offer(void **state)
{
	struct mps_env *e = *state;

	mps_sync(&e->mps); /* nothing is offered at all */
	agent_fixture_know(e->f, mps_env_inventory(1), mps_env_config(e, 4));
	e->f->facts.decided = false;
	mps_sync(&e->mps);
	e->f->facts.decided = true;
	(void)error_set(&e->f->facts.offer_error, ERR_LIMIT, "too many devices");
	mps_sync(&e->mps);
	assert_null(e->mps.daemons);
	error_clear(&e->f->facts.offer_error);
	mps_sync(&e->mps);
	assert_non_null(mps_env_find_daemon(e, GPU));
}

static void mps_sync__starts_one_daemon_for_each_gpu_in_many_calls(void **state)
{
	struct mps_env *e = *state;

	mps_env_up(e, 3);
	for (int i = 0; i < 5; i++)
		mps_env_know(e, mps_env_inventory(3), NULL);
	mps_env_settle(e);
	assert_int_equal(mps_env_lines(e, "started", ""), 3);
	assert_int_equal(mps_env_lines(e, "started", "GPU-2 -f"), 1);
}

static void start__waits_for_the_first_answer(void **state)
{
	struct mps_env *e = *state;

	mps_env_write(e, "fail-get_default_active_thread_percentage", "not yet\n");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	agent_fixture_until(e->f, mps_env_lines(e, "asked", "") >= 3);
	assert_true(mps_env_is(e, GPU, MPS_STARTING));
	assert_false(mps_env_ok(e, "GPU-0::0", NULL));
	mps_env_write(e, "fail-get_default_active_thread_percentage", NULL);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(mps_env_lines(e, "started", ""), 1);
}

static void start__times_out_without_an_answer(void **state)
{
	struct mps_env *e = *state;
	pid_t pid;

	mps_env_write(e, "fail-get_default_active_thread_percentage", "not yet\n");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	mps_env_until_state(e, GPU, MPS_STARTING);
	pid = mps_process_pid(mps_env_find_daemon(e, GPU));
	mps_env_skip(e, 10 * NS_PER_SEC);
	assert_down(e, "it did not answer within 10 s of its start: not yet");
	assert_int_equal(kill(pid, 0), -1); /* it is killed: the next one needs its place */
	assert_int_equal(agent_fixture_count(e->f, "MPSDaemonDown"), 1);
	mps_env_write(e, "fail-get_default_active_thread_percentage", NULL);
	mps_env_skip(e, PAUSE_NS);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_string_equal(agent_fixture_last(e->f, "MPSDaemonUp")->message,
		"MPS of GPU-0 is ready again");
}

static void start__that_fails_logs_the_output_of_the_daemon(void **state)
{
	struct mps_env *e = *state;

	mps_env_write(e, "no-start", "Failed to bind: in use\nsecond line\n");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	assert_down(e, "the MPS control daemon ended with status 3: Failed to bind: in use");
	assert_null(strstr(mps_env_find_daemon(e, GPU)->why, "second"));
}

/* The agent may notice its end before inotify's event of its output. */
static void start__that_fails_logs_output_that_arrives_with_its_end(void **state)
{
	struct mps_env *e = *state;

	mps_env_write(e, "no-start", "Failed to bind: in use\n");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	assert_true(mps_env_is(e, GPU, MPS_STARTING));
	(void)uv_fs_event_stop(&mps_env_find_daemon(e, GPU)->watch.event);
	assert_down(e, "the MPS control daemon ended with status 3: Failed to bind: in use");
}

static void start__omits_multi_user_where_the_program_lacks_it(void **state)
{
	struct mps_env *e = *state;
	unsigned with = geteuid() == 0;

	mps_env_write(e, "no-start", "unknown option -multiuser-server\n");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	assert_down(e, "unknown option");
	assert_int_equal(mps_env_lines(e, "started", "-multiuser-server"), with);
	mps_env_write(e, "no-start", NULL);
	mps_env_skip(e, PAUSE_NS);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(mps_env_lines(e, "started", "-multiuser-server"), with);
}

/* Containers of the daemon before can write to the log of the next one. */
static void start__after_one_that_served_is_with_several_users(void **state)
{
	struct mps_env *e = *state;
	unsigned with = geteuid() == 0;

	mps_env_up(e, 1);
	mps_env_write(e, "no-start", "unknown option -multiuser-server\n");
	assert_int_equal(kill(mps_process_pid(mps_env_find_daemon(e, GPU)), SIGKILL), 0);
	assert_down(e, "signal 9");
	mps_env_skip(e, PAUSE_NS);
	assert_down(e, "unknown option");
	mps_env_write(e, "no-start", NULL);
	mps_env_skip(e, PAUSE_NS);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(mps_env_lines(e, "started", "-multiuser-server"), 3 * with);
}

static void start__that_fails_is_retried_with_back_off(void **state)
{
	struct mps_env *e = *state;
	uint64_t wait = 200 * NS_PER_MS, end;
	struct mps_supervisor *sup;

	mps_env_stop_clock();
	mps_env_write(e, "no-start", "a\n");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	sup = mps_env_find_daemon(e, GPU);
	for (unsigned i = 1; i <= 10; i++) {
		agent_fixture_until(e->f, sup->failures == i);
		end = sup->start_at_ns - sup->since_ns;
		assert_int_equal(end, wait);
		assert_int_equal(mps_env_lines(e, "started", ""), i);
		/* A sync does not shorten it. */
		mps_sync(&e->mps);
		assert_int_equal(mps_env_lines(e, "started", ""), i);
		wait = 2 * wait < PAUSE_NS ? 2 * wait : PAUSE_NS;
		if (i == 9)
			mps_env_write(e, "no-start", "b\n");
		mps_env_skip(e, end);
	}
	/* One reason is one Event, until it changes. */
	assert_int_equal(agent_fixture_count(e->f, "MPSDaemonDown"), 2);
	assert_non_null(strstr(agent_fixture_last(e->f, "MPSDaemonDown")->message, ": b"));
}

static void start__without_a_program_is_logged(void **state)
{
	struct mps_env *e = *state;

	e->mps.c.options.control = "/nonexistent/control";
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	assert_down(e, "'/nonexistent/control' (--mps-control) is not a program");
	e->mps.c.options.control = e->control;
	mps_env_skip(e, PAUSE_NS);
	mps_env_until_state(e, GPU, MPS_READY);
}

static void start__without_a_directory_is_logged(void **state)
{
	struct mps_env *e = *state;

	mps_env_write(e, "m", "a file where the root is to be");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	assert_down(e, "Not a directory");
	assert_int_equal(mps_env_lines(e, "started", ""), 0);
	mps_env_write(e, "m", NULL);
	mps_env_skip(e, PAUSE_NS);
	mps_env_until_state(e, GPU, MPS_READY);
}

static void mps_sync__creates_no_directory_that_the_next_agent_cannot_find(void **state)
{
	struct mps_env *e = *state;
	char run[PATH_MAX];
	const char *why = NULL;

	(void)snprintf(run, sizeof(run), "%s/run", e->f->dir);
	e->mps.c.run_dir = run; /* there is none: its list of roots cannot be written */
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	assert_null(mps_env_find_daemon(e, GPU));
	assert_false(mps_env_ok(e, "GPU-0::0", &why));
	assert_non_null(strstr(why, run));
	e->mps.c.run_dir = e->f->dir;
	mps_sync(&e->mps);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(mps_env_lines(e, "mps-roots", e->root), 1);
	assert_int_equal(e->mps.error.code, ERR_NONE);
}

/* --- limits --- */

static void limits__change_without_an_interruption(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	mps_env_write(e, "say-get_server_list", "609\n700\n");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 2));
	assert_true(mps_env_is(e, GPU, MPS_SETTING));
	agent_fixture_until(e->f,
		!mps_env_ok(e, "GPU-0::0", NULL) || sup->applied.percent == 50);
	assert_true(mps_env_ok(e, "GPU-0::0", NULL));
	assert_int_equal(mps_env_lines(e, "started", ""), 1);
	/* Servers have the defaults of when they were started. */
	assert_int_equal(mps_env_lines(e, "asked", "set_device_pinned_mem_limit 609 0 8192M"),
		1);
	assert_int_equal(mps_env_lines(e, "asked", "set_device_pinned_mem_limit 700 0 8192M"),
		1);
	assert_int_equal(mps_env_lines(e, "asked", "set_active_thread_percentage 609 50"), 1);
	assert_int_equal(mps_env_lines(e, "asked", "set_active_thread_percentage 700 50"), 1);
}

static void limits__that_change_while_they_are_set_are_set_again(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;

	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	sup = mps_env_find_daemon(e, GPU);
	/* The daemon has the memory limit; the percentage is on its way. */
	agent_fixture_until(e->f, sup->state == MPS_SETTING && sup->step == 2);
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 2));
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(sup->applied.percent, 50);
	assert_int_equal(sup->applied.limits[0], 8192);
	assert_int_equal(
		mps_env_lines(e, "asked", "set_default_device_pinned_mem_limit 0 8192M"), 1);
	assert_int_equal(mps_env_lines(e, "asked", "set_default_active_thread_percentage 50"),
		1);
}

static void limits__that_are_refused_end_the_daemon(void **state)
{
	static const char *const answers[] = { "Invalid value 25\nx\n",
		"Unknown command set_default\n" };
	struct mps_env *e = *state;
	char expected[128];

	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		mps_env_write(e, "say-set_default_active_thread_percentage", answers[i]);
		if (i == 0)
			mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
		else
			mps_env_skip(e, PAUSE_NS);
		(void)snprintf(expected, sizeof(expected), "limits cannot be set: %.*s",
			(int)strcspn(answers[i], "\n"), answers[i]);
		agent_fixture_until(e->f, mps_env_find_daemon(e, GPU)->failures == i + 1);
		assert_down(e, expected);
	}
}

/* --- questions without an answer --- */

static void missed_answer__is_tolerated_twice_in_a_row(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;

	mps_env_stop_clock();
	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	for (int round = 0; round < 2; round++) {
		mps_env_write(e, "fail-get_server_list", "busy\n");
		mps_env_skip(e, CHECK_NS);
		mps_env_settle(e);
		assert_int_equal(sup->missed, 1);
		mps_env_skip(e, 0); /* due at once, without the pause of a check */
		mps_env_settle(e);
		assert_int_equal(sup->missed, 2);
		assert_true(mps_env_ok(e, "GPU-0::0", NULL));
		mps_env_write(e, "fail-get_server_list", NULL);
		mps_env_skip(e, 0);
		mps_env_settle(e);
		assert_int_equal(sup->missed, 0);
	}
	assert_int_equal(agent_fixture_count(e->f, ""), 0);
	mps_env_write(e, "fail-get_server_list", "busy\n");
	for (unsigned i = 1; i <= MPS_MISSED_MAX; i++) {
		mps_env_skip(e, CHECK_NS);
		mps_env_settle(e);
	}
	assert_down(e, "busy");
	assert_int_equal(sup->missed, 0);
}

static void missed_answer__of_a_daemon_that_was_never_ready_ends_it(void **state)
{
	struct mps_env *e = *state;

	mps_env_write(e, "fail-get_server_list", "busy\n");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	assert_down(e, "busy");
	assert_int_equal(mps_env_lines(e, "asked", "get_server_list"), 1);
}

static void missed_answer__of_a_quitting_daemon_waits_for_its_clients(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;
	pid_t pid;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	pid = mps_process_pid(sup);
	mps_env_client(e, GPU, 1);
	mps_env_write(e, "fail-get_server_list", "Cannot send command to the daemon\n");
	mps_env_skip(e, CHECK_NS);
	mps_env_until_state(e, GPU, MPS_QUITTING);
	assert_false(mps_env_ok(e, "GPU-0::0", NULL));
	/* The daemon stays however long this takes: its client is at work, and a missing answer does not
	 * mean "no client". */
	for (int i = 0; i < 5; i++) {
		mps_env_skip(e, QUIT_NS);
		mps_env_settle(e);
		assert_int_equal(mps_process_pid(sup), pid);
		assert_int_equal(kill(pid, 0), 0);
	}
	/* The daemon ends with its client, and another daemon replaces it. */
	assert_int_equal(kill(pid, SIGTERM), 0);
	mps_env_write(e, "fail-get_server_list", NULL);
	assert_down(e, "it was told to quit, and waits for its clients");
	mps_env_skip(e, PAUSE_NS);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_not_equal(mps_process_pid(sup), pid);
}

/* --- its end --- */

static void end__of_a_daemon_is_reported_and_another_one_is_started(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;
	pid_t pid;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	pid = mps_process_pid(sup);
	mps_env_write(e, "m/GPU-0/pipe/control", "a socket that leads nowhere");
	assert_int_equal(kill(pid, SIGKILL), 0);
	agent_fixture_until(e->f, !sup->process);
	assert_down(e, "the MPS control daemon ended by signal 9");
	assert_false(mps_env_has_file(e, GPU, "pipe/control"));
	assert_true(mps_env_has_file(e, GPU, "pipe")); /* containers have it mounted */
	assert_int_equal(sup->counts.daemon_deaths, 1);
	assert_int_equal(agent_fixture_last(e->f, "MPSDaemonDown")->type, EVENT_WARNING);
	mps_env_skip(e, PAUSE_NS);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_not_equal(mps_process_pid(sup), pid);
	/* The new daemon has no settings of the old daemon. */
	assert_int_equal(mps_env_lines(e, "asked", "set_default_active_thread_percentage 25"),
		2);
}

static void end__during_a_query_counts_as_an_end(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	mps_env_write(e, "hang-get_server_list", "");
	mps_env_skip(e, CHECK_NS);
	agent_fixture_until(e->f, mps_env_lines(e, "asked", "get_server_list") == 2);
	assert_int_equal(kill(mps_process_pid(sup), SIGKILL), 0);
	assert_down(e, "signal 9");
	mps_env_write(e, "hang-get_server_list", NULL);
	mps_env_skip(e, PAUSE_NS);
	mps_env_until_state(e, GPU, MPS_READY);
}

static void end__after_a_long_run_is_not_a_further_failure_in_a_row(void **state)
{
	static const struct {
		uint64_t life_ns;
		uint32_t failures;
	} rows[] = { { 0, 4 }, { 60 * NS_PER_SEC, 1 } };
	struct mps_env *e = *state;
	struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		sup->failures = 3;
		mps_env_skip(e, rows[i].life_ns);
		mps_env_settle(e);
		assert_int_equal(kill(mps_process_pid(sup), SIGKILL), 0);
		assert_down(e, "signal 9");
		assert_int_equal(sup->failures, rows[i].failures);
		mps_env_skip(e, PAUSE_NS);
		mps_env_until_state(e, GPU, MPS_READY);
	}
}

/* --- not wanted any more --- */

static void drain__of_a_daemon_without_clients_removes_its_directory(void **state)
{
	struct mps_env *e = *state;
	pid_t pid;

	mps_env_up(e, 1);
	pid = mps_process_pid(mps_env_find_daemon(e, GPU));
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 0));
	agent_fixture_until(e->f, !e->mps.daemons);
	assert_int_equal(mps_env_lines(e, "asked", "quit"), 1);
	assert_int_equal(kill(pid, 0), -1);
	assert_false(mps_env_has_file(e, GPU, "daemon.json"));
	assert_false(mps_env_has_file(e, GPU, "pid"));
	assert_false(mps_env_has_file(e, GPU, "log"));
	assert_true(mps_env_has_file(e, GPU, "pipe")); /* a container may be started again */
	assert_int_equal(agent_fixture_count(e->f, ""), 0);
}

static void drain__waits_for_the_clients_that_the_daemon_reports(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	mps_env_client(e, GPU, 1);
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 0));
	mps_env_settle(e);
	assert_true(mps_env_is(e, GPU, MPS_DRAINING));
	/* A line that any process of a container can write. */
	mps_env_log(e, GPU, "Client process 1 disconnected");
	agent_fixture_until(e->f, mps_clients_count(&sup->clients) == 0);
	mps_env_skip(e, NS_PER_SEC);
	agent_fixture_until(e->f, mps_clients_count(&sup->clients) == 1);
	mps_env_settle(e);
	assert_true(mps_env_is(e, GPU, MPS_DRAINING));
	assert_int_equal(mps_env_lines(e, "asked", "quit"), 0);
	mps_env_write(e, "say-get_client_list", NULL);
	mps_env_skip(e, 2 * NS_PER_SEC);
	agent_fixture_until(e->f, !e->mps.daemons);
	assert_int_equal(mps_env_lines(e, "asked", "quit"), 1);
}

static void drain__ends_where_the_daemon_is_desired_again(void **state)
{
	struct mps_env *e = *state;
	pid_t pid;

	mps_env_up(e, 1);
	pid = mps_process_pid(mps_env_find_daemon(e, GPU));
	mps_env_client(e, GPU, 1);
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 0));
	mps_env_until_state(e, GPU, MPS_DRAINING);
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(mps_process_pid(mps_env_find_daemon(e, GPU)), pid);
	assert_true(mps_env_ok(e, "GPU-0::0", NULL));
	assert_int_equal(mps_env_lines(e, "started", ""), 1);
}

static void quit__is_followed_by_a_new_daemon_where_one_is_desired(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;
	pid_t pid;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	pid = mps_process_pid(sup);
	mps_env_write(e, "hang-quit", "");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 0));
	agent_fixture_until(e->f, mps_env_lines(e, "asked", "quit") == 1);
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	assert_true(mps_env_is(e, GPU, MPS_QUITTING)); /* it takes no clients any more */
	assert_int_equal(kill(pid, SIGTERM), 0);
	agent_fixture_until(e->f, !sup->process);
	mps_env_skip(e, PAUSE_NS);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_not_equal(mps_process_pid(sup), pid);
}

static void quit__without_effect_kills_a_daemon_without_clients(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;

	mps_env_stop_clock();
	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	mps_env_write(e, "fail-quit", "no\n");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 0));
	mps_env_until_state(e, GPU, MPS_QUITTING);
	mps_env_skip(e, QUIT_NS - NS_PER_SEC);
	mps_env_settle(e);
	assert_non_null(sup->process);
	/* A client that comes in the last moment keeps the daemon alive. */
	mps_env_client(e, GPU, 1);
	mps_env_skip(e, NS_PER_SEC);
	mps_env_settle(e);
	mps_env_skip(e, 0);
	assert_true(mps_env_is(e, GPU, MPS_QUITTING));
	assert_int_equal(kill(mps_process_pid(sup), 0), 0);
	mps_env_no_client(e, GPU);
	mps_env_skip(e, 2 * NS_PER_SEC);
	agent_fixture_until(e->f, !e->mps.daemons);
}

/* --- beside others --- */

/* GPUs of which a container may have several have one daemon. */
static struct config *make_joined_config(const struct mps_env *e)
{
	struct config *c = mps_env_config(e, 4);

	MPS(c).fail_requests_greater_than_one = false;
	return c;
}

static struct mps_supervisor *find_joined_daemon(const struct mps_env *e)
{
	for (struct mps_supervisor *sup = e->mps.daemons; sup; sup = sup->next)
		if (!sup->closed && !strncmp(sup->key, "set-", 4))
			return sup;
	return NULL;
}

static void other_daemon__of_a_gpu_ends_first(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *old;

	mps_env_know(e, mps_env_inventory(2), make_joined_config(e));
	old = find_joined_daemon(e);
	assert_non_null(old);
	mps_env_until_state(e, old->key, MPS_READY);
	mps_env_client(e, old->key, 1);
	mps_env_know(e, mps_env_inventory(2), mps_env_config(e, 4));
	mps_env_settle(e);
	assert_down(e, "another MPS daemon of this GPU has not ended yet");
	mps_env_skip(e, PAUSE_NS);
	mps_env_settle(e);
	assert_int_equal(mps_env_lines(e, "started", ""), 1);
	mps_env_no_client(e, old->key);
	mps_env_skip(e, 2 * NS_PER_SEC);
	agent_fixture_until(e->f, !find_joined_daemon(e));
	mps_env_skip(e, PAUSE_NS);
	mps_env_until_state(e, GPU, MPS_READY);
	mps_env_until_state(e, "GPU-1", MPS_READY);
}

static void other_root__is_another_daemon(void **state)
{
	struct mps_env *e = *state;
	struct config *c;

	mps_env_up(e, 1);
	c = mps_env_config(e, 4);
	free(c->mps_root);
	assert_true(asprintf(&c->mps_root, "%s2", e->root) > 0); /* not below the old one */
	mps_env_know(e, mps_env_inventory(1), c);
	agent_fixture_until(e->f, mps_env_lines(e, "started", "") == 2);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_false(mps_env_has_file(e, GPU, "daemon.json"));
	assert_non_null(strstr(mps_env_find_daemon(e, GPU)->dir.dir, "/m2/"));
	assert_int_equal(mps_env_lines(e, "mps-roots", ""), 2);
}

static void lose_gpu(struct inventory *inv, uint32_t gpu)
{
	inv->gpus[gpu].fault = GPU_FAULT_LOST;
}

static void lost_gpu__is_left_out_until_it_is_back_and_no_client_runs(void **state)
{
	struct mps_env *e = *state;
	struct inventory *inv = mps_env_inventory(2);
	const char *why = NULL;
	struct mps_supervisor *sup;
	pid_t pid;

	lose_gpu(inv, 0);
	mps_env_know(e, inv, make_joined_config(e));
	sup = find_joined_daemon(e);
	mps_env_until_state(e, sup->key, MPS_READY);
	pid = mps_process_pid(sup);
	assert_int_equal(mps_env_lines(e, "started", " GPU-1"), 1);
	/* The limit of a GPU has the GPU's place in the daemon's list. */
	assert_int_equal(mps_env_lines(e, "asked", "pinned_mem_limit 0 "), 1);
	assert_int_equal(mps_env_lines(e, "asked", "pinned_mem_limit 1 "), 0);
	mps_env_client(e, sup->key, 1);
	mps_env_know(e, mps_env_inventory(2), NULL);
	mps_env_settle(e);
	assert_true(mps_env_ok(e, "GPU-1::0", NULL));
	assert_false(mps_env_ok(e, "GPU-0::0", &why));
	assert_non_null(strstr(why, "was started while this GPU was lost"));
	assert_int_equal(mps_process_pid(sup), pid);
	mps_env_no_client(e, sup->key);
	mps_env_skip(e, 2 * NS_PER_SEC);
	agent_fixture_until(e->f, mps_process_pid(sup) != pid);
	mps_env_skip(e, PAUSE_NS);
	mps_env_until_state(e, sup->key, MPS_READY);
	assert_true(mps_env_ok(e, "GPU-0::0", NULL));
	assert_int_equal(mps_env_lines(e, "started", " GPU-0,GPU-1"), 1);
}

static void lost_gpus__are_not_left_out_where_all_are_lost(void **state)
{
	struct mps_env *e = *state;
	struct inventory *inv = mps_env_inventory(1);

	lose_gpu(inv, 0);
	mps_env_know(e, inv, mps_env_config(e, 4));
	mps_env_until_state(e, GPU, MPS_READY);
	assert_true(mps_supervisor_has_device(mps_env_find_daemon(e, GPU), GPU));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MPS_TEST(mps_sync__starts_a_daemon_and_sets_its_limits),
		MPS_TEST(mps_sync__does_nothing_before_the_first_offer),
		MPS_TEST(mps_sync__starts_one_daemon_for_each_gpu_in_many_calls),
		MPS_TEST(start__waits_for_the_first_answer),
		MPS_TEST(start__times_out_without_an_answer),
		MPS_TEST(start__that_fails_logs_the_output_of_the_daemon),
		MPS_TEST(start__that_fails_logs_output_that_arrives_with_its_end),
		MPS_TEST(start__omits_multi_user_where_the_program_lacks_it),
		MPS_TEST(start__after_one_that_served_is_with_several_users),
		MPS_TEST(start__that_fails_is_retried_with_back_off),
		MPS_TEST(start__without_a_program_is_logged),
		MPS_TEST(start__without_a_directory_is_logged),
		MPS_TEST(mps_sync__creates_no_directory_that_the_next_agent_cannot_find),
		MPS_TEST(limits__change_without_an_interruption),
		MPS_TEST(limits__that_change_while_they_are_set_are_set_again),
		MPS_TEST(limits__that_are_refused_end_the_daemon),
		MPS_TEST(missed_answer__is_tolerated_twice_in_a_row),
		MPS_TEST(missed_answer__of_a_daemon_that_was_never_ready_ends_it),
		MPS_TEST(missed_answer__of_a_quitting_daemon_waits_for_its_clients),
		MPS_TEST(end__of_a_daemon_is_reported_and_another_one_is_started),
		MPS_TEST(end__during_a_query_counts_as_an_end),
		MPS_TEST(end__after_a_long_run_is_not_a_further_failure_in_a_row),
		MPS_TEST(drain__of_a_daemon_without_clients_removes_its_directory),
		MPS_TEST(drain__waits_for_the_clients_that_the_daemon_reports),
		MPS_TEST(drain__ends_where_the_daemon_is_desired_again),
		MPS_TEST(quit__is_followed_by_a_new_daemon_where_one_is_desired),
		MPS_TEST(quit__without_effect_kills_a_daemon_without_clients),
		MPS_TEST(other_daemon__of_a_gpu_ends_first),
		MPS_TEST(other_root__is_another_daemon),
		MPS_TEST(lost_gpu__is_left_out_until_it_is_back_and_no_client_runs),
		MPS_TEST(lost_gpus__are_not_left_out_where_all_are_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
