/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/slices/mounts.h"

#include "node/agent/slices/checkpoint.h"
#include "lib/base/parse.h"
#include "lib/base/procfs.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOUNTS_MAX    (1 << 20) /* of one namespace */
#define MOUNTS_CPU_NS (50 * NS_PER_MS)
#define NAMESPACE_MAX 64 /* "mnt:[4026531840]" */

struct mount_search {
	struct strv *ret, seen; /* ids; namespaces */
	const char *procfs;
	int proc;
	struct procfs_budget budget;
	bool truncated;
};

/* False: the process has ended, or the agent may not look into it. */
static bool read_mount_namespace(char ret[NAMESPACE_MAX], int proc, const char *pid)
{
	char name[64];
	ssize_t n;

	(void)snprintf(name, sizeof(name), "%.32s/ns/mnt", pid);
	n = readlinkat(proc, name, ret, NAMESPACE_MAX - 1);
	if (n <= 0)
		return false;
	ret[n] = '\0';
	return true;
}

static int search_process_mounts(struct mount_search *s, const char *name, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MOUNTS_MAX);
	char namespace[NAMESPACE_MAX];
	enum procfs_outcome outcome;
	uint32_t pid;

	if (!parse_u32(name, &pid) || !read_mount_namespace(namespace, s->proc, name) ||
		strv_has(&s->seen, namespace))
		return 0;
	outcome = procfs_read(&b, s->procfs, pid, "mountinfo", &s->budget);
	/* The process has ended: another process of its namespace is read instead. */
	if (outcome == PROCFS_GONE)
		return 0;
	if (outcome == PROCFS_SPENT)
		return error_set(err, ERR_TIMEOUT,
			"the mounts of all processes on the node take longer than %d s to read",
			(int)(SLICE_MOUNTS_NS / NS_PER_SEC));
	s->truncated = s->truncated || outcome == PROCFS_TRUNCATED;
	if (strv_add(&s->seen, namespace, err) < 0)
		return -1;
	return slice_ids_in(s->ret, buf_str(&b), b.len, err);
}

int slice_mounts_find(struct strv *ret, const char *procfs, struct error *err)
{
	struct mount_search s = { .ret = ret,
		.seen = STRV_INIT,
		.procfs = procfs,
		.budget = { .file_bytes = MOUNTS_MAX,
			.file_cpu_ns = MOUNTS_CPU_NS,
			.cpu_ns = SLICE_MOUNTS_NS,
			.end_ns = time_mono_ns() + SLICE_MOUNTS_NS } };
	const struct dirent *e;
	DIR *d = opendir(procfs);
	int r = 0;

	if (!d)
		return error_sys(err, errno, "open '%s'", procfs);
	s.proc = dirfd(d);
	while (r == 0 && (e = readdir(d)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			r = search_process_mounts(&s, e->d_name, err);
	(void)closedir(d);
	strv_fini(&s.seen);
	return r == 0 && s.truncated ? SLICE_MOUNTS_PARTIAL : r;
}
