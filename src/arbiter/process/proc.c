/* SPDX-License-Identifier: Apache-2.0 */
#include "arbiter/process/proc.h"

#include "abi/slice-dir.h"
#include "arbiter/slice-file.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* file_read() wants a size; files of procfs have none, and may be shorter at each read. */
static bool read_file(struct buf *b, const char *procfs, uint32_t pid, const char *name)
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

/* The @index-th word after the name in brackets, which may itself have brackets and blanks. */
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
	/* Both are 0 or 1 where we may not see them, or where the process is about to end. */
	ret->image = code > 1 && stack > 1 ? code * UINT64_C(0x9e3779b97f4a7c15) ^ stack : 0;
	return true;
}

bool proc_stat(const char *procfs, uint32_t pid, struct proc_stat *ret)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(8192);

	return pid && read_file(&b, procfs, pid, "stat") && proc_stat_parse(buf_str(&b), ret);
}

bool proc_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	int n;

	/* A signal that comes just now is no answer. */
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

	if (!read_file(&b, procfs, pid, "status"))
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
	if (!read_file(&b, procfs, pid, "comm"))
		return;
	(void)snprintf(ret, SLICE_NAME_MAX, "%.*s", (int)strcspn(buf_str(&b), "\n"),
		buf_str(&b));
	proc_printable(ret);
}

/* "…/slices/<id>" */
static bool slice_of_root(const char *root, size_t len, char ret[SLICE_ID_MAX])
{
	static const char above[] = "/" SLICES_DIR "/";
	char id[33];

	if (len < sizeof(above) - 1 + 32 ||
		memcmp(root + len - 32 - (sizeof(above) - 1), above, sizeof(above) - 1) != 0)
		return false;
	memcpy(id, root + len - 32, 32);
	id[32] = '\0';
	if (!slice_id_valid(id))
		return false;
	memcpy(ret, id, sizeof(id));
	return true;
}

bool proc_slice_parse(const char *mountinfo, char ret[SLICE_ID_MAX])
{
	bool found = false;

	/* ID, parent, device, root, mount point, ...; the last one at a place covers those before. */
	while (*mountinfo) {
		const char *at = mountinfo, *root = NULL;
		size_t end = strcspn(mountinfo, "\n"), root_len = 0;

		for (int i = 0; i < 4; i++) {
			size_t len = strcspn(at, " \n");

			if (i == 3) {
				root = at;
				root_len = len;
			}
			at += len;
			at += *at == ' ';
		}
		if (strcspn(at, " \n") == strlen(SLICE_CONTAINER_DIR) &&
			!strncmp(at, SLICE_CONTAINER_DIR, strlen(SLICE_CONTAINER_DIR)))
			found = slice_of_root(root, root_len, ret);
		mountinfo += end;
		mountinfo += *mountinfo == '\n';
	}
	return found;
}

bool proc_slice(const char *procfs, uint32_t pid, char ret[SLICE_ID_MAX])
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(PROC_MOUNTS_MAX);

	return read_file(&b, procfs, pid, "mountinfo") && proc_slice_parse(buf_str(&b), ret);
}

bool proc_slice_nearest(const char *procfs, uint32_t pid, char ret[SLICE_ID_MAX])
{
	struct proc_stat st;

	/* The node's first process is nobody's. */
	for (int i = 0; pid > 1 && i < PROC_ANCESTORS; i++) {
		if (proc_slice(procfs, pid, ret))
			return true;
		if (!proc_stat(procfs, pid, &st))
			return false;
		pid = st.parent;
	}
	return false;
}

void proc_boot_id(const char *procfs, char *ret, size_t cap)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);

	ret[0] = '\0';
	if (read_file(&b, procfs, 0, "sys/kernel/random/boot_id"))
		(void)snprintf(ret, cap, "%.*s", (int)strcspn(buf_str(&b), "\n"), buf_str(&b));
}

/*
 * Opens the memory behind a link of /proc/PID/fd anew, if it is what a memfd is made of. The process may have
 * put anything there under that name: so it is looked at first, and what was looked at is what is opened. To
 * open a FIFO or a device would block, or do something.
 */
static int open_memfd(int dir, const char *link)
{
	CLEANUP(closep) int fd = openat(dir, link, O_PATH | O_CLOEXEC);
	struct statfs fs;
	struct stat st;
	char path[40];

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fstatfs(fd, &fs) < 0 ||
		fs.f_type != TMPFS_MAGIC)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

void proc_each_memfd(const char *procfs, uint32_t pid, const char *name,
	bool (*fn)(void *arg, int fd), void *arg)
{
	char path[PATH_MAX], link[PATH_MAX], wanted[64];
	const struct dirent *e;
	bool enough = false;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%s/%u/fd", procfs, pid);
	(void)snprintf(wanted, sizeof(wanted), "/memfd:%s (deleted)", name);
	dir = opendir(path);
	for (int i = 0; dir && !enough && i < PROC_FDS_MAX && (e = readdir(dir)); i++) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
		int fd;

		if (n <= 0)
			continue;
		link[n] = '\0';
		if (strcmp(link, wanted) != 0)
			continue;
		fd = open_memfd(dirfd(dir), e->d_name);
		if (fd >= 0)
			enough = fn(arg, fd);
	}
	if (dir)
		(void)closedir(dir);
}
