/* SPDX-License-Identifier: Apache-2.0 */

/* The agent's end of an arbiter that hangs, and of questions without memory. */
#include "support/test.h"

#include "node/agent/slices/arbiter-link.h"
#include "abi/arbiter-control.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "support/failing-memory.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct env {
	uv_loop_t loop;
	struct arbiter_link *link;
	char *dir;
	unsigned int hung;
};

/* The clock of this process, libuv's included, is ahead by this: the process was stopped for so long. */
static int64_t stopped_ns;

int clock_gettime(clockid_t id, struct timespec *t)
{
	long r = syscall(SYS_clock_gettime, id, t);
	int64_t ns;

	if (r == 0 && (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE)) {
		ns = t->tv_nsec + stopped_ns;
		t->tv_sec += ns / (int64_t)NS_PER_SEC;
		t->tv_nsec = ns % (int64_t)NS_PER_SEC;
	}
	return (int)r;
}

/* Listens, in a child, and answers @answers requests. */
static pid_t listen_as_arbiter(const char *dir, unsigned int answers)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[4096];
	pid_t pid;

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", dir, CONTROL_SOCKET);
	/* The listening process is the owner of the socket. */
	pid = fork();
	if (pid) {
		(void)close(fd);
		while (access(at.sun_path, F_OK) < 0)
			(void)usleep(1000);
		return pid;
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 8) < 0)
		_exit(1);
	fd = accept(fd, NULL, NULL);
	while (answers && read(fd, text, sizeof(text)) > 0) {
		static const char answer[] = "{\"op\":\"status\",\"slices\":[]}\n";

		if (strstr(text, "status") && answers--)
			(void)!write(fd, answer, sizeof(answer) - 1);
		memset(text, 0, sizeof(text));
	}
	for (;;)
		(void)pause();
}

static void on_read(void *arg, json_int_t seq, const char *const *uuids, uint32_t n)
{
	(void)arg;
	(void)seq;
	(void)uuids;
	(void)n;
}

static void on_hung(void *arg, const char *why)
{
	struct env *e = arg;

	assert_non_null(strstr(why, "did not answer for"));
	e->hung++;
}

static int setup(void **state)
{
	static const struct arbiter_ops ops = { .read = on_read, .hung = on_hung };
	struct env *e = calloc(1, sizeof(*e));
	struct error err = ERROR_INIT;
	struct arbiter_link_options o = { .program = "/bin/true" };

	assert_non_null(e);
	e->dir = test_tmpdir();
	o.run_dir = o.state_dir = e->dir;
	assert_int_equal(uv_loop_init(&e->loop), 0);
	assert_ok(arbiter_link_new(&e->link, &e->loop, &o, &ops, e, &err), &err);
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	e->link = arbiter_link_stop(e->link);
	(void)uv_run(&e->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&e->loop), 0);
	test_rmdir(e->dir);
	free(e);
	return 0;
}

static void hung_arbiter__is_ended(void **state)
{
	struct env *e = *state;
	uint64_t began = time_mono_ns(), end = began + 60 * NS_PER_SEC;
	pid_t pid = listen_as_arbiter(e->dir, 2);
	int status = 0;

	arbiter_link_set_wanted(e->link, true);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		assert_true(time_mono_ns() < end);
		(void)uv_run(&e->loop, UV_RUN_ONCE);
	}
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	/* The agent did not kill the arbiter while it answered. */
	assert_true(time_mono_ns() - began > 6 * NS_PER_SEC);
	while (!e->hung) {
		assert_true(time_mono_ns() < end);
		(void)uv_run(&e->loop, UV_RUN_ONCE);
	}
	assert_int_equal(e->hung, 1);
}

/* The arbiter's answer is in the socket when the agent continues. */
static void hung_agent__does_not_end_the_arbiter(void **state)
{
	struct env *e = *state;
	pid_t pid = listen_as_arbiter(e->dir, 1000);
	uint64_t end;

	arbiter_link_set_wanted(e->link, true);
	end = time_mono_ns() + 1500 * NS_PER_MS;
	while (time_mono_ns() < end)
		(void)uv_run(&e->loop, UV_RUN_ONCE);
	/* For longer than an arbiter may. */
	stopped_ns += 7 * (int64_t)NS_PER_SEC;
	end = time_mono_ns() + 1500 * NS_PER_MS;
	while (time_mono_ns() < end)
		(void)uv_run(&e->loop, UV_RUN_ONCE);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	assert_int_equal(e->hung, 0);
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

struct answer {
	unsigned int n;
	bool has_status;
	enum error_code code;
};

static void on_status(void *arg, const json_t *status, const struct error *err)
{
	struct answer *a = arg;

	a->n++;
	a->has_status = status != NULL;
	a->code = err ? err->code : ERR_NONE;
}

/* The waiter, its question, the message of that: without one of them, the next answer is not for this waiter. */
static void status__fails_at_once_without_memory(void **state)
{
	struct env *e = *state;
	uint64_t end = time_mono_ns() + 60 * NS_PER_SEC;
	pid_t pid = listen_as_arbiter(e->dir, 1000);
	struct answer later = { .n = 0 };
	const char *why;
	int arbiter;

	arbiter_link_set_wanted(e->link, true);
	while (arbiter_link_state(e->link, &arbiter, &why) != ARBITER_UP) {
		assert_true(time_mono_ns() < end);
		(void)uv_run(&e->loop, UV_RUN_ONCE);
	}
	for (long n = 0; n < 3; n++) {
		struct answer a = { .n = 0 };

		countdown = n;
		arbiter_link_status(e->link, on_status, &a);
		assert_int_equal(countdown, -1);
		assert_int_equal(a.n, 1);
		assert_int_equal(a.code, ERR_NOMEM);
	}
	arbiter_link_status(e->link, on_status, &later);
	while (!later.n) {
		assert_true(time_mono_ns() < end);
		(void)uv_run(&e->loop, UV_RUN_ONCE);
	}
	assert_true(later.has_status);
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(hung_arbiter__is_ended),
		TEST(hung_agent__does_not_end_the_arbiter),
		TEST(status__fails_at_once_without_memory),
	};

	/* The agent ignores the signal too: the arbiter may have ended at a request. */
	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("arbiter-link", tests, NULL, NULL);
}
