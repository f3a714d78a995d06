/* SPDX-License-Identifier: Apache-2.0 */

/* The passage from one agent to the next: found daemons, files that are left, and the end of an agent. */
#include "unit/node/agent/mps/mps-env.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GPU      "GPU-0"
#define STOP_NS  (3 * NS_PER_SEC) /* as in supervisor.c: for a quit, when the agent ends */
#define PAUSE_NS (30 * NS_PER_SEC)

/* A daemon that has ended is a zombie of this process: no code waits for a daemon that the agent released. */
static bool is_daemon_alive(pid_t pid)
{
	return mps_process_start_ticks(pid) != 0;
}

static pid_t up(struct mps_env *e)
{
	mps_env_up(e, 1);
	return mps_process_pid(mps_env_find_daemon(e, GPU));
}

static bool have_all_daemons_ended(const struct mps_env *e)
{
	for (const struct mps_supervisor *sup = e->mps.daemons; sup; sup = sup->next)
		if (!sup->closed)
			return false;
	return true;
}

/* --- found --- */

static void found_daemon__continues_and_gets_its_limits_again(void **state)
{
	struct mps_env *e = *state;
	pid_t pid = up(e);
	uint64_t since;

	mps_env_client(e, GPU, 1);
	mps_env_restart(e);
	assert_int_equal(mps_process_pid(mps_env_find_daemon(e, GPU)), pid);
	assert_true(mps_env_is(e, GPU, MPS_READY));
	assert_true(mps_supervisor_has_device(mps_env_find_daemon(e, GPU), GPU));
	since = time_mono_ns();
	assert_false(mps_has_answered(&e->mps, since)); /* its clients are unknown */
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 2));
	assert_true(mps_env_ok(e, "GPU-0::0", NULL)); /* at once */
	agent_fixture_until(e->f, mps_env_find_daemon(e, GPU)->applied.percent == 50);
	agent_fixture_until(e->f, mps_has_answered(&e->mps, since));
	assert_int_equal(mps_clients_count(&mps_env_find_daemon(e, GPU)->clients), 1);
	assert_int_equal(mps_env_lines(e, "started", ""), 1);
	assert_int_equal(mps_env_lines(e, "asked", "set_active_thread_percentage 609 50"), 1);
	assert_int_equal(agent_fixture_count(e->f, ""), 0);
}

static void found_daemon__that_ends_is_detected(void **state)
{
	struct mps_env *e = *state;
	pid_t pid = up(e);

	mps_env_restart(e);
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	mps_env_settle(e);
	assert_int_equal(kill(pid, SIGKILL), 0);
	agent_fixture_until(e->f, !mps_env_find_daemon(e, GPU)->process);
	assert_non_null(strstr(agent_fixture_last(e->f, "MPSDaemonDown")->message,
		"it was not this agent's child"));
	mps_env_skip(e, PAUSE_NS);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_not_equal(mps_process_pid(mps_env_find_daemon(e, GPU)), pid);
}

static void found_daemon__that_is_not_desired_drains(void **state)
{
	struct mps_env *e = *state;
	pid_t pid = up(e);

	mps_env_client(e, GPU, 1);
	mps_env_restart(e);
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 0));
	mps_env_settle(e);
	assert_true(mps_env_is(e, GPU, MPS_DRAINING));
	assert_int_equal(mps_clients_count(&mps_env_find_daemon(e, GPU)->clients), 1);
	assert_true(is_daemon_alive(pid));
	mps_env_no_client(e, GPU);
	mps_env_skip(e, 2 * NS_PER_SEC);
	agent_fixture_until(e->f, !e->mps.daemons);
	assert_false(is_daemon_alive(pid));
	assert_false(mps_env_has_file(e, GPU, "daemon.json"));
}

/* The agent finds also a daemon below a root that the config has no more. */
static void found_daemon__is_found_below_all_former_roots(void **state)
{
	struct mps_env *e = *state;
	pid_t pid = up(e);
	struct config *c = mps_env_config(e, 4);

	free(c->mps_root);
	assert_true(asprintf(&c->mps_root, "%s/other", e->f->dir) > 0);
	agent_fixture_know(e->f, mps_env_inventory(1), c);
	mps_env_restart(e);
	assert_non_null(mps_env_find_daemon(e, GPU));
	assert_int_equal(mps_process_pid(mps_env_find_daemon(e, GPU)), pid);
	mps_env_know(e, mps_env_inventory(1), NULL);
	mps_env_settle(e);
	mps_env_skip(e, PAUSE_NS);
	agent_fixture_until(e->f, !is_daemon_alive(pid));
	agent_fixture_until(e->f, mps_env_lines(e, "started", "") == 2);
}

