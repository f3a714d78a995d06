/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connections of processes of slices. Who connects is the kernel's word; a pidfd from that moment says
 * when it is gone (task.c). A connection that ends means nothing for memory.
 *
 * Everything is non-blocking. An answer that does not fit into the socket's buffer ends the
 * connection: a client has one request under way, so it stopped reading.
 */
#include "arbiter/internal.h"

#include "arbiter/control.h"
#include "arbiter/packet.h"
#include "arbiter/proc.h"
#include "base/fd.h"
#include "base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
	if (c->prev)
		c->prev->next = c->next;
	else
		c->arbiter->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->slice->n_conns--;
	c->arbiter->n_conns--;
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
		if (c->slice == s && !c->member)
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

static bool is_alive(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

/*
 * The peer's PID, a pidfd, its start time. Where the kernel has no SO_PEERPIDFD the PID could be
 * another process's by now, but only if the peer died since it connected; then the new one is
 * younger than the connection, which is looked at as soon as it comes. A peer that is not to be
 * seen here keeps pid 0. False: there are no descriptors or memory for it now.
 */
static bool identify(struct conn *c, int fd)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred), fd_len = sizeof(c->pidfd);
	struct proc_stat st;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.pid <= 0)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &c->pidfd, &fd_len) < 0 &&
		errno == ENOPROTOOPT)
		c->pidfd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
	if (c->pidfd < 0)
		return errno != EMFILE && errno != ENFILE && errno != ENOMEM;
	(void)fcntl(c->pidfd, F_SETFD, FD_CLOEXEC);
	if (!proc_stat(c->arbiter->o.procfs, (uint32_t)cred.pid, &st))
		return true;
	/* Still the one that the pidfd is of, so what was read is its. */
	if (!is_alive(c->pidfd))
		return true;
	c->pid = (uint32_t)cred.pid;
	c->start = st.start;
	c->image = st.image;
	return true;
}

/* ---- requests --------------------------------------------------------------------------------- */

bool conn_answer(struct conn *c, const void *data, size_t len, int page_fd)
{
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

/*
 * What a process had that is gone is free only when NVML says so, a few milliseconds later: whoever asks
 * for it meanwhile waits, and reads nothing else.
 */
static bool may_wait(struct conn *c, const struct slice_want *w)
{
	struct arbiter *a = c->arbiter;

	return book_slice_awaits(c->slice->book, w->gpu) && control_subscribed(a) &&
	       time_mono_ns() - c->want_ns < CONTROL_READ_WAIT_MS * NS_PER_MS;
}

static void on_want(struct conn *c, const struct slice_want *w, bool wait)
{
	bool waited = c->waits;
	struct slice_grant g = { .head = { .op = SLICE_GRANT, .tag = w->head.tag } };

	if (!c->member) {
		conn_close(c);
		return;
	}
	g.status = book_want(c->member, w->gpu, w->bytes, w->head.tag, &g.free_bytes);
	c->waits = wait && g.status == SLICE_NO_ROOM && may_wait(c, w);
	if (c->waits != waited)
		watch_pause(c->watch, c->waits);
	if (!c->waits) {
		(void)conn_answer(c, &g, sizeof(g), -1);
		return;
	}
	c->want = *w;
	readings_soon(c->arbiter);
}

void conns_go_on(struct arbiter *a, bool wait)
{
	struct conn *next;

	for (struct conn *c = a->conns; c; c = next) {
		const struct slice_want w = c->want;

		next = c->next;
		if (c->waits)
			on_want(c, &w, wait);
	}
}

/* Is it the first one of its process in the list of the slice? */
static bool is_first(const struct book_member *m)
{
	for (const struct book_member *o = m->task->members; o; o = o->next_of_task) {
		if (o != m && o->slice == m->slice && o->rec->serial < m->rec->serial)
			return false;
	}
	return true;
}

static void add_to_view(struct slice_viewed *v, uint32_t first, const struct book_member *m,
	unsigned int gpu)
{
	uint64_t used = 0, granted = 0;

	for (const struct book_member *o = m->task->members; o; o = o->next_of_task) {
		if (o->slice == m->slice) {
			used += book_used(o, gpu);
			granted += book_granted(o, gpu);
		}
	}
	if (!granted)
		return;
	if (v->process_count++ < first || v->here >= SLICE_VIEW_PROCESSES)
		return;
	v->processes[v->here].pid = m->rec->ns_pid;
	v->processes[v->here].host_pid = m->rec->pid;
	v->processes[v->here].gpu = gpu;
	v->processes[v->here].used = used;
	v->here++;
}

static void on_view(struct conn *c, const struct slice_view *w)
{
	struct slice_viewed v = { .head = { .op = SLICE_VIEWED, .tag = w->head.tag } };
	struct book_slice *b = c->slice->book;

	for (unsigned int i = 0; b && i < b->n_gpus; i++) {
		v.gpus[i].limit = b->gpus[i].limit;
		v.gpus[i].used = book_slice_used(b, i);
		v.gpus[i].peak = b->gpus[i].peak;
		v.gpu_count = i + 1;
	}
	for (const struct book_member *m = b ? b->members : NULL; m; m = m->next) {
		for (unsigned int i = 0; i < b->n_gpus && is_first(m); i++)
			add_to_view(&v, w->first, m, i);
	}
	(void)conn_answer(c, &v, sizeof(v), -1);
}

static void on_compare(struct conn *c, const struct slice_compare *w)
{
	const struct slice_compared r = { .head = { .op = SLICE_COMPARED,
						  .tag = w->head.tag } };

	readings_soon(c->arbiter);
	(void)conn_answer(c, &r, sizeof(r), -1);
}

static void dispatch(struct conn *c, const union packet *p, int fd)
{
	if (p->head.op != SLICE_HELLO && !c->greeted) {
		conn_close(c);
		return;
	}
	switch (p->head.op) {
	case SLICE_HELLO:
		conn_hello(c, &p->hello, fd);
		break;
	case SLICE_WANT:
		c->want_ns = time_mono_ns();
		on_want(c, &p->want, true);
		break;
	case SLICE_VIEW:
		on_view(c, &p->view);
		break;
	default:
		on_compare(c, &p->compare);
		break;
	}
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
	unsigned int before = a->n_conns;
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
	dispatch(c, &p, fd);
	/* Only ends of connections change this number here. */
	return a->n_conns == before;
}

static void on_packet(void *arg)
{
	struct conn *c = arg;

	for (int i = 0; i < CONN_BATCH && receive(c) && !c->waits; i++)
		;
}

/* ---- arrival ---------------------------------------------------------------------------------- */

static void add_conn(struct slice *s, int fd)
{
	struct arbiter *a = s->arbiter;
	struct error err = ERROR_INIT;
	struct conn *c;

	if (a->n_conns >= CONNS_MAX || s->n_conns >= SLICE_CONNS_MAX) {
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
	a->n_conns++;
	s->n_conns++;
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
		int fd = accept4(s->listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

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
