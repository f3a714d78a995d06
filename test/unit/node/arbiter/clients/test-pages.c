/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "node/arbiter/clients/pages.h"
#include "node/arbiter/clients/passed-fds.h"
#include "node/arbiter/internal.h"
#include "lib/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES       4096
#define DEADLINE_NS (60 * NS_PER_SEC)

static bool watches_used_up;

/* Replaces the C library's function. */
int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	if (!watches_used_up)
		return (int)syscall(SYS_inotify_add_watch, fd, path, mask);
	errno = ENOSPC;
	return -1;
}

/* What there is of an arbiter for pages. */
struct env {
	struct arbiter a;
	struct arbiter_slice s[2];
	uv_loop_t loop;
	uv_timer_t tick; /* so that it wakes also where nothing else does */
};

static void on_page_closed(struct arbiter_slice *s, bool counted)
{
	(void)s;
	(void)counted;
}

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));
	struct error err = ERROR_INIT;

	watches_used_up = false;
	assert_non_null(e);
	assert_int_equal(uv_loop_init(&e->loop), 0);
	e->a.loop = &e->loop;
	(void)snprintf(e->a.o.procfs, sizeof(e->a.o.procfs), "/proc");
	e->a.passed_fds = passed_fds_new(&e->loop, on_page_closed, &err);
	assert_non_null(e->a.passed_fds);
	assert_int_equal(uv_timer_init(&e->loop, &e->tick), 0);
	pages_start(&e->a);
	e->s[0].arbiter = e->s[1].arbiter = &e->a;
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	pages_detach_slice(&e->s[0]);
	pages_detach_slice(&e->s[1]);
	e->a.passed_fds = passed_fds_stop(e->a.passed_fds);
	pages_stop(&e->a);
	uv_close((uv_handle_t *)&e->tick, NULL);
	(void)uv_run(&e->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&e->loop), 0);
	free(e);
	return 0;
}

/* The arbiter has its mapping no more. */
static int make_for(const struct page_owner *who)
{
	void *at = NULL;
	ino_t ino;
	int fd = page_make(who, "page", BYTES, &at, &ino);

	if (fd >= 0)
		(void)munmap(at, BYTES);
	return fd;
}

/* Passes a page to a process that has ended: no process has the start time 1. */
static int pass_page_to(struct arbiter_slice *s, uint32_t pid)
{
	return make_for(&(struct page_owner){ s->arbiter, s, pid, 1 });
}

/* This process. */
static struct page_owner make_arbiter_owner(struct arbiter_slice *s)
{
	struct proc_stat st;

	assert_true(proc_stat("/proc", (uint32_t)getpid(), &st));
	return (struct page_owner){ s->arbiter, s, (uint32_t)getpid(), st.start };
}

static int pass_page_to_arbiter(struct arbiter_slice *s)
{
	const struct page_owner who = make_arbiter_owner(s);

	return make_for(&who);
}

/* Passes a page to another process each time. */
static int pass_page_to_next(struct arbiter_slice *s)
{
	static uint32_t pid;

	return pass_page_to(s, ++pid);
}

/* The process @who passes a page to an arbiter that has no mapping of it. */
static int map_page_of(const struct page_owner *who, int fd)
{
	void *at = NULL;
	ino_t ino;
	int r = page_map(who, fd, BYTES, &at, &ino);

	if (r == 0)
		(void)munmap(at, BYTES);
	return r;
}

