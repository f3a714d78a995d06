/* SPDX-License-Identifier: Apache-2.0 */

/* Compute modes of GPUs while a daemon has them: written down first, set, and put back on every path. */
#include "unit/node/agent/mps/mps-env.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define GPU      "GPU-0"
#define PAUSE_NS (30 * NS_PER_SEC)
#define STATE    "m/GPU-0/daemon.json"

static struct config *make_exclusive_config(const struct mps_env *e)
{
	struct config *c = mps_env_config(e, 4);

	c->sharing.mps_exclusive = true;
	return c;
}

/* Starts a server when the supervisor has requested it. */
static void bring_server(struct mps_env *e, const char *key)
{
	const struct mps_supervisor *sup = mps_env_find_daemon(e, key);

	agent_fixture_until(e->f, mps_env_rests(e, key, MPS_SERVER) && sup->step == 1);
	mps_env_write(e, "say-get_server_list", "609\n");
	mps_env_log(e, key, "NEW SERVER 609: Ready");
	mps_env_until_state(e, key, MPS_READY);
	mps_env_write(e, "say-get_server_list", NULL);
}

static void up_exclusive(struct mps_env *e)
{
	mps_env_know(e, mps_env_inventory(1), make_exclusive_config(e));
	bring_server(e, GPU);
}

static bool mode_is(const struct mps_env *e, const char *gpu, const char *mode)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "mode-%s", gpu);
	return mps_env_lines(e, name, mode) == 1;
}

/* --- set --- */

static void mode__is_set_before_the_daemon_is_started(void **state)
{
	struct mps_env *e = *state;
	const struct mps_supervisor *sup;

	mps_env_write(e, "mode-GPU-0", "2\n");
	mps_env_know(e, mps_env_inventory(1), make_exclusive_config(e));
	sup = mps_env_find_daemon(e, GPU);
	agent_fixture_until(e->f, sup->modes_are_set);
	/* The former mode is on disk before the change: the agent may be killed now. */
	assert_int_equal(mps_env_lines(e, STATE, "\"GPU-0\":2"), 1);
	assert_int_equal(mps_env_lines(e, "started", ""), 0);
	bring_server(e, GPU);
	assert_true(mode_is(e, GPU, "3"));
	assert_int_equal(mps_env_lines(e, "helped", "mode GPU-0"), 2);
	assert_int_equal(mps_env_lines(e, "helped", "--set 3 mode GPU-0"), 1);
	/* A server that cannot start is found out before a client is. */
	assert_int_equal(mps_env_lines(e, "asked", "start_server"), 1);
}

static void mode__that_cannot_be_read_starts_nothing(void **state)
{
	static const struct {
		const char *file, *text, *why;
	} rows[] = {
		{ "fail-mode", "NVML: no permission\n",
			"the compute mode cannot be set: NVML: no permission" },
		{ "say-mode", "GPU-0\n", "the compute mode cannot be set: " },
		{ "say-mode", "GPU-0 x\n", "the compute mode cannot be set: " },
		{ "say-mode", " 0\n", "the compute mode cannot be set: " },
	};
	struct mps_env *e = *state;

	for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct mps_supervisor *sup;

		mps_env_write(e, rows[i].file, rows[i].text);
		if (i == 0)
			mps_env_know(e, mps_env_inventory(1), make_exclusive_config(e));
		else
			mps_env_skip(e, PAUSE_NS);
		sup = mps_env_find_daemon(e, GPU);
		agent_fixture_until(e->f,
			sup->failures == i + 1 && mps_env_rests(e, GPU, MPS_DOWN));
		assert_int_equal(strncmp(sup->why, rows[i].why, strlen(rows[i].why)), 0);
		assert_int_equal(sup->dir.n_modes, 0);
		mps_env_write(e, rows[i].file, NULL);
	}
	assert_int_equal(mps_env_lines(e, "started", ""), 0);
	mps_env_skip(e, PAUSE_NS);
	bring_server(e, GPU);
}

