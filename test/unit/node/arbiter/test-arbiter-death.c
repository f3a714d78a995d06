/* SPDX-License-Identifier: Apache-2.0 */

/* When a process ends, or becomes another program: what becomes of its memory, and which process gets it. */
#include "serve-env.h"

#include "lib/base/time.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that requests @bytes at .go, and then ends: with 0, or the refusal. */
static pid_t ask_in_thread(struct env *e, uint64_t bytes)
{
	uint32_t ready = atomic_load(&e->shared->ready);
	pid_t pid = child(e);
	struct slice_client c;

	if (pid == 0) {
		if (client_connect(&c, e->slice) < 0 ||
			client_hello(&c, SLICE_HELLO_MEMORY) != SLICE_OK)
			_exit(100);
		atomic_fetch_add(&e->shared->ready, 1);
		wait_for(&e->shared->go, 1);
		_exit(client_request(&c, 0, bytes, NULL));
	}
	wait_for(&e->shared->ready, ready + 1);
	return pid;
}

static int answer_to(pid_t ask_in_thread)
{
	int status = 0;

	assert_int_equal(waitpid(ask_in_thread, &status, 0), ask_in_thread);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Waits until the only process of the slice has ended, and the arbiter has noticed. */
static void wait_ended(struct env *e, pid_t pid)
{
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;
	bool ended = false;

	while (!ended) {
		json_t *j = status(e), *slice = json_array_get(json_object_get(j, "slices"), 0);
		const json_t *p = json_array_get(json_object_get(slice, "processes"), 0);

		assert_int_equal(json_integer_value(json_object_get(p, "host_pid")), pid);
		ended = json_is_true(json_object_get(p, "ended"));
		json_decref(j);
		assert_true(time_mono_ns() < end);
		wait_ms(1);
	}
}

static void death__frees_memory_and_a_disconnect_does_not(void **state)
{
	struct env *e = *state;
	pid_t one = holder(e, 300 * MIB, false), two = holder(e, 200 * MIB, true);

	assert_int_equal(gpu_figure(e, "used"), 500 * MIB);
	(void)kill(one, SIGKILL);
	(void)waitpid(one, NULL, 0);
	assert_true(eventually(e, "used", 200 * MIB));
	wait_ms(50);
	assert_int_equal(gpu_figure(e, "used"), 200 * MIB);
	(void)kill(two, SIGKILL);
	/* The process is a zombie until waitpid(). A zombie has no GPU memory. */
	assert_true(eventually(e, "granted", 0));
	(void)waitpid(two, NULL, 0);
	assert_int_equal(gpu_figure(e, "peak"), 500 * MIB);
}

static void death__frees_nothing_while_a_child_keeps_the_memory(void **state)
{
	struct env *e = *state;
	pid_t one = holder(e, 300 * MIB, false);
	pid_t other = ask_in_thread(e, 800 * MIB);

	atomic_store(&e->shared->pid[0], (uint32_t)one);
	atomic_store(&e->shared->bytes[0], 300 * MIB);
	subscribe(e);
	/* A zombie: its parent has not reaped it. */
	(void)kill(one, SIGKILL);
	wait_ended(e, one);
	/* The grant includes the process's credit, which no process returned, until the first reading. */
	assert_true(eventually(e, "granted", 300 * MIB));
	wait_ms(50);
	assert_int_equal(gpu_figure(e, "used"), 300 * MIB);
	/* The first reading is there, so the request does not wait for one. */
	atomic_store(&e->shared->go, 1);
	assert_int_equal(answer_to(other), SLICE_NO_ROOM);
	end_arbiter(e, SIGKILL);
	start_arbiter(e);
	wait_ms(50);
	assert_int_equal(gpu_figure(e, "used"), 300 * MIB);
	(void)waitpid(one, NULL, 0);
	end_arbiter(e, SIGKILL);
	start_arbiter(e);
	assert_int_equal(gpu_figure(e, "used"), 300 * MIB);
	subscribe(e);
	assert_int_equal(gpu_figure(e, "used"), 300 * MIB);
	assert_int_equal(gpu_figure(e, "unhooked_used"), 0);
	atomic_store(&e->shared->bytes[0], 0);
	assert_true(eventually(e, "granted", 0));
}

/* A child has its dead parent's connections, and claims to be the parent. */
static void death__lets_no_other_process_register_in_its_name(void **state)
{
	struct env *e = *state;
	struct slice_client has, late;
	pid_t pid = child(e);

	if (pid == 0) {
		if (client_connect(&has, e->slice) < 0 ||
			client_hello(&has, SLICE_HELLO_MEMORY) != SLICE_OK ||
			!client_allocate(&has, 0, 300 * MIB) ||
			client_connect(&late, e->slice) < 0)
			_exit(1);
		if (fork() == 0) {
			wait_for(&e->shared->go, 1);
			atomic_store(&e->shared->failed,
				client_hello(&late, SLICE_HELLO_MEMORY) == SLICE_OK);
			atomic_fetch_add(&e->shared->ready, 1);
			_exit(0);
		}
		atomic_fetch_add(&e->shared->ready, 1);
		for (;;)
			(void)pause();
	}
	wait_for(&e->shared->ready, 1);
	atomic_store(&e->shared->pid[0], (uint32_t)pid);
	atomic_store(&e->shared->bytes[0], 300 * MIB);
	subscribe(e);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	wait_ended(e, pid);
	atomic_store(&e->shared->go, 1);
	wait_for(&e->shared->ready, 2);
	assert_int_equal(atomic_load(&e->shared->failed), 0);
	atomic_store(&e->shared->bytes[0], 0);
	assert_true(eventually(e, "granted", 0));
}

/* Does not wait for the answer. */
static bool send_hello(const struct slice_client *c)
{
	const struct slice_hello h = { .head = { .op = SLICE_HELLO, .tag = 1 },
		.version = SLICE_WIRE_VERSION,
		.flags = SLICE_HELLO_MEMORY,
		.name = "brief" };

	return send(c->fd, &h, sizeof(h), MSG_NOSIGNAL) == (ssize_t)sizeof(h);
}

/* A process that sends its hello and ends before the arbiter, which is stopped, reads it. @reaped: false: the
 * process is a zombie until the arbiter has answered the next process. @heir: a child has its connection, until
 * that ends. @other: the next process's client. */
static void start_and_end_client(struct env *e, pid_t arbiter, bool reaped, bool heir,
	struct slice_client *other)
{
	siginfo_t info;
	pid_t pid;

	assert_int_equal(kill(arbiter, SIGSTOP), 0);
	pid = child(e);
	if (pid == 0) {
		struct slice_client c;
		char byte;

		if (client_connect(&c, e->slice) < 0 || !send_hello(&c))
			_exit(1);
		if (!heir || fork() != 0)
			_exit(0);
		while (recv(c.fd, &byte, 1, 0) > 0)
			;
		_exit(0);
	}
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(info.si_status, 0);
	if (reaped)
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(client_connect(other, e->slice), 0);
	assert_int_equal(kill(arbiter, SIGCONT), 0);
	(void)client_hello(other, SLICE_HELLO_MEMORY);
	if (!reaped)
		assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void death__before_the_registration_is_ignored(void **state)
{
	struct env *e = *state;
	struct slice_client c;

	end_arbiter(e, SIGTERM);
	e->keep_log = true;
	start_arbiter(e);
	for (unsigned int i = 0; i < 4; i++) {
		start_and_end_client(e, e->arbiter, i & 1, i & 2, &c);
		assert_int_equal(c.welcome.status, SLICE_OK);
		client_close(&c);
	}
	assert_int_equal(log_lines(e, "warn", ""), 0);
	assert_int_equal(log_lines(e, "error", ""), 0);
}

static void process__outside_of_the_pid_namespace_is_refused_with_a_reason(void **state)
{
	struct env *e = *state;
	struct slice_client c;
	pid_t arbiter;

	end_arbiter(e, SIGTERM);
	e->keep_log = true;
	if (!start_arbiter_apart(e))
		skip();
	arbiter = (pid_t)atomic_load(&e->shared->arbiter);
	/* The arbiter refuses and logs the next process, which it cannot see. It logs nothing of the process that
	 * has ended. */
	for (unsigned int i = 0; i < 2; i++) {
		start_and_end_client(e, arbiter, i > 0, false, &c);
		assert_int_equal(c.welcome.status, SLICE_REFUSED);
		assert_non_null(strstr(c.welcome.reason, "cannot see this process"));
		assert_int_equal(log_lines(e, "process not admitted", "cannot see"), i + 1);
		client_close(&c);
	}
	/* The arbiter need not see a process that only reads. */
	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, 0), SLICE_OK);
	client_close(&c);
	end_arbiter(e, SIGKILL);
	while (open_control(e) == 0)
		wait_ms(1);
}