/* Another process passes the page each time. */
static int map_page(struct arbiter_slice *s, int fd)
{
	static uint32_t pid = 1000000;

	return map_page_of(&(struct page_owner){ s->arbiter, s, ++pid, 1 }, fd);
}

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* A memfd as a process may make one itself. */
static int make_memfd(size_t bytes, bool filled, int seals)
{
	int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	if (filled)
		assert_int_equal(fallocate(fd, 0, 0, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void page__counts_while_a_process_keeps_it_open(void **state)
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
	while (n < PAGES_MAX && (fd = pass_page_to_next(&e->s[0])) >= 0)
		fds[n++] = fd;
	assert_int_equal(pass_page_to_next(&e->s[0]), PAGE_TOO_MANY);
	assert_int_equal(n, PAGES_MAX / 4 + fair_quota_per_slice(&e->a.pages.quota));
	/* The limit of one slice does not affect another slice. */
	fd = pass_page_to_next(&e->s[1]);
	assert_true(fd >= 0);
	(void)close(fd);
	/* A page lives as long as a mapping of it, or a copy of its descriptor. */
	fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
	(void)close(fds[0]);
	assert_int_equal(pass_page_to_next(&e->s[0]), PAGE_TOO_MANY);
	(void)close(fd);
	fds[0] = pass_page_to_next(&e->s[0]);
	assert_true(fds[0] >= 0);
	assert_int_equal(pass_page_to_next(&e->s[0]), PAGE_TOO_MANY);
	for (unsigned int i = 0; i < n; i++)
		(void)close(fds[i]);
	(void)uv_run(&e->loop, UV_RUN_NOWAIT);
	assert_int_equal(e->a.pages.quota.n, 0);
}

static void page__does_not_count_once_it_is_closed(void **state)
{
	struct env *e = *state;

	SKIP_UNLESS(e->a.pages.watch, "no inotify");
	for (unsigned int i = 0; i < 2 * PAGES_MAX; i++) {
		int fd = pass_page_to_next(&e->s[0]);

		assert_true(fd >= 0);
		(void)close(fd);
	}
}

static void page__of_a_removed_slice_continues_to_count(void **state)
{
	struct env *e = *state;
	int fd = pass_page_to_next(&e->s[0]);

	SKIP_UNLESS(e->a.pages.watch, "no inotify");
	pages_detach_slice(&e->s[0]);
	(void)uv_run(&e->loop, UV_RUN_NOWAIT);
	assert_int_equal(e->a.pages.quota.n, 1);
	(void)close(fd);
	(void)uv_run(&e->loop, UV_RUN_NOWAIT);
	assert_int_equal(e->a.pages.quota.n, 0);
}

static void on_tick(uv_timer_t *t)
{
	(void)t;
}

static void run_until(struct env *e, bool (*is_so)(const struct env *e))
{
	uint64_t end_ns = time_mono_ns() + DEADLINE_NS;

	assert_int_equal(uv_timer_start(&e->tick, on_tick, 10, 10), 0);
	while (!is_so(e)) {
		assert_true(time_mono_ns() < end_ns);
		(void)uv_run(&e->loop, UV_RUN_ONCE);
	}
	(void)uv_timer_stop(&e->tick);
}

static bool is_no_page_open(const struct env *e)
{
	return !e->a.pages.quota.n;
}

static bool is_one_page_open(const struct env *e)
{
	return e->a.pages.quota.n == 1;
}

static bool is_every_page_watched(const struct env *e)
{
	return !e->a.pages.blind_quota.n;
}

/* Passes one more page, and runs until the arbiter has emptied it. */
static void run_until_page_emptied(struct env *e)
{
	int fd = pass_page_to_next(&e->s[0]);

	assert_true(fd >= 0);
	assert_int_equal(e->a.pages.quota.n, 2);
	run_until(e, is_one_page_open);
	(void)close(fd);
}

static void page__without_a_watch_counts_until_its_process_ended(void **state)
{
	struct env *e = *state;
	int fds[3], ours;
	struct stat st;

	watches_used_up = true;
	ours = pass_page_to_arbiter(&e->s[0]);
	assert_true(ours >= 0);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = pass_page_to_next(&e->s[i % 2]);
		assert_true(fds[i] >= 0);
	}
	/* The slice of a page may be removed before the page is emptied. */
	pages_detach_slice(&e->s[1]);
	assert_int_equal(e->a.pages.quota.n, 4);
	run_until(e, is_one_page_open);
	run_until_page_emptied(e);
	/* The page has no memory charged to the arbiter, even if another process has it open. */
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		assert_int_equal(fstat(fds[i], &st), 0);
		assert_int_equal(st.st_blocks, 0);
		assert_int_equal(map_page(&e->s[0], fds[i]), PAGE_NOT_OURS);
		(void)close(fds[i]);
	}
	assert_int_equal(fstat(ours, &st), 0);
	assert_int_equal(st.st_blocks * S_BLKSIZE, BYTES);
	(void)close(ours);
}

