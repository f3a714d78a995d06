/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Unix stream sockets by path: listening without a moment in which the path leads nowhere, connecting, and
 * checking that a path still means the same socket.
 * Thread: any. Blocks: never.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define UNIX_PATH_MAX_LEN 107 /* sun_path less its NUL */

/*
 * Identifies the file that a path means. File systems reuse inode numbers at once: ext4 gives a deleted
 * socket's number to the next file. So the time of birth is included, if the file system records it.
 */
struct file_id {
	uint64_t dev, ino;
	int64_t sec;
	uint32_t nsec;
};

/* The id of the file @path; of a link, the id of the link itself, not of its target. Use "<dir>/." for a
 * directory. False: no such file. */
bool file_id_get(const char *path, struct file_id *ret);
bool file_id_equal(const struct file_id *a, const struct file_id *b);

/* Checks that the path fits into a socket address. ERR_LIMIT: it does not. ERR_INVALID: it is empty. */
int unix_path_check(const char *path, struct error *err) MUST_USE;

/* Returns a connected, non-blocking descriptor. ERR_UNAVAILABLE: no process listens there, or the listener's
 * queue is full; .sys has the errno. */
int unix_connect(const char *path, int *ret_fd, struct error *err) MUST_USE;

/* The PID of the process that listens at the other end of a connected @fd, or that made the connection. It
 * is a PID of the caller's PID namespace. 0: the process has no PID there. -1: unknown. */
pid_t unix_peer_pid(int fd);

/*
 * Returns a listening, non-blocking descriptor. Its path appears only when clients can connect: the socket is
 * bound to a temporary name beside @path and then renamed. Replaces a socket that no process serves, under both
 * names. ERR_EXISTS: a process serves it. ERR_INVALID: the file is no socket.
 *
 * This is no lock. If two processes listen at the same time, the later can replace the earlier's socket, or
 * fail.
 */
int unix_listen(const char *path, int *ret_fd, struct file_id *ret_id,
	struct error *err) MUST_USE;

/* The temporary name is the same each time, so the next process that listens at @path removes what a killed
 * process left. Never longer than "<dir>/nvidia-x.sock". */
void unix_temporary_name(const char *path, char ret[static UNIX_PATH_MAX_LEN + 32]);

/* Removes @path if it is still @id. */
void unix_unlink(const char *path, const struct file_id *id);
