/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "node/arbiter/clients/passed-fds.h"
#include "node/arbiter/slices/slice.h"
#include "node/arbiter/watch.h"
#include "lib/base/time.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEADLINE_NS (60 * NS_PER_SEC)

static bool threads_used_up;
static unsigned int n_closed;

int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *),
	void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *),
	void *arg);

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *),
	void *arg)
{
	return threads_used_up ? EAGAIN : __real_pthread_create(t, attr, fn, arg);
}

static void on_closed(struct arbiter_slice *s, bool counted)
{
	assert_non_null(s);
	assert_true(counted);
	n_closed++;
}

/* Runs the loop until @n descriptors are closed. */
static void run_until_closed(uv_loop_t *loop, unsigned int n)
{
	uint64_t end = time_mono_ns() + DEADLINE_NS;

	while (n_closed < n && time_mono_ns() < end) {
		(void)uv_run(loop, UV_RUN_NOWAIT);
		(void)usleep(1000);
	}
	assert_int_equal(n_closed, n);
}

static bool has_hung_up(int fd)
{
	char c;

	return recv(fd, &c, 1, MSG_DONTWAIT) == 0;
}

static void passed_fds_close__blocks_where_no_thread_can_be_created(void **state)
{
	struct arbiter_slice s = { .n_conns = 1 };
	struct error err = ERROR_INIT;
	struct passed_fds *f;
	int first[2], second[2];
	uv_loop_t loop;

	(void)state;
	assert_int_equal(uv_loop_init(&loop), 0);
	f = passed_fds_new(&loop, on_closed, &err);
	assert_non_null(f);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, first), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, second), 0);

	threads_used_up = true;
	passed_fds_close(f, &s, true, first[0], second[0]);
	passed_fds_retry(f);
	(void)uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(n_closed, 0);
	assert_false(has_hung_up(first[1]) || has_hung_up(second[1]));

	threads_used_up = false;
	passed_fds_retry(f);
	run_until_closed(&loop, 1);
	assert_true(has_hung_up(first[1]) && has_hung_up(second[1]));
	passed_fds_retry(f); /* there is nothing to do */

	assert_null(passed_fds_stop(f));
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	(void)close(first[1]);
	(void)close(second[1]);
}

/* An error leaves the descriptor to the caller: the loop must not close what may have descriptors in its queue. */
static void fd_watch_start__keeps_the_descriptor_open_on_an_error(void **state)
{
	struct fd_watch *w = NULL;
	struct error err = ERROR_INIT;
	uv_loop_t loop;
	int fds[2];

	(void)state;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(fd_watch_start(&w, &loop, fds[0], NULL, NULL, &err), 0);
	assert_int_equal(fd_watch_release(w), fds[0]);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	/* A file is nothing that the kernel can watch. */
	(void)close(fds[0]);
	fds[0] = memfd_create("file", MFD_CLOEXEC);
	assert_int_equal(fd_watch_start(&w, &loop, fds[0], NULL, NULL, &err), -1);
	assert_int_equal(lseek(fds[0], 0, SEEK_END), 0);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passed_fds_close__blocks_where_no_thread_can_be_created),
		cmocka_unit_test(fd_watch_start__keeps_the_descriptor_open_on_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