static void pages__without_a_watch_have_the_same_limit(void **state)
{
	struct env *e = *state;
	unsigned int n = 0;
	struct rlimit r;
	int fd;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
	SKIP_UNLESS(r.rlim_max >= 8192, "too few descriptors");
	r.rlim_cur = r.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
	e->a.pages.blind_quota.capacity = PAGES_MAX;
	watches_used_up = true;
	for (; n <= PAGES_MAX && (fd = pass_page_to_next(&e->s[0])) >= 0; n++)
		(void)close(fd);
	assert_int_equal(fd, PAGE_TOO_MANY);
	assert_int_equal(n, PAGES_MAX / 4 + fair_quota_per_slice(&e->a.pages.quota));
	fd = pass_page_to_next(&e->s[1]);
	assert_true(fd >= 0);
	(void)close(fd);
	run_until(e, is_no_page_open);
	fd = pass_page_to_next(&e->s[0]);
	assert_true(fd >= 0);
	(void)close(fd);
}

static void page__without_a_watch_needs_a_descriptor(void **state)
{
	struct env *e = *state;
	unsigned int n = 0;
	int fd;

	e->a.pages.blind_quota.capacity = FAIR_QUOTA_SLICES * 4;
	watches_used_up = true;
	for (; n <= PAGES_MAX && (fd = pass_page_to_next(&e->s[0])) >= 0; n++)
		(void)close(fd);
	assert_int_equal(fd, PAGE_TOO_MANY);
	assert_int_equal(n, FAIR_QUOTA_SLICES + 2);
	fd = pass_page_to_next(&e->s[1]);
	assert_true(fd >= 0);
	(void)close(fd);
}

static void page__gets_its_watch_later(void **state)
{
	struct env *e = *state;
	struct page_owner who;
	int fd;

	SKIP_UNLESS(e->a.pages.watch, "no inotify");
	watches_used_up = true;
	fd = pass_page_to_arbiter(&e->s[0]);
	assert_true(fd >= 0);
	/* The page that the arbiter created and maps counts once. */
	who = make_arbiter_owner(&e->s[0]);
	assert_int_equal(map_page_of(&who, fd), 0);
	assert_int_equal(e->a.pages.quota.n, 1);
	/* The arbiter would empty the page under another process, and under another slice. */
	assert_int_equal(map_page(&e->s[0], fd), PAGE_NOT_OURS);
	who = make_arbiter_owner(&e->s[1]);
	assert_int_equal(map_page_of(&who, fd), PAGE_NOT_OURS);
	assert_int_equal(e->a.pages.quota.n, 1);
	watches_used_up = false;
	run_until(e, is_every_page_watched);
	assert_int_equal(map_page(&e->s[0], fd), 0);
	assert_int_equal(e->a.pages.quota.n, 1);
	(void)close(fd);
	run_until(e, is_no_page_open);
}

/* The arbiter needs the page of an ended process until a reading: the process may have left memory on a GPU. */
static void page__is_not_emptied_while_the_arbiter_reads_it(void **state)
{
	struct env *e = *state;
	struct grants_task t = { .pid = 2000000, .start = 1 };
	int fd;

	e->a.grants.buckets[t.pid % GRANTS_BUCKETS] = &t;
	watches_used_up = true;
	fd = pass_page_to(&e->s[0], t.pid);
	assert_true(fd >= 0);
	run_until_page_emptied(e);
	e->a.grants.buckets[t.pid % GRANTS_BUCKETS] = NULL;
	run_until(e, is_no_page_open);
	(void)close(fd);
}

