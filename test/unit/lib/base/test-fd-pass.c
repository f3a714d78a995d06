/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/fd-pass.h"
#include "lib/base/fd.h"

struct env {
	int sock[2];
	int fds[FD_PASS_MAX]; /* all the same file */
	int before;           /* descriptors of this process */
};

static int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

static int setup(void **state)
{
	static struct env e;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, e.sock), 0);
	for (size_t i = 0; i < FD_PASS_MAX; i++)
		e.fds[i] = fd;
	e.before = count_descriptors();
	*state = &e;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	assert_int_equal(count_descriptors(), e->before);
	closep(&e->sock[0]);
	closep(&e->sock[1]);
	closep(&e->fds[0]);
	return 0;
}

static void close_received(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		closep(&fds[i]);
}

static void fd_pass_receive__has_the_descriptors_in_sequence(void **state)
{
	struct env *e = *state;
	int sent[3], got[5], flags;
	struct stat st, want;
	char data[8];

	for (int i = 0; i < 3; i++) {
		sent[i] = memfd_create("sent", MFD_CLOEXEC);
		assert_int_equal(ftruncate(sent[i], i + 1), 0);
	}
	assert_int_equal(fd_pass_send(e->sock[0], "abc", 3, sent, 3, 0), 3);
	assert_int_equal(fd_pass_receive(e->sock[1], data, sizeof(data), got, 5, 0, &flags), 3);
	assert_memory_equal(data, "abc", 3);
	assert_int_equal(flags & (MSG_TRUNC | MSG_CTRUNC), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fstat(got[i], &st), 0);
		assert_int_equal(fstat(sent[i], &want), 0);
		assert_int_equal(st.st_ino, want.st_ino);
		assert_int_equal(st.st_size, i + 1);
		assert_int_equal(fcntl(got[i], F_GETFD), FD_CLOEXEC);
	}
	assert_int_equal(got[3], -1);
	assert_int_equal(got[4], -1);
	close_received(got, 5);
	close_received(sent, 3);
}

static void fd_pass_receive__has_none_of_a_plain_message(void **state)
{
	struct env *e = *state;
	int got[2] = { 7, 7 }, none = -1, flags;
	char data[8];

	assert_int_equal(fd_pass_send(e->sock[0], "abc", 3, &none, none >= 0, 0), 3);
	assert_int_equal(fd_pass_receive(e->sock[1], data, sizeof(data), got, 2, 0, &flags), 3);
	assert_int_equal(got[0], -1);
	assert_int_equal(got[1], -1);
	got[0] = 7;
	assert_int_equal(
		fd_pass_receive(e->sock[1], data, sizeof(data), got, 1, MSG_DONTWAIT, &flags),
		-1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(got[0], -1);
	assert_int_equal(flags, 0);
}

/* Two fit into the padding that one needs. What is beyond @room stays open nowhere: teardown() counts. */
static void fd_pass_receive__opens_no_more_descriptors_than_its_array_has(void **state)
{
	const size_t rooms[] = { 0, 1, 2, 3, FD_PASS_MAX - 1 };
	struct env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
		int got[FD_PASS_MAX], flags;
		char data[8];

		assert_int_equal(fd_pass_send(e->sock[0], "abc", 3, e->fds, rooms[i] + 1, 0),
			3);
		assert_int_equal(fd_pass_receive(e->sock[1], data, sizeof(data), got, rooms[i],
					 0, &flags),
			3);
		assert_int_equal(flags & (MSG_TRUNC | MSG_CTRUNC), MSG_CTRUNC);
		assert_int_equal(count_descriptors(), e->before + (int)rooms[i]);
		close_received(got, rooms[i]);
	}
}