static void mode__that_cannot_be_set_is_restored_once_that_is_certain(void **state)
{
	struct mps_env *e = *state;
	const struct mps_supervisor *sup;

	mps_env_write(e, "fail-mode3", "no permission\n");
	mps_env_know(e, mps_env_inventory(2), make_exclusive_config(e));
	sup = mps_env_find_daemon(e, GPU);
	agent_fixture_until(e->f, sup->failures == 1 && mps_env_rests(e, GPU, MPS_DOWN));
	assert_int_equal(sup->dir.n_modes, 1); /* it may have been set in part */
	mps_env_skip(e, PAUSE_NS);
	agent_fixture_until(e->f, sup->failures == 2 && mps_env_rests(e, GPU, MPS_DOWN));
	mps_env_skip(e, PAUSE_NS);
	agent_fixture_until(e->f, mps_env_lines(e, "helped", "--set 0 mode GPU-0") == 1);
	mps_env_write(e, "fail-mode3", NULL);
	agent_fixture_until(e->f, sup->dir.n_modes == 0 || sup->state == MPS_SERVER);
	mps_env_skip(e, PAUSE_NS);
	bring_server(e, GPU);
	assert_true(mode_is(e, GPU, "3"));
	assert_int_equal(mps_env_lines(e, STATE, "\"GPU-0\":0"), 1);
}

static void mode__from_before_a_kill_is_restored_and_not_the_present_one(void **state)
{
	struct mps_env *e = *state;

	mps_env_write(e, "mode-GPU-0", "2\n");
	up_exclusive(e);
	assert_int_equal(kill(mps_process_pid(mps_env_find_daemon(e, GPU)), SIGKILL), 0);
	agent_fixture_until(e->f, !mps_env_find_daemon(e, GPU)->process);
	mps_env_restart(e);
	mps_env_know(e, mps_env_inventory(1), make_exclusive_config(e));
	bring_server(e, GPU);
	assert_int_equal(mps_env_lines(e, STATE, "\"GPU-0\":2"), 1);
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 0));
	mps_env_settle(e);
	mps_env_skip(e, PAUSE_NS);
	agent_fixture_until(e->f, !e->mps.daemons);
	assert_true(mode_is(e, GPU, "2"));
}

/* --- a daemon that serves --- */

static void mode__changes_while_a_daemon_runs(void **state)
{
	struct mps_env *e = *state;
	pid_t pid;

	mps_env_up(e, 1);
	pid = mps_process_pid(mps_env_find_daemon(e, GPU));
	mps_env_know(e, mps_env_inventory(1), make_exclusive_config(e));
	agent_fixture_until(e->f, mps_env_is(e, GPU, MPS_MODES));
	assert_true(mps_env_ok(e, "GPU-0::0", NULL)); /* its devices are healthy meanwhile */
	agent_fixture_until(e->f, mode_is(e, GPU, "3"));
	mps_env_until_state(e, GPU, MPS_READY);
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 4));
	agent_fixture_until(e->f, mps_env_is(e, GPU, MPS_RESTORING));
	assert_true(mps_env_ok(e, "GPU-0::0", NULL));
	agent_fixture_until(e->f, mode_is(e, GPU, "0"));
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(mps_process_pid(mps_env_find_daemon(e, GPU)), pid);
	assert_int_equal(mps_env_find_daemon(e, GPU)->dir.n_modes, 0);
	assert_int_equal(mps_env_lines(e, STATE, "\"modes\":{}"), 1);
}

