/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arbiter/process/proc.h"

#include "abi/slice-dir.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef RESOLVE_CACHED
#	define RESOLVE_CACHED 0x20 /* Linux 5.12 */
#endif

/* Mounts elsewhere on the node may make a lookup in the cache fail. */
#define ROOT_TRIES 16

/* file_read() needs a size. Files of procfs have none, and may be shorter at each read. */
static bool read_proc_file(struct buf *b, const char *procfs, uint32_t pid, const char *name)
{
	CLEANUP(closep) int fd = -1;
	char path[PATH_MAX], part[4096];
	ssize_t n;

	if (pid)
		(void)snprintf(path, sizeof(path), "%s/%u/%s", procfs, pid, name);
	else
		(void)snprintf(path, sizeof(path), "%s/%s", procfs, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	while ((n = read(fd, part, sizeof(part))) > 0 && buf_ok(b))
		buf_add(b, part, (size_t)n);
	return n == 0 && buf_ok(b);
}

/* Field @index, counted from the name in brackets, which is field 2. The name may contain brackets and blanks. */
static bool stat_word(const char *text, unsigned int index, uint64_t *ret)
{
	const char *at = strrchr(text, ')');
	char word[24];
	size_t len;

	if (!at)
		return false;
	at++;
	for (unsigned int i = 3; i < index; i++) {
		at += strspn(at, " ");
		at += strcspn(at, " \n");
	}
	at += strspn(at, " ");
	len = strcspn(at, " \n");
	if (len >= sizeof(word))
		return false;
	memcpy(word, at, len);
	word[len] = '\0';
	return parse_u64(word, ret);
}

bool proc_stat_parse(const char *text, struct proc_stat *ret)
{
	/* Fields of proc_pid_stat(5): 4 ppid, 22 starttime, 26 startcode, 28 startstack. */
	uint64_t parent = 0, start, code = 0, stack = 0;

	if (!stat_word(text, 22, &start))
		return false;
	(void)stat_word(text, 26, &code);
	(void)stat_word(text, 28, &stack);
	(void)stat_word(text, 4, &parent);
	ret->parent = parent <= UINT32_MAX ? (uint32_t)parent : 0;
	ret->start = start;
	/* Both are 0 or 1 if the arbiter may not see them, or if the process is about to end. */
	ret->image = code > 1 && stack > 1 ? code * UINT64_C(0x9e3779b97f4a7c15) ^ stack : 0;
	return true;
}

bool proc_stat(const char *procfs, uint32_t pid, struct proc_stat *ret)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(8192);

	return pid && read_proc_file(&b, procfs, pid, "stat") &&
	       proc_stat_parse(buf_str(&b), ret);
}

bool proc_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	int n;

	/* An interrupted poll() is no answer. */
	do
		n = poll(&p, 1, 0);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

uint32_t proc_ns_pid(const char *procfs, uint32_t pid)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64 * 1024);
	const char *line, *at;
	uint32_t ret = 0;
	char word[16];

	if (!read_proc_file(&b, procfs, pid, "status"))
		return 0;
	line = strstr(buf_str(&b), "\nNSpid:");
	if (!line)
		return 0;
	/* One number for each namespace, the innermost last. */
	for (at = line + strlen("\nNSpid:"); *at && *at != '\n';) {
		size_t len;

		at += strspn(at, " \t");
		len = strcspn(at, " \t\n");
		if (len == 0 || len >= sizeof(word))
			break;
		memcpy(word, at, len);
		word[len] = '\0';
		if (!parse_u32(word, &ret))
			return 0;
		at += len;
	}
	return ret;
}

void proc_printable(char *name)
{
	for (; *name; name++) {
		if (*name < 0x20 || *name > 0x7e)
			*name = '?';
	}
}

void proc_name(const char *procfs, uint32_t pid, char *ret)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);

	ret[0] = '\0';
	if (!read_proc_file(&b, procfs, pid, "comm"))
		return;
	(void)snprintf(ret, SLICE_NAME_MAX, "%.*s", (int)strcspn(buf_str(&b), "\n"),
		buf_str(&b));
	proc_printable(ret);
}

/*
 * Opens @path within the root directory @root. Its process can make anything of that directory. The lookup reaches
 * nothing outside @root. From Linux 5.12 on it waits for no file system: a mount point is always in the kernel's
 * cache.
 */