static void death__makes_requests_wait_for_the_reading_and_refuses_none(void **state)
{
	struct env *e = *state;
	pid_t one = holder(e, 900 * MIB, false), two;
	pid_t other = ask_in_thread(e, 800 * MIB);

	subscribe(e);
	(void)kill(one, SIGKILL);
	(void)waitpid(one, NULL, 0);
	atomic_store(&e->shared->go, 1);
	/* The agent answers no reading. */
	wait_ms(100);
	assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
	assert_true(eventually(e, "granted", 0));
	assert_int_equal(answer_to(other), SLICE_OK);

	/* The agent disconnects while a request waits. */
	two = holder(e, 900 * MIB, false);
	atomic_store(&e->shared->go, 0);
	other = ask_in_thread(e, 800 * MIB);
	(void)kill(two, SIGKILL);
	(void)waitpid(two, NULL, 0);
	atomic_store(&e->shared->go, 1);
	wait_ms(50);
	assert_int_equal(open_control(e), 0);
	assert_int_equal(answer_to(other), SLICE_OK);
	assert_true(eventually(e, "granted", 0));
}

static void process__that_executes_is_counted_until_nvml_shows_it_gone(void **state)
{
	struct env *e = *state;
	uint64_t end = time_mono_ns() + 2 * NS_PER_SEC;
	struct slice_client c;
	pid_t pid = child(e);

	if (pid == 0) {
		if (client_connect(&c, e->slice) < 0 ||
			client_hello(&c, SLICE_HELLO_MEMORY) != SLICE_OK ||
			!client_allocate(&c, 0, 100 * MIB))
			_exit(1);
		(void)execl("/bin/sleep", "sleep", "60", (char *)NULL);
		_exit(1);
	}
	atomic_store(&e->shared->pid[0], (uint32_t)pid);
	atomic_store(&e->shared->bytes[0], 70 * MIB);
	subscribe(e);
	assert_true(eventually(e, "granted", 70 * MIB));
	while (time_mono_ns() < end && gpu_figure(e, "used") == 70 * MIB)
		wait_ms(20);
	assert_int_equal(gpu_figure(e, "used"), 70 * MIB);
	atomic_store(&e->shared->bytes[0], 0);
	assert_true(eventually(e, "granted", 0));
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, serve_env_setup, serve_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(death__frees_memory_and_a_disconnect_does_not),
		TEST(death__frees_nothing_while_a_child_keeps_the_memory),
		TEST(death__lets_no_other_process_register_in_its_name),
		TEST(death__before_the_registration_is_ignored),
		TEST(process__outside_of_the_pid_namespace_is_refused_with_a_reason),
		TEST(death__makes_requests_wait_for_the_reading_and_refuses_none),
		TEST(process__that_executes_is_counted_until_nvml_shows_it_gone),
	};

	return cmocka_run_group_tests_name("arbiter-death", tests, NULL, NULL);
}
