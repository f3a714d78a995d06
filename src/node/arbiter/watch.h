/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Descriptors on the loop, each owned and with one callback; listening sockets. Thread: loop. Blocks: never. */
#include "lib/base/error.h"

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

struct fd_watch {
	uv_poll_t poll;
	int fd; /* owned; other code may read from it, but not close it */
	void (*fn)(void *arg);
	void *arg;
};

/*
 * Calls @fn with @arg whenever @fd is readable or has hung up, until fd_watch_stop() or fd_watch_release(). @fn
 * may call both. The caller ends the watch with one of the two. On success the watch owns @fd, on an error the
 * caller does. Errors: ERR_NOMEM; those of libuv.
 */
int fd_watch_start(struct fd_watch **ret, uv_loop_t *loop, int fd, void (*fn)(void *arg),
	void *arg, struct error *err) MUST_USE;

/* While paused, .fn is not called. What came in that time is reported after the pause. */
void fd_watch_pause(struct fd_watch *w, bool paused);

/*
 * Ends the watch and closes its descriptor. @w may be NULL. The memory is freed as the loop runs. Returns NULL.
 */
struct fd_watch *fd_watch_stop(struct fd_watch *w);

/* Ends the watch, as fd_watch_stop(), but returns the descriptor, which the caller owns. */
int fd_watch_release(struct fd_watch *w);

/*
 * A socket of @type (SOCK_STREAM, SOCK_SEQPACKET) that listens as @name, with @mode, in the directory @dir.
 * @name is a constant of at most 40 bytes. The new socket replaces an older one atomically: a client that
 * connects finds the old or the new one. Returns the descriptor, which is non-blocking and the caller's, or -1.
 * Errors: those of the system.
 */
int socket_listen(const char *dir, const char *name, int type, mode_t mode,
	struct error *err) MUST_USE;
