/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/time.h"

#define LOCK_POLL_NS (50 * NS_PER_MS)

void closep(int *fd)
{
	int keep = errno;

	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
	errno = keep;
}

static bool is_dev_null(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

int fd_read_all(int fd, const char *name, struct buf *b, struct error *err)
{
	char chunk[16384];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_sys(err, errno, "read '%s'", name);
		if (n == 0)
			return 0;
		buf_add(b, chunk, (size_t)n);
		if (!buf_ok(b))
			return error_set(err, ERR_LIMIT,
				"read '%s': the file is larger than the limit of %zu bytes",
				name, b->max);
	}
}

/* --- limits --- */

#define PEERS_PART 16
#define PEERS_MIN  4

void fd_limit_raise(unsigned max)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur >= max)
		return;
	r.rlim_cur = r.rlim_max < max ? r.rlim_max : max;
	(void)setrlimit(RLIMIT_NOFILE, &r);
}

unsigned fd_limit(void)
{
	struct rlimit r;

	return getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur > UINT_MAX ? UINT_MAX
									 : (unsigned)r.rlim_cur;
}

/* Each call holds its descriptor open during the next call, so no list of descriptors is needed to close
 * them all. */
bool fd_has_free(unsigned n)
{
	CLEANUP(closep) int fd = n > 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;

	return n == 0 || (fd >= 0 && fd_has_free(n - 1));
}

unsigned fd_peers(unsigned max)
{
	unsigned part = fd_limit() / PEERS_PART;

	part = part > PEERS_MIN ? part : PEERS_MIN;
	return part < max ? part : max;
}

int file_read(const char *path, struct buf *b, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	struct stat st;

	/* O_NONBLOCK: a FIFO in place of a file must not block this thread. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return error_sys(err, errno, "open '%s'", path);
	if (fstat(fd, &st) < 0)
		return error_sys(err, errno, "stat '%s'", path);
	/* /dev/null is an empty file: NVIDIA's config-manager links it for "no config". */
	if (!S_ISREG(st.st_mode) && !is_dev_null(&st))
		return error_set(err, ERR_INVALID,
			"read '%s': expected a regular file, found %s", path,
			S_ISDIR(st.st_mode) ? "a directory" : "something else");
	return fd_read_all(fd, path, b, err);
}

int fd_write_all(int fd, const void *data, size_t len, struct error *err)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_sys(err, errno, "write");
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

/* For messages: a repeated failure keeps the same text, and is not reported again. */
static void name_pattern(char *tmp)
{
	memset(tmp + strlen(tmp) - 6, 'X', 6);
}

int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode,
	struct error *err)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	CLEANUP(closep) int fd = -1;
	char tmp[PATH_MAX];
	int n;

	n = snprintf(tmp, sizeof(tmp), "%.*s.%s.XXXXXX", (int)(name - path), path, name);
	if (n < 0 || (size_t)n >= sizeof(tmp))
		return error_set(err, ERR_LIMIT, "write '%s': the path is too long", path);
	fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0) {
		int e = errno;

		name_pattern(tmp);
		return error_sys(err, e, "create '%s'", tmp);
	}
	if (fd_write_all(fd, data, len, err) < 0) {
		(void)error_prefix(err, "'%s'", path);
		goto undo;
	}
	if (fchmod(fd, mode) < 0 || fsync(fd) < 0) {
		(void)error_sys(err, errno, "write '%s'", path);
		goto undo;
	}
	if (rename(tmp, path) < 0) {
		int e = errno;

		(void)unlink(tmp);
		name_pattern(tmp);
		return error_sys(err, e, "rename '%s' to '%s'", tmp, path);
	}
	return 0;
undo:
	(void)unlink(tmp);
	return -1;
}

int fd_lock(int fd, uint64_t wait_ns, const volatile sig_atomic_t *stop)
{
	uint64_t until = time_mono_ns() + wait_ns;
	struct timespec ts = { .tv_nsec = LOCK_POLL_NS };

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return errno;
		if (stop && *stop)
			return ECANCELED;
		if (time_mono_ns() >= until)
			return EWOULDBLOCK;
		(void)nanosleep(&ts, NULL);
	}
	return 0;
}

int dir_make(const char *path, mode_t mode, struct error *err)
{
	char part[PATH_MAX];
	size_t len = strlen(path);

	if (len == 0 || len >= sizeof(part))
		return error_set(err, ERR_INVALID, "create directory '%s': bad length", path);
	memcpy(part, path, len + 1);
	for (char *p = part + 1;; p++) {
		char keep = *p;

		if (keep != '/' && keep != '\0')
			continue;
		*p = '\0';
		if (mkdir(part, mode) < 0 && errno != EEXIST)
			return error_sys(err, errno, "create directory '%s'", part);
		if (keep == '\0')
			return 0;
		*p = keep;
	}
}

int dir_make_exact(const char *path, mode_t mode, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	struct stat st;

	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return error_sys(err, errno, "create directory '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_sys(err, errno, "open directory '%s'", path);
	if (st.st_uid != geteuid() && fchown(fd, geteuid(), (gid_t)-1) < 0)
		return error_sys(err, errno, "take directory '%s' from user %u", path,
			(unsigned int)st.st_uid);
	if ((st.st_mode & 07777) != mode && fchmod(fd, mode) < 0)
		return error_sys(err, errno, "set mode %o of directory '%s'",
			(unsigned int)mode, path);
	return 0;
}

int path_join(char *ret, size_t cap, const char *dir, const char *name, struct error *err)
{
	size_t len = strlen(dir);
	const char *sep = len > 0 && dir[len - 1] == '/' ? "" : "/";
	int n = snprintf(ret, cap, "%s%s%s", dir, sep, name);

	if (n < 0 || (size_t)n >= cap)
		return error_set(err, ERR_LIMIT, "'%s/%s' is longer than %zu bytes", dir, name,
			cap - 1);
	return 0;
}
