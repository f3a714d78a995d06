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

/*
 * Raises this process's soft limit of descriptors to @max, or to the hard limit where that is lower; one that is
 * higher already stays. Programs that are started later inherit it.
 */
void fd_limit_raise(unsigned max);
/* The soft limit, or UINT_MAX. */
unsigned fd_limit(void);
/* Whether @n more descriptors can be opened now. */
bool fd_has_free(unsigned n);
/* How many peers may have a descriptor of ours: @max, or a sixteenth of the limit where that is less, but 4. */
unsigned fd_peers(unsigned max);

/*
 * Takes the exclusive flock() of @fd and waits up to @wait_ns for it: a child that was forked by a holder that died may
 * have it a moment longer. Returns 0 or an errno; EWOULDBLOCK: another process has it; ECANCELED: *@stop became other
 * than 0 (may be NULL).
 */
int fd_lock(int fd, uint64_t wait_ns, const volatile sig_atomic_t *stop) MUST_USE;

/*
 * Reads the whole of @path into @b. A file longer than the ceiling of @b is ERR_LIMIT; what is
 * neither a regular file, nor /dev/null, nor a link to one of them, is ERR_INVALID.
 */
int file_read(const char *path, struct buf *b, struct error *err) MUST_USE;

/* Reads all that comes from @fd, which messages call @name. More than the ceiling of @b is ERR_LIMIT. */
int fd_read_all(int fd, const char *name, struct buf *b, struct error *err) MUST_USE;

/*
 * Writes @path as a whole: temporary file beside it, fsync, rename. Readers see the old or the new
 * content, never a part; on any error the old file stays and nothing is left beside it. The
 * temporary file's name begins with a dot, for programs that read all others of a directory.
 */
int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode,
	struct error *err) MUST_USE;

/* Writes all of it, in spite of short writes and signals. */
int fd_write_all(int fd, const void *data, size_t len, struct error *err) MUST_USE;

/* mkdir -p with @mode for what is missing. */
int dir_make(const char *path, mode_t mode, struct error *err) MUST_USE;

/*
 * Makes the directory @path, whose parent exists, and gives it our user and exactly @mode, also where it existed
 * before: for directories whose mode keeps others out.
 */
int dir_make_exact(const char *path, mode_t mode, struct error *err) MUST_USE;

/* "dir/name" into @ret of @cap bytes; ERR_LIMIT if it does not fit. */
int path_join(char *ret, size_t cap, const char *dir, const char *name,
	struct error *err) MUST_USE;
