/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/turn-link.h"

#include "container/client/warn.h"

#include <string.h>
#include <sys/mman.h>

#define UNREAD 0x5411 /* SIOCOUTQ; its header has too much else */

/* The parent's descriptors, which its child has open but knows of only by this. */
static struct own_fd inherited[3];

static struct turn_page *map_page(int fd)
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
static enum turn_link_answer take_page(struct turn_link *l, int page_fd)
{
	struct turn_page *page = page_fd < 0 ? NULL : map_page(page_fd);

	if (page && own_fd_set(&l->page_fd, page_fd)) {
		l->page = page;
		return TURN_LINK_UP;
	}
	if (page)
		(void)munmap(page, TURN_PAGE_BYTES);
	else if (page_fd >= 0)
		(void)sys_close(page_fd);
	warn_once(WARN_BAD_PAGE,
		"what the slice's arbiter sent is no page of turns, version %d",
		TURN_PAGE_VERSION);
	return TURN_LINK_REFUSED;
}

/* @page_fd: -1, or taken over. */
static enum turn_link_answer welcome(struct turn_link *l, struct slice_welcome *w, int page_fd)
{
	if (w->status == SLICE_OK && !l->page)
		return take_page(l, page_fd);
	if (page_fd >= 0)
		(void)sys_close(page_fd);
	if (w->status == SLICE_OK)
		return TURN_LINK_UP;
	/* That turns were switched off meanwhile is no news. */
	w->reason[sizeof(w->reason) - 1] = '\0';
	if (w->status != SLICE_REFUSED)
		warn_once(WARN_NO_TURNS, "not admitted to the turns of the slice: %s",
			w->reason[0] ? w->reason : "no reason was given");
	return TURN_LINK_REFUSED;
}

static void look_first(struct turn_link *l)
{
	if (l->looked)
		return;
	l->looked = true;
	for (unsigned int i = 0; i < 3; i++)
		own_fd_close(&inherited[i]);
	if (!socket_find_dir(l->dir))
		l->dir[0] = '\0';
}

enum turn_link_answer turn_link_ask(struct turn_link *l)
{
	uint32_t flags = SLICE_HELLO_TURNS | (l->page ? SLICE_HELLO_AGAIN : 0);
	struct slice_hello hello = { 0 };
	int fd;

	look_first(l);
	own_fd_close(&l->asking);
	if (l->page && !own_fd_is(&l->page_fd))
		return TURN_LINK_LOST;
	fd = l->dir[0] ? socket_connect(l->dir) : -1;
	if (fd < 0)
		return TURN_LINK_AWAY;
	l->asked = ++l->tag;
	socket_hello(&hello, l->asked, flags);
	/* A connection that is new has room for it. */
	if (!socket_send(fd, &hello, sizeof(hello), l->page ? l->page_fd.fd : -1, 0)) {
		(void)sys_close(fd);
		return TURN_LINK_AWAY;
	}
	if (!own_fd_set(&l->asking, fd))
		return TURN_LINK_AWAY;
	inherited[2] = l->asking;
	return TURN_LINK_ASKED;
}

/* Until @deadline; 0: without waiting. */
static enum turn_link_answer answered(struct turn_link *l, int64_t deadline, struct own_fd *ret)
{
	const struct slice_head ask = { .tag = l->asked };
	struct slice_welcome w = { 0 };
	enum turn_link_answer r = TURN_LINK_AWAY;
	int page_fd = -1;

	if (!own_fd_is(&l->asking))
		return TURN_LINK_AWAY;
	if (socket_receive(l->asking.fd, &ask, SLICE_WELCOME, &w, sizeof(w), &page_fd,
		    deadline))
		r = welcome(l, &w, page_fd);
	else if (page_fd >= 0)
		(void)sys_close(page_fd);
	else if (errno == ETIMEDOUT && !deadline)
		return TURN_LINK_ASKED;
	if (r == TURN_LINK_UP)
		*ret = l->asking;
	else
		own_fd_close(&l->asking);
	l->asking.have = false;
	inherited[0] = r == TURN_LINK_UP ? *ret : (struct own_fd){ 0 };
	inherited[1] = l->page_fd;
	inherited[2] = (struct own_fd){ 0 };
	return r;
}

enum turn_link_answer turn_link_answered(struct turn_link *l, struct own_fd *ret)
{
	return answered(l, 0, ret);
}

enum turn_link_answer turn_link_register(struct turn_link *l, int64_t deadline,
	struct own_fd *ret)
{
	enum turn_link_answer r = turn_link_ask(l);

	return r == TURN_LINK_ASKED ? answered(l, deadline, ret) : r;
}

void turn_link_close(struct turn_link *l)
{
	own_fd_close(&l->socket);
	own_fd_close(&l->asking);
	l->sent = l->sent_then = 0;
	l->least = l->unread = 0;
	l->deaf_since = l->said_at = l->said_sent = 0;
}

enum turn_link_sent turn_state(struct turn_link *l, struct slice_state *state)
{
	struct iovec v = { .iov_base = state, .iov_len = sizeof(*state) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	ssize_t n;

	if (!own_fd_is(&l->socket))
		return TURN_GONE;
	state->head = (struct slice_head){ .op = SLICE_STATE, .tag = ++l->tag };
	do
		n = syscall(SYS_sendmsg, l->socket.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof(*state)) {
		l->sent++;
		return TURN_SENT;
	}
	return n < 0 && (errno == EAGAIN || errno == ENOBUFS) ? TURN_FULL : TURN_GONE;
}

static int unread_of(const struct turn_link *l)
{
	int unread = 0;

	if (!own_fd_is(&l->socket) || syscall(SYS_ioctl, l->socket.fd, UNREAD, &unread))
		return 0;
	return unread;
}

bool turn_link_was_read(const struct turn_link *l)
{
	return !unread_of(l);
}

bool turn_link_reads(struct turn_link *l)
{
	int unread = unread_of(l);
	uint64_t grown;
	bool r;

	if (unread > 0 && (!l->least || unread < l->least))
		l->least = unread;
	/* All packets are of one size, as the system counts it. Had none been read, it were this much. */
	grown = (uint64_t)l->unread + (l->sent - l->sent_then) * (uint64_t)l->least;
	r = unread <= 0 || (uint64_t)unread < grown;
	l->unread = unread;
	l->sent_then = l->sent;
	return r;
}

bool turn_link_hung_up(const struct turn_link *l)
{
	struct pollfd p = { .fd = l->socket.fd, .events = POLLIN };
	struct timespec none = { 0 };

	/* It never sends anything. */
	return !own_fd_is(&l->socket) || syscall(SYS_ppoll, &p, 1L, &none, NULL, 0L) > 0;
}
