/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/sched-link.h"

#include "container/sys.h"

#include <string.h>
#include <sys/mman.h>

#define UNREAD 0x5411 /* SIOCOUTQ; its header has too much else */

/* The descriptors of the parent. A child of fork has them open, and finds them only here. */
static struct own_fd inherited[3];

static struct turn_page *map_sched_page(int fd)
{
	struct turn_page *p = socket_map_page(fd, TURN_PAGE_BYTES);

	if (!p || (p->magic == TURN_PAGE_MAGIC && p->version == TURN_PAGE_VERSION &&
			  p->bytes == TURN_PAGE_BYTES && p->gpu_count <= SLICE_GPUS_MAX &&
			  p->gpu_count && p->serial))
		return p;
	(void)munmap(p, TURN_PAGE_BYTES);
	return NULL;
}

/* @page_fd: -1, or taken over. */
static enum gate_link_answer accept_sched_page(struct gate_link *l, int page_fd)
{
	struct turn_page *page = page_fd < 0 ? NULL : map_sched_page(page_fd);

	if (page && own_fd_set(&l->page_fd, page_fd)) {
		l->page = page;
		return GATE_LINK_UP;
	}
	if (page)
		(void)munmap(page, TURN_PAGE_BYTES);
	else if (page_fd >= 0)
		(void)sys_close(page_fd);
	warn_once(WARN_BAD_PAGE,
		"what the slice's arbiter sent is no page of turns, version %d",
		TURN_PAGE_VERSION);
	return GATE_LINK_REFUSED;
}

/* @page_fd: -1, or taken over. */
static enum gate_link_answer apply_sched_welcome(struct gate_link *l, struct slice_welcome *w,
	int page_fd)
{
	if (w->status == SLICE_OK && !l->page)
		return accept_sched_page(l, page_fd);
	if (page_fd >= 0)
		(void)sys_close(page_fd);
	if (w->status == SLICE_OK)
		return GATE_LINK_UP;
	/* No warning where scheduling was switched off meanwhile. */
	w->reason[sizeof(w->reason) - 1] = '\0';
	if (w->status != SLICE_REFUSED)
		warn_once(WARN_NOT_SCHEDULED, "not admitted to the turns of the slice: %s",
			w->reason[0] ? w->reason : "no reason was given");
	return GATE_LINK_REFUSED;
}

static void init_gate_link(struct gate_link *l)
{
	if (l->opened)
		return;
	l->opened = true;
	for (unsigned int i = 0; i < 3; i++)
		own_fd_close(&inherited[i]);
	if (!socket_find_dir(l->dir))
		l->dir[0] = '\0';
}

enum gate_link_answer gate_link_request(struct gate_link *l)
{
	uint32_t flags = SLICE_HELLO_TURNS | (l->page ? SLICE_HELLO_AGAIN : 0);
	struct slice_hello hello = { 0 };
	int fd;

	init_gate_link(l);
	own_fd_close(&l->pending);
	if (l->page && !own_fd_is(&l->page_fd))
		return GATE_LINK_PAGE_LOST;
	fd = l->dir[0] ? socket_connect(l->dir) : -1;
	if (fd < 0)
		return GATE_LINK_DOWN;
	l->pending_tag = ++l->tag;
	socket_hello(&hello, l->pending_tag, flags);
	/* A new connection has room for it. */
	if (!socket_send(fd, &hello, sizeof(hello), l->page ? l->page_fd.fd : -1, 0)) {
		(void)sys_close(fd);
		return GATE_LINK_DOWN;
	}
	if (!own_fd_set(&l->pending, fd))
		return GATE_LINK_DOWN;
	inherited[2] = l->pending;
	return GATE_LINK_PENDING;
}

/* Until @deadline; 0: without waiting. */
static enum gate_link_answer receive_sched_welcome(struct gate_link *l, int64_t deadline,
	struct own_fd *ret)
{
	const struct slice_head ask = { .tag = l->pending_tag };
	struct slice_welcome w = { 0 };
	enum gate_link_answer r = GATE_LINK_DOWN;
	int page_fd = -1;

	if (!own_fd_is(&l->pending))
		return GATE_LINK_DOWN;
	if (socket_receive(l->pending.fd, &ask, SLICE_WELCOME, &w, sizeof(w), &page_fd,
		    deadline))
		r = apply_sched_welcome(l, &w, page_fd);
	else if (page_fd >= 0)
		(void)sys_close(page_fd);
	else if (errno == ETIMEDOUT && !deadline)
		return GATE_LINK_PENDING;
	if (r == GATE_LINK_UP)
		*ret = l->pending;
	else
		own_fd_close(&l->pending);
	l->pending.have = false;
	inherited[0] = r == GATE_LINK_UP ? *ret : (struct own_fd){ 0 };
	inherited[1] = l->page_fd;
	inherited[2] = (struct own_fd){ 0 };
	return r;
}

enum gate_link_answer gate_link_poll_answer(struct gate_link *l, struct own_fd *ret)
{
	return receive_sched_welcome(l, 0, ret);
}

enum gate_link_answer gate_link_register(struct gate_link *l, int64_t deadline,
	struct own_fd *ret)
{
	enum gate_link_answer r = gate_link_request(l);

	return r == GATE_LINK_PENDING ? receive_sched_welcome(l, deadline, ret) : r;
}

void gate_link_close(struct gate_link *l)
{
	own_fd_close(&l->socket);
	own_fd_close(&l->pending);
	l->sent = l->sent_at_read = 0;
	l->packet_bytes = l->unread = 0;
	l->hung_since = l->progress_at = l->progress_sent = 0;
}

enum gate_link_sent gate_link_send_state(struct gate_link *l, struct slice_state *state)
{
	struct iovec v = { .iov_base = state, .iov_len = sizeof(*state) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	ssize_t n;

	if (!own_fd_is(&l->socket))
		return GATE_LINK_GONE;
	state->head = (struct slice_head){ .op = SLICE_STATE, .tag = ++l->tag };
	do
		n = syscall(SYS_sendmsg, l->socket.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof(*state)) {
		l->sent++;
		return GATE_LINK_SENT;
	}
	return n < 0 && (errno == EAGAIN || errno == ENOBUFS) ? GATE_LINK_FULL : GATE_LINK_GONE;
}

static int read_unread_bytes(const struct gate_link *l)
{
	int unread = 0;

	if (!own_fd_is(&l->socket) || syscall(SYS_ioctl, l->socket.fd, UNREAD, &unread))
		return 0;
	return unread;
}

bool gate_link_was_read(const struct gate_link *l)
{
	return !read_unread_bytes(l);
}

bool gate_link_is_being_read(struct gate_link *l)
{
	int unread = read_unread_bytes(l);
	uint64_t grown;
	bool r;

	if (unread > 0 && (!l->packet_bytes || unread < l->packet_bytes))
		l->packet_bytes = unread;
	/* The system counts all packets with one size. So much would be unread if the arbiter had read
	 * none. */
	grown = (uint64_t)l->unread + (l->sent - l->sent_at_read) * (uint64_t)l->packet_bytes;
	r = unread <= 0 || (uint64_t)unread < grown;
	l->unread = unread;
	l->sent_at_read = l->sent;
	return r;
}

bool gate_link_hung_up(const struct gate_link *l)
{
	struct pollfd p = { .fd = l->socket.fd, .events = POLLIN };
	struct timespec none = { 0 };

	/* The arbiter sends nothing on this connection, so input is its end. */
	return !own_fd_is(&l->socket) || syscall(SYS_ppoll, &p, 1L, &none, NULL, 0L) > 0;
}
