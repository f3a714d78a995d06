/* SPDX-License-Identifier: Apache-2.0 */

/* The usage-db under faults: it is killed, damaged, on a full disk, and open in other processes. */
#include "usage-db-env.h"
#include "support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int setup(void **state)
{
	(void)state;
	usage_db_env_setup();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	usage_db_env_teardown();
	return 0;
}

#define PER_BUCKET 40

/* Writes buckets until it is killed, and counts the stored ones in memory of the parent. */
/* @pause_us between two writes: one that never rests leaves no reader a turn. */
static void write_until_killed(uint64_t first, volatile uint64_t *done, useconds_t pause_us)
{
	struct error err = ERROR_INIT;
	struct usage_db *db = NULL;

	if (usage_db_open(&db, usage_db_env_path(), USAGE_DB_BYTES, &err) != 0)
		_exit(3);
	for (uint64_t i = first;; i++) {
		const struct usage_db_total total = { "last", { (int64_t)i } };
		const struct usage_db_batch b = { .set_totals = true,
			.totals = &total,
			.n_totals = 1 };

		/* Old enough to be merged as well. */
		if (usage_db_env_add(db, T0 + i * USAGE_DB_BUCKET_S, PER_BUCKET,
			    T0 + USAGE_DB_HOURS_AFTER_S + i * USAGE_DB_BUCKET_S, &err) != 0 ||
			usage_db_add(db, &b, T0, &err) != 0)
			_exit(4);
		*done = i + 1;
		if (pause_us)
			(void)usleep(pause_us);
	}
}

static void usage_db__survives_kill_at_any_point(void **state)
{
	const unsigned rounds = getenv("GPUSLICE_TEST_LONG") ? 300 : 12;
	volatile uint64_t *done =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(done != MAP_FAILED);
	for (unsigned round = 0; round < rounds; round++) {
		uint64_t before = *done;
		struct usage_db_sums s;
		int status = 0;
		pid_t pid = fork();

		if (pid == 0)
			write_until_killed(before + 1, done, 0);
		assert_true(pid > 0);
		/* Two writes at least, then somewhere in one of the next. */
		while (*done < before + 2 && waitpid(pid, &status, WNOHANG) == 0)
			(void)usleep(500);
		(void)usleep(round * 977 % 5000);
		(void)kill(pid, SIGKILL);
		assert_true(waitpid(pid, &status, 0) == pid || WIFEXITED(status));
		if (WIFEXITED(status))
			fail_msg("the writer ended with %d", WEXITSTATUS(status));
		/* The reader first: it finds what the writer left behind. Every bucket is there as
		 * a whole or not at all (usage_db_env_sum() compares the costs). */
		usage_db_env_sum(0, UINT64_MAX, &s);
		assert_int_equal(s.cost % 255000000, 0);
		assert_true((uint64_t)(s.cost / 255000000) + round >= *done - 1);
	}
	(void)munmap((void *)(uintptr_t)done, 4096);
}

static void fill_db(unsigned n)
{
	struct error err = ERROR_INIT;
	struct usage_db *db = NULL;

	assert_ok(usage_db_open(&db, usage_db_env_path(), USAGE_DB_BYTES, &err), &err);
	for (unsigned i = 0; i < n; i++)
		assert_ok(usage_db_env_add(db, T0 + i * USAGE_DB_BUCKET_S, 30, T0, &err), &err);
	(void)usage_db_close(db);
}

static void overwrite_bytes(off_t at, size_t len)
{
	int fd = open(usage_db_env_path(), O_WRONLY | O_CLOEXEC);
	char *junk = malloc(len);

	assert_true(fd >= 0);
	assert_non_null(junk);
	memset(junk, 0xa5, len);
	assert_int_equal(pwrite(fd, junk, len, at), len);
	free(junk);
	(void)close(fd);
}

static unsigned count_damaged(void)
{
	DIR *d = opendir(usage_db_env_dir());
	struct dirent *e;
	unsigned n = 0;

	assert_non_null(d);
	while ((e = readdir(d)) != NULL)
		n += strstr(e->d_name, ".damaged-") != NULL;
	(void)closedir(d);
	return n;
}

