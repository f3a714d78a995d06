/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connections of processes of slices: how they come, how they end, the packets between. What a packet asks
 * for is requests.c's. Who connects is the kernel's word; a pidfd from that moment says when it is gone
 * (process/task.c). A connection that ends means nothing for memory.
 *
 * Everything is non-blocking. An answer that does not fit into the socket's buffer ends the
 * connection: a client has one request under way, so it stopped reading.
 */
#include "arbiter/internal.h"

#include "arbiter/process/proc.h"
#include "arbiter/turns/turn.h"
#include "base/fd.h"
#include "base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS_MAX 253 /* that the kernel lets a packet have: SCM_MAX_FD */

#ifndef SO_PEERPIDFD
#	define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* ---- ends ------------------------------------------------------------------------------------- */

void conn_close(struct conn *c)
{
	struct arbiter *a = c->arbiter;
	struct book_member *m = c->member;
	struct side *side = m ? m->user : NULL;

	if (side)
		side->conn = NULL;
	if (c->turn)
		turn_conn_free(c);
	if (c->prev)
		c->prev->next = c->next;
	else
		c->arbiter->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	room_give(&a->room, c->slice->n_conns--);
	c->watch = watch_stop(c->watch);
	closep(&c->pidfd);
	free(c);
	/* Nothing to remember: should it come again, its page says so too. */
	if (m && book_has_nothing(m))
		book_member_drop(&a->book, m);
}

void conns_on_dropped(void *arbiter, struct book_member *m)
{
	struct side *side = m->user;

	(void)arbiter;
	if (!side)
		return;
	if (side->page)
		(void)munmap(side->page, SLICE_PAGE_BYTES);
	if (side->conn) {
		side->conn->member = NULL;
		conn_close(side->conn);
	}
	free(side);
	m->user = NULL;
}

void conns_stop_slice(struct slice *s)
{
	struct conn *next;

	for (struct conn *c = s->arbiter->conns; c; c = next) {
		next = c->next;
		if (c->slice == s && !c->member && !c->turn)
			conn_close(c);
	}
}

void conns_stop(struct arbiter *a)
{
	for (unsigned int i = 0; i < BOOK_BUCKETS; i++) {
		for (struct book_task *t = a->book.buckets[i]; t; t = t->next) {
			for (struct book_member *m = t->members; m; m = m->next_of_task)
				conns_on_dropped(a, m);
			task_on_ended(a, t);
		}
	}
	while (a->conns)
		conn_close(a->conns);
	closep(&a->spare_fd);
}

void conns_expire(struct arbiter *a, uint64_t now_ns)
{
	struct conn *next;

	for (struct conn *c = a->conns; c; c = next) {
		next = c->next;
		if (!c->greeted && now_ns - c->since_ns > CONN_HELLO_NS)
			conn_close(c);
	}
}

/* ---- who it is -------------------------------------------------------------------------------- */

/*
 * The peer's PID, a pidfd, its start time. Where the kernel has no SO_PEERPIDFD the PID could be
 * another process's by now, but only if the peer died since it connected; then the new one is
 * younger than the connection, which is looked at as soon as it comes. A peer that is not to be
 * seen here keeps pid 0, and so does one that is gone, which is .ended. False: there are no descriptors or memory
 * for it now.
 */
static bool identify(struct conn *c, int fd)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred), fd_len = sizeof(c->pidfd);
	struct proc_stat st;
	bool seen;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.pid <= 0)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &c->pidfd, &fd_len) < 0 &&
		errno == ENOPROTOOPT)
		c->pidfd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
	if (c->pidfd < 0) {
		/* EINVAL: what SO_PEERPIDFD said of one that was reaped until Linux 6.15. */
		c->ended = errno == ESRCH || errno == EINVAL;
		return errno != EMFILE && errno != ENFILE && errno != ENOMEM;
	}
	(void)fcntl(c->pidfd, F_SETFD, FD_CLOEXEC);
	seen = proc_stat(c->arbiter->o.procfs, (uint32_t)cred.pid, &st);
	/* If not, it is still the one that the pidfd is of, so what was read is its. */
	c->ended = proc_ended(c->pidfd);
	if (!seen || c->ended)
		return true;
	c->pid = (uint32_t)cred.pid;
	c->start = st.start;
	c->image = st.image;
	return true;
}

/* ---- packets ---------------------------------------------------------------------------------- */

