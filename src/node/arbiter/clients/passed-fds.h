/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Descriptors that processes pass along (SCM_RIGHTS). To close one takes as long as its owner likes: a socket that
 * lingers, a file of a FUSE server. The kernel closes it in the call that drops its last reference: close(), and also
 * a recv() without room for it, and the close() of a socket in whose queue it lies. So the loop does none of these.
 * A packet is looked at while it lies in the queue (MSG_PEEK); with descriptors that are not expected it stays
 * there, and the socket goes to another thread, which closes both (passed_fds_close()).
 *
 * Such a socket counts as one of its slice's connections until it is closed. So a slice has no more of them than
 * connections, and uses up no room but its own. Each slice with such sockets has one thread, which closes them one after
 * the other: a slow one delays those of its own slice only. Another thread empties its pages (pages.c), as the lock
 * that this takes is one that a process can hold as long as it likes.
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
/* What is being closed then goes with this program. Its handle closes as the loop runs. NULL */
struct passed_fds *passed_fds_stop(struct passed_fds *f);

/* The next packet has descriptors. */
#define PASSED_FDS_PRESENT (-2)

/* As recv() without waiting, into @cap bytes, or PASSED_FDS_PRESENT, and then the packet is still there. *cut: it was longer. */
ssize_t passed_fds_receive(int sock, void *data, size_t cap, bool *cut);

/*
 * Looks at the next packet as recv() without taking it. *fd: the first descriptor that it has, owned, or -1; *more:
 * it has others.
 */
ssize_t passed_fds_peek(int sock, void *data, size_t cap, int *fd, bool *more);

/* Takes the packet that was looked at, with a descriptor of which we have another reference. */
void passed_fds_take_packet(int sock);

/* Ends the connection, and closes its descriptor where no packet in its queue may have descriptors; false: one may. */
bool passed_fds_hang_up(int *sock);

/* Closes both, of the connection @sock of @s and what came with it (-1: nothing), on another thread; then calls
 * .closed(@s, @counted) on the loop. Where it cannot, because there is no memory, they stay open. */
void passed_fds_close(struct passed_fds *f, struct arbiter_slice *s, bool counted, int sock,
	int fd);

/*
 * Takes the memory of the first @bytes of the memfd @fd away, on the thread of @owner, which must be there until then;
 * then calls @emptied(@arg, -1) on the loop, and @fd is closed. Where it cannot, it calls @emptied(@arg, @fd), and
 * @fd is the caller's again. False: no memory, and @fd is still the caller's.
 */
bool passed_fds_empty_memfd(struct passed_fds *f, const void *owner, int fd, off_t bytes,
	void (*emptied)(void *arg, int fd), void *arg);