static void found_daemon__is_found_below_the_root_of_the_config_without_a_list(void **state)
{
	struct mps_env *e = *state;
	pid_t pid = up(e);

	mps_env_write(e, "mps-roots", NULL); /* the run directory is on a tmpfs */
	mps_env_restart(e);
	assert_int_equal(mps_process_pid(mps_env_find_daemon(e, GPU)), pid);
	/* Both lists have the daemon; the agent finds it once. */
	mps_env_write(e, "mps-roots", e->root);
	mps_env_restart(e);
	assert_null(e->mps.daemons->next);
}

/* A PID may be reused: the process is the daemon only if its start time agrees. */
static void found_process__of_another_program_is_left_alone(void **state)
{
	struct mps_env *e = *state;
	pid_t pid = up(e);
	char text[64];

	assert_int_equal(kill(pid, SIGKILL), 0);
	agent_fixture_until(e->f, !mps_env_find_daemon(e, GPU)->process);
	(void)snprintf(text, sizeof(text), "%d 12345\n", (int)getpid());
	mps_env_write(e, "m/GPU-0/pid", text);
	mps_env_restart(e);
	assert_null(mps_env_find_daemon(e, GPU)->process);
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(mps_env_lines(e, "started", ""), 2);
}

static void found_directory__that_is_malformed_hides_no_other_daemon(void **state)
{
	static const struct {
		const char *text, *why;
	} texts[] = {
		{ "", "/daemon.json': line 1: " },
		{ "{", "/daemon.json': line 1: " },
		{ "{\n\"devices\": [\"GPU-0\"", "/daemon.json': line 2: " },
		{ "[]", "/daemon.json': expected an object" },
	};
	struct mps_env *e = *state;

	mps_env_up(e, 2);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *why = "";

		mps_env_write(e, "m/GPU-0/daemon.json", texts[i].text);
		mps_env_restart(e);
		assert_null(mps_env_find_daemon(e, GPU));
		assert_true(mps_env_is(e, "GPU-1", MPS_READY));
		mps_env_know(e, mps_env_inventory(2), NULL);
		mps_env_settle(e);
		assert_false(mps_env_ok(e, "GPU-0::0", &why));
		assert_non_null(strstr(why, texts[i].why));
		assert_true(mps_env_ok(e, "GPU-1::0", NULL));
	}
	mps_env_write(e, "m/GPU-0/daemon.json",
		"{\"devices\": [\"GPU-0\", 3, null], \"modes\": 7}");
	mps_env_know(e, mps_env_inventory(2), NULL);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(mps_env_lines(e, "started", ""), 2); /* it was there all the time */
}

static void found_daemon__with_an_unreported_fault_reports_it(void **state)
{
	struct mps_env *e = *state;

	(void)up(e);
	mps_env_client(e, GPU, 1);
	mps_env_restart(e);
	mps_env_write(e, "say-get_server_status", "FAULT\n");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	agent_fixture_until(e->f, mps_env_is(e, GPU, MPS_FAULTED));
	mps_env_settle(e);
	mps_env_skip(e, 300 * NS_PER_MS);
	assert_non_null(strstr(agent_fixture_last(e->f, "MPSClientFault")->message,
		"who it was is not known, as gpusliced did not run then"));
	mps_env_no_client(e, GPU);
	mps_env_skip(e, 2 * NS_PER_SEC);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(mps_env_find_daemon(e, GPU)->counts.faults, 1);
}

/* The agent was killed between daemon.json and the start. */
static void found_directory__without_a_daemon_is_removed_where_none_is_desired(void **state)
{
	struct mps_env *e = *state;

	mps_env_write(e, "m/GPU-0/daemon.json", "{\"devices\":[\"GPU-0\"]}");
	mps_env_write(e, "m/GPU-0/shm/x", "");
	mps_env_write(e, "m/GPU-0/.pid.Ab12", "of a write that was killed");
	mps_env_write(e, "mps-roots", e->root);
	mps_env_restart(e);
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 0));
	agent_fixture_until(e->f, !e->mps.daemons);
	assert_false(mps_env_has_file(e, GPU, "daemon.json"));
	assert_false(mps_env_has_file(e, GPU, "shm"));
	assert_false(mps_env_has_file(e, GPU, ".pid.Ab12"));
}

/* --- the end --- */

static void mps_stop__ends_daemons_without_clients(void **state)
{
	struct mps_env *e = *state;
	pid_t pid = up(e);

	mps_stop(&e->mps);
	mps_sync(&e->mps); /* does nothing any more */
	agent_fixture_until(e->f, have_all_daemons_ended(e));
	assert_false(is_daemon_alive(pid));
	assert_false(mps_env_has_file(e, GPU, "daemon.json"));
	assert_int_equal(agent_fixture_count(e->f, ""), 0);
}

