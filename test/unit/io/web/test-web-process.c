/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/web/web-env.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/time.h"

/* The process of the web server ends, hangs, or turns against its agent. */

/* Lets signals have their usual effect in the process where a sanitizer is on. */
static void leave_signals(const char *options)
{
	const char *before = getenv(options);
	char text[512];

	(void)snprintf(text, sizeof(text), "%s:handle_segv=0", before ? before : "");
	assert_int_equal(setenv(options, text, 1), 0);
}

static int setup(void **state)
{
	struct web_env *e = malloc(sizeof(*e));

	assert_non_null(e);
	leave_signals("ASAN_OPTIONS");
	leave_signals("TSAN_OPTIONS");
	web_env_init(e);
	e->options.limits.restart_ns = 10 * NS_PER_MS;
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct web_env *e = *state;

	web_env_fini(e);
	free(e);
	return 0;
}

static void wait_fds(pid_t pid, unsigned n)
{
	for (unsigned i = 0; web_count_fds(pid) != n; i++) {
		if (i > WEB_TIMEOUT_S * 1000)
			fail_msg("waited in vain for %u descriptors, there are %u", n,
				web_count_fds(pid));
		web_nap();
	}
}

static void web__restarts_a_killed_process(void **state)
{
	static const struct {
		int signal;
		const char *text;
	} rows[] = {
		{ SIGSEGV, "ended by signal 11 (Segmentation fault); it is started again in" },
		{ SIGKILL, "ended by signal 9 (Killed); it is started again in" },
	};
	struct web_env *e = *state;
	unsigned port;
	pid_t pid = 0;

	web_env_start(e);
	port = web_port(e->web);
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(closep) int open = -1;

		web_expect(e, GET("/metrics"), 200);
		web_wait_count(e, open, 0);
		open = web_connect(e);
		web_wait_count(e, open, 1);
		pid = web_wait_process(pid);
		assert_int_equal(kill(pid, rows[i].signal), 0);
		web_wait_closed(open);
		/* Waits in the queue of the socket, which is not the process's. */
		web_expect(e, GET("/metrics"), 200);
		web_wait_notices(e, i + 1);
		web_assert_notice(e, rows[i].text);
		web_wait_count(e, open, 0);
		assert_int_equal(web_counts(e->web).requests[1], 2 * (i + 1));
		assert_int_equal(web_port(e->web), port);
	}
}

static void web__restarts_with_back_off(void **state)
{
	static const char *const delays[] = { "again in 200ms", "again in 400ms",
		"again in 800ms" };
	struct web_env *e = *state;
	pid_t pid = 0;

	e->options.limits.restart_ns = 200 * NS_PER_MS;
	web_env_start(e);
	for (unsigned i = 0; i < ARRAY_LEN(delays); i++) {
		pid = web_wait_process(pid);
		web_expect(e, GET("/healthz"), 200);
		assert_int_equal(kill(pid, SIGKILL), 0);
		web_wait_notices(e, i + 1);
		web_assert_notice(e, delays[i]);
	}
}

static void web__replaces_a_process_that_hangs(void **state)
{
	struct web_env *e = *state;
	pid_t pid;

	e->options.limits.hang_ns = 3 * NS_PER_SEC; /* other processes may starve it */
	web_env_start(e);
	pid = web_wait_process(0);
	/* A process without work does not count as hanging. */
	for (int i = 0; i < 3; i++)
		web_expect(e, GET("/metrics"), 200);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	web_wait_notices(e, 1);
	web_assert_notice(e, "has done nothing for 3s");
	assert_int_not_equal(web_wait_process(pid), pid);
	web_expect(e, GET("/metrics"), 200);
}

static void web__does_not_kill_an_idle_process(void **state)
{
	struct web_env *e = *state;
	uint64_t until_ns, hang_ns = 3 * NS_PER_SEC; /* other processes may starve it */

	e->options.limits.hang_ns = hang_ns;
	web_env_start(e);
	/* The process gets no request for longer than it may hang. */
	for (until_ns = time_mono_ns() + hang_ns + hang_ns / 2; time_mono_ns() < until_ns;)
		web_nap();
	assert_int_equal(atomic_load(&e->notices), 0);
}

static void web_stop__ends_a_process_that_hangs(void **state)
{
	struct web_env *e = *state;
	pid_t pid;

	web_env_start(e);
	pid = web_wait_process(0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	e->web = web_stop(e->web);
	assert_int_equal(kill(pid, 0), -1);
}

/* A child that starts a server and reports its PID. */
static pid_t start_in_child(struct web_env *e, pid_t *ret_process)
{
	int ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		pid_t pid;

		web_env_start(e);
		pid = web_wait_process(0);
		(void)!write(ends[1], &pid, sizeof(pid));
		for (;;)
			(void)pause();
	}
	assert_int_equal(read(ends[0], ret_process, sizeof(*ret_process)),
		sizeof(*ret_process));
	(void)close(ends[0]);
	(void)close(ends[1]);
	return child;
}

