/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Unix stream sockets by path: listening without a moment in which the name leads nowhere,
 * connecting, and knowing whether a name still means the same socket.
 * Thread: any. Blocks: never.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define UNIX_PATH_MAX_LEN 107 /* sun_path less its NUL */

/*
 * Which file a name means. File systems reuse inode numbers at once (ext4 gives a deleted socket's
 * number to the next), so the time of birth is part of it, where the file system notes births.
 */
struct file_id {
	uint64_t dev, ino;
	int64_t sec;
	uint32_t nsec;
};

/* Of a link, not of what it leads to: ask for "<dir>/." to get a directory. False: no such file. */
bool file_id_get(const char *path, struct file_id *ret);
bool file_id_equal(const struct file_id *a, const struct file_id *b);

/* The path fits into a socket address; else ERR_LIMIT. */
int unix_path_check(const char *path, struct error *err) MUST_USE;

/* A connected, non-blocking descriptor. ERR_UNAVAILABLE: nobody listens there, or the queue of who
 * does is full; .sys has the errno. */
int unix_connect(const char *path, int *ret_fd, struct error *err) MUST_USE;

/*
 * The process that listens at the other end of a connected @fd, or whose connection it is, as a PID of our own PID
 * namespace; 0: it is in none that can be seen from ours; -1: not known.
 */
pid_t unix_peer_pid(int fd);

/*
 * A listening, non-blocking descriptor whose name appears only when it can be dialled: bound to a
 * temporary name beside @path and renamed. A socket that nobody serves is replaced, under both
 * names; one that answers is ERR_EXISTS, and a file that is no socket ERR_INVALID. This is no
 * lock: of two processes that begin at once the later can replace the earlier's socket, or fail.
 */
int unix_listen(const char *path, int *ret_fd, struct file_id *ret_id,
	struct error *err) MUST_USE;

/* The temporary name, the same each time: what somebody who was killed has left there, the next one
 * to listen at @path removes. Never longer than "<dir>/nvidia-x.sock". */
void unix_temporary_name(const char *path, char ret[static UNIX_PATH_MAX_LEN + 32]);

/* Removes @path if it is still @id. */
void unix_unlink(const char *path, const struct file_id *id);