static void mps_stop__leaves_daemons_with_clients_alone(void **state)
{
	struct mps_env *e = *state;
	pid_t pid = up(e);

	mps_env_client(e, GPU, 1);
	mps_stop(&e->mps);
	agent_fixture_until(e->f, have_all_daemons_ended(e));
	assert_true(is_daemon_alive(pid));
	assert_int_equal(mps_env_lines(e, "asked", "quit"), 0);
	assert_true(mps_env_has_file(e, GPU, "daemon.json"));
	mps_env_restart(e);
	assert_int_equal(mps_process_pid(mps_env_find_daemon(e, GPU)), pid);
}

static void mps_stop__queries_a_found_daemon_for_clients(void **state)
{
	struct mps_env *e = *state;
	pid_t pid = up(e);

	mps_env_client(e, GPU, 1);
	mps_env_restart(e);
	assert_int_equal(mps_clients_count(&mps_env_find_daemon(e, GPU)->clients), 0);
	mps_stop(&e->mps);
	agent_fixture_until(e->f, have_all_daemons_ended(e));
	assert_true(is_daemon_alive(pid));
	mps_env_write(e, "say-get_client_list", NULL);
	mps_env_restart(e);
	mps_stop(&e->mps);
	agent_fixture_until(e->f, have_all_daemons_ended(e));
	assert_false(is_daemon_alive(pid));
}

static void mps_stop__times_out_without_an_answer(void **state)
{
	static const char *const commands[] = { "get_server_list", "quit" };
	struct mps_env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		char name[64];
		pid_t pid;

		e->mps.stopped = false;
		pid = up(e);
		(void)snprintf(name, sizeof(name), "fail-%s", commands[i]);
		mps_env_write(e, name, "busy\n");
		if (i == 0) /* its last answer is old */
			mps_env_find_daemon(e, GPU)->check.has_no_client = false;
		mps_stop(&e->mps);
		agent_fixture_until(e->f,
			mps_env_lines(e, "asked", commands[i]) >= 2 || i == 1);
		mps_env_settle(e);
		assert_false(have_all_daemons_ended(e));
		mps_env_skip(e, STOP_NS);
		mps_env_settle(e);
		mps_env_skip(e, STOP_NS);
		agent_fixture_until(e->f, have_all_daemons_ended(e));
		assert_true(is_daemon_alive(pid));
		assert_true(mps_env_has_file(e, GPU, "daemon.json")); /* for the next agent */
		mps_env_write(e, name, NULL);
		mps_env_restart(e);
	}
}

static void mps_stop__in_any_state_closes_all(void **state)
{
	static const enum mps_state states[] = { MPS_STARTING, MPS_SETTING, MPS_READY };
	struct mps_env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		mps_env_know(e, mps_env_inventory(2), mps_env_config(e, 4));
		agent_fixture_until(e->f, mps_env_is(e, GPU, states[i]));
		mps_stop(&e->mps);
		mps_stop(&e->mps);
		for (int k = 0; k < 3; k++) {
			mps_env_settle(e);
			mps_env_skip(e, STOP_NS);
		}
		agent_fixture_until(e->f, have_all_daemons_ended(e));
		mps_env_restart(e);
	}
}

static void mps_stop__while_nothing_can_be_started_ends_at_once(void **state)
{
	struct mps_env *e = *state;

	mps_env_write(e, "no-start", "a\n");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	agent_fixture_until(e->f, mps_env_rests(e, GPU, MPS_DOWN));
	mps_stop(&e->mps);
	assert_true(have_all_daemons_ended(
		e)); /* the pause before the next start counts for nothing */
	assert_false(mps_env_has_file(e, GPU, "daemon.json"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MPS_TEST(found_daemon__continues_and_gets_its_limits_again),
		MPS_TEST(found_daemon__that_ends_is_detected),
		MPS_TEST(found_daemon__that_is_not_desired_drains),
		MPS_TEST(found_daemon__is_found_below_all_former_roots),
		MPS_TEST(found_daemon__is_found_below_the_root_of_the_config_without_a_list),
		MPS_TEST(found_process__of_another_program_is_left_alone),
		MPS_TEST(found_directory__that_is_malformed_hides_no_other_daemon),
		MPS_TEST(found_daemon__with_an_unreported_fault_reports_it),
		MPS_TEST(found_directory__without_a_daemon_is_removed_where_none_is_desired),
		MPS_TEST(mps_stop__ends_daemons_without_clients),
		MPS_TEST(mps_stop__leaves_daemons_with_clients_alone),
		MPS_TEST(mps_stop__queries_a_found_daemon_for_clients),
		MPS_TEST(mps_stop__times_out_without_an_answer),
		MPS_TEST(mps_stop__in_any_state_closes_all),
		MPS_TEST(mps_stop__while_nothing_can_be_started_ends_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