/* Waits for the end of a grandchild that this process adopted. */
static void wait_end(pid_t pid)
{
	for (unsigned i = 0; waitpid(pid, NULL, WNOHANG) != pid; i++) {
		if (i > WEB_TIMEOUT_S * 1000)
			fail_msg("waited in vain for the end of the process");
		web_nap();
	}
}

static void web__ends_with_its_agent(void **state)
{
	static const bool hangs[] = { false, true };
	struct web_env *e = *state;

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	for (size_t i = 0; i < ARRAY_LEN(hangs); i++) {
		pid_t process = 0, child = start_in_child(e, &process);

		if (hangs[i])
			assert_int_equal(kill(process, SIGSTOP), 0);
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, NULL, 0), child);
		wait_end(process);
	}
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

static void web__leaks_no_descriptors(void **state)
{
	struct web_env *e = *state;
	unsigned ours, theirs;
	pid_t pid;

	web_env_start(e);
	pid = web_wait_process(0);
	web_expect(e, GET("/big"), 200);
	web_wait_count(e, open, 0);
	ours = web_count_fds(-1);
	theirs = web_count_fds(pid);
	for (int i = 0; i < 50; i++) {
		web_expect(e, GET("/big"), 200);
		web_expect(e, GET("/metrics"), 200);
		web_expect(e, GET("/nothing"), 404);
	}
	web_wait_count(e, open, 0);
	wait_fds(-1, ours);
	wait_fds(pid, theirs);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(kill(pid, SIGKILL), 0);
		pid = web_wait_process(pid);
		web_expect(e, GET("/metrics"), 200);
	}
	wait_fds(-1, ours);
}

static void web__has_only_its_own_descriptors(void **state)
{
	struct web_env *e = *state;

	web_env_start(e);
	web_expect(e, GET("/metrics"), 200);
	web_wait_count(e, open, 0);
	/* 0 to 4, the listening socket, its epoll and libmicrohttpd's, and what that has of its own. */
	assert_in_range(web_count_fds(web_wait_process(0)) - 2, 8, 10);
}

static void web__kills_a_process_with_false_answers(void **state)
{
	static const struct {
		const char *lie, *text;
	} rows[] = {
		{ "short", "has a wrong length: the" },
		{ "short", "has a wrong length" },
		{ "empty", "has a wrong length" },
		{ "large", "has a wrong length" },
		{ "version", "has another version" },
		{ "cut", "has a wrong length" },
		{ "again", "has a type that is not expected now" },
		{ "silent", "has done nothing for" },
		{ "deaf", "before it has read a reply" },
		{ "page", "exited with status 44" },
	};
	struct web_env *e = *state;

	e->options.worker_path = TEST_WEB_LIAR;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		/* A hang cannot be distinguished from starvation by other processes. */
		e->options.limits.hang_ns = !strcmp(rows[i].lie, "silent")
						    ? 300 * NS_PER_MS
						    : WEB_TIMEOUT_S * NS_PER_SEC;
		assert_int_equal(setenv("TEST_WEB_LIE", rows[i].lie, 1), 0);
		atomic_store(&e->notices, 0);
		web_env_start(e);
		web_wait_notices(e, 2);
		web_assert_notice(e, rows[i].text);
		e->web = web_stop(e->web);
		/* The process may exit by itself at web_stop(): drop that notice, which would fail
		 * web_env_fini(). */
		e->notice[0] = '\0';
	}
}

/* The web thread needs an hour to close a descriptor; the agent stops in spite of it. */
static void web_stop__waits_for_no_descriptor(void **state)
{
	struct web_env *e = *state;
	uint64_t began_ns;
	int fd;

	e->options.worker_path = TEST_WEB_LIAR;
	assert_int_equal(setenv("TEST_WEB_LIE", "linger", 1), 0);
	pthread_mutex_lock(&e->gate);
	web_env_start(e);
	fd = web_connect(e); /* and never reads */
	web_wait_count(e, displaced, 1);
	pthread_mutex_unlock(&e->gate);
	began_ns = time_mono_ns();
	e->web = web_stop(e->web);
	assert_in_range(time_mono_ns() - began_ns, 0, 15 * NS_PER_SEC);
	(void)close(fd);
}

struct blocked_route {
	pthread_mutex_t lock; /* delays the web thread, as the kernel may */
	atomic_uint in_route, released;
};

static enum web_status get_blocked_route(void *arg, const struct web_request *req,
	struct web_reply *reply)
{
	struct blocked_route *h = arg;

	(void)req;
	atomic_store(&h->in_route, 1);
	(void)pthread_mutex_lock(&h->lock);
	(void)pthread_mutex_unlock(&h->lock);
	return web_reply_copy(reply, WEB_OK, NULL, "x", 1);
}

