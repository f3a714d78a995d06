/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connections of processes of slices: how they start, how they end, the packets in between. requests.c handles
 * the packets.
 *
 * The kernel names the process that connects. A pidfd, opened at that moment, reports its end (process/death.c).
 * The end of a connection frees no granted memory.
 *
 * All input and output is non-blocking. An answer that does not fit into the socket's buffer ends the
 * connection: a client has one request under way, so this client stopped reading. The buffer is small, as the
 * kernel charges its contents to the arbiter.
 */
#include "node/arbiter/clients/conn.h"

#include "node/arbiter/clients/packet.h"
#include "node/arbiter/clients/pages.h"
#include "node/arbiter/clients/passed-fds.h"
#include "node/arbiter/clients/register.h"
#include "node/arbiter/clients/requests.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/process/proc.h"
#include "node/arbiter/process/death.h"
#include "node/arbiter/scheduler/scheduler.h"
#include "node/arbiter/slices/slices.h"
#include "node/arbiter/watch.h"
#include "lib/base/fd-pass.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_CONNS_MAX 2048
#define CONN_HELLO_NS   (10 * NS_PER_SEC) /* for the first packet */
#define CONN_BATCH      16 /* packets of one connection before other connections are served */
#define ACCEPT_BATCH    64
/* A slice with so many connections in passed-fds.c pauses accepting. */
#define SLICE_CLOSING_MAX 64

#ifndef SO_PEERPIDFD
#	define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* --- ends --- */

static void on_passed_fds_closed(struct arbiter_slice *s, bool counted)
{
	s->n_closing--;
	if (counted)
		fair_quota_remove(&s->arbiter->conn_quota, s->n_conns--);
}

int conns_start(struct arbiter *a, struct error *err)
{
	a->passed_fds = passed_fds_new(a->loop, on_passed_fds_closed, err);
	return a->passed_fds ? 0 : -1;
}

/* Closes the socket of a connection and @came, the descriptor that came with it (-1: none). @counted: .n_conns
 * includes the connection. */
static void close_socket(struct arbiter_slice *s, bool counted, int sock, int came)
{
	if (passed_fds_hang_up(&sock) && came < 0) {
		if (counted)
			fair_quota_remove(&s->arbiter->conn_quota, s->n_conns--);
		return;
	}
	s->n_closing++;
	passed_fds_close(s->arbiter->passed_fds, s, counted, sock, came);
}

void conn_close(struct arbiter_conn *c)
{
	struct arbiter *a = c->arbiter;
	struct grants_member *m = c->member;
	struct member_state *side = m ? m->user : NULL;

	a->n_closed++;
	if (side)
		side->conn = NULL;
	if (c->sched_conn)
		scheduler_unregister(a->sched, c->sched_conn);
	if (c->prev)
		c->prev->next = c->next;
	else
		c->arbiter->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	close_socket(c->slice, true, fd_watch_release(c->watch), c->passed_fd);
	closep(&c->pidfd);
	free(c);
	/* An empty member has nothing to remember: if the process registers again, its page says so too. */
	if (m && grants_member_is_empty(m))
		grants_member_drop(&a->grants, m);
}