static void mode__that_cannot_be_set_ends_no_daemon_that_serves(void **state)
{
	struct mps_env *e = *state;
	pid_t pid;

	mps_env_stop_clock();
	mps_env_up(e, 1);
	pid = mps_process_pid(mps_env_find_daemon(e, GPU));
	mps_env_write(e, "fail-mode3", "no permission\n");
	mps_env_know(e, mps_env_inventory(1), make_exclusive_config(e));
	agent_fixture_until(e->f, mps_env_lines(e, "helped", "--set 3") == 1);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_true(mps_env_ok(e, "GPU-0::0", NULL));
	/* The supervisor does not retry in a loop. */
	mps_sync(&e->mps);
	mps_env_settle(e);
	assert_int_equal(mps_env_lines(e, "helped", "--set 3"), 1);
	mps_env_write(e, "fail-mode3", NULL);
	mps_env_skip(e, PAUSE_NS);
	agent_fixture_until(e->f, mode_is(e, GPU, "3"));
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(mps_process_pid(mps_env_find_daemon(e, GPU)), pid);
}

static void mode__that_is_pending_delays_nothing_else(void **state)
{
	struct mps_env *e = *state;
	struct config *c = make_exclusive_config(e);
	const struct mps_supervisor *sup;
	uint64_t since;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	mps_env_write(e, "fail-mode", "no permission\n");
	c->sharing.entries[0].replicas = 2;
	mps_env_know(e, mps_env_inventory(1), c);
	agent_fixture_until(e->f, sup->applied.percent == 50);
	mps_env_until_state(e, GPU, MPS_READY);
	since = time_mono_ns();
	mps_query_clients(&e->mps);
	agent_fixture_until(e->f, mps_has_answered(&e->mps, since));
	assert_true(mps_env_ok(e, "GPU-0::0", NULL));
}

static void mode__of_a_found_daemon_is_not_set_again(void **state)
{
	struct mps_env *e = *state;

	up_exclusive(e);
	mps_env_restart(e);
	mps_env_know(e, mps_env_inventory(1), make_exclusive_config(e));
	mps_env_settle(e);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(mps_env_lines(e, "helped", "--set 3"), 1);
}

/* --- put back --- */

static void mode__is_restored_when_the_daemon_ended(void **state)
{
	struct mps_env *e = *state;

	mps_env_write(e, "mode-GPU-0", "1\n");
	up_exclusive(e);
	mps_env_write(e, "fail-mode1", "NVML: busy\n");
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 0));
	mps_env_settle(e);
	for (unsigned i = 0; i < 3; i++) {
		mps_env_skip(e, PAUSE_NS);
		agent_fixture_until(e->f, mps_env_lines(e, "helped", "--set 1") > i);
		mps_env_settle(e);
		assert_int_equal(mps_env_lines(e, STATE, "\"GPU-0\":1"), 1);
	}
	assert_true(mode_is(e, GPU, "3"));
	mps_env_write(e, "fail-mode1", NULL);
	mps_env_skip(e, PAUSE_NS);
	agent_fixture_until(e->f, !e->mps.daemons);
	assert_true(mode_is(e, GPU, "1"));
	assert_false(mps_env_has_file(e, GPU, "daemon.json"));
}

static void mode__is_restored_separately_for_each_gpu(void **state)
{
	struct mps_env *e = *state;
	struct config *c = make_exclusive_config(e);

	MPS(c).fail_requests_greater_than_one = false;
	mps_env_write(e, "mode-GPU-0", "0\n");
	mps_env_write(e, "mode-GPU-1", "2\n");
	mps_env_write(e, "mode-GPU-2", "0\n");
	mps_env_know(e, mps_env_inventory(3), c);
	bring_server(e, e->mps.daemons->key);
	assert_true(mode_is(e, "GPU-1", "3"));
	mps_env_know(e, mps_env_inventory(3), mps_env_config(e, 0));
	mps_env_settle(e);
	mps_env_skip(e, PAUSE_NS);
	agent_fixture_until(e->f, !e->mps.daemons);
	assert_true(mode_is(e, "GPU-0", "0"));
	assert_true(mode_is(e, "GPU-1", "2"));
	assert_true(mode_is(e, "GPU-2", "0"));
	assert_int_equal(mps_env_lines(e, "helped", "--set 0 mode GPU-0 GPU-2"), 1);
	assert_int_equal(mps_env_lines(e, "helped", "--set 2 mode GPU-1"), 1);
}

