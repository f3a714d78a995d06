/* SPDX-License-Identifier: Apache-2.0 */

/* Which pod a process is of. */
#include "support/test.h"

#include "node/agent/base/pod-of-process.h"
#include "node/agent/monitoring/processes.h"

#include <limits.h>
#include <unistd.h>

#define UID "1b9c0d3e-0f4a-4b5c-8d6e-7f8091a2b3c4"

static void write_mount_table(const char *dir, const char *pid, const char *mounts)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "%s/mountinfo", pid);
	test_write(dir, name, mounts, strlen(mounts), 0644);
}

static void write_process(const char *dir, const char *pid, const char *start,
	const char *cgroup)
{
	char name[64], text[256];

	(void)snprintf(name, sizeof(name), "%s/stat", pid);
	(void)snprintf(text, sizeof(text),
		"%s (a) b) 1 (c) S 1 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %s 99 98\n", pid,
		start);
	test_write(dir, name, text, strlen(text), 0644);
	(void)snprintf(name, sizeof(name), "%s/cgroup", pid);
	test_write(dir, name, cgroup, strlen(cgroup), 0644);
	write_mount_table(dir, pid, "");
}

/* A kubelet may make no control groups (cgroupsPerQOS: false). */
static void monitoring_processes__uses_mounts_without_a_cgroup(void **state)
{
	char *dir = test_tmpdir();
	const struct monitoring_process *p;
	struct monitoring_processes all;

	(void)state;
	monitoring_processes_init(&all, dir);
	write_process(dir, "7", "1234", "0::/\n");
	write_mount_table(dir, "7",
		"1 2 8:1 /var/lib/kubelet/pods/" UID
		"/containers/train/0a1b /dev/termination-log rw - ext4 /dev/x rw\n");
	p = monitoring_processes_read(&all, 7);
	assert_non_null(p);
	assert_string_equal(p->uid, UID);
	assert_string_equal(p->container, "train");
	monitoring_processes_fini(&all);
	test_rmdir(dir);
}

