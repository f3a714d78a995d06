/* SPDX-License-Identifier: Apache-2.0 */

/* Which pod a process is of. */
#include "support/test.h"

#include "node/agent/monitoring/cgroup.h"
#include "node/agent/monitoring/processes.h"

#include <limits.h>
#include <unistd.h>

#define UID "1b9c0d3e-0f4a-4b5c-8d6e-7f8091a2b3c4"

static void see_cgroup_pod__reads_all_spellings(void **state)
{
	static const struct {
		const char *text, *want; /* NULL: none */
	} rows[] = {
		{ "0::/kubepods/burstable/pod" UID "/9f86d08\n", UID },
		{ "0::/kubepods.slice/kubepods-burstable.slice/"
		  "kubepods-burstable-pod1b9c0d3e_0f4a_4b5c_8d6e_7f8091a2b3c4.slice/"
		  "cri-containerd-9f86d08.scope\n",
			UID },
		/* seen from a cgroup namespace of our own */
		{ "0::/../../pod" UID "/9f86d08\n", UID },
		/* version 1: the same in each line */
		{ "12:devices:/kubepods/besteffort/pod" UID "/abc\n1:name=systemd:/other\n",
			UID },
		/* a static pod's */
		{ "0::/kubepods/pod0123456789abcdef0123456789abcdef/x\n",
			"0123456789abcdef0123456789abcdef" },
		/* a tenant's own cgroups below */
		{ "0::/kubepods/pod" UID "/abc/podffffffff-ffff-ffff-ffff-ffffffffffff\n",
			UID },
		{ "0::/system.slice/podman.service\n", NULL },
		{ "0::/user.slice/pod12345678-1234\n", NULL },
		{ "0::/tripod" UID "\n", NULL },
		{ "0::/pod1b9c-0d3e0f4a4b5c8d6e7f8091a2b3c4\n", NULL },
		{ "0::/pod" UID "5/x\n", NULL },
		{ "", NULL },
		{ "pod", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char got[SEE_UID_MAX] = "";
		bool found = see_cgroup_pod(rows[i].text, strlen(rows[i].text), got);

		if (found != (rows[i].want != NULL) ||
			(found && strcmp(got, rows[i].want) != 0))
			fail_msg("row %zu: '%s'", i, got);
	}
}

static void see_mounts_container__finds_its_name(void **state)
{
	static const char text[] =
		"1 2 8:1 /var/lib/kubelet/pods/other/containers/no/1 /a rw - ext4 /dev/x rw\n"
		"1 2 8:1 /var/lib/kubelet/pods/" UID
		"/etc-hosts /etc/hosts rw - ext4 /dev/x rw\n"
		"1 2 8:1 /var/lib/kubelet/pods/" UID
		"/containers/train-1/0a1b /dev/termination-log rw - ext4 /dev/x rw\n";
	char got[SEE_CONTAINER_MAX] = "";

	(void)state;
	assert_true(see_mounts_container(text, sizeof(text) - 1, UID, got));
	assert_string_equal(got, "train-1");
	assert_false(see_mounts_container(text, sizeof(text) - 1, "", got));
	assert_false(see_mounts_container(text, sizeof(text) - 1, "nobody", got));
	assert_false(see_mounts_container(text, 150, UID, got));
}

static void see_mounts_pod__goes_by_what_containers_alone_have(void **state)
{
	static const struct {
		const char *text;
		bool want;
	} rows[] = {
		{ "1 2 8:1 /var/lib/kubelet/pods/" UID "/etc-hosts /etc/hosts rw - ext4 x rw\n",
			true },
		{ "1 2 8:1 /k/pods/" UID
		  "/containers/c/0a /dev/termination-log rw - ext4 x rw\n",
			true },
		/* On the node itself: volumes, and parts of them. */
		{ "1 2 0:9 / /var/lib/kubelet/pods/" UID
		  "/volumes/kubernetes.io~secret/s rw - tmpfs x rw\n",
			false },
		{ "1 2 8:1 /var/lib/kubelet/pods/" UID "/volumes/kubernetes.io~empty-dir/v/s "
		  "/var/lib/kubelet/pods/" UID "/volume-subpaths/v/c/0 rw - ext4 x rw\n",
			false },
		/* A tenant's own path, in a volume of his. */
		{ "1 2 8:1 /k/pods/" UID "/volumes/kubernetes.io~empty-dir/v/pods/"
		  "ffffffff-ffff-ffff-ffff-ffffffffffff/containers/x /a rw - ext4 x rw\n",
			false },
		{ "1 2 8:1 /pods/" UID, false },
		{ "1 2 8:1 /pods/x/containers/c/0", false },
		{ "", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char got[SEE_UID_MAX] = "";
		bool found = see_mounts_pod(rows[i].text, strlen(rows[i].text), got);

		if (found != rows[i].want || (found && strcmp(got, UID) != 0))
			fail_msg("row %zu: '%s'", i, got);
	}
}

static void put_mounts(const char *dir, const char *pid, const char *mounts)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "%s/mountinfo", pid);
	test_write(dir, name, mounts, strlen(mounts), 0644);
}