static void usage_db_open__renames_a_damaged_file(void **state)
{
	static const struct {
		off_t at;
		size_t len;
	} rows[] = { { 0, 50 }, { 4096, 40960 }, { 100, 100 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct error err = ERROR_INIT;
		struct usage_db *db = NULL;
		struct usage_db_sums s;

		fill_db(60);
		test_write(usage_db_env_dir(), USAGE_DB_FILE ".damaged-1", "older", 5, 0600);
		overwrite_bytes(rows[i].at, rows[i].len);
		assert_int_equal(usage_db_open(&db, usage_db_env_path(), USAGE_DB_BYTES, &err),
			USAGE_DB_RECREATED);
		assert_non_null(strstr(err.msg, "it is now '"));
		assert_non_null(db);
		assert_int_equal(count_damaged(), 1);
		usage_db_env_sum(0, UINT64_MAX, &s);
		assert_int_equal(s.periods, 0);
		assert_ok(usage_db_env_add(db, T0, 3, T0, &err), &err);
		(void)usage_db_close(db);
		assert_int_equal(unlink(usage_db_env_path()), 0);
	}
}

static void usage_db_add__recreates_a_file_that_was_damaged_meanwhile(void **state)
{
	struct error err = ERROR_INIT;
	struct usage_db *db = NULL;
	struct usage_db_sums s;

	(void)state;
	fill_db(60);
	assert_ok(usage_db_open(&db, usage_db_env_path(), USAGE_DB_BYTES, &err), &err);
	overwrite_bytes(0, 65536);
	assert_int_equal(usage_db_env_add(db, T0 + 30000, 3, T0, &err), USAGE_DB_RECREATED);
	usage_db_env_sum(0, UINT64_MAX, &s);
	assert_int_equal(s.periods, 1);
	assert_int_equal(s.rows, 3);
	assert_int_equal(count_damaged(), 1);
	(void)usage_db_close(db);
}

static void usage_db_open__renames_a_database_of_others(void **state)
{
	struct error err = ERROR_INIT;
	struct usage_db *db = NULL;

	(void)state;
	fill_db(1);
	overwrite_bytes(68, 4); /* the application id */
	assert_int_equal(usage_db_open(&db, usage_db_env_path(), USAGE_DB_BYTES, &err),
		USAGE_DB_RECREATED);
	(void)usage_db_close(db);
}

static void usage_db_add__reports_a_full_disk(void **state)
{
	struct rlimit old, low = { .rlim_cur = 64 << 10 };
	struct error err = ERROR_INIT;
	struct usage_db *db = NULL;
	struct usage_db_sums s;
	unsigned n = 0;

	(void)state;
	fill_db(1);
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	assert_ok(usage_db_open(&db, usage_db_env_path(), USAGE_DB_BYTES, &err), &err);
	low.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	while (n < 1000 && usage_db_env_add(db, T0 + (n + 1) * 300, 30, T0, &err) == 0)
		n++;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_in_range(n, 1, 999);
	assert_int_equal(err.code, ERR_IO);
	usage_db_env_sum(0, UINT64_MAX, &s);
	assert_int_equal(s.periods, n + 1);
	/* Passed again when there is space. */
	assert_ok(usage_db_env_add(db, T0 + (n + 1) * 300, 30, T0, &err), &err);
	usage_db_env_sum(0, UINT64_MAX, &s);
	assert_int_equal(s.periods, n + 2);
	(void)usage_db_close(db);
}

static void usage_db_add__continues_when_no_new_file_can_be_created(void **state)
{
	struct rlimit old, low = { .rlim_cur = 1024 };
	struct error err = ERROR_INIT;
	struct usage_db *db = NULL;
	struct usage_db_sums s;

	(void)state;
	fill_db(60);
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	low.rlim_max = old.rlim_max;
	assert_ok(usage_db_open(&db, usage_db_env_path(), USAGE_DB_BYTES, &err), &err);
	overwrite_bytes(0, 65536);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_true(usage_db_env_add(db, T0 + 30000, 3, T0, &err) < 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_ok(usage_db_env_add(db, T0 + 30000, 3, T0, &err), &err);
	usage_db_env_sum(0, UINT64_MAX, &s);
	assert_int_equal(s.periods, 1);
	assert_int_equal(count_damaged(), 1);
	(void)usage_db_close(db);
}

static void usage_db_read__reads_whole_writes_beside_a_writer(void **state)
{
	volatile uint64_t *done =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int64_t last = 0;
	pid_t pid;

	(void)state;
	assert_true(done != MAP_FAILED);
	fill_db(1);
	pid = fork();
	if (pid == 0)
		write_until_killed(1, done, 2000);
	assert_true(pid > 0);
	for (unsigned i = 0; i < 30; i++) {
		struct usage_db_sums s;

		usage_db_env_sum(0, UINT64_MAX, &s);
		assert_int_equal(s.cost % 255000000, 0);
		assert_true(s.cost >= last);
		last = s.cost;
	}
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)munmap((void *)(uintptr_t)done, 4096);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		ROW(usage_db__survives_kill_at_any_point),
		ROW(usage_db_open__renames_a_damaged_file),
		ROW(usage_db_add__recreates_a_file_that_was_damaged_meanwhile),
		ROW(usage_db_open__renames_a_database_of_others),
		ROW(usage_db_add__reports_a_full_disk),
		ROW(usage_db_add__continues_when_no_new_file_can_be_created),
		ROW(usage_db_read__reads_whole_writes_beside_a_writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