static int open_in_root(int root, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED };
	int fd = -1;

	for (int i = 0; i < ROOT_TRIES; i++) {
		fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
		if (fd >= 0)
			break;
		if (errno == EINVAL && (how.resolve & RESOLVE_CACHED))
			how.resolve &= ~(uint64_t)RESOLVE_CACHED; /* Linux before 5.12 */
		else if (errno != EAGAIN)
			break;
	}
	return fd;
}

bool proc_file_id(int fd, struct proc_file_id *ret)
{
	struct statx st;

	/* The kernel's cached values, without asking a remote or a FUSE server. */
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &st) < 0)
		return false;
	*ret = (struct proc_file_id){ .dev = makedev(st.stx_dev_major, st.stx_dev_minor),
		.ino = st.stx_ino,
		.type = st.stx_mode & S_IFMT };
	return true;
}

bool proc_file_id_equal(const struct proc_file_id *a, const struct proc_file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->type == b->type;
}

enum proc_dir_result proc_slice_dir(const char *procfs, uint32_t pid, struct proc_file_id *ret)
{
	CLEANUP(closep) int root = -1;
	CLEANUP(closep) int dir = -1;
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%u/root", procfs, pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return errno == ENOENT || errno == ESRCH ? PROC_DIR_ABSENT
							 : PROC_DIR_UNREADABLE;
	dir = open_in_root(root, SLICE_CONTAINER_DIR);
	if (dir < 0)
		return errno == ENOSYS || errno == EPERM ? PROC_DIR_UNREADABLE
							 : PROC_DIR_ABSENT;
	return proc_file_id(dir, ret) ? PROC_DIR_FOUND : PROC_DIR_UNREADABLE;
}

void *proc_nearest(const char *procfs, uint32_t pid,
	void *(*find)(void *arg, const struct proc_file_id *dir), void *arg)
{
	struct proc_file_id dir;
	struct proc_stat st;

	/* The node's first process belongs to no slice. */
	for (int i = 0; pid > 1 && i < PROC_ANCESTORS; i++) {
		void *found = NULL;

		if (proc_slice_dir(procfs, pid, &dir) == PROC_DIR_FOUND)
			found = find(arg, &dir);
		if (found)
			/* cppcheck-suppress returnDanglingLifetime */
			return found; /* belongs to @find, not to @dir */
		if (!proc_stat(procfs, pid, &st))
			return NULL;
		pid = st.parent;
	}
	return NULL;
}

/* The device of memfds, which no process can mount. */
static bool memfd_device(dev_t *ret)
{
	CLEANUP(closep) int fd = memfd_create("gpuslice-device", MFD_CLOEXEC);
	struct proc_file_id id;

	if (fd < 0 || !proc_file_id(fd, &id))
		return false;
	*ret = id.dev;
	return true;
}

/*
 * Opens the file of a link of /proc/PID/fd, if it is a memfd. The process may have given this name to any file. So
 * the function opens it with O_PATH, checks it, and opens exactly what it checked. Opening a FIFO or a device
 * would block or have side effects. The open does not wait for a lease.
 */
static int open_memfd(int dir, const char *link, dev_t memfds)
{
	CLEANUP(closep) int fd = openat(dir, link, O_PATH | O_CLOEXEC);
	struct proc_file_id id;
	char path[40];

	if (fd < 0 || !proc_file_id(fd, &id) || id.type != S_IFREG || id.dev != memfds)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

bool proc_each_memfd(const char *procfs, uint32_t pid, const char *name, long *at,
	bool (*fn)(void *arg, int fd), void *arg)
{
	char path[PATH_MAX], link[PATH_MAX], wanted[64];
	unsigned int n_seen = 0, n_named = 0;
	const struct dirent *e = NULL;
	bool enough = false;
	dev_t memfds;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%s/%u/fd", procfs, pid);
	(void)snprintf(wanted, sizeof(wanted), "/memfd:%s (deleted)", name);
	dir = memfd_device(&memfds) ? opendir(path) : NULL;
	/* A position in this directory is a descriptor's number, and holds for any opendir(). */
	if (dir && at && *at)
		seekdir(dir, *at);
	while (dir && !enough && n_seen < PROC_FDS_MAX && n_named < PROC_MEMFDS_MAX &&
		(e = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
		int fd;

		n_seen++;
		if (n <= 0)
			continue;
		link[n] = '\0';
		if (strcmp(link, wanted) != 0)
			continue;
		n_named++;
		fd = open_memfd(dirfd(dir), e->d_name, memfds);
		if (fd >= 0)
			enough = fn(arg, fd);
	}
	if (at)
		*at = dir && e && !enough ? telldir(dir) : 0;
	if (dir)
		(void)closedir(dir);
	return enough || !e;
}
