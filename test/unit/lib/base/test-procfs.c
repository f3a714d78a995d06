/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/procfs.h"
#include "lib/base/time.h"

/* A directory in the place of /proc: process 7 has a short file, a longer one, and one without an end. */
static char *setup_procfs(void)
{
	char *dir = test_tmpdir(), path[512], long_text[5000];

	memset(long_text, 'x', sizeof(long_text));
	test_write(dir, "7/short", "abc", 3, 0644);
	test_write(dir, "7/long", long_text, sizeof(long_text), 0644);
	(void)snprintf(path, sizeof(path), "%s/7/endless", dir);
	assert_int_equal(symlink("/dev/zero", path), 0);
	return dir;
}

static struct procfs_budget make_budget(void)
{
	return (struct procfs_budget){ .file_bytes = 4999,
		.file_cpu_ns = NS_PER_SEC,
		.cpu_ns = NS_PER_SEC,
		.end_ns = time_mono_ns() + 60 * NS_PER_SEC };
}

static void procfs_read__keeps_to_the_bytes_of_a_file(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);
	struct procfs_budget left = make_budget();
	char *dir = setup_procfs();

	(void)state;
	assert_int_equal(procfs_read(&b, dir, 7, "short", &left), PROCFS_WHOLE);
	assert_string_equal(buf_str(&b), "abc");
	assert_int_equal(procfs_read(&b, dir, 7, "long", &left), PROCFS_TRUNCATED);
	assert_in_range(b.len, 1, 4999);
	left.file_bytes = 5000;
	assert_int_equal(procfs_read(&b, dir, 7, "long", &left), PROCFS_WHOLE);
	assert_int_equal(b.len, 5000);
	assert_int_equal(procfs_read(&b, dir, 7, "none", &left), PROCFS_GONE);
	assert_int_equal(procfs_read(&b, dir, 8, "short", &left), PROCFS_GONE);
	assert_int_equal(b.len, 0);
	test_rmdir(dir);
}

/* One process that uses up its own time leaves that of the others. */
static void procfs_read__keeps_to_the_time_of_a_file_and_of_all(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(SIZE_MAX);
	struct procfs_budget left = make_budget();
	char *dir = setup_procfs();

	(void)state;
	left.file_bytes = SIZE_MAX;
	left.file_cpu_ns = NS_PER_MS;
	left.cpu_ns = 40 * NS_PER_MS;
	assert_int_equal(procfs_read(&b, dir, 7, "endless", &left), PROCFS_TRUNCATED);
	assert_in_range(left.cpu_ns, 1, 39 * NS_PER_MS);
	assert_int_equal(procfs_read(&b, dir, 7, "short", &left), PROCFS_WHOLE);
	left.file_cpu_ns = NS_PER_SEC;
	assert_int_equal(procfs_read(&b, dir, 7, "endless", &left), PROCFS_SPENT);
	assert_int_equal(procfs_read(&b, dir, 7, "short", &left), PROCFS_SPENT);
	left = make_budget();
	left.end_ns = time_mono_ns();
	assert_int_equal(procfs_read(&b, dir, 7, "short", &left), PROCFS_SPENT);
	assert_int_equal(b.len, 0);
	test_rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(procfs_read__keeps_to_the_bytes_of_a_file),
		cmocka_unit_test(procfs_read__keeps_to_the_time_of_a_file_and_of_all),
	};

	return cmocka_run_group_tests_name("procfs", tests, NULL, NULL);
}
