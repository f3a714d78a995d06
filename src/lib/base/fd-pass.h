/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Descriptors that go with a message over a Unix socket (SCM_RIGHTS). Both calls repeat after a signal and
 * never raise SIGPIPE. Received descriptors are close-on-exec. Thread: any.
 */
#include "lib/base/cleanup.h"

#include <stddef.h>
#include <sys/types.h>

#define FD_PASS_MAX 253 /* descriptors of one message: SCM_MAX_FD of Linux */

/*
 * Sends one message of @len bytes with the @n_fds descriptors @fds, which stay the caller's. @flags: as of
 * sendmsg(). Returns the sent bytes, or -1 with errno; EINVAL: more than FD_PASS_MAX. Without descriptors the
 * system call is send(), which a seccomp filter can permit alone. One descriptor that may be -1:
 *
 *	fd_pass_send(sock, data, len, &fd, fd >= 0, 0)
 */
ssize_t fd_pass_send(int sock, const void *data, size_t len, const int *fds, size_t n_fds,
	int flags);

/*
 * Receives one message of at most @cap bytes, with at most @room descriptors. @flags: as of recvmsg(). Returns
 * the bytes, or -1 with errno.
 *
 * @fds: @room numbers. The first ones are the descriptors, which the caller owns whatever the result is; the
 * others are -1.
 *
 * *ret_flags: MSG_TRUNC, the message was longer. MSG_CTRUNC, it had more descriptors than @room, or than this
 * process may open. The call drops those: it opens none that it does not return. To drop the last reference to
 * a file closes the file, which can block. With MSG_PEEK the message keeps a reference.
 *
 * The socket must not have SO_PASSCRED if @room is not 0, as credentials would take the place of descriptors.
 */
ssize_t fd_pass_receive(int sock, void *data, size_t cap, int *fds, size_t room, int flags,
	int *ret_flags) MUST_USE;
