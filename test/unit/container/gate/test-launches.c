/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "container/gate/launches.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define FIRST   (LAUNCH_LOG_ENTRIES / 2)
/* FIRST and the threads' entries together are more than the ring has. The threads' entries alone are fewer: a
 * thread that pauses would write into the next lap. */
#define EACH (LAUNCH_LOG_ENTRIES / 5)

static char dir[64];

/* A file of @size bytes with the head @magic, @version. */
static void make_launches_file(off_t size, uint32_t magic, uint32_t version)
{
	const uint32_t head[] = { magic, version };
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/" LAUNCH_LOG_FILE, dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(write(fd, head, sizeof(head)), sizeof(head));
	(void)close(fd);
}

static void launches__accept_only_a_valid_log(void **state)
{
	(void)state;
	assert_null(gate_launches_open(dir)); /* the directory has no log */
	make_launches_file((off_t)LAUNCH_LOG_BYTES - 1, LAUNCH_LOG_MAGIC, LAUNCH_LOG_VERSION);
	assert_null(gate_launches_open(dir));
	make_launches_file((off_t)LAUNCH_LOG_BYTES, LAUNCH_LOG_MAGIC + 1, LAUNCH_LOG_VERSION);
	assert_null(gate_launches_open(dir));
	make_launches_file((off_t)LAUNCH_LOG_BYTES, LAUNCH_LOG_MAGIC, LAUNCH_LOG_VERSION + 1);
	assert_null(gate_launches_open(dir));
	make_launches_file((off_t)LAUNCH_LOG_BYTES, LAUNCH_LOG_MAGIC, LAUNCH_LOG_VERSION);
	assert_non_null(gate_launches_open(dir));
}

static void *add_many(void *arg)
{
	for (uintptr_t i = 0; i < EACH; i++)
		gate_launches_add(arg, i);
	return NULL;
}

static void launches__record_each_entry_whole_and_count_it(void **state)
{
	struct launch_log *log;
	pthread_t threads[THREADS];
	uint64_t n;

	(void)state;
	make_launches_file((off_t)LAUNCH_LOG_BYTES, LAUNCH_LOG_MAGIC, LAUNCH_LOG_VERSION);
	log = gate_launches_open(dir);
	assert_non_null(log);
	for (uintptr_t i = 0; i < FIRST; i++)
		gate_launches_add(log, i);
	for (unsigned int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_many, log), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		(void)pthread_join(threads[i], NULL);
	n = atomic_load(&log->next);
	assert_int_equal(n, FIRST + THREADS * EACH);
	for (uint64_t i = n - LAUNCH_LOG_ENTRIES; i < n; i++) {
		struct launch_log_entry *e = &log->entries[i % LAUNCH_LOG_ENTRIES];

		assert_int_equal(atomic_load(&e->number), i + 1);
		assert_true(atomic_load(&e->at_ns) > 0);
	}
	/* The same kind has the same entry, another kind has another. */
	gate_launches_add(log, 7);
	gate_launches_add(log, 7);
	gate_launches_add(log, 8);
	assert_int_equal(atomic_load(&log->entries[n % LAUNCH_LOG_ENTRIES].kind),
		atomic_load(&log->entries[(n + 1) % LAUNCH_LOG_ENTRIES].kind));
	assert_int_not_equal(atomic_load(&log->entries[n % LAUNCH_LOG_ENTRIES].kind),
		atomic_load(&log->entries[(n + 2) % LAUNCH_LOG_ENTRIES].kind));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(launches__accept_only_a_valid_log),
		cmocka_unit_test(launches__record_each_entry_whole_and_count_it),
	};
	char path[128];
	int r;

	(void)snprintf(dir, sizeof(dir), "/tmp/gs-launches-XXXXXX");
	if (!mkdtemp(dir))
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	make_launches_file(8, 0, 0);
	(void)snprintf(path, sizeof(path), "%s/" LAUNCH_LOG_FILE, dir);
	(void)unlink(path);
	(void)rmdir(dir);
	return r;
}