static void put_process(const char *dir, const char *pid, const char *start, const char *cgroup)
{
	char name[64], text[256];

	(void)snprintf(name, sizeof(name), "%s/stat", pid);
	(void)snprintf(text, sizeof(text),
		"%s (a) b) 1 (c) S 1 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %s 99 98\n", pid,
		start);
	test_write(dir, name, text, strlen(text), 0644);
	(void)snprintf(name, sizeof(name), "%s/cgroup", pid);
	test_write(dir, name, cgroup, strlen(cgroup), 0644);
	put_mounts(dir, pid, "");
}

/* A kubelet may make no control groups (cgroupsPerQOS: false). */
static void see_processes__goes_by_mounts_without_a_cgroup(void **state)
{
	char *dir = test_tmpdir();
	const struct see_process *p;
	struct see_processes all;

	(void)state;
	see_processes_init(&all, dir);
	put_process(dir, "7", "1234", "0::/\n");
	put_mounts(dir, "7",
		"1 2 8:1 /var/lib/kubelet/pods/" UID
		"/containers/train/0a1b /dev/termination-log rw - ext4 /dev/x rw\n");
	p = see_processes_look(&all, 7);
	assert_non_null(p);
	assert_string_equal(p->uid, UID);
	assert_string_equal(p->container, "train");
	see_processes_fini(&all);
	test_rmdir(dir);
}

/* A process of which nothing can be read is not one of no pod. */
static void see_processes__knows_what_it_could_not_read(void **state)
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
		const struct see_process *p;
		struct see_processes all;

		put_process(dir, "7", "1", rows[i].cgroup ? rows[i].cgroup : "");
		put_mounts(dir, "7", rows[i].mounts ? rows[i].mounts : "");
		(void)snprintf(path, sizeof(path), "%s/7/cgroup", dir);
		if (!rows[i].cgroup)
			assert_int_equal(unlink(path), 0);
		(void)snprintf(path, sizeof(path), "%s/7/mountinfo", dir);
		if (!rows[i].mounts)
			assert_int_equal(unlink(path), 0);
		see_processes_init(&all, dir);
		p = see_processes_look(&all, 7);
		assert_non_null(p);
		if (p->readable != rows[i].readable)
			fail_msg("row %zu: readable %d", i, p->readable);
		see_processes_fini(&all);
		test_rmdir(dir);
	}
}