void conns_on_dropped(void *arbiter, struct grants_member *m)
{
	struct member_state *side = m->user;

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

void conns_stop_slice(struct arbiter_slice *s)
{
	struct arbiter_conn *next;

	for (struct arbiter_conn *c = s->arbiter->conns; c; c = next) {
		next = c->next;
		if (c->slice == s && !c->member && !c->sched_conn)
			conn_close(c);
	}
}

void conns_stop_sched(struct arbiter_slice *s)
{
	struct arbiter_conn *next;

	for (struct arbiter_conn *c = s->arbiter->conns; c; c = next) {
		next = c->next;
		if (c->slice == s && c->sched_conn)
			conn_close(c);
	}
}

void conns_stop(struct arbiter *a)
{
	for (unsigned int i = 0; i < GRANTS_BUCKETS; i++) {
		for (struct grants_task *t = a->grants.buckets[i]; t; t = t->next) {
			for (struct grants_member *m = t->members; m; m = m->next_of_task)
				conns_on_dropped(a, m);
			arbiter_death_unwatch(a, t);
		}
	}
	while (a->conns)
		conn_close(a->conns);
	a->passed_fds = passed_fds_stop(a->passed_fds);
	closep(&a->spare_fd);
}

void conns_expire(struct arbiter *a, uint64_t now_ns)
{
	struct arbiter_conn *next;

	for (struct arbiter_conn *c = a->conns; c; c = next) {
		next = c->next;
		if (!c->hello_received && now_ns - c->since_ns > CONN_HELLO_NS)
			conn_close(c);
	}
	passed_fds_retry(a->passed_fds);
}

/* --- identity of the peer --- */

/*
 * Reads the peer's PID, its start time, and a pidfd. Without SO_PEERPIDFD the PID may be another process's by
 * now, but only if the peer died after it connected. Then the other process is younger than the connection,
 * which the loop accepts as soon as it comes. .pid stays 0 if the arbiter cannot see the peer, or if the peer
 * is gone, which sets .ended. False: no descriptors or no memory now.
 */
static bool read_peer_identity(struct arbiter_conn *c, int fd)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred), fd_len = sizeof(c->pidfd);
	struct proc_stat st;
	bool seen;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.pid <= 0)
		return true;
	c->uid = cred.uid;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &c->pidfd, &fd_len) < 0 &&
		errno == ENOPROTOOPT)
		c->pidfd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
	if (c->pidfd < 0) {
		/* EINVAL: until Linux 6.15, SO_PEERPIDFD of a reaped process. */
		c->ended = errno == ESRCH || errno == EINVAL;
		return errno != EMFILE && errno != ENFILE && errno != ENOMEM;
	}
	(void)fcntl(c->pidfd, F_SETFD, FD_CLOEXEC);
	seen = proc_stat(c->arbiter->o.procfs, (uint32_t)cred.pid, &st);
	/* If the peer has not ended, the PID is still that of the pidfd, so .start and .image are the peer's. */
	c->ended = proc_ended(c->pidfd);
	if (!seen || c->ended)
		return true;
	c->pid = (uint32_t)cred.pid;
	c->start = st.start;
	c->image = st.image;
	return true;
}

/* --- packets --- */

bool conn_answer(struct arbiter_conn *c, const void *data, size_t len, int page_fd)
{
	ssize_t n = fd_pass_send(c->watch->fd, data, len, &page_fd, page_fd >= 0, MSG_DONTWAIT);

	if (n == (ssize_t)len)
		return true;
	conn_close(c);
	return false;
}

/* Whether it is a page of either kind, which no process can make slow to close. */
static bool may_be_page(int fd)
{
	return page_has_form(fd, SLICE_PAGE_BYTES) || page_has_form(fd, TURN_PAGE_BYTES);
}

/* The next packet, as passed_fds_receive(). The first packet may bring a page. */
static ssize_t receive_packet(struct arbiter_conn *c, void *data, size_t cap, bool *cut,
	int *page_fd)
{
	ssize_t n = passed_fds_receive(c->watch->fd, data, cap, cut);
	bool more;

	if (n != PASSED_FDS_PRESENT || c->hello_received)
		return n;
	n = passed_fds_peek(c->watch->fd, data, cap, page_fd, &more);
	if (more || !may_be_page(*page_fd)) {
		c->passed_fd = steal_fd(page_fd);
		return PASSED_FDS_PRESENT;
	}
	passed_fds_take_packet(c->watch->fd);
	return n;
}

static void refuse_packet(struct arbiter_conn *c, const char *reason)
{
	if (log_limit_pass(&c->slice->log_limit, time_mono_ns(), NS_PER_SEC * 10, 5))
		log_warn("connection ended", LOG_STR("slice", c->slice->id),
			LOG_UINT("pid", c->pid), LOG_STR("reason", reason));
	conn_close(c);
}

/* The packet is still in the queue. A process that sent HELLO gets the reason for the refusal, as it would
 * retry otherwise. */
static void refuse_descriptors(struct arbiter_conn *c, const void *data)
{
	struct slice_hello h;

	memcpy(&h, data, sizeof(h));
	if (!c->hello_received && h.head.op == SLICE_HELLO &&
		!conn_welcome(c, &h, SLICE_REFUSED, page_error_text(PAGE_NOT_OURS), -1))
		return;
	refuse_packet(c, "packet: descriptors that are no page");
}

