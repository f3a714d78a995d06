/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/slices/mounts.h"

#include "agent/slices/life.h"
#include "base/buf.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOUNTS_MAX    (8 << 20) /* of one namespace */
#define NAMESPACE_MAX 64        /* "mnt:[4026531840]" */

/* procfs says no sizes. */
static bool read_mounts(struct buf *b, int proc, const char *pid)
{
	CLEANUP(closep) int fd = -1;
	char name[64], part[4096];
	ssize_t n;

	(void)snprintf(name, sizeof(name), "%.32s/mountinfo", pid);
	fd = openat(proc, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while ((n = read(fd, part, sizeof(part))) > 0 && buf_ok(b))
		buf_add(b, part, (size_t)n);
	return n == 0 && buf_ok(b);
}

/* False: it is gone, or we may not look. */
static bool read_namespace(char ret[NAMESPACE_MAX], int proc, const char *pid)
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

static int look_at(struct strv *ret, struct strv *seen, int proc, const char *pid,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MOUNTS_MAX);
	char namespace[NAMESPACE_MAX];

	if (!read_namespace(namespace, proc, pid) || strv_has(seen, namespace))
		return 0;
	/* A process may end meanwhile: then another one of its namespace is asked. */
	if (!read_mounts(&b, proc, pid))
		return 0;
	if (strv_add(seen, namespace, err) < 0)
		return -1;
	return slice_ids_in(ret, buf_str(&b), b.len, err);
}

int slice_mounts_find(struct strv *ret, const char *procfs, struct error *err)
{
	CLEANUP(strv_fini) struct strv seen = STRV_INIT;
	const struct dirent *e;
	DIR *d = opendir(procfs);
	int r = 0;

	if (!d)
		return error_sys(err, errno, "open '%s'", procfs);
	while (r == 0 && (e = readdir(d)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			r = look_at(ret, &seen, dirfd(d), e->d_name, err);
	(void)closedir(d);
	return r;
}
