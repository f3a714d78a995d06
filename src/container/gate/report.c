/* SPDX-License-Identifier: Apache-2.0 */
/* How a process reports the state of its clients to the slice's arbiter: the connection and the packets (internal.h). */
#include "container/gate/gate-thread.h"
#include "container/gate/internal.h"
#include "container/sys.h"

#include <string.h>
#include <sys/mman.h>

#define UNREAD 0x5411 /* SIOCOUTQ; its header has too much else */

enum gate_link_sent { GATE_LINK_SENT, GATE_LINK_FULL, GATE_LINK_GONE };

/* ---- the connection -------------------------------------------------------------------------------- */

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

/* Fills in .head. FULL: not sent, report it again later. GONE: there is no connection. */
static enum gate_link_sent gate_link_send_state(struct gate_link *l, struct slice_state *state)
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

/* Whether the arbiter has read all packets. True where the system cannot tell. */
static bool gate_link_was_read(const struct gate_link *l)
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

/* ---- reports --------------------------------------------------------------------------------------- */

/*
 * The loads are in this order: gate, .waiters and .throttled, .begun. What a thread changes between two
 * of them, that thread reports itself, or the gate thread does, which is awake (internal.h).
 * - At a gate that is not closed, a thread that waits counts as busy: it has passed, or will. The arbiter
 *   assumes that, too.
 * - Behind a closed gate blocked work (container/gate/fences/fences.h) is not busy. It makes no progress,
 *   and it may depend on a thread that waits at that gate. So the slice is not charged for it, and that
 *   thread gets its quantum no later.
 */
static struct slice_state get_reported_state(struct gate_process *process, unsigned int gpu)
{
	struct turn_gpu_page *p = &atomic_load(&process->page)->gpus[gpu];
	uint32_t gate = atomic_load(&p->gate);
	bool closed = (gate & TURN_STATE) == TURN_CLOSED;
	bool waiting = atomic_load(&process->gpus[gpu].waiters) ||
		       atomic_load(&process->gpus[gpu].throttled);
	bool in_flight = atomic_load(&p->begun) != atomic_load(&p->done);
	bool blocked = closed && fences_is_blocked(&process->fences, gpu);

	return (struct slice_state){
		.gpu = gpu,
		.generation = gate / TURN_GENERATION,
		.busy = (in_flight && !blocked) || (waiting && !closed),
		.wants = waiting && closed,
	};
}

static bool is_state_reported(const struct gate_gpu *g, const struct slice_state *s)
{
	return g->reported.valid && g->reported.generation == s->generation &&
	       g->reported.busy == (s->busy != 0) && g->reported.wants == (s->wants != 0);
}

bool gate_report_state(struct gate_process *process, unsigned int gpu)
{
	struct gate_gpu *g = &process->gpus[gpu];
	enum gate_link_sent r = GATE_LINK_SENT;
	struct slice_state s;
	uint64_t now, ended;
	int e = errno;

	sys_lock(&process->report_lock);
	if (gate_mode(process) != GATE_MODE_UP)
		goto out;
	s = get_reported_state(process, gpu);
	if (is_state_reported(g, &s))
		goto out;
	now = sys_now_ns();
	ended = atomic_load(&g->ended_ns);
	s.idle_ns = s.busy || now < ended ? 0 : now - ended;
	g->reported.valid = false;
	r = gate_link_send_state(&process->link, &s);
	if (r == GATE_LINK_SENT) {
		g->reported.valid = true;
		g->reported.generation = s.generation;
		g->reported.busy = s.busy;
		g->reported.wants = s.wants;
	} else if (r == GATE_LINK_GONE && !atomic_exchange(&process->link_lost, true)) {
		gate_thread_wake();
	}
out:
	sys_unlock(&process->report_lock);
	errno = e;
	return r == GATE_LINK_SENT;
}

bool gate_state_is_reported(struct gate_process *process, unsigned int gpu)
{
	struct slice_state s;
	bool r = true;

	sys_lock(&process->report_lock);
	if (gate_mode(process) == GATE_MODE_UP) {
		/* Checked before the gate is loaded. If the gate then still has the report's generation,
		 * it had that generation when the arbiter read the report. */
		r = gate_link_was_read(&process->link);
		s = get_reported_state(process, gpu);
		r = r && is_state_reported(&process->gpus[gpu], &s);
	}
	sys_unlock(&process->report_lock);
	return r;
}

void gate_wake_all(struct gate_process *process)
{
	struct turn_page *page = atomic_load(&process->page);

	for (uint32_t i = 0; page && i < process->gate.gpu_count; i++) {
		struct gate_gpu *g = &process->gpus[i];

		(void)atomic_fetch_add(&g->throttle_word, 1);
		(void)atomic_fetch_add(&g->standalone_gate, TURN_GENERATION);
		sys_futex_wake(&g->throttle_word, false);
		sys_futex_wake(&g->standalone_gate, false);
		sys_futex_wake(&page->gpus[i].gate, true);
	}
}
