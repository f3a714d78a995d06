/* SPDX-License-Identifier: Apache-2.0 */

/* The log of a daemon: lines that a process of a container forges, and the reading of the file. */
#include "unit/node/agent/mps/mps-env.h"

#include "lib/base/fd.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define GPU             "GPU-0"
#define FAULT_REPORT_NS (300 * NS_PER_MS) /* as in watch.c: until a fault is reported */
#define CHECK_NS        (10 * NS_PER_SEC) /* between questions while it is ready */

/* --- lines that a process of a container writes --- */

/* Two daemons, one of which has this process as its client; server 609 is known. */
static struct mps_supervisor *up_with_liar(struct mps_env *e)
{
	uint32_t pid = mps_env_self();

	mps_env_stop_clock();
	mps_env_up(e, 2);
	mps_env_learn_server(e);
	mps_env_add_clients(e, &pid, 1);
	mps_env_answer_status(e, "ACTIVE\n");
	return mps_env_find_daemon(e, GPU);
}

/* Daemon @pid and its client are as before, and so is the other daemon, which got no question of the kind. */
static void assert_unharmed(struct mps_env *e, pid_t pid)
{
	const struct mps_supervisor *sup = mps_env_find_daemon(e, GPU);

	assert_true(mps_env_is(e, GPU, MPS_READY));
	assert_int_equal(mps_process_pid(sup), pid);
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(mps_clients_count(&sup->clients), 1);
	assert_true(mps_env_ok(e, "GPU-0::0", NULL));
	assert_true(mps_env_is(e, "GPU-1", MPS_READY));
	assert_true(mps_env_ok(e, "GPU-1::0", NULL));
	assert_int_equal(mps_env_find_daemon(e, "GPU-1")->watch.vain_checks, 0);
	assert_int_equal(mps_env_lines(e, "started", ""), 2);
	assert_int_equal(mps_env_lines(e, "asked", "start_server"), 0);
}

static void forged__lines_of_all_kinds_end_nothing(void **state)
{
	static const char *const lines[] = {
		"Server 609 exited with status 139",
		"Server 1 exited with status 1",
		"NEW SERVER 700: Ready",
		"NEW SERVER 609: Ready",
		MPS_ENV_FAULT,
		"Client {PID: 1, Context: 1} encountered a fatal GPU error.",
		MPS_ENV_HIT,
		"1",
		"Exiting",
		"Failed to start the server: -multiuser-server",
		"Server encountered a fatal exception. Shutting down",
		"Client {PID: 2147483647, Context ID: 0} connected",
		"Client process 2147483647 disconnected",
	};
	struct mps_env *e = *state;
	const struct mps_supervisor *sup = up_with_liar(e);
	pid_t pid = mps_process_pid(sup);

	/* Writes each line twice, with time for the checks between. */
	for (size_t i = 0; i < 2 * ARRAY_LEN(lines); i++) {
		mps_env_log(e, GPU, "%s", lines[i / 2]);
		for (int k = 0; k < 4; k++) {
			mps_env_skip(e, CHECK_NS);
			mps_env_settle(e);
		}
		assert_unharmed(e, pid);
		assert_false(sup->watch.fault.pending);
	}
	assert_int_equal(agent_fixture_count(e->f, ""), 0);
	assert_int_equal(
		sup->counts.faults + sup->counts.server_deaths + sup->counts.daemon_deaths, 0);
}

/* The fault of docs/design/mps.md: two lines were enough for SIGKILL to the daemon and all of its clients. */
static void forged__end_of_a_server_twice_kills_no_daemon(void **state)
{
	struct mps_env *e = *state;
	const struct mps_supervisor *sup = up_with_liar(e);
	pid_t pid = mps_process_pid(sup);
	unsigned asked = mps_env_lines(e, "asked", "get_server_list");

	for (int i = 0; i < 50; i++) {
		mps_env_log(e, GPU, "Server 609 exited with status 0");
		mps_env_settle(e);
	}
	agent_fixture_until(e->f, sup->watch.hints.exited_pid || sup->watch.vain_checks);
	mps_env_settle(e);
	assert_unharmed(e, pid);
	assert_in_range(mps_env_lines(e, "asked", "get_server_list"), asked, asked + 1);
	assert_int_equal(agent_fixture_count(e->f, ""), 0);
}

