/* SPDX-License-Identifier: Apache-2.0 */

/* The pod and the container of a process, from texts of /proc. */
#include "support/test.h"

#include "node/agent/base/pod-of-process.h"

#include <string.h>

#define UID "1b9c0d3e-0f4a-4b5c-8d6e-7f8091a2b3c4"

static void pod_uid_from_cgroup__reads_all_spellings(void **state)
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
		char got[POD_UID_MAX] = "";
		bool found = pod_uid_from_cgroup(rows[i].text, strlen(rows[i].text), got);

		if (found != (rows[i].want != NULL) ||
			(found && strcmp(got, rows[i].want) != 0))
			fail_msg("row %zu: '%s'", i, got);
	}
}

static void pod_container_from_mounts__finds_the_name_of_the_container(void **state)
{
	static const char text[] =
		"1 2 8:1 /var/lib/kubelet/pods/other/containers/no/1 /a rw - ext4 /dev/x rw\n"
		"1 2 8:1 /var/lib/kubelet/pods/" UID
		"/etc-hosts /etc/hosts rw - ext4 /dev/x rw\n"
		"1 2 8:1 /var/lib/kubelet/pods/" UID
		"/containers/train-1/0a1b /dev/termination-log rw - ext4 /dev/x rw\n";
	char got[POD_CONTAINER_MAX] = "";

	(void)state;
	assert_true(pod_container_from_mounts(text, sizeof(text) - 1, UID, got));
	assert_string_equal(got, "train-1");
	assert_false(pod_container_from_mounts(text, sizeof(text) - 1, "", got));
	assert_false(pod_container_from_mounts(text, sizeof(text) - 1, "nobody", got));
	assert_false(pod_container_from_mounts(text, 150, UID, got));
}

static void pod_uid_from_mounts__uses_mounts_that_only_containers_have(void **state)
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
		/* The node itself mounts volumes, and parts of them. */
		{ "1 2 0:9 / /var/lib/kubelet/pods/" UID
		  "/volumes/kubernetes.io~secret/s rw - tmpfs x rw\n",
			false },
		{ "1 2 8:1 /var/lib/kubelet/pods/" UID "/volumes/kubernetes.io~empty-dir/v/s "
		  "/var/lib/kubelet/pods/" UID "/volume-subpaths/v/c/0 rw - ext4 x rw\n",
			false },
		/* A tenant's own path, in a volume of the tenant. */
		{ "1 2 8:1 /k/pods/" UID "/volumes/kubernetes.io~empty-dir/v/pods/"
		  "ffffffff-ffff-ffff-ffff-ffffffffffff/containers/x /a rw - ext4 x rw\n",
			false },
		/* A process that manages pods: it has their directories, and its own hosts file. */
		{ "1 2 0:9 / /k/pods/" UID "/volumes/x rw\n2 3 8:1 /etc/hosts /etc/hosts rw\n",
			false },
		{ "1 2 8:1 /other/" UID "/etc-hosts /etc/hosts rw", false },
		{ "/pods/1b9c0d3e-0f4a-4b5c-8d6e-7f8091a2b3c/etc-hosts /etc/hosts rw", false },
		{ "1 2 8:1 /pods/" UID, false },
		{ "1 2 8:1 /pods/x/containers/c/0", false },
		{ "", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char got[POD_UID_MAX] = "";
		bool found = pod_uid_from_mounts(rows[i].text, strlen(rows[i].text), got);

		if (found != rows[i].want || (found && strcmp(got, UID) != 0))
			fail_msg("row %zu: '%s'", i, got);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pod_uid_from_cgroup__reads_all_spellings),
		cmocka_unit_test(pod_container_from_mounts__finds_the_name_of_the_container),
		cmocka_unit_test(pod_uid_from_mounts__uses_mounts_that_only_containers_have),
	};

	return cmocka_run_group_tests_name("pod-of-process", tests, NULL, NULL);
}
