/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/unix-socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/fd.h"

bool file_id_get(const char *path, struct file_id *ret)
{
	struct statx st;

	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_TYPE | STATX_BTIME,
		    &st) < 0)
		return false;
	*ret = (struct file_id){
		.dev = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor,
		.ino = st.stx_ino,
	};
	/* A chmod or a new entry changes any other time, but the file is still the same. */
	if (st.stx_mask & STATX_BTIME) {
		ret->sec = st.stx_btime.tv_sec;
		ret->nsec = st.stx_btime.tv_nsec;
	}
	return true;
}

bool file_id_equal(const struct file_id *a, const struct file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->sec == b->sec && a->nsec == b->nsec;
}

static int set_unix_address(const char *path, struct sockaddr_un *ret, struct error *err)
{
	size_t len = strlen(path);

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (len > UNIX_PATH_MAX_LEN)
		return error_set(err, ERR_LIMIT,
			"socket path '%s' has %zu bytes; a unix socket's path has at most %d",
			path, len, UNIX_PATH_MAX_LEN);
	if (len == 0)
		return error_set(err, ERR_INVALID, "socket path is empty");
	memcpy(ret->sun_path, path, len + 1);
	return 0;
}

int unix_path_check(const char *path, struct error *err)
{
	struct sockaddr_un sa;

	return set_unix_address(path, &sa, err);
}

int unix_connect(const char *path, int *ret_fd, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	struct sockaddr_un sa;

	if (set_unix_address(path, &sa, err) < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_sys(err, errno, "socket for '%s'", path);
	/* connect() on a unix socket is never "in progress": EAGAIN means a full queue. */
	if (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0) {
		int sys = errno;

		(void)error_sys(err, sys, "connect '%s'", path);
		if (err && (sys == ENOENT || sys == ECONNREFUSED || sys == EAGAIN))
			err->code = ERR_UNAVAILABLE;
		return -1;
	}
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* The kernel translates the PID into the PID namespace of the caller. */
pid_t unix_peer_pid(int fd)
{
	struct ucred c;
	socklen_t len = sizeof(c);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) < 0 ? -1 : c.pid;
}

/* Whether @path may be replaced: nothing is there, or a socket that no process serves. */
static int check_path_replaceable(const char *path, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	struct error e = ERROR_INIT;
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : error_sys(err, errno, "stat '%s'", path);
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, ERR_INVALID, "'%s' exists and is no socket; move it away",
			path);
	if (unix_connect(path, &fd, &e) == 0 || e.sys == EAGAIN)
		return error_set(err, ERR_EXISTS, "another process serves '%s'", path);
	if (e.sys == ECONNREFUSED || e.sys == ENOENT)
		return 0;
	error_copy(err, &e);
	return -1;
}

void unix_temporary_name(const char *path, char ret[static UNIX_PATH_MAX_LEN + 32])
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	uint32_t hash = 2166136261;

	for (const char *c = name; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 16777619;
	(void)snprintf(ret, UNIX_PATH_MAX_LEN + 32, "%.*s.gs%08x", (int)(name - path), path,
		hash);
}

/* Removes what a process left that was killed between bind() and rename(). */
static int temporary_address(const char *path, struct sockaddr_un *ret, struct error *err)
{
	char name[UNIX_PATH_MAX_LEN + 32];

	unix_temporary_name(path, name);
	if (set_unix_address(name, ret, err) < 0 || check_path_replaceable(name, err) < 0)
		return -1;
	if (unlink(name) < 0 && errno != ENOENT)
		return error_sys(err, errno, "unlink '%s'", name);
	return 0;
}

int unix_listen(const char *path, int *ret_fd, struct file_id *ret_id, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	struct sockaddr_un sa;
	struct file_id bound;

	/* Checks @path itself first, so that the error is about the caller's path. */
	if (set_unix_address(path, &sa, err) < 0 || check_path_replaceable(path, err) < 0 ||
		temporary_address(path, &sa, err) < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_sys(err, errno, "socket for '%s'", path);
	if (bind(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0)
		return error_sys(err, errno, "bind '%s'", path);
	if (!file_id_get(sa.sun_path, &bound))
		return error_set(err, ERR_UNAVAILABLE, "'%s' was deleted at once", sa.sun_path);
	if (listen(fd, 128) < 0 || rename(sa.sun_path, path) < 0) {
		int sys = errno;

		(void)unlink(sa.sun_path);
		return error_sys(err, sys, "listen on '%s'", path);
	}
	/* Two processes that listen at the same time use the same temporary name: this socket is the other
	 * process's. */
	if (!file_id_get(path, ret_id) || !file_id_equal(&bound, ret_id))
		return error_set(err, ERR_UNAVAILABLE, "'%s' was deleted or replaced at once",
			path);
	*ret_fd = steal_fd(&fd);
	return 0;
}

void unix_unlink(const char *path, const struct file_id *id)
{
	struct file_id now;

	if (file_id_get(path, &now) && file_id_equal(&now, id))
		(void)unlink(path);
}