static void forged__lines_are_checked_less_and_less_often(void **state)
{
	struct mps_env *e = *state;
	const struct mps_supervisor *sup = up_with_liar(e);
	pid_t pid = mps_process_pid(sup);
	unsigned asked = mps_env_lines(e, "asked", "get_server_list");

	for (int i = 0; i < 600; i++) { /* a minute */
		mps_env_log(e, GPU, "Server 609 exited with status 0");
		mps_env_skip(e, NS_PER_SEC / 10);
		mps_env_settle(e);
	}
	assert_unharmed(e, pid);
	/* After 0.3, 0.9, 2.1, 4.5, 9.3 and 18.9 s, then every 10 s; the other daemon's are some six. */
	assert_in_range(mps_env_lines(e, "asked", "get_server_list") - asked, 6, 24);
	assert_int_equal(agent_fixture_count(e->f, ""), 0);
}

static void forged__fault_of_a_client_that_works_is_dropped(void **state)
{
	struct mps_env *e = *state;
	const struct mps_supervisor *sup = up_with_liar(e);
	pid_t pid = mps_process_pid(sup);
	const uint32_t hit[] = { mps_env_self(), 1 };

	mps_env_log_fault(e, mps_env_self(), hit, 2);
	agent_fixture_until(e->f, sup->watch.fault.pending);
	mps_env_settle(e);
	assert_true(mps_env_ok(e, "GPU-0::0", NULL)); /* the first check found no fault */
	for (int i = 0; i < 4; i++) {
		mps_env_skip(e, FAULT_REPORT_NS);
		mps_env_settle(e);
	}
	assert_false(sup->watch.fault.pending);
	assert_unharmed(e, pid);
	assert_int_equal(sup->counts.faults, 0);
	assert_int_equal(agent_fixture_count(e->f, ""), 0);
}

/* The agent cannot tell whether the client ended by a fault, and the fault would be over. */
static void forged__fault_of_clients_that_have_ended_is_an_event_at_most(void **state)
{
	struct mps_env *e = *state;
	const struct mps_supervisor *sup = up_with_liar(e);
	pid_t pid = mps_process_pid(sup);
	const uint32_t gone = 2147483647;

	/* Half a minute, in which checks because of the log are at 0, 0.3, 0.9, 2.1, 4.5, 9.3 and 18.9 s, and usual ones. */
	for (int i = 0; i < 30; i++) {
		mps_env_log_fault(e, 0, &gone, 1);
		agent_fixture_until(e->f, sup->watch.fault.pending);
		for (int k = 0; k < 4; k++) {
			mps_env_settle(e);
			mps_env_skip(e, NS_PER_SEC / 4);
		}
		assert_unharmed(e, pid);
	}
	assert_in_range(sup->counts.faults, 5, 9);
	assert_int_equal(agent_fixture_count(e->f, ""), 5);
}

static void forged__server_is_ready_only_if_the_daemon_has_it(void **state)
{
	struct mps_env *e = *state;
	struct mps_supervisor *sup;
	pid_t pid;

	mps_env_stop_clock();
	mps_env_up(e, 1);
	sup = mps_env_lose_server(e);
	pid = mps_process_pid(sup);
	mps_env_log(e, GPU, "NEW SERVER 700: Ready"); /* the daemon has none */
	agent_fixture_until(e->f, sup->watch.vain_checks == 1);
	mps_env_settle(e);
	assert_true(mps_env_is(e, GPU, MPS_SERVER));
	mps_env_write(e, "say-get_server_list", "701\n");
	mps_env_write(e, "say-get_server_status", "INITIALIZING\n");
	mps_env_log(e, GPU, "NEW SERVER 701: Ready");
	mps_env_log(e, GPU, "Server 701 exited with status 1"); /* nor has it ended */
	agent_fixture_until(e->f, sup->watch.hints.ready_pid && sup->watch.hints.server_exited);
	mps_env_skip(e, NS_PER_SEC);
	agent_fixture_until(e->f, sup->watch.vain_checks == 2);
	mps_env_settle(e);
	assert_true(mps_env_is(e, GPU, MPS_SERVER));
	assert_false(mps_env_ok(e, "GPU-0::0", NULL));
	assert_int_equal(mps_process_pid(sup), pid);
	mps_env_write(e, "say-get_server_status", NULL);
	mps_env_log(e, GPU, "NEW SERVER 701: Ready");
	agent_fixture_until(e->f, sup->watch.hints.ready_pid);
	mps_env_skip(e, NS_PER_SEC);
	mps_env_until_state(e, GPU, MPS_READY);
	assert_int_equal(mps_process_pid(sup), pid);
}

/* --- the log --- */