/* A process can prevent its page from being emptied. */
static void page__that_cannot_be_emptied_continues_to_count(void **state)
{
	struct env *e = *state;
	int fd = make_memfd(BYTES, true, SEALS);

	SKIP_UNLESS(e->a.pages.watch, "no inotify");
	watches_used_up = true;
	assert_int_equal(map_page(&e->s[0], fd), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	run_until_page_emptied(e);
	watches_used_up = false;
	run_until(e, is_every_page_watched);
	assert_int_equal(e->a.pages.quota.n, 1);
	(void)close(fd);
	run_until(e, is_no_page_open);
}

static void page__counts_when_a_process_passes_it_back(void **state)
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
		fds[n] = make_memfd(BYTES, true, SEALS);
		trouble = map_page(&e->s[0], fds[n]);
	} while (trouble == 0 && ++n < PAGES_MAX);
	assert_int_equal(trouble, PAGE_TOO_MANY);
	assert_int_equal(n, PAGES_MAX / 4 + fair_quota_per_slice(&e->a.pages.quota));
	/* A page that counts already is accepted again. */
	assert_int_equal(map_page(&e->s[0], fds[0]), 0);
	assert_int_equal(e->a.pages.quota.n, n);
	/* A page that the arbiter created is accepted too. */
	fd = pass_page_to_next(&e->s[1]);
	assert_true(fd >= 0);
	assert_int_equal(map_page(&e->s[1], fd), 0);
	assert_int_equal(e->a.pages.quota.n, n + 1);
	(void)close(fd);
	for (unsigned int i = 0; i <= n; i++)
		(void)close(fds[i]);
	(void)uv_run(&e->loop, UV_RUN_NOWAIT);
	assert_int_equal(e->a.pages.quota.n, 0);
}

static void pages__of_one_process_are_limited(void **state)
{
	struct env *e = *state;
	int fds[PAGES_CLIENT_MAX];

	SKIP_UNLESS(e->a.pages.watch, "no inotify");
	for (unsigned int i = 0; i < PAGES_CLIENT_MAX; i++) {
		fds[i] = pass_page_to(&e->s[0], 7);
		assert_true(fds[i] >= 0);
	}
	assert_int_equal(pass_page_to(&e->s[0], 7), PAGE_TOO_MANY);
	(void)close(fds[0]);
	fds[0] = pass_page_to(&e->s[0], 7);
	assert_true(fds[0] >= 0);
	for (unsigned int i = 0; i < PAGES_CLIENT_MAX; i++)
		(void)close(fds[i]);
}

/* The arbiter touches nothing of it, so no memory is charged to the arbiter. */
static void page__that_the_arbiter_did_not_create_is_refused(void **state)
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
		fd = make_memfd(rows[i].bytes, rows[i].filled, rows[i].seals);
		assert_int_equal(map_page(&e->s[0], fd), PAGE_NOT_OURS);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_blocks != 0, rows[i].filled);
		(void)close(fd);
	}
	assert_int_equal(map_page(&e->s[0], -1), PAGE_NOT_OURS);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(map_page(&e->s[0], fd), PAGE_NOT_OURS);
	(void)close(fd);
	fd = make_memfd(BYTES, true, SEALS);
	assert_int_equal(map_page(&e->s[0], fd), 0);
	(void)close(fd);
}

static void page__has_its_memory_when_it_is_created(void **state)
{
	struct env *e = *state;
	struct stat st;
	int fd = pass_page_to_next(&e->s[0]);

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks * S_BLKSIZE, BYTES);
	(void)close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(page__counts_while_a_process_keeps_it_open),
		TEST(page__does_not_count_once_it_is_closed),
		TEST(page__of_a_removed_slice_continues_to_count),
		TEST(page__without_a_watch_counts_until_its_process_ended),
		TEST(pages__without_a_watch_have_the_same_limit),
		TEST(page__without_a_watch_needs_a_descriptor),
		TEST(page__gets_its_watch_later),
		TEST(page__is_not_emptied_while_the_arbiter_reads_it),
		TEST(page__that_cannot_be_emptied_continues_to_count),
		TEST(page__counts_when_a_process_passes_it_back),
		TEST(pages__of_one_process_are_limited),
		TEST(page__that_the_arbiter_did_not_create_is_refused),
		TEST(page__has_its_memory_when_it_is_created),
	};

	return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
