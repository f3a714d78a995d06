/* SPDX-License-Identifier: Apache-2.0 */

/* What an arbiter finds again of the one before: by its grants, by the pages alone, and under load. */
#include "serve-env.h"

#include "node/arbiter/process/proc.h"
#include "lib/base/time.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void restart__counts_allocated_memory_and_finds_the_pages(void **state)
{
	struct env *e = *state;
	pid_t one = holder(e, 300 * MIB, false), two = holder(e, 200 * MIB, false);
	struct slice_client c;

	end_arbiter(e, SIGKILL);
	(void)kill(two, SIGKILL);
	(void)waitpid(two, NULL, 0);
	start_arbiter(e);
	/* The figure is exact without a registration: the arbiter found the page in the process. */
	assert_int_equal(gpu_figure(e, "used"), 300 * MIB);
	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_allocate(&c, 0, 724 * MIB));
	assert_false(client_allocate(&c, 0, 1));
	end_arbiter(e, SIGTERM);
	start_arbiter(e);
	assert_int_equal(client_reconnect(&c, 5000), SLICE_OK);
	client_free_bytes(&c, 0, 700 * MIB);
	assert_true(client_allocate(&c, 0, 700 * MIB));
	assert_false(client_allocate(&c, 0, 1));
	assert_int_equal(gpu_figure(e, "used"), GIB);
	(void)kill(one, SIGKILL);
	(void)waitpid(one, NULL, 0);
	assert_true(eventually(e, "used", 724 * MIB));
	client_close(&c);
}

/* A process has files like pages, without memory: reads of them would make memory that counts as the
 * arbiter's. */