static void log__that_was_truncated_is_read_from_its_start(void **state)
{
	struct mps_env *e = *state;
	char path[PATH_MAX];

	mps_env_up(e, 1);
	mps_env_client(e, GPU, 1);
	(void)snprintf(path, sizeof(path), "%.2000s/GPU-0/log/mps.log", e->root);
	assert_int_equal(truncate(path, 0), 0);
	agent_fixture_until(e->f, mps_env_find_daemon(e, GPU)->watch.offset == 0);
	mps_env_client(e, GPU, 2);
}

static void fill_log(const struct mps_env *e, size_t bytes)
{
	char *text = malloc(bytes + 1);

	assert_non_null(text);
	memset(text, 'x', bytes);
	for (size_t i = 99; i < bytes; i += 100)
		text[i] = '\n';
	text[bytes - 1] = '\n';
	text[bytes] = '\0';
	mps_env_write(e, "m/GPU-0/log/mps.log", text);
	free(text);
}

static void log__is_read_to_its_end_in_pieces(void **state)
{
	struct mps_env *e = *state;

	mps_env_up(e, 1);
	fill_log(e, 300 << 10);
	mps_env_client(e, GPU, 1);
	assert_in_range(mps_env_find_daemon(e, GPU)->watch.offset, 300 << 10, 301 << 10);
}

static void log__is_truncated_at_its_limit(void **state)
{
	struct mps_env *e = *state;

	mps_env_up(e, 1);
	fill_log(e, (1 << 20) + 1);
	agent_fixture_until(e->f, mps_env_lines(e, "m/GPU-0/log/mps.log", "x") == 0);
	assert_int_equal(mps_env_find_daemon(e, GPU)->watch.offset, 0);
	mps_env_client(e, GPU, 1);
}

static void log__that_is_a_link_is_not_followed(void **state)
{
	struct mps_env *e = *state;
	char path[PATH_MAX], other[PATH_MAX];

	mps_env_up(e, 1);
	(void)snprintf(path, sizeof(path), "%.2000s/GPU-0/log/mps.log", e->root);
	(void)snprintf(other, sizeof(other), "%s/other", e->f->dir);
	mps_env_log(e, GPU, MPS_ENV_FAULT);
	agent_fixture_until(e->f, mps_env_find_daemon(e, GPU)->watch.fault.pending);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	mps_env_log(e, GPU, "Client {PID: 1, Context ID: 0} connected"); /* through the link */
	assert_false(mps_watch_read(mps_env_find_daemon(e, GPU)));
	assert_null(mps_clients_find(&mps_env_find_daemon(e, GPU)->clients, 1));
}

/* Each identification costs a file of /proc: the agent finds the other clients when it asks the daemon. */
static void log__with_many_clients_has_some_identified(void **state)
{
	struct mps_env *e = *state;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 16);
	const struct mps_supervisor *sup;

	mps_env_up(e, 1);
	sup = mps_env_find_daemon(e, GPU);
	for (unsigned i = 0; i < 100; i++)
		buf_printf(&b, "[x Server 609] Client {PID: %u, Context ID: 0} connected\n",
			5000 + i);
	mps_env_write(e, "m/GPU-0/log/mps.log", buf_str(&b));
	agent_fixture_until(e->f, mps_clients_count(&sup->clients) > 0);
	assert_in_range(mps_clients_count(&sup->clients), 32, 64); /* in one piece, or in two */
	assert_false(mps_supervisor_is_unused(sup));
	buf_clear(&b);
	for (unsigned i = 0; i < 100; i++)
		buf_printf(&b, "%u\n", 5000 + i);
	mps_env_write(e, "say-get_server_list", "609\n");
	mps_env_write(e, "say-get_client_list", buf_str(&b));
	mps_env_skip(e, 10 * NS_PER_SEC);
	agent_fixture_until(e->f, mps_clients_count(&sup->clients) == 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MPS_TEST(forged__lines_of_all_kinds_end_nothing),
		MPS_TEST(forged__end_of_a_server_twice_kills_no_daemon),
		MPS_TEST(forged__lines_are_checked_less_and_less_often),
		MPS_TEST(forged__fault_of_a_client_that_works_is_dropped),
		MPS_TEST(forged__fault_of_clients_that_have_ended_is_an_event_at_most),
		MPS_TEST(forged__server_is_ready_only_if_the_daemon_has_it),
		MPS_TEST(log__that_was_truncated_is_read_from_its_start),
		MPS_TEST(log__is_read_to_its_end_in_pieces),
		MPS_TEST(log__is_truncated_at_its_limit),
		MPS_TEST(log__that_is_a_link_is_not_followed),
		MPS_TEST(log__with_many_clients_has_some_identified),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