static void mode__is_restored_before_another_daemon_of_the_gpu_sets_its_own(void **state)
{
	struct mps_env *e = *state;
	struct config *c = make_exclusive_config(e);
	char old[MPS_KEY_MAX];

	MPS(c).fail_requests_greater_than_one = false;
	mps_env_know(e, mps_env_inventory(2), c);
	(void)snprintf(old, sizeof(old), "%s", e->mps.daemons->key);
	bring_server(e, old);
	mps_env_write(e, "fail-mode0", "busy\n");
	mps_env_know(e, mps_env_inventory(2), make_exclusive_config(e));
	agent_fixture_until(e->f, !mps_env_find_daemon(e, old)->process);
	mps_env_skip(e, PAUSE_NS);
	mps_env_settle(e);
	/* The daemon has ended, and the mode that it set is still there. */
	assert_true(mps_env_is(e, GPU, MPS_DOWN));
	assert_int_equal(mps_env_lines(e, "started", ""), 1);
	mps_env_write(e, "fail-mode0", NULL);
	mps_env_skip(e, PAUSE_NS);
	agent_fixture_until(e->f, !mps_env_find_daemon(e, old));
	mps_env_skip(e, PAUSE_NS);
	bring_server(e, GPU);
	assert_int_equal(mps_env_find_daemon(e, GPU)->dir.modes[0].before, 0); /* and not 3 */
}

static void mps_stop__restores_modes(void **state)
{
	struct mps_env *e = *state;

	up_exclusive(e);
	mps_stop(&e->mps);
	agent_fixture_until(e->f, mode_is(e, GPU, "0"));
	agent_fixture_until(e->f, e->mps.daemons->closed);
	assert_false(mps_env_has_file(e, GPU, "daemon.json"));
}

static void mps_stop__leaves_modes_to_the_next_agent_where_restoring_fails(void **state)
{
	struct mps_env *e = *state;

	up_exclusive(e);
	mps_env_write(e, "fail-mode0", "busy\n");
	mps_stop(&e->mps);
	agent_fixture_until(e->f, e->mps.daemons->closed);
	assert_int_equal(mps_env_lines(e, STATE, "\"GPU-0\":0"), 1);
	assert_true(mode_is(e, GPU, "3"));
	mps_env_write(e, "fail-mode0", NULL);
	mps_env_restart(e);
	mps_env_know(e, mps_env_inventory(1), mps_env_config(e, 0));
	agent_fixture_until(e->f, !e->mps.daemons);
	assert_true(mode_is(e, GPU, "0"));
	assert_int_equal(mps_env_lines(e, "started", ""), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MPS_TEST(mode__is_set_before_the_daemon_is_started),
		MPS_TEST(mode__that_cannot_be_read_starts_nothing),
		MPS_TEST(mode__that_cannot_be_set_is_restored_once_that_is_certain),
		MPS_TEST(mode__from_before_a_kill_is_restored_and_not_the_present_one),
		MPS_TEST(mode__changes_while_a_daemon_runs),
		MPS_TEST(mode__that_cannot_be_set_ends_no_daemon_that_serves),
		MPS_TEST(mode__that_is_pending_delays_nothing_else),
		MPS_TEST(mode__of_a_found_daemon_is_not_set_again),
		MPS_TEST(mode__is_restored_when_the_daemon_ended),
		MPS_TEST(mode__is_restored_separately_for_each_gpu),
		MPS_TEST(mode__is_restored_before_another_daemon_of_the_gpu_sets_its_own),
		MPS_TEST(mps_stop__restores_modes),
		MPS_TEST(mps_stop__leaves_modes_to_the_next_agent_where_restoring_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