static void on_released(void *arg)
{
	struct blocked_route *h = arg;

	atomic_fetch_add(&h->released, 1);
}

static void wait_for(atomic_uint *n)
{
	for (unsigned i = 0; !atomic_load(n); i++) {
		assert_true(i < WEB_TIMEOUT_S * 1000);
		web_nap();
	}
}

/* What routes use is theirs until the last one has returned. */
static void web_stop__releases_the_data_of_a_route_afterwards(void **state)
{
	static const struct web_route routes[] = { { .path = "/metrics",
		.get = get_blocked_route } };
	static struct blocked_route h = { .lock = PTHREAD_MUTEX_INITIALIZER };
	const struct web_ops ops = { .routes = routes, .n_routes = 1, .released = on_released };
	struct web_env *e = *state;
	struct error err = ERROR_INIT;
	int fd;

	e->options.listen = "127.0.0.1:0";
	/* The stop takes effect at once where nothing delays it. */
	assert_ok(web_start(&e->web, &e->options, &ops, &h, &err), &err);
	e->web = web_stop(e->web);
	assert_int_equal(atomic_exchange(&h.released, 0), 1);

	assert_ok(web_start(&e->web, &e->options, &ops, &h, &err), &err);
	web_wait_serving(e);
	(void)pthread_mutex_lock(&h.lock);
	fd = web_connect(e);
	web_send_text(fd, GET("/metrics"));
	wait_for(&h.in_route);
	e->web = web_stop(e->web);
	assert_int_equal(atomic_load(&h.released), 0);
	(void)pthread_mutex_unlock(&h.lock);
	wait_for(&h.released);
	(void)close(fd);
}

/* The process served, and damaged the socket for later processes. */
static void web__recreates_a_damaged_socket(void **state)
{
	static const char *const lies[] = { "shutdown", "blocking" };
	struct web_env *e = *state;

	e->options.worker_path = TEST_WEB_LIAR;
	e->options.limits.hang_ns = 3 * NS_PER_SEC;
	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		unsigned port;

		assert_int_equal(setenv("TEST_WEB_LIE", lies[i], 1), 0);
		atomic_store(&e->notices, 0);
		web_env_begin(e);
		web_wait_notices(e, 1);
		web_assert_notice(e, "exited with status 0");
		port = web_port(e->web);
		web_expect_when_serving(e, GET("/metrics"), 200);
		assert_int_equal(web_port(e->web), port);
		/* Waits longer than the limit for a process that hangs in accept(). */
		for (uint64_t end_ns = time_mono_ns() + 4 * NS_PER_SEC;
			time_mono_ns() < end_ns;)
			web_nap();
		assert_int_equal(atomic_load(&e->notices), 1);
		e->web = web_stop(e->web);
	}
}

static void web__relays_a_few_notices_only(void **state)
{
	struct web_env *e = *state;

	e->options.worker_path = TEST_WEB_LIAR;
	e->options.limits.hang_ns = 500 * NS_PER_MS;
	e->options.limits.restart_ns =
		60 * NS_PER_SEC; /* the next process would send notices too */
	assert_int_equal(setenv("TEST_WEB_LIE", "notices", 1), 0);
	web_env_start(e);
	/* The last is our own: that it hangs. */
	web_wait_notices(e, 17);
	web_assert_notice(e, "has done nothing for");
}

static void web__reports_an_invalid_program(void **state)
{
	struct web_env *e = *state;
	static const struct {
		const char *path, *text;
	} rows[] = {
		{ "/nonexistent/web", "start '/nonexistent/web': No such file" },
		{ "/bin/false", "process exited with status 1 before it was ready" },
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct error why = ERROR_INIT;

		e->options.worker_path = rows[i].path;
		web_env_begin(e);
		web_wait_notices(e, i + 1);
		web_assert_notice(e, rows[i].text);
		assert_int_equal(web_state(e->web, &why), WEB_DOWN);
		assert_non_null(strstr(why.msg, rows[i].text));
		assert_int_equal(web_port(e->web), 0);
		e->web = web_stop(e->web);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(web__restarts_a_killed_process),
		TEST(web__restarts_with_back_off),
		TEST(web__replaces_a_process_that_hangs),
		TEST(web__does_not_kill_an_idle_process),
		TEST(web_stop__ends_a_process_that_hangs),
		TEST(web__ends_with_its_agent),
		TEST(web__leaks_no_descriptors),
		TEST(web__has_only_its_own_descriptors),
		TEST(web__kills_a_process_with_false_answers),
		TEST(web_stop__waits_for_no_descriptor),
		TEST(web_stop__releases_the_data_of_a_route_afterwards),
		TEST(web__recreates_a_damaged_socket),
		TEST(web__relays_a_few_notices_only),
		TEST(web__reports_an_invalid_program),
	};

	return cmocka_run_group_tests_name("web-process", tests, NULL, NULL);
}
