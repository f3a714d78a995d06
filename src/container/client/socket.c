/* SPDX-License-Identifier: Apache-2.0 */
#include "container/client/socket.h"

#include "abi/slice-dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/un.h>

#ifndef F_GET_SEALS
#	define F_GET_SEALS 1034
#endif
#ifndef F_SEAL_SHRINK
#	define F_SEAL_SHRINK 2
#	define F_SEAL_GROW   4
#endif

bool own_fd_is(const struct own_fd *o)
{
	struct stat st;

	return o->have && !sys_fstat(o->fd, &st) && st.st_dev == o->dev && st.st_ino == o->ino;
}

void own_fd_close(struct own_fd *o)
{
	if (own_fd_is(o))
		(void)sys_close(o->fd);
	o->have = false;
}

bool own_fd_set(struct own_fd *o, int fd)
{
	struct stat st;

	if (sys_fstat(fd, &st)) {
		(void)sys_close(fd);
		return false;
	}
	*o = (struct own_fd){ .have = true, .fd = fd, .dev = st.st_dev, .ino = st.st_ino };
	return true;
}

bool socket_find_dir(char ret[static SOCKET_DIR_MAX])
{
	const char *dir = SLICE_CONTAINER_DIR;

	if (access(dir, F_OK) && (errno == ENOENT || errno == ENOTDIR))
		dir = secure_getenv(SLICE_DIR_VARIABLE);
	if (!dir || !*dir)
		return false;
	(void)snprintf(ret, SOCKET_DIR_MAX, "%s", dir);
	return true;
}

/* If the path of the socket is too long for an address, the function opens the directory and names the socket by
 * /proc/self/fd. */
int socket_connect(const char *dir)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = (int)syscall(SYS_socket, AF_UNIX,
		SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int at = -1, r;

	if (fd < 0)
		return -1;
	if (strlen(dir) + sizeof("/" SLICE_SOCKET) <= sizeof(a.sun_path)) {
		(void)snprintf(a.sun_path, sizeof(a.sun_path), "%.*s/" SLICE_SOCKET,
			(int)(sizeof(a.sun_path) - sizeof("/" SLICE_SOCKET)), dir);
	} else {
		at = sys_open(dir, O_PATH | O_DIRECTORY);
		(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/" SLICE_SOCKET,
			at);
	}
	r = sys_connect(fd, &a, sizeof(a));
	if (at >= 0)
		(void)sys_close(at);
	if (!r)
		return fd;
	(void)sys_close(fd);
	return -1;
}

bool socket_send(int fd, const void *packet, size_t len, int pass, int64_t deadline)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec v = { .iov_len = len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	memcpy(&v.iov_base, &packet, sizeof(packet)); /* an iovec has no const */
	if (pass >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		control.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
			.cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(&control.head), &pass, sizeof(pass));
	}
	return sys_sendmsg(fd, &m, deadline) == (ssize_t)len;
}

/* Keeps the first descriptor that came, unless @ret is NULL or has one. Closes all others. */
static void receive_first_fd(struct msghdr *m, int *ret)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = c->cmsg_len < CMSG_LEN(0)
				   ? 0
				   : (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (ret && *ret < 0)
				*ret = fd;
			else
				(void)sys_close(fd);
		}
	}
}

bool socket_receive(int fd, const struct slice_head *ask, uint32_t op, void *packet, size_t len,
	int *passed, int64_t deadline)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(4 * sizeof(int))];
	} control = { 0 };
	struct iovec v = { .iov_base = packet, .iov_len = len };
	struct msghdr m = { .msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	ssize_t n = sys_recvmsg(fd, &m, deadline);
	struct slice_head head = { 0 };

	if (n < 0)
		return false;
	receive_first_fd(&m, passed);
	if (n >= (ssize_t)sizeof(head))
		memcpy(&head, packet, sizeof(head));
	if (n == (ssize_t)len && !(m.msg_flags & MSG_TRUNC) && head.op == op &&
		head.tag == ask->tag)
		return true;
	errno = n ? EPROTO : EPIPE;
	return false;
}

void socket_hello(struct slice_hello *h, uint32_t tag, uint32_t flags)
{
	int fd = sys_open("/proc/self/comm", O_RDONLY);
	ssize_t n = fd < 0 ? 0 : sys_read(fd, h->name, sizeof(h->name) - 1);

	if (fd >= 0)
		(void)sys_close(fd);
	h->name[n > 0 ? n : 0] = '\0';
	h->name[strcspn(h->name, "\n")] = '\0';
	h->head = (struct slice_head){ .op = SLICE_HELLO, .tag = tag };
	h->version = SLICE_WIRE_VERSION;
	h->flags = flags;
	h->pid = (uint32_t)getpid();
}

void *socket_map_page(int fd, size_t bytes)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	struct stat st;
	void *p;

	if (sys_fstat(fd, &st) || st.st_size != (off_t)bytes ||
		(syscall(SYS_fcntl, fd, F_GET_SEALS, 0L) & seals) != seals)
		return NULL;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (!madvise(p, bytes, MADV_DONTFORK))
		return p;
	(void)munmap(p, bytes);
	return NULL;
}
