/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"

#include "arbiter/internal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define BYTES 4096

/* What there is of an arbiter for pages. */
struct env {
	struct arbiter a;
	struct slice s[2];
	uv_loop_t loop;
};

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	assert_int_equal(uv_loop_init(&e->loop), 0);
	e->a.loop = &e->loop;
	pages_start(&e->a);
	e->s[0].arbiter = e->s[1].arbiter = &e->a;
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	pages_leave(&e->s[0]);
	pages_leave(&e->s[1]);
	pages_stop(&e->a);
	(void)uv_run(&e->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&e->loop), 0);
	free(e);
	return 0;
}

/* To a process; the arbiter has its mapping no more. */
static int give_to(struct slice *s, uint32_t pid)
{
	const struct page_who who = { s->arbiter, s, pid, 1 };
	void *at = NULL;
	ino_t ino;
	int fd = page_make(&who, "page", BYTES, &at, &ino);

	if (fd >= 0)
		(void)munmap(at, BYTES);
	return fd;
}

/* To another process each time. */
static int give(struct slice *s)
{
	static uint32_t pid;

	return give_to(s, ++pid);
}

/* One that a process brings; the arbiter has its mapping no more. */
static int bring(struct slice *s, int fd)
{
	static uint32_t pid = 1000000;
	const struct page_who who = { s->arbiter, s, ++pid, 1 };
	void *at = NULL;
	ino_t ino;
	int r = page_map(&who, fd, BYTES, BYTES, &at, &ino);

	if (r == 0)
		(void)munmap(at, BYTES);
	return r;
}

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* As a process may make one itself. */
static int make(size_t bytes, bool filled, int seals)
{
	int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	if (filled)
		assert_int_equal(fallocate(fd, 0, 0, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void page__that_is_held_counts(void **state)
{
	static int fds[PAGES_MAX];
	struct env *e = *state;
	unsigned int n = 0;
	struct rlimit r;
	int fd;

	SKIP_UNLESS(e->a.pages.watch, "no inotify");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
	SKIP_UNLESS(r.rlim_max >= 8192, "too few descriptors");
	r.rlim_cur = r.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
	while (n < PAGES_MAX && (fd = give(&e->s[0])) >= 0)
		fds[n++] = fd;
	assert_int_equal(give(&e->s[0]), PAGE_TOO_MANY);
	assert_int_equal(n, PAGES_MAX / 4 + room_part(&e->a.pages.room));
	/* Not for another slice. */
	fd = give(&e->s[1]);
	assert_true(fd >= 0);
	(void)close(fd);
	/* Whoever has it mapped, or has a copy of the descriptor, has it. */
	fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
	(void)close(fds[0]);
	assert_int_equal(give(&e->s[0]), PAGE_TOO_MANY);
	(void)close(fd);
	fds[0] = give(&e->s[0]);
	assert_true(fds[0] >= 0);
	assert_int_equal(give(&e->s[0]), PAGE_TOO_MANY);
	for (unsigned int i = 0; i < n; i++)
		(void)close(fds[i]);
	(void)uv_run(&e->loop, UV_RUN_NOWAIT);
	assert_int_equal(e->a.pages.room.n, 0);
}

static void page__that_is_let_go_does_not_count(void **state)
{
	struct env *e = *state;

	SKIP_UNLESS(e->a.pages.watch, "no inotify");
	for (unsigned int i = 0; i < 2 * PAGES_MAX; i++) {
		int fd = give(&e->s[0]);

		assert_true(fd >= 0);
		(void)close(fd);
	}
}

static void page__of_a_slice_that_is_gone_counts_on(void **state)
{
	struct env *e = *state;
	int fd = give(&e->s[0]);

	SKIP_UNLESS(e->a.pages.watch, "no inotify");
	pages_leave(&e->s[0]);
	(void)uv_run(&e->loop, UV_RUN_NOWAIT);
	assert_int_equal(e->a.pages.room.n, 1);
	(void)close(fd);
	(void)uv_run(&e->loop, UV_RUN_NOWAIT);
	assert_int_equal(e->a.pages.room.n, 0);
}

static void page__without_inotify_is_given_at_a_rate(void **state)
{
	struct env *e = *state;
	unsigned int n = 0;
	int fd;

	pages_stop(&e->a);
	for (; n < 2 * PAGES_BLIND && (fd = give(&e->s[0])) >= 0; n++)
		(void)close(fd);
	/* Some have come together meanwhile. */
	assert_in_range(n, PAGES_BLIND, 2 * PAGES_BLIND - 1);
	fd = give(&e->s[1]);
	assert_true(fd >= 0);
	(void)close(fd);
	for (unsigned int i = 0; i < 20000 && (fd = give(&e->s[0])) < 0; i++)
		(void)usleep(1000);
	assert_true(fd >= 0);
	(void)close(fd);
}

static void page__that_is_brought_counts(void **state)
{
	static int fds[PAGES_MAX];
	struct env *e = *state;
	unsigned int n = 0;
	struct rlimit r;
	int fd, trouble;

	SKIP_UNLESS(e->a.pages.watch, "no inotify");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
	SKIP_UNLESS(r.rlim_max >= 8192, "too few descriptors");
	r.rlim_cur = r.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
	do {
		fds[n] = make(BYTES, true, SEALS);
		trouble = bring(&e->s[0], fds[n]);
	} while (trouble == 0 && ++n < PAGES_MAX);
	assert_int_equal(trouble, PAGE_TOO_MANY);
	assert_int_equal(n, PAGES_MAX / 4 + room_part(&e->a.pages.room));
	/* What counts already comes again. */
	assert_int_equal(bring(&e->s[0], fds[0]), 0);
	assert_int_equal(e->a.pages.room.n, n);
	/* So does a page that was given. */
	fd = give(&e->s[1]);
	assert_true(fd >= 0);
	assert_int_equal(bring(&e->s[1], fd), 0);
	assert_int_equal(e->a.pages.room.n, n + 1);
	(void)close(fd);
	for (unsigned int i = 0; i <= n; i++)
		(void)close(fds[i]);
	(void)uv_run(&e->loop, UV_RUN_NOWAIT);
	assert_int_equal(e->a.pages.room.n, 0);
}

static void page__of_one_process_are_few(void **state)
{
	struct env *e = *state;
	int fds[PAGES_CLIENT_MAX];

	SKIP_UNLESS(e->a.pages.watch, "no inotify");
	for (unsigned int i = 0; i < PAGES_CLIENT_MAX; i++) {
		fds[i] = give_to(&e->s[0], 7);
		assert_true(fds[i] >= 0);
	}
	assert_int_equal(give_to(&e->s[0], 7), PAGE_TOO_MANY);
	(void)close(fds[0]);
	fds[0] = give_to(&e->s[0], 7);
	assert_true(fds[0] >= 0);
	for (unsigned int i = 0; i < PAGES_CLIENT_MAX; i++)
		(void)close(fds[i]);
}

/* Nothing of it is touched: it is not charged to us. */
static void page__that_is_not_as_ours_is_refused(void **state)
{
	static const struct {
		size_t bytes;
		bool filled;
		int seals;
	} rows[] = {
		{ BYTES, false, SEALS },
		{ 2 * BYTES, true, SEALS },
		{ BYTES / 2, true, SEALS },
		{ 0, false, SEALS },
		{ BYTES, true, F_SEAL_GROW },
		{ BYTES, true, F_SEAL_SHRINK },
		{ BYTES, true, SEALS | F_SEAL_WRITE },
	};
	struct env *e = *state;
	struct stat st;
	int fd;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		fd = make(rows[i].bytes, rows[i].filled, rows[i].seals);
		assert_int_equal(bring(&e->s[0], fd), PAGE_NOT_OURS);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_blocks != 0, rows[i].filled);
		(void)close(fd);
	}
	assert_int_equal(bring(&e->s[0], -1), PAGE_NOT_OURS);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(bring(&e->s[0], fd), PAGE_NOT_OURS);
	(void)close(fd);
	fd = make(BYTES, true, SEALS);
	assert_int_equal(bring(&e->s[0], fd), 0);
	(void)close(fd);
}

static void page__that_is_given_has_its_memory(void **state)
{
	struct env *e = *state;
	struct stat st;
	int fd = give(&e->s[0]);

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks * S_BLKSIZE, BYTES);
	(void)close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(page__that_is_held_counts),
		TEST(page__that_is_let_go_does_not_count),
		TEST(page__of_a_slice_that_is_gone_counts_on),
		TEST(page__without_inotify_is_given_at_a_rate),
		TEST(page__that_is_brought_counts),
		TEST(page__of_one_process_are_few),
		TEST(page__that_is_not_as_ours_is_refused),
		TEST(page__that_is_given_has_its_memory),
	};

	return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