/* A process of which nothing can be read is not one of no pod. */
static void monitoring_processes__reports_unreadable_processes(void **state)
{
	static const struct {
		const char *cgroup, *mounts; /* NULL: cannot be read */
		bool readable;
	} rows[] = {
		{ "0::/kubepods/pod" UID "/x\n", NULL, true },
		{ "0::/system.slice/x.service\n", NULL, true },
		{ "0::/\n", "", true },
		{ "0::/\n", NULL, false },
		{ NULL, "", true },
		{ NULL, NULL, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *dir = test_tmpdir(), path[256];
		const struct monitoring_process *p;
		struct monitoring_processes all;

		write_process(dir, "7", "1", rows[i].cgroup ? rows[i].cgroup : "");
		write_mount_table(dir, "7", rows[i].mounts ? rows[i].mounts : "");
		(void)snprintf(path, sizeof(path), "%s/7/cgroup", dir);
		if (!rows[i].cgroup)
			assert_int_equal(unlink(path), 0);
		(void)snprintf(path, sizeof(path), "%s/7/mountinfo", dir);
		if (!rows[i].mounts)
			assert_int_equal(unlink(path), 0);
		monitoring_processes_init(&all, dir);
		p = monitoring_processes_read(&all, 7);
		assert_non_null(p);
		if (p->readable != rows[i].readable)
			fail_msg("row %zu: readable %d", i, p->readable);
		monitoring_processes_fini(&all);
		test_rmdir(dir);
	}
}

static void monitoring_processes__reads_a_process_once(void **state)
{
	static const char pod[] = "0::/kubepods/pod" UID "/x\n";
	char *dir = test_tmpdir();
	const struct monitoring_process *p;
	struct monitoring_processes all;

	(void)state;
	monitoring_processes_init(&all, dir);
	write_process(dir, "7", "1234", pod);
	write_process(dir, "5", "1", "0::/\n");
	p = monitoring_processes_read(&all, 7);
	assert_non_null(p);
	assert_string_equal(p->uid, UID);
	assert_int_equal(p->start, 1234);
	assert_string_equal(monitoring_processes_read(&all, 5)->uid, "");
	assert_null(monitoring_processes_read(&all, 6));
	/* The known process keeps its pod. A process with its PID and another start does not, and one
	 * without a pod is read again. */
	monitoring_processes_begin(&all);
	write_process(dir, "7", "1234", "0::/\n");
	write_process(dir, "5", "1", pod);
	assert_string_equal(monitoring_processes_read(&all, 7)->uid, UID);
	assert_string_equal(monitoring_processes_read(&all, 5)->uid, UID);
	write_process(dir, "7", "1235", "0::/\n");
	assert_string_equal(monitoring_processes_read(&all, 7)->uid, "");
	/* A process that has ended is reported once more. */
	monitoring_processes_begin(&all);
	test_write(dir, "5/stat", "", 0, 0644);
	p = monitoring_processes_read(&all, 5);
	assert_non_null(p);
	assert_string_equal(p->uid, UID);
	(void)monitoring_processes_read(&all, 7);
	monitoring_processes_end(&all);
	assert_int_equal(all.n, 2);
	monitoring_processes_begin(&all);
	(void)monitoring_processes_read(&all, 7);
	monitoring_processes_end(&all);
	assert_int_equal(all.n, 1);
	assert_null(monitoring_processes_read(&all, 5));
	monitoring_processes_fini(&all);
	test_rmdir(dir);
}

/* A process with endless files: the agent uses what it could read, reads other processes, and skips
 * this one for a while. */
static void monitoring_processes__limits_the_bytes_it_reads(void **state)
{
	char *dir = test_tmpdir(), path[PATH_MAX];
	const struct monitoring_process *p;
	struct monitoring_processes all;

	(void)state;
	monitoring_processes_init(&all, dir);
	write_process(dir, "7", "1", "0::/kubepods/pod" UID "/x\n");
	write_process(dir, "8", "1", "0::/kubepods/pod" UID "/x\n");
	(void)snprintf(path, sizeof(path), "%s/7/mountinfo", dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/dev/zero", path), 0);
	p = monitoring_processes_read(&all, 7);
	assert_non_null(p);
	assert_string_equal(p->uid, UID);
	assert_int_equal(p->oversize_rounds, MONITORING_OVERSIZE_ROUNDS);
	p = monitoring_processes_read(&all, 8);
	assert_non_null(p);
	assert_int_equal(p->oversize_rounds, 0);
	assert_false(p->over_budget);
	for (int i = 1; i < MONITORING_OVERSIZE_ROUNDS; i++) {
		monitoring_processes_begin(&all);
		assert_int_equal(monitoring_processes_read(&all, 7)->oversize_rounds,
			MONITORING_OVERSIZE_ROUNDS - i);
		monitoring_processes_end(&all);
	}
	monitoring_processes_fini(&all);
	test_rmdir(dir);
}

/* The time limit of a round is over: no process is forgotten, and the next round reads the rest. */
static void monitoring_processes__continues_in_the_next_round(void **state)
{
	char *dir = test_tmpdir();
	struct monitoring_processes all;

	(void)state;
	monitoring_processes_init(&all, dir);
	write_process(dir, "7", "1", "0::/kubepods/pod" UID "/x\n");
	write_process(dir, "8", "1", "0::/kubepods/pod" UID "/x\n");
	assert_non_null(monitoring_processes_read(&all, 7));
	monitoring_processes_begin(&all);
	all.budget.end_ns = 0;
	assert_string_equal(monitoring_processes_read(&all, 7)->uid, UID);
	assert_true(monitoring_processes_read(&all, 8)->over_budget);
	assert_string_equal(monitoring_processes_find(&all, 8)->uid, "");
	monitoring_processes_end(&all);
	monitoring_processes_begin(&all);
	assert_string_equal(monitoring_processes_read(&all, 7)->uid, UID);
	assert_string_equal(monitoring_processes_read(&all, 8)->uid, UID);
	assert_false(monitoring_processes_find(&all, 8)->over_budget);
	monitoring_processes_end(&all);
	monitoring_processes_fini(&all);
	test_rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(monitoring_processes__uses_mounts_without_a_cgroup),
		cmocka_unit_test(monitoring_processes__reports_unreadable_processes),
		cmocka_unit_test(monitoring_processes__reads_a_process_once),
		cmocka_unit_test(monitoring_processes__limits_the_bytes_it_reads),
		cmocka_unit_test(monitoring_processes__continues_in_the_next_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