static void see_processes__reads_a_process_once(void **state)
{
	static const char pod[] = "0::/kubepods/pod" UID "/x\n";
	char *dir = test_tmpdir();
	const struct see_process *p;
	struct see_processes all;

	(void)state;
	see_processes_init(&all, dir);
	put_process(dir, "7", "1234", pod);
	put_process(dir, "5", "1", "0::/\n");
	p = see_processes_look(&all, 7);
	assert_non_null(p);
	assert_string_equal(p->uid, UID);
	assert_int_equal(p->start, 1234);
	assert_string_equal(see_processes_look(&all, 5)->uid, "");
	assert_null(see_processes_look(&all, 6));
	/* It is known; not so another one with its number, nor one that was nobody's. */
	see_processes_begin(&all);
	put_process(dir, "7", "1234", "0::/\n");
	put_process(dir, "5", "1", pod);
	assert_string_equal(see_processes_look(&all, 7)->uid, UID);
	assert_string_equal(see_processes_look(&all, 5)->uid, UID);
	put_process(dir, "7", "1235", "0::/\n");
	assert_string_equal(see_processes_look(&all, 7)->uid, "");
	/* One that has ended is told of once more. */
	see_processes_begin(&all);
	test_write(dir, "5/stat", "", 0, 0644);
	p = see_processes_look(&all, 5);
	assert_non_null(p);
	assert_string_equal(p->uid, UID);
	(void)see_processes_look(&all, 7);
	see_processes_end(&all);
	assert_int_equal(all.n, 2);
	see_processes_begin(&all);
	(void)see_processes_look(&all, 7);
	see_processes_end(&all);
	assert_int_equal(all.n, 1);
	assert_null(see_processes_look(&all, 5));
	see_processes_fini(&all);
	test_rmdir(dir);
}

/* One whose files have no end: it is known as far as it can be, others are read, and it is left alone for a while. */
static void see_processes__stops_reading_what_has_no_end(void **state)
{
	char *dir = test_tmpdir(), path[PATH_MAX];
	const struct see_process *p;
	struct see_processes all;

	(void)state;
	see_processes_init(&all, dir);
	put_process(dir, "7", "1", "0::/kubepods/pod" UID "/x\n");
	put_process(dir, "8", "1", "0::/kubepods/pod" UID "/x\n");
	(void)snprintf(path, sizeof(path), "%s/7/mountinfo", dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/dev/zero", path), 0);
	p = see_processes_look(&all, 7);
	assert_non_null(p);
	assert_string_equal(p->uid, UID);
	assert_int_equal(p->cut, SEE_PROCESS_CUT_LOOKS);
	p = see_processes_look(&all, 8);
	assert_non_null(p);
	assert_int_equal(p->cut, 0);
	assert_false(p->late);
	for (int i = 1; i < SEE_PROCESS_CUT_LOOKS; i++) {
		see_processes_begin(&all);
		assert_int_equal(see_processes_look(&all, 7)->cut, SEE_PROCESS_CUT_LOOKS - i);
		see_processes_end(&all);
	}
	see_processes_fini(&all);
	test_rmdir(dir);
}

/* The time of a round is over: nobody is forgotten, and the next one reads. */
static void see_processes__goes_on_in_the_next_round(void **state)
{
	char *dir = test_tmpdir();
	struct see_processes all;

	(void)state;
	see_processes_init(&all, dir);
	put_process(dir, "7", "1", "0::/kubepods/pod" UID "/x\n");
	put_process(dir, "8", "1", "0::/kubepods/pod" UID "/x\n");
	assert_non_null(see_processes_look(&all, 7));
	see_processes_begin(&all);
	all.budget.end_ns = 0;
	assert_string_equal(see_processes_look(&all, 7)->uid, UID);
	assert_true(see_processes_look(&all, 8)->late);
	assert_string_equal(see_processes_find(&all, 8)->uid, "");
	see_processes_end(&all);
	see_processes_begin(&all);
	assert_string_equal(see_processes_look(&all, 7)->uid, UID);
	assert_string_equal(see_processes_look(&all, 8)->uid, UID);
	assert_false(see_processes_find(&all, 8)->late);
	see_processes_end(&all);
	see_processes_fini(&all);
	test_rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(see_cgroup_pod__reads_all_spellings),
		cmocka_unit_test(see_mounts_container__finds_its_name),
		cmocka_unit_test(see_mounts_pod__goes_by_what_containers_alone_have),
		cmocka_unit_test(see_processes__goes_by_mounts_without_a_cgroup),
		cmocka_unit_test(see_processes__knows_what_it_could_not_read),
		cmocka_unit_test(see_processes__reads_a_process_once),
		cmocka_unit_test(see_processes__stops_reading_what_has_no_end),
		cmocka_unit_test(see_processes__goes_on_in_the_next_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