static void restart__allocates_no_memory_for_pages_with_holes(void **state)
{
	enum { HOLES = 200 };
	struct env *e = *state;
	pid_t pid = child(e);

	if (pid == 0) {
		struct slice_client c;
		int fds[HOLES];
		struct stat st;

		if (client_connect(&c, e->slice) < 0 ||
			client_hello(&c, SLICE_HELLO_MEMORY) != SLICE_OK ||
			!client_allocate(&c, 0, 100 * MIB))
			_exit(1);
		for (size_t i = 0; i < HOLES; i++) {
			fds[i] = memfd_create("gpuslice-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
			if (fds[i] < 0 || ftruncate(fds[i], SLICE_PAGE_BYTES) < 0 ||
				fcntl(fds[i], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
				_exit(2);
		}
		/* The true page is the last that the arbiter finds. */
		if (dup2(c.page_fd, fds[HOLES - 1] + 1) < 0 || close(c.page_fd) < 0)
			_exit(3);
		atomic_store(&e->shared->ready, 1);
		wait_for(&e->shared->go, 1);
		for (size_t i = 0; i < HOLES; i++) {
			if (fstat(fds[i], &st) < 0 || st.st_blocks)
				_exit(4);
		}
		_exit(0);
	}
	wait_for(&e->shared->ready, 1);
	end_arbiter(e, SIGKILL);
	start_arbiter(e);
	assert_int_equal(gpu_figure(e, "used"), 100 * MIB);
	atomic_store(&e->shared->go, 1);
	reap(pid);
}

/* The arbiter stores each half second, but reports no more than what is stored. */
static void restart__keeps_the_number_of_refusals(void **state)
{
	struct env *e = *state;
	struct slice_client c;
	pid_t pid;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_int_equal(gpu_figure(e, "refusals"), 0);
	/* A refused request is not counted by itself, as the process may try again. */
	assert_int_equal(client_request(&c, 0, 2 * GIB, NULL), SLICE_NO_ROOM);
	assert_int_equal(gpu_figure(e, "refusals"), 0);
	atomic_store(&c.page->gpus[0].refused, 5);
	assert_int_equal(gpu_figure(e, "refusals"), 5);
	end_arbiter(e, SIGKILL);
	atomic_store(&c.page->gpus[0].refused, 6);
	start_arbiter(e);
	assert_int_equal(client_reconnect(&c, 5000), SLICE_OK);
	assert_int_equal(gpu_figure(e, "refusals"), 6);
	client_close(&c);
	/* A process ends, and so does the arbiter. */
	pid = child(e);
	if (pid == 0) {
		if (client_connect(&c, e->slice) < 0 ||
			client_hello(&c, SLICE_HELLO_MEMORY) != SLICE_OK)
			_exit(1);
		atomic_store(&c.page->gpus[0].refused, 4);
		_exit(0);
	}
	reap(pid);
	assert_true(eventually(e, "refusals", 10));
	end_arbiter(e, SIGTERM);
	start_arbiter(e);
	assert_int_equal(gpu_figure(e, "refusals"), 10);
}

static void restart__trusts_pages_when_the_journal_is_lost(void **state)
{
	struct env *e = *state;
	struct slice_client c;
	char path[300];

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_allocate(&c, 0, 700 * MIB));
	end_arbiter(e, SIGKILL);
	(void)snprintf(path, sizeof(path), "%s/arbiter.book", e->run);
	assert_int_equal(unlink(path), 0);
	start_arbiter(e);
	assert_int_equal(gpu_figure(e, "used"), 0);
	assert_int_equal(client_reconnect(&c, 5000), SLICE_OK);
	assert_int_equal(gpu_figure(e, "used"), 700 * MIB);
	assert_false(client_allocate(&c, 0, 400 * MIB));
	client_close(&c);
}

static void restart__with_an_invalid_slice_file_keeps_the_limit(void **state)
{
	struct env *e = *state;
	struct slice_client c;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_allocate(&c, 0, 700 * MIB));
	end_arbiter(e, SIGKILL);
	write_slice(e, "{");
	start_arbiter(e);
	assert_int_equal(client_reconnect(&c, 50), -1);
	assert_int_equal(atomic_load(&c.page->gpus[0].limit), GIB);
	write_limit(e, GIB, "report");
	assert_int_equal(client_reconnect(&c, 20000), SLICE_OK);
	assert_int_equal(gpu_figure(e, "used"), 700 * MIB);
	assert_true(client_allocate(&c, 0, 324 * MIB));
	assert_false(client_allocate(&c, 0, 1));
	client_close(&c);
}

static void write_other_gpus(const struct env *e)
{
	write_slice(e,
		"{\"version\": 1, \"id\": \"" ID "\", \"resource\": \"nvidia.com/gpu\","
		" \"devices\": [\"a\"], \"gpus\": ["
		"{\"uuid\": \"GPU-ffffffff-4455-6677-8899-aabbccddeeff\", \"memory\": 1073741824},"
		"{\"uuid\": \"" UUID "\", \"memory\": 536870912}]}");
}

static json_t *first_slice(struct env *e, json_t **top)
{
	*top = status(e);
	return json_array_get(json_object_get(*top, "slices"), 0);
}

static void restart__with_other_gpus_in_the_file_keeps_those_of_the_processes(void **state)
{
	struct env *e = *state;
	struct slice_client c, other;
	const json_t *slice, *gpus;
	uint64_t end = time_mono_ns() + 20 * NS_PER_SEC;
	size_t n = 0;
	json_t *top;

	assert_int_equal(client_connect(&c, e->slice), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_true(client_allocate(&c, 0, 300 * MIB));
	end_arbiter(e, SIGKILL);
	write_other_gpus(e);
	start_arbiter(e);
	slice = first_slice(e, &top);
	gpus = json_object_get(slice, "gpus");
	assert_int_equal(json_array_size(gpus), 1);
	assert_string_equal(json_string_value(json_object_get(json_array_get(gpus, 0), "uuid")),
		UUID);
	assert_non_null(strstr(json_string_value(json_object_get(slice, "error")), "gpus"));
	json_decref(top);
	assert_int_equal(gpu_figure(e, "used"), 300 * MIB);
	/* The file's limit of that GPU. */
	assert_int_equal(gpu_figure(e, "limit"), 512 * MIB);
	assert_true(client_allocate(&c, 0, 100 * MIB));
	assert_int_equal(client_connect(&other, e->slice), 0);
	assert_int_equal(client_hello(&other, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_false(client_allocate(&other, 0, 200 * MIB));
	client_free_bytes(&c, 0, 400 * MIB);
	client_close(&c);
	client_close(&other);
	/* This process represents those processes, and does not end: as if each had executed another
	 * program. */
	end_arbiter(e, SIGTERM);
	(void)snprintf(c.path, sizeof(c.path), "%s/arbiter.book", e->run);
	assert_int_equal(unlink(c.path), 0);
	start_arbiter(e);
	while (n != 2) {
		n = json_array_size(json_object_get(first_slice(e, &top), "gpus"));
		json_decref(top);
		assert_true(time_mono_ns() < end);
	}
}

/* Moves its page behind more descriptors than one read of the arbiter covers. */
static bool move_page_fd_last(struct slice_client *c)
{
	struct rlimit r;
	int fd;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_max < 3 * PROC_FDS_MAX)
		return false;
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r) < 0)
		return false;
	do
		fd = dup(STDERR_FILENO);
	while (fd >= 0 && fd < 2 * PROC_FDS_MAX + 500);
	fd = dup(c->page_fd);
	(void)close(c->page_fd);
	c->page_fd = fd;
	return fd >= 0;
}

/* An idle process reports nothing to the new arbiter; NVML shows the process all the same. */
static void find_process_by_its_page(struct env *e, bool page_last)
{
	char journal[300];
	pid_t pid = child(e);

	if (pid == 0) {
		struct slice_client c;

		if (!enter_slice(e) || client_connect(&c, e->slice) < 0 ||
			client_hello(&c, SLICE_HELLO_MEMORY) != SLICE_OK ||
			!client_allocate(&c, 0, 700 * MIB) ||
			(page_last && !move_page_fd_last(&c)))
			atomic_store(&e->shared->failed, 1);
		atomic_store(&e->shared->ready, 1);
		for (;;)
			(void)pause();
	}
	wait_for(&e->shared->ready, 1);
	if (!atomic_load(&e->shared->failed)) {
		write_limit(e, GIB, "stop");
		end_arbiter(e, SIGKILL);
		(void)snprintf(journal, sizeof(journal), "%s/arbiter.book", e->run);
		assert_int_equal(unlink(journal), 0);
		start_arbiter(e);
		assert_int_equal(gpu_figure(e, "used"), 0);
		atomic_store(&e->shared->pid[0], (uint32_t)pid);
		atomic_store(&e->shared->bytes[0], 700 * MIB);
		subscribe(e);
		assert_true(eventually(e, "used", 700 * MIB));
		assert_true(!page_last || eventually(e, "unhooked_used", 0));
		wait_ms(1200);
		assert_int_equal(gpu_figure(e, "unhooked_used"), 0);
		assert_int_equal(gpu_figure(e, "used"), 700 * MIB);
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	} else {
		print_message("# skipped: no mount namespaces\n");
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	atomic_store(&e->shared->bytes[0], 0);
	assert_true(eventually(e, "granted", 0));
}

static void lost_journal__has_its_process_found_by_the_page(void **state)
{
	find_process_by_its_page(*state, false);
}

static void lost_journal__has_its_process_found_behind_many_descriptors(void **state)
{
	find_process_by_its_page(*state, true);
}

static void lost_run_directory__ends_the_arbiter(void **state)
{
	struct env *e = *state;
	char journal[300];
	int status_of_it = 0;

	(void)snprintf(journal, sizeof(journal), "%s/arbiter.book", e->run);
	assert_int_equal(unlink(journal), 0);
	assert_int_equal(waitpid(e->arbiter, &status_of_it, 0), e->arbiter);
	assert_true(WIFEXITED(status_of_it) && WEXITSTATUS(status_of_it) == 0);
	e->arbiter = 0;
}

/* --- under load --- */

static uint64_t next_random(uint64_t *r)
{
	*r ^= *r << 13;
	*r ^= *r >> 7;
	*r ^= *r << 17;
	return *r;
}

/* The memory is there from here on: no more than the limit at any instant. */
static void allocate_really(struct shared *s, size_t i, uint64_t bytes)
{
	uint64_t sum = atomic_fetch_add(&s->truth, bytes) + bytes;
	uint64_t max = atomic_load(&s->most);

	while (sum > max && !atomic_compare_exchange_weak(&s->most, &max, sum))
		;
	atomic_fetch_add(&s->bytes[i], bytes);
}

static _Noreturn void run_racer(struct env *e, size_t i)
{
	struct shared *s = e->shared;
	uint64_t random = (i + 1) * UINT64_C(0x9e3779b97f4a7c15), allocated[64] = { 0 };
	struct slice_client c;

	if (client_connect(&c, e->slice) < 0 ||
		client_hello(&c, SLICE_HELLO_MEMORY) != SLICE_OK)
		_exit(1);
	atomic_fetch_add(&s->ready, 1);
	while (!atomic_load(&s->go)) {
		uint64_t *slot = &allocated[next_random(&random) % ARRAY_LEN(allocated)];
		uint64_t bytes = 512 + next_random(&random) % (48 * MIB);

		if (*slot) {
			atomic_fetch_sub(&s->bytes[i], *slot);
			atomic_fetch_sub(&s->truth, *slot);
			client_free_bytes(&c, 0, *slot);
			*slot = 0;
		} else if (client_allocate(&c, 0, bytes)) {
			allocate_really(s, i, bytes);
			*slot = bytes;
			atomic_fetch_add(&s->taken, 1);
		} else {
			atomic_fetch_add(&s->refused, 1);
		}
	}
	if (client_reconnect(&c, 20000) != SLICE_OK)
		atomic_store(&s->failed, 1);
	atomic_fetch_add(&s->ready, 1);
	while (atomic_load(&s->go) < 2)
		wait_ms(1);
	_exit(0);
}

static void load__with_the_arbiter_killed_never_exceeds_the_limit(void **state)
{
	enum { RACERS = 8, KILLS = 30 };
	struct env *e = *state;
	struct shared *s = e->shared;
	uint64_t random = 88172645463325252U;
	pid_t pids[RACERS];
	uint32_t taken = 0;

	for (size_t i = 0; i < RACERS; i++) {
		pids[i] = child(e);
		if (pids[i] == 0)
			run_racer(e, i);
		atomic_store(&s->pid[i], (uint32_t)pids[i]);
	}
	/* The first registration is not retried: none is under way when the arbiter is killed. */
	wait_for(&s->ready, RACERS);
	for (int i = 0; i < KILLS; i++) {
		uint64_t end =
			time_mono_ns() + NS_PER_MS + next_random(&random) % (40 * NS_PER_MS);

		/* The work made progress since the last time. */
		wait_for(&s->taken, taken + 20);
		taken = atomic_load(&s->taken);
		while (time_mono_ns() < end)
			;
		end_arbiter(e, SIGKILL);
		start_arbiter(e);
	}
	atomic_store(&s->go, 1);
	wait_for(&s->ready, 2 * RACERS);
	assert_int_equal(atomic_load(&s->failed), 0);
	assert_true(atomic_load(&s->refused) > 0);
	assert_true(atomic_load(&s->most) <= GIB);
	assert_true(atomic_load(&s->most) > GIB / 2);
	print_message("# %u taken, %u refused, most %llu of %llu\n", atomic_load(&s->taken),
		atomic_load(&s->refused), (unsigned long long)atomic_load(&s->most),
		(unsigned long long)GIB);
	/* A reading corrects what was under way in the two instructions that the arbiter cannot distinguish. */
	print_message("# before a reading: %lld bytes above the truth\n",
		(long long)(gpu_figure(e, "used") - atomic_load(&s->truth)));
	assert_true(gpu_figure(e, "used") >= atomic_load(&s->truth));
	subscribe(e);
	assert_true(eventually(e, "used", atomic_load(&s->truth)));
	atomic_store(&s->go, 2);
	for (size_t i = 0; i < RACERS; i++)
		reap(pids[i]);
	for (size_t i = 0; i < RACERS; i++)
		atomic_store(&s->pid[i], 0);
	assert_true(eventually(e, "granted", 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, serve_env_setup, serve_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(restart__counts_allocated_memory_and_finds_the_pages),
		TEST(restart__allocates_no_memory_for_pages_with_holes),
		TEST(restart__keeps_the_number_of_refusals),
		TEST(restart__trusts_pages_when_the_journal_is_lost),
		TEST(restart__with_an_invalid_slice_file_keeps_the_limit),
		TEST(restart__with_other_gpus_in_the_file_keeps_those_of_the_processes),
		TEST(lost_journal__has_its_process_found_by_the_page),
		TEST(lost_journal__has_its_process_found_behind_many_descriptors),
		TEST(lost_run_directory__ends_the_arbiter),
		TEST(load__with_the_arbiter_killed_never_exceeds_the_limit),
	};

	return cmocka_run_group_tests_name("arbiter-restart", tests, NULL, NULL);
}
