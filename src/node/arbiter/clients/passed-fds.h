/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Descriptors that processes pass (SCM_RIGHTS).
 *
 * Why. To close such a descriptor takes as long as its owner likes: a socket that lingers, a file of a FUSE
 * server. The kernel closes a descriptor in the call that drops its last reference. That may be close(), a
 * recv() without room for the descriptor, or the close() of a socket whose queue holds it. The loop does none
 * of these.
 *
 * 1. The loop reads a packet while the packet lies in the queue (MSG_PEEK).
 * 2. If the packet has unexpected descriptors, the loop leaves it there and calls passed_fds_close().
 * 3. Another thread closes the socket and its descriptors, then tells the loop.
 *
 * Until step 3 ends, the socket counts as a connection of its slice. So a slice has no more such sockets than
 * connections, and uses up no room but its own.
 *
 * Threads. Each slice with such sockets has one thread, which closes them one after the other: a slow one
 * delays only its own slice. Another thread empties the slice's pages (pages.c), because a process can hold the
 * lock for that as long as it likes.
 *
 * Thread: loop. Blocks: never.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

struct passed_fds;
struct arbiter_slice;

/* NULL: no memory. */
struct passed_fds *passed_fds_new(uv_loop_t *loop,
	void (*closed)(struct arbiter_slice *s, bool counted), struct error *err);
/* Descriptors that a thread is still closing go with this program. The handle of @f closes as the loop runs.
 * Returns NULL. */
struct passed_fds *passed_fds_stop(struct passed_fds *f);

/* The next packet has descriptors. */
#define PASSED_FDS_PRESENT (-2)

/* As recv() without waiting, into @cap bytes. Returns PASSED_FDS_PRESENT and leaves the packet in the queue if
 * it has descriptors. *cut: the packet was longer. */
ssize_t passed_fds_receive(int sock, void *data, size_t cap, bool *cut);

/* As recv(), but leaves the packet in the queue. *fd: the packet's first descriptor, owned by the caller, or
 * -1. *more: the packet has further descriptors. */
ssize_t passed_fds_peek(int sock, void *data, size_t cap, int *fd, bool *more);

/* Takes the peeked packet. The caller has another reference to its descriptor. */
void passed_fds_take_packet(int sock);

/* Ends the connection. Closes *sock unless a packet in its queue may have descriptors. False: one may. */
bool passed_fds_hang_up(int *sock);

/* Another thread closes @sock, a connection of @s, and @fd, the descriptor that came with it (-1: none). Then
 * the loop calls .closed(@s, @counted). Without memory both stay open. */
void passed_fds_close(struct passed_fds *f, struct arbiter_slice *s, bool counted, int sock,
	int fd);

/* Starts a thread for what waits, if the system could not start one before. Call it now and then. */
void passed_fds_retry(struct passed_fds *f);

/*
 * Frees the memory of the first @bytes of the memfd @fd, on the thread of @owner, which must exist until then.
 * Then closes @fd, and the loop calls @emptied(@arg, -1). If that fails, the loop calls @emptied(@arg, @fd),
 * and the caller owns @fd again. False: no memory, and the caller still owns @fd.
 */
bool passed_fds_empty_memfd(struct passed_fds *f, const void *owner, int fd, off_t bytes,
	void (*emptied)(void *arg, int fd), void *arg);