/* Handles one packet. False: there was none, or the connection is closed. */
static bool receive_client_packet(struct arbiter_conn *c)
{
	char data[SLICE_PACKET_MAX] = { 0 };
	struct arbiter *a = c->arbiter;
	struct error err = ERROR_INIT;
	union packet p;
	CLEANUP(closep) int fd = -1;
	uint64_t before = a->n_closed;
	bool cut = false;
	ssize_t n = receive_packet(c, data, sizeof(data), &cut, &fd);

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n == PASSED_FDS_PRESENT) {
		refuse_descriptors(c, data);
		return false;
	}
	if (n <= 0) {
		conn_close(c);
		return false;
	}
	if (cut || packet_read(&p, data, (size_t)n,
			   c->slice->grants ? c->slice->grants->n_gpus : 0, &err) < 0) {
		refuse_packet(c, err.code == ERR_NONE ? "packet too long" : err.msg);
		return false;
	}
	conn_request(c, &p, fd);
	return a->n_closed == before;
}

static void on_packet(void *arg)
{
	struct arbiter_conn *c = arg;

	/* Many processes may start at once. So the loop reads a few packets of each in turn. */
	for (int i = 0;
		i < CONN_BATCH && receive_client_packet(c) && !c->waiting && !c->sched_conn;
		i++)
		;
}

/* --- arrival --- */

static void add_conn(struct arbiter_slice *s, int fd)
{
	struct arbiter *a = s->arbiter;
	struct error err = ERROR_INIT;
	struct arbiter_conn *c;

	if (s->n_conns >= SLICE_CONNS_MAX || !fair_quota_allows(&a->conn_quota, s->n_conns)) {
		if (log_limit_pass(&s->log_limit, time_mono_ns(), NS_PER_SEC * 10, 5))
			log_warn("too many connections", LOG_STR("slice", s->id));
		close_socket(s, false, fd, -1);
		return;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		close_socket(s, false, fd, -1);
		return;
	}
	c->arbiter = a;
	c->slice = s;
	c->pidfd = c->passed_fd = -1;
	c->since_ns = time_mono_ns();
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){ SLICE_PACKET_MAX }, sizeof(int));
	/* Without an answer the process retries. A refusal would be final. */
	if (!read_peer_identity(c, fd)) {
		close_socket(s, false, fd, -1);
		free(c);
		return;
	}
	if (fd_watch_start(&c->watch, a->loop, fd, on_packet, c, &err) < 0) {
		close_socket(s, false, fd, -1);
		closep(&c->pidfd);
		free(c);
		return;
	}
	c->next = a->conns;
	if (a->conns)
		a->conns->prev = c;
	a->conns = c;
	fair_quota_add(&a->conn_quota, s->n_conns++);
}

/*
 * No descriptors are left. Accepts one connection all the same and ends it, or the socket would wake the loop for ever.
 */
static void refuse_one(struct arbiter_slice *s)
{
	struct arbiter *a = s->arbiter;
	int fd;

	closep(&a->spare_fd);
	fd = accept4(s->listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 && errno != EAGAIN)
		arbiter_slices_pause(s);
	if (fd >= 0)
		close_socket(s, false, fd, -1);
	a->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (log_limit_pass(&a->log_limit, time_mono_ns(), NS_PER_SEC * 10, 1))
		log_error("no descriptors left for connections", LOG_STR("slice", s->id));
}

void conns_accept(void *arg)
{
	struct arbiter_slice *s = arg;

	for (int i = 0; i < ACCEPT_BATCH; i++) {
		int fd;

		if (s->n_closing >= SLICE_CLOSING_MAX) {
			errno = EBUSY;
			arbiter_slices_pause(s);
			return;
		}
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
			arbiter_slices_pause(s);
		return;
	}
}

/* Processes in the listen queue may have sent descriptors already. */
void conns_stop_listening(struct arbiter_slice *s)
{
	int fd = s->listener ? fd_watch_release(s->listener) : -1, waiting;

	s->listener = NULL;
	if (fd < 0)
		return;
	(void)shutdown(fd, SHUT_RDWR);
	while ((waiting = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		close_socket(s, false, waiting, -1);
	}
	closep(&fd);
}