bool conn_answer(struct conn *c, const void *data, size_t len, int page_fd)
{
	c->uid = cred.uid;
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .room = { 0 } };
	/* The const is cast away for the prototype only. */
	struct iovec part = { .iov_base = (void *)(uintptr_t)data, .iov_len = len };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

	if (page_fd >= 0) {
		m.msg_control = control.room;
		m.msg_controllen = sizeof(control.room);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &page_fd, sizeof(int));
	}
	if (sendmsg(c->watch->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len)
		return true;
	conn_close(c);
	return false;
}

/* The one descriptor that may come along, owned; others are closed: a peer may send as many as it likes. */
static int take_fd(struct msghdr *m)
{
	int first = -1;

	for (struct cmsghdr *head = CMSG_FIRSTHDR(m); head; head = CMSG_NXTHDR(m, head)) {
		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= head->cmsg_len;
			at += sizeof(int)) {
			int fd;

			memcpy(&fd, (const char *)head + at, sizeof(fd));
			if (first < 0)
				first = fd;
			else
				(void)close(fd);
		}
	}
	return first;
}

/* One packet. False: there is none, or the connection is closed. */
static bool receive(struct conn *c)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	char data[SLICE_PACKET_MAX];
	struct iovec part = { .iov_base = data, .iov_len = sizeof(data) };
	struct msghdr m = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof(control.room) };
	struct arbiter *a = c->arbiter;
	struct error err = ERROR_INIT;
	union packet p;
	CLEANUP(closep) int fd = -1;
	unsigned int before = a->room.n;
	ssize_t n = recvmsg(c->watch->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		conn_close(c);
		return false;
	}
	fd = take_fd(&m);
	if ((m.msg_flags & MSG_TRUNC) ||
		packet_read(&p, data, (size_t)n, c->slice->book ? c->slice->book->n_gpus : 0,
			&err) < 0) {
		if (log_limit_pass(&c->slice->noise, time_mono_ns(), NS_PER_SEC * 10, 5))
			log_warn("connection ended", LOG_STR("slice", c->slice->id),
				LOG_UINT("pid", c->pid),
				LOG_STR("reason",
					err.code == ERR_NONE ? "packet too long" : err.msg));
		conn_close(c);
		return false;
	}
	conn_request(c, &p, fd);
	/* Only ends of connections change this number here. */
	return a->room.n == before;
}

static void on_packet(void *arg)
{
	struct conn *c = arg;

	/* Many that begin at once wake us at once. */
	turn_breathe(c->arbiter);
	for (int i = 0; i < CONN_BATCH && receive(c) && !c->waits && !c->turn; i++)
		;
}

/* ---- arrival ---------------------------------------------------------------------------------- */

static void add_conn(struct slice *s, int fd)
{
	struct arbiter *a = s->arbiter;
	struct error err = ERROR_INIT;
	struct conn *c;

	if (s->n_conns >= SLICE_CONNS_MAX || !room_for(&a->room, s->n_conns)) {
		if (log_limit_pass(&s->noise, time_mono_ns(), NS_PER_SEC * 10, 5))
			log_warn("too many connections", LOG_STR("slice", s->id));
		(void)close(fd);
		return;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		(void)close(fd);
		return;
	}
	c->arbiter = a;
	c->slice = s;
	c->pidfd = -1;
	c->since_ns = time_mono_ns();
	/* Unanswered it tries again, where a refusal would be for good. */
	if (!identify(c, fd)) {
		(void)close(fd);
		free(c);
		return;
	}
	if (watch_start(&c->watch, a->loop, fd, on_packet, c, &err) < 0) {
		closep(&c->pidfd);
		free(c);
		return;
	}
	c->next = a->conns;
	if (a->conns)
		a->conns->prev = c;
	a->conns = c;
	room_take(&a->room, s->n_conns++);
}

/* No descriptors left: take one connection all the same and end it, or it would wake us for ever. */
static void refuse_one(struct slice *s)
{
	struct arbiter *a = s->arbiter;
	int fd;

	closep(&a->spare_fd);
	fd = accept4(s->listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 && errno != EAGAIN)
		slices_pause(s);
	closep(&fd);
	a->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (log_limit_pass(&a->noise, time_mono_ns(), NS_PER_SEC * 10, 1))
		log_error("no descriptors left for connections", LOG_STR("slice", s->id));
}

void conns_accept(void *arg)
{
	struct slice *s = arg;

	for (int i = 0; i < ACCEPT_BATCH; i++) {
		int fd;

		turn_breathe(s->arbiter);
		fd = accept4(s->listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			add_conn(s, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno == EMFILE || errno == ENFILE)
			refuse_one(s);
		else if (errno != EAGAIN)
			slices_pause(s);
		return;
	}
}
