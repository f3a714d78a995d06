/* SPDX-License-Identifier: Apache-2.0 */

/* Life of processes and of the simulated GPUs' daemon: what a death frees, and when, and how the daemon starts. */
#include "unit/testbed/sim/device/sim-device-env.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* A process of its own that connects, allocates 1 GiB, reports that, and lives until it is killed. */
static pid_t spawn_holder(int *ready)
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		struct sim_device mine = SIM_DEVICE_INIT;
		struct sim_device_reply r;

		sim_device_forget(&sim_device_env);
		if (sim_device_connect(&mine, sim_device_env_node.dir, NULL, NULL) < 0)
			_exit(1);
		(void)daemon_new_context(&mine, 0);
		if (daemon_allocate(&mine, 0, 1024 * MIB, &r, NULL) != 0)
			_exit(2);
		(void)!write(ends[1], "+", 1);
		for (;;)
			(void)pause();
	}
	assert_true(pid > 0);
	(void)close(ends[1]);
	*ready = ends[0];
	return pid;
}

static void wait_ready(int fd)
{
	char c;

	assert_int_equal(read(fd, &c, 1), 1);
	(void)close(fd);
}

static void death__frees_all(void **state)
{
	uint64_t total, left = daemon_free_bytes(&sim_device_env, 0, &total);
	int ready;
	pid_t pid = spawn_holder(&ready);
	struct pollfd p;
	siginfo_t info;

	(void)state;
	wait_ready(ready);
	assert_int_equal(nvml_process_bytes(0, pid), CONTEXT + 1024 * MIB);
	p = (struct pollfd){ .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(poll(&p, 1, 10000), 1);
	/* A zombie: other processes no longer see its memory. */
	assert_int_equal(daemon_free_bytes(&sim_device_env, 0, &total), left);
	assert_int_equal(nvml_used_bytes(0), 0);
	assert_int_equal(nvml_process_bytes(0, pid), UINT64_MAX);
	(void)close(p.fd);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED), 0);
}

static void death__frees_late_with_the_option(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t total, left = daemon_free_bytes(&sim_device_env, 0, &total), start;
	int ready;
	pid_t pid = spawn_holder(&ready);

	(void)state;
	wait_ready(ready);
	assert_ok(
		sim_control_set(&sim_device_env_node.control, 0, "cuda_free_ms", "1500", &err),
		&err);
	start = time_mono_ns();
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(daemon_free_bytes(&sim_device_env, 0, &total),
		left - CONTEXT - 1024 * MIB);
	assert_int_equal(nvml_process_bytes(0, pid), CONTEXT + 1024 * MIB);
	while (daemon_free_bytes(&sim_device_env, 0, &total) != left &&
		time_mono_ns() - start < DAEMON_TIMEOUT_NS)
		(void)usleep(1000);
	assert_true(time_mono_ns() - start >= 1500 * NS_PER_MS);
	assert_int_equal(daemon_free_bytes(&sim_device_env, 0, &total), left);
	assert_int_equal(nvml_process_bytes(0, pid), UINT64_MAX);
}

/* A child that has the files open keeps its dead parent's memory, as measured with the driver of an H100. */
static void death__frees_nothing_while_a_child_has_the_connection(void **state)
{
	int ends[2];
	pid_t pid, child = 0;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		struct sim_device mine = SIM_DEVICE_INIT;

		sim_device_forget(&sim_device_env);
		if (sim_device_connect(&mine, sim_device_env_node.dir, NULL, NULL) < 0)
			_exit(1);
		(void)daemon_new_context(&mine, 0);
		child = fork();
		if (child == 0) {
			sim_device_forget(&mine);
			(void)sleep(30);
			_exit(0);
		}
		(void)!write(ends[1], &child, sizeof(child));
		(void)pause();
	}
	assert_int_equal(read(ends[0], &child, sizeof(child)), sizeof(child));
	assert_int_equal(nvml_used_bytes(0), CONTEXT);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)usleep(50000);
	assert_int_equal(nvml_used_bytes(0), CONTEXT);
	assert_int_equal(nvml_process_bytes(0, pid), CONTEXT);
	assert_int_equal(kill(child, SIGKILL), 0);
	for (int i = 0; i < 2000 && nvml_process_bytes(0, pid) != UINT64_MAX; i++)
		(void)usleep(1000);
	assert_int_equal(nvml_process_bytes(0, pid), UINT64_MAX);
	assert_int_equal(nvml_used_bytes(0), 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

/* Many come at once to a node that has no daemon yet. */
static void start__happens_once(void **state)
{
	enum { PROCESSES = 20 };
	pid_t pids[PROCESSES];
	int status;

	(void)state;
	for (int i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct sim_device mine = SIM_DEVICE_INIT;
			struct sim_device_reply r;

			if (sim_device_connect(&mine, sim_device_env_node.dir, NULL, NULL) < 0)
				_exit(1);
			/* The library leaves no child process behind. */
			if (waitpid(-1, NULL, __WALL) != -1 || errno != ECHILD)
				_exit(3);
			_exit(daemon_allocate(&mine, 0, 2 * MIB, &r, NULL) == 0 ? 0 : 2);
		}
	}
	for (int i = 0; i < PROCESSES; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

static pid_t daemon_pid(void)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	assert_int_equal(getsockopt(sim_device_env.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len),
		0);
	return cred.pid;
}

static void start__cleans_up_after_a_killed_process(void **state)
{
	uint32_t stream =
		daemon_new_stream(&sim_device_env, daemon_new_context(&sim_device_env, 0));
	struct error err = ERROR_INIT;
	struct sim_device_reply r;
	uint64_t total, left;
	pid_t pid = daemon_pid();

	(void)state;
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_false(daemon_wait_stream(&sim_device_env, stream, 1));
	assert_int_equal(daemon_call(&sim_device_env,
				 (struct sim_device_request){ .op = SIM_DEVICE_MEM_INFO }, &r),
		999);
	assert_false(sim_device_host_done(&sim_device_env, stream, 1));
	assert_int_equal(nvml_process_bytes(0, getpid()), CONTEXT);
	sim_device_close(&sim_device_env);
	assert_ok(sim_device_connect(&sim_device_env, sim_device_env_node.dir, NULL, &err),
		&err);
	assert_int_not_equal(daemon_pid(), pid);
	assert_int_equal(nvml_process_bytes(0, getpid()), UINT64_MAX);
	assert_int_equal(nvml_used_bytes(0), 0);
	left = daemon_free_bytes(&sim_device_env, 0, &total);
	assert_int_equal(left, total);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(death__frees_all),
		TEST(death__frees_late_with_the_option),
		TEST(death__frees_nothing_while_a_child_has_the_connection),
		cmocka_unit_test_setup_teardown(start__happens_once,
			sim_device_env_begin_unused, sim_device_env_end),
		TEST(start__cleans_up_after_a_killed_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