static void fd_pass_send__has_the_limit_of_the_kernel(void **state)
{
	struct env *e = *state;
	int got[FD_PASS_MAX + 1], flags;
	char data[8];

	errno = 0;
	assert_int_equal(fd_pass_send(e->sock[0], "abc", 3, e->fds, FD_PASS_MAX + 1, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(fd_pass_send(e->sock[0], "abc", 3, e->fds, FD_PASS_MAX, 0), 3);
	assert_int_equal(fd_pass_receive(e->sock[1], data, sizeof(data), got, FD_PASS_MAX + 1,
				 0, &flags),
		3);
	assert_int_equal(flags & MSG_CTRUNC, 0);
	assert_int_equal(got[FD_PASS_MAX], -1);
	assert_int_equal(count_descriptors(), e->before + FD_PASS_MAX);
	close_received(got, FD_PASS_MAX);
}

/* The kernel stops at the limit of this process; the caller still owns those that it opened. */
static void fd_pass_receive__keeps_to_the_limit_of_descriptors(void **state)
{
	struct env *e = *state;
	struct rlimit old, low;
	int got[8], flags, n = 0;
	char data[8];

	assert_int_equal(fd_pass_send(e->sock[0], "abc", 3, e->fds, 8, 0), 3);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	got[0] = dup(e->fds[0]);
	low.rlim_cur = (rlim_t)got[0] + 3;
	closep(&got[0]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(fd_pass_receive(e->sock[1], data, sizeof(data), got, 8, 0, &flags), 3);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(flags & MSG_CTRUNC, MSG_CTRUNC);
	while (n < 8 && got[n] >= 0)
		n++;
	assert_in_range(n, 1, 7);
	assert_int_equal(count_descriptors(), e->before + n);
	close_received(got, 8);
}

static void fd_pass_receive__has_the_descriptor_of_a_truncated_message(void **state)
{
	struct env *e = *state;
	int got, flags;
	char data[2];

	assert_int_equal(fd_pass_send(e->sock[0], "abc", 3, e->fds, 1, 0), 3);
	assert_int_equal(fd_pass_receive(e->sock[1], data, sizeof(data), &got, 1, 0, &flags),
		2);
	assert_int_equal(flags & (MSG_TRUNC | MSG_CTRUNC), MSG_TRUNC);
	assert_true(got >= 0);
	closep(&got);
}

static void fd_pass_receive__leaves_a_peeked_message(void **state)
{
	struct env *e = *state;
	int got, flags;
	char data[8];

	assert_int_equal(fd_pass_send(e->sock[0], "abc", 3, e->fds, 2, 0), 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fd_pass_receive(e->sock[1], data, sizeof(data), &got, 1,
					 i < 2 ? MSG_PEEK : 0, &flags),
			3);
		assert_true(got >= 0 && flags & MSG_CTRUNC);
		closep(&got);
	}
}

static void fd_pass_send__reports_a_disconnected_peer(void **state)
{
	struct env *e = *state;
	int got, flags;
	char data[8];

	closep(&e->sock[1]);
	e->before--;
	assert_int_equal(fd_pass_send(e->sock[0], "abc", 3, e->fds, 1, 0), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(fd_pass_send(e->sock[0], "abc", 3, NULL, 0, 0), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(fd_pass_receive(e->sock[0], data, sizeof(data), &got, 1, 0, &flags),
		0);
	assert_int_equal(got, -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fd_pass_receive__has_the_descriptors_in_sequence),
		TEST(fd_pass_receive__has_none_of_a_plain_message),
		TEST(fd_pass_receive__opens_no_more_descriptors_than_its_array_has),
		TEST(fd_pass_send__has_the_limit_of_the_kernel),
		TEST(fd_pass_receive__keeps_to_the_limit_of_descriptors),
		TEST(fd_pass_receive__has_the_descriptor_of_a_truncated_message),
		TEST(fd_pass_receive__leaves_a_peeked_message),
		TEST(fd_pass_send__reports_a_disconnected_peer),
	};

	return cmocka_run_group_tests_name("fd-pass", tests, NULL, NULL);
}
