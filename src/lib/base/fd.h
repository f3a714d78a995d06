/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Descriptors and whole files. Every descriptor is close-on-exec from birth. Thread: any. */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* For CLEANUP(closep) int fd = -1. Keeps errno. */
void closep(int *fd);

/* Moves the descriptor out of @fd, which becomes -1. */
static inline int steal_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

/* Raises this process's soft limit of descriptors to @max, or to the hard limit if that is lower. A higher
 * soft limit stays. Programs started later inherit it. */
void fd_limit_raise(unsigned max);
/* The soft limit, or UINT_MAX. */
unsigned fd_limit(void);
/* Whether @n more descriptors can be opened now. */
bool fd_has_free(unsigned n);
/* How many peers may have a descriptor of this process: @max, or a sixteenth of the limit if that is less,
 * but at least 4. */
unsigned fd_peers(unsigned max);

/*
 * Takes the exclusive flock() of @fd. Waits up to @wait_ns: a child that a dead holder forked may keep the lock
 * a moment longer. Returns 0 or an errno. EWOULDBLOCK: another process has the lock. ECANCELED: *@stop became
 * nonzero (@stop may be NULL).
 */
int fd_lock(int fd, uint64_t wait_ns, const volatile sig_atomic_t *stop) MUST_USE;

/* Reads the whole of @path into @b. ERR_LIMIT: the file is longer than the limit of @b. ERR_INVALID: @path
 * is neither a regular file, nor /dev/null, nor a link to one of them. */
int file_read(const char *path, struct buf *b, struct error *err) MUST_USE;

/* Reads until the end of @fd, which messages call @name. ERR_LIMIT: more than the limit of @b. */
int fd_read_all(int fd, const char *name, struct buf *b, struct error *err) MUST_USE;

/*
 * Writes @path as a whole: a temporary file beside it, fsync, rename. Readers see the old or the new content,
 * never a part. On an error the old file stays and no temporary file remains. The temporary file's name begins
 * with a dot, for programs that read every other file of a directory.
 */
int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode,
	struct error *err) MUST_USE;

/* Writes all @len bytes, in spite of short writes and signals. */
int fd_write_all(int fd, const void *data, size_t len, struct error *err) MUST_USE;

/* Makes @path and its missing parents with @mode, like mkdir -p. */
int dir_make(const char *path, mode_t mode, struct error *err) MUST_USE;

/* Makes the directory @path in its parent, which exists. Gives the directory this process's user and exactly
 * @mode, even if it existed: for directories that keep other users out by their mode. */
int dir_make_exact(const char *path, mode_t mode, struct error *err) MUST_USE;

/* "dir/name" into @ret of @cap bytes; ERR_LIMIT if it does not fit. */
int path_join(char *ret, size_t cap, const char *dir, const char *name,
	struct error *err) MUST_USE;
