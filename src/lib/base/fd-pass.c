/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/fd-pass.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union fd_control {
	struct cmsghdr head;
	char room[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
};

static ssize_t send_message(int sock, const struct msghdr *m, int flags)
{
	ssize_t n;

	do
		n = sendmsg(sock, m, flags | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

static ssize_t send_plain(int sock, const void *data, size_t len, int flags)
{
	ssize_t n;

	do
		n = send(sock, data, len, flags | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

ssize_t fd_pass_send(int sock, const void *data, size_t len, const int *fds, size_t n_fds,
	int flags)
{
	union fd_control c = { .room = { 0 } };
	/* The cast away from const serves the type of an iovec only. */
	struct iovec part = { .iov_base = (void *)(uintptr_t)data, .iov_len = len };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &c };

	if (n_fds == 0)
		return send_plain(sock, data, len, flags);
	if (n_fds > FD_PASS_MAX) {
		errno = EINVAL;
		return -1;
	}
	m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	c.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
		.cmsg_len = CMSG_LEN(n_fds * sizeof(int)) };
	memcpy(CMSG_DATA(&c.head), fds, n_fds * sizeof(int));
	return send_message(sock, &m, flags);
}

/* Moves the descriptors of a message to @fds. Closes what does not fit, which the kernel should not have
 * opened. */
static void take_descriptors(struct msghdr *m, int *fds, size_t room)
{
	size_t n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len;
			at += sizeof(int)) {
			int fd;

			memcpy(&fd, (const char *)c + at, sizeof(fd));
			if (n < room)
				fds[n++] = fd;
			else
				(void)close(fd);
		}
	}
}

ssize_t fd_pass_receive(int sock, void *data, size_t cap, int *fds, size_t room, int flags,
	int *ret_flags)
{
	union fd_control c;
	struct iovec part = { .iov_base = data, .iov_len = cap };
	struct msghdr m;
	ssize_t n;

	for (size_t i = 0; i < room; i++)
		fds[i] = -1;
	if (room > FD_PASS_MAX)
		room = FD_PASS_MAX;
	do {
		/* CMSG_LEN(), not CMSG_SPACE(): the padding would have room for one more descriptor. */
		m = (struct msghdr){ .msg_iov = &part,
			.msg_iovlen = 1,
			.msg_control = room ? &c : NULL,
			.msg_controllen = room ? CMSG_LEN(room * sizeof(int)) : 0 };
		n = recvmsg(sock, &m, flags | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	*ret_flags = n < 0 ? 0 : m.msg_flags;
	if (n >= 0)
		take_descriptors(&m, fds, room);
	return n;
}
