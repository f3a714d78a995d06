/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Processes of slices. Who connects is the kernel's word; a pidfd from that moment says when it is
 * gone. A connection that ends means nothing for memory.
 *
 * Everything is non-blocking. An answer that does not fit into the socket's buffer ends the
 * connection: a client has one request under way, so it stopped reading.
 */
#include "arbiter/internal.h"

#include "arbiter/packet.h"
#include "arbiter/proc.h"
#include "base/fd.h"
#include "base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#	define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

#define PAGE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* A process that has memory: told when it is gone; in its task's .user. */
struct death {
	struct arbiter *arbiter;
	struct book_task *task;
	struct watch *watch;
};

/* ---- ends ------------------------------------------------------------------------------------- */

static bool has_nothing(const struct book_member *m)
{
	for (unsigned int i = 0; i < m->slice->n_gpus; i++) {
		if (book_granted(m, i))
			return false;
	}
	return true;
}

static void conn_close(struct conn *c)
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
	if (m && has_nothing(m))
		book_member_drop(&a->book, m);
}

static void on_death(void *arg)
{
	struct death *d = arg;
	struct arbiter *a = d->arbiter;

	log_debug("process is gone", LOG_UINT("pid", d->task->pid));
	book_task_gone(&a->book, d->task);
	/* What others have open of its memory stays, and is theirs from now on. */
	readings_soon(a);
}

void conns_on_ended(void *arbiter, struct book_task *t)
{
	struct death *d = t->user;

	(void)arbiter;
	if (!d)
		return;
	d->watch = watch_stop(d->watch);
	free(d);
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
			conns_on_ended(a, t);
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
 * seen here keeps pid 0.
 */
static void identify(struct conn *c, int fd)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred), fd_len = sizeof(c->pidfd);
	struct proc_stat st;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.pid <= 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &c->pidfd, &fd_len) < 0 &&
		errno == ENOPROTOOPT)
		c->pidfd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
	if (c->pidfd < 0)
		return;
	(void)fcntl(c->pidfd, F_SETFD, FD_CLOEXEC);
	if (!proc_stat(c->arbiter->o.procfs, (uint32_t)cred.pid, &st))
		return;
	/* Still the one that the pidfd is of, so what was read is its. */
	if (!is_alive(c->pidfd))
		return;
	c->pid = (uint32_t)cred.pid;
	c->start = st.start;
	c->image = st.image;
}

/* ---- answers ---------------------------------------------------------------------------------- */

/* False: the connection is closed. @page_fd < 0: without one. */
static bool answer(struct conn *c, const void *data, size_t len, int page_fd)
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

static bool welcome(struct conn *c, const struct slice_hello *h, enum slice_status status,
	const char *reason, int page_fd)
{
	const struct book_slice *b = c->slice->book;
	struct slice_welcome w = { .head = { .op = SLICE_WELCOME, .tag = h->head.tag },
		.version = SLICE_WIRE_VERSION,
		.status = status };

	(void)snprintf(w.slice, sizeof(w.slice), "%s", c->slice->id);
	if (reason)
		(void)snprintf(w.reason, sizeof(w.reason), "%s", reason);
	for (unsigned int i = 0; b && i < b->n_gpus; i++) {
		memcpy(w.gpus[i].uuid, b->gpus[i].uuid, SLICE_UUID_BYTES);
		w.gpus[i].limit = b->gpus[i].limit;
		w.gpu_count = i + 1;
	}
	if (status != SLICE_OK &&
		log_limit_pass(&c->slice->noise, time_mono_ns(), NS_PER_SEC * 10, 5))
		log_warn("process not admitted", LOG_STR("slice", c->slice->id),
			LOG_UINT("pid", c->pid), LOG_UINT("status", status),
			LOG_STR("reason", w.reason));
	return answer(c, &w, sizeof(w), page_fd);
}

/* ---- registration ----------------------------------------------------------------------------- */

static struct book_who who_is(const struct conn *c, const struct slice_hello *h, char *name)
{
	const char *procfs = c->arbiter->o.procfs;
	uint32_t ns_pid = proc_ns_pid(procfs, c->pid);

	proc_name(procfs, c->pid, name);
	if (!*name) {
		memcpy(name, h->name, SLICE_NAME_MAX);
		proc_printable(name);
	}
	return (struct book_who){ .pid = c->pid,
		.ns_pid = ns_pid ? ns_pid : h->pid,
		.start = c->start,
		.image = c->image,
		.name = name };
}

/* Other registrations of this PID, left behind by a program that it executed over. */
static void find_execed(struct conn *c)
{
	struct book_task *t = book_task_find(&c->arbiter->book, c->pid, c->start);

	for (struct book_member *m = t ? t->members : NULL; m; m = m->next_of_task) {
		const struct side *side = m->user;

		if (m->execed || (side && side->conn) || !m->rec->image || !c->image ||
			m->rec->image == c->image)
			continue;
		book_execed(m);
		readings_soon(c->arbiter);
	}
}

/* Gives the member's task the pidfd, if it has none. < 0: it could not be watched. */
static int watch_task(struct arbiter *a, struct book_task *t, int *pidfd, struct error *err)
{
	struct death *d;

	if (t->user)
		return 0;
	d = calloc(1, sizeof(*d));
	if (!d)
		return error_nomem(err);
	d->arbiter = a;
	d->task = t;
	if (watch_start(&d->watch, a->loop, steal_fd(pidfd), on_death, d, err) < 0) {
		free(d);
		return -1;
	}
	t->user = d;
	return 0;
}

static int attach(struct conn *c, struct book_member *m, struct slice_page *page, ino_t ino)
{
	struct error err = ERROR_INIT;
	struct side *side = m->user;

	if (!side) {
		side = calloc(1, sizeof(*side));
		if (!side)
			return -1;
		m->user = side;
	}
	if (side->conn && side->conn != c) {
		side->conn->member = NULL;
		conn_close(side->conn);
	}
	if (watch_task(c->arbiter, m->task, &c->pidfd, &err) < 0)
		return -1;
	side->conn = c;
	if (page) {
		side->page = page;
		side->page_ino = ino;
	}
	c->member = m;
	return 0;
}

static struct slice_page *map_page(int fd)
{
	void *at = mmap(NULL, SLICE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

static int new_page(struct slice_page **ret, ino_t *ino)
{
	CLEANUP(closep) int fd = memfd_create(PAGE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st;

	if (fd < 0 || ftruncate(fd, SLICE_PAGE_BYTES) < 0 ||
		fcntl(fd, F_ADD_SEALS, PAGE_SEALS | F_SEAL_SEAL) < 0 || fstat(fd, &st) < 0)
		return -1;
	*ret = map_page(fd);
	*ino = st.st_ino;
	return *ret ? steal_fd(&fd) : -1;
}

static void register_new(struct conn *c, const struct slice_hello *h)
{
	struct arbiter *a = c->arbiter;
	CLEANUP(closep) int fd = -1;
	struct book_record *rec = journal_record(&a->journal);
	struct book_member *m = NULL;
	struct slice_page *page = NULL;
	char name[SLICE_NAME_MAX];
	struct book_who who = who_is(c, h, name);
	enum slice_status status;
	ino_t ino;

	if (!rec) {
		(void)welcome(c, h, SLICE_TOO_MANY, "too many processes on this node", -1);
		return;
	}
	fd = new_page(&page, &ino);
	if (fd < 0) {
		(void)welcome(c, h, SLICE_REFUSED, "no memory for a page", -1);
		return;
	}
	who.serial = journal_serial(&a->journal);
	find_execed(c);
	status = book_register(&a->book, c->slice->book, &who, rec, page, &m);
	if (status != SLICE_OK) {
		(void)munmap(page, SLICE_PAGE_BYTES);
		(void)welcome(c, h, status,
			status == SLICE_TOO_MANY ? "too many processes" : "no such slice", -1);
		return;
	}
	if (attach(c, m, page, ino) < 0) {
		/* The member never had anything; its page goes with it where it was attached. */
		c->member = NULL;
		if (!m->user || !((struct side *)m->user)->page)
			(void)munmap(page, SLICE_PAGE_BYTES);
		if (m->user)
			((struct side *)m->user)->conn = NULL;
		book_member_drop(&a->book, m);
		(void)welcome(c, h, SLICE_REFUSED, "no memory", -1);
		return;
	}
	log_debug("process registered", LOG_STR("slice", c->slice->id), LOG_UINT("pid", c->pid),
		LOG_STR("name", name));
	(void)welcome(c, h, SLICE_OK, NULL, fd);
}

/* Of this slice only: what one slice's process writes into its page does not reach another's. */
static struct book_member *member_by_serial(struct book_slice *s, uint64_t serial)
{
	for (struct book_member *m = s->members; m; m = m->next) {
		if (m->rec->serial == serial)
			return m;
	}
	return NULL;
}

/* Sealed, and of the right size: it cannot be cut off under our hands. */
static struct slice_page *accept_page(int fd, ino_t *ino)
{
	struct slice_page *page;
	struct stat st;
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & PAGE_SEALS) != PAGE_SEALS || fstat(fd, &st) < 0 ||
		st.st_size != SLICE_PAGE_BYTES)
		return NULL;
	page = map_page(fd);
	if (page && (page->magic != SLICE_PAGE_MAGIC || page->version != SLICE_PAGE_VERSION ||
			    page->bytes != SLICE_PAGE_BYTES || !page->serial)) {
		(void)munmap(page, SLICE_PAGE_BYTES);
		return NULL;
	}
	*ino = st.st_ino;
	return page;
}

static bool page_fits(const struct slice_page *page, const struct book_slice *s)
{
	if (page->gpu_count != s->n_gpus)
		return false;
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		if (memcmp(page->gpus[i].uuid, s->gpus[i].uuid, SLICE_UUID_BYTES) != 0)
			return false;
	}
	return true;
}

/* The book has nothing of this page: it was lost. What the page says is all there is to know. */
static struct book_member *believe(struct arbiter *a, struct book_slice *s,
	struct book_who *who, const struct slice_page *page)
{
	struct book_record *rec = journal_record(&a->journal);
	struct book_member *m;

	if (!rec || !page_fits(page, s))
		return NULL;
	who->serial = page->serial;
	book_record_fill(rec, s, who, page);
	m = book_restore(&a->book, s, rec);
	if (!m) {
		atomic_store_explicit(&rec->state, BOOK_FREE, memory_order_seq_cst);
		return NULL;
	}
	log_warn("process has a page that the book does not know, believing it",
		LOG_STR("slice", s->id), LOG_UINT("pid", who->pid), LOG_STR("name", who->name));
	return m;
}

/* Why the page is not taken; NULL: it is, and *adopted says whether its mapping is in use now. */
static const char *take_again(struct conn *c, const struct slice_hello *h,
	struct slice_page *page, ino_t ino, bool *adopted)
{
	struct book_slice *s = c->slice->book;
	struct book_member *m = member_by_serial(s, page->serial);
	const struct side *side;

	if (!m) {
		char name[SLICE_NAME_MAX];
		struct book_who who = who_is(c, h, name);

		m = believe(c->arbiter, s, &who, page);
		/* It has somebody who looks after it from the first moment. */
		if (m && attach(c, m, page, ino) < 0) {
			book_member_drop(&c->arbiter->book, m);
			return "no memory";
		}
		if (!m)
			return "the page does not fit the slice";
		*adopted = true;
		book_adopt(m, page);
		book_unanswered(m, h->unanswered);
		return NULL;
	}
	if (m->task->pid != c->pid || m->task->start != c->start)
		return "the page is another process's";
	side = m->user;
	if (side && side->page && side->page_ino != ino)
		return "the page is not the one that was given";
	if (!book_page_matches(m->rec, page))
		return "the page does not fit the book";
	*adopted = !side || !side->page;
	if (attach(c, m, *adopted ? page : NULL, ino) < 0) {
		*adopted = false;
		return "no memory";
	}
	if (*adopted)
		book_adopt(m, page);
	m->execed = false; /* it is in use, as we see */
	book_unanswered(m, h->unanswered);
	return NULL;
}

static void register_again(struct conn *c, const struct slice_hello *h, int fd)
{
	struct slice_page *page;
	const char *reason = "no page, or not one of ours";
	bool adopted = false;
	ino_t ino = 0;

	page = accept_page(fd, &ino);
	if (page) {
		reason = take_again(c, h, page, ino, &adopted);
		if (!adopted)
			(void)munmap(page, SLICE_PAGE_BYTES);
	}
	(void)welcome(c, h, reason ? SLICE_REFUSED : SLICE_OK, reason, -1);
}

static void on_hello(struct conn *c, const struct slice_hello *h, int fd)
{
	const struct book_slice *b = c->slice->book;

	if (c->greeted) {
		conn_close(c);
		return;
	}
	c->greeted = true;
	if (h->version != SLICE_WIRE_VERSION)
		(void)welcome(c, h, SLICE_BAD_VERSION, "this arbiter speaks version 1", -1);
	else if (!b || b->gone)
		(void)welcome(c, h, SLICE_GONE, "no such slice", -1);
	else if (!(h->flags & SLICE_HELLO_MEMORY))
		(void)welcome(c, h, SLICE_OK, NULL, -1);
	else if (!c->pid)
		(void)welcome(c, h, SLICE_REFUSED,
			"the arbiter cannot see this process: it needs the node's PID namespace",
			-1);
	else if (h->flags & SLICE_HELLO_AGAIN)
		register_again(c, h, fd);
	else
		register_new(c, h);
}

/* ---- requests --------------------------------------------------------------------------------- */

static void on_want(struct conn *c, const struct slice_want *w)
{
	struct slice_grant g = { .head = { .op = SLICE_GRANT, .tag = w->head.tag } };

	if (!c->member) {
		conn_close(c);
		return;
	}
	g.status = book_want(c->member, w->gpu, w->bytes, w->head.tag, &g.free_bytes);
	(void)answer(c, &g, sizeof(g), -1);
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
	(void)answer(c, &v, sizeof(v), -1);
}

static void on_compare(struct conn *c, const struct slice_compare *w)
{
	const struct slice_compared r = { .head = { .op = SLICE_COMPARED,
						  .tag = w->head.tag } };

	readings_soon(c->arbiter);
	(void)answer(c, &r, sizeof(r), -1);
}

static void dispatch(struct conn *c, const union packet *p, int fd)
{
	if (p->head.op != SLICE_HELLO && !c->greeted) {
		conn_close(c);
		return;
	}
	switch (p->head.op) {
	case SLICE_HELLO:
		on_hello(c, &p->hello, fd);
		break;
	case SLICE_WANT:
		on_want(c, &p->want);
		break;
	case SLICE_VIEW:
		on_view(c, &p->view);
		break;
	default:
		on_compare(c, &p->compare);
		break;
	}
}

/* The one descriptor that may come along; those that do not fit the kernel closes. */
static int fd_of(struct msghdr *m)
{
	const struct cmsghdr *head = CMSG_FIRSTHDR(m);
	int fd = -1;

	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
		head->cmsg_len == CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

/* One packet. False: there is none, or the connection is closed. */
static bool receive(struct conn *c)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
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
	fd = fd_of(&m);
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

	for (int i = 0; i < CONN_BATCH && receive(c); i++)
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
	identify(c, fd);
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

/* ---- after a restart; exec -------------------------------------------------------------------- */

static bool adopt_fd(void *arg, int fd)
{
	struct book_member *m = arg;
	CLEANUP(closep) int owned = fd;
	struct side *side = m->user;
	ino_t ino = 0;
	struct slice_page *page = accept_page(owned, &ino);

	if (!page)
		return false;
	if (!book_page_matches(m->rec, page)) {
		(void)munmap(page, SLICE_PAGE_BYTES);
		return false;
	}
	side->page = page;
	side->page_ino = ino;
	/* Of a slice whose file is not there, or wrong: what its processes were told holds. */
	for (unsigned int i = 0; i < m->slice->n_gpus; i++) {
		if (m->slice->gone || m->slice->gpus[i].limit == SLICE_LIMIT_NOT_KNOWN)
			book_slice_limit(m->slice, i,
				atomic_load_explicit(&page->gpus[i].limit,
					memory_order_relaxed));
	}
	book_adopt(m, page);
	return true;
}

/* False: the process is gone, so nothing of it is left. */
static bool restore_one(struct arbiter *a, struct book_record *rec)
{
	CLEANUP(closep) int pidfd = (int)syscall(SYS_pidfd_open, rec->pid, 0);
	struct error err = ERROR_INIT;
	struct book_slice *s;
	struct book_member *m;
	struct proc_stat st;

	if (pidfd < 0 && errno != ESRCH)
		log_error("process of an earlier arbiter cannot be watched, it is not counted",
			LOG_STR("slice", rec->slice), LOG_UINT("pid", rec->pid),
			LOG_STR("reason", strerror(errno)));
	/* Of another start time: the PID came again. One that is dying is still counted. */
	if (pidfd < 0 || !proc_stat(a->o.procfs, rec->pid, &st) || st.start != rec->start)
		return false;
	s = slices_orphan(a, rec);
	if (!s) {
		log_error("processes of one slice have different GPUs, one is not counted",
			LOG_STR("slice", rec->slice), LOG_UINT("pid", rec->pid));
		return false;
	}
	m = book_restore(&a->book, s, rec);
	if (!m)
		return false;
	m->user = calloc(1, sizeof(struct side));
	if (!m->user || watch_task(a, m->task, &pidfd, &err) < 0) {
		book_member_drop(&a->book, m);
		return false;
	}
	if (rec->image && st.image && rec->image != st.image)
		book_execed(m);
	else
		proc_each_memfd(a->o.procfs, rec->pid, PAGE_NAME, adopt_fd, m);
	return true;
}

void conns_restore(struct arbiter *a)
{
	unsigned int kept = 0, pages = 0;

	for (size_t i = 0; i < journal_touched(&a->journal); i++) {
		struct book_record *rec = &a->journal.records[i];

		if (atomic_load_explicit(&rec->state, memory_order_acquire) != BOOK_USED)
			continue;
		if (book_record_valid(rec) && restore_one(a, rec))
			kept++;
		else
			atomic_store_explicit(&rec->state, BOOK_FREE, memory_order_seq_cst);
	}
	for (const struct book_slice *s = a->book.slices; s; s = s->next) {
		for (const struct book_member *m = s->members; m; m = m->next)
			pages += m->page != NULL;
	}
	if (kept)
		log_info("processes of an earlier arbiter", LOG_UINT("processes", kept),
			LOG_UINT("pages", pages));
}

/* ---- processes that the book lost ------------------------------------------------------------- */

struct lost {
	struct book_slice *slice;
	struct slice_page *page;
	ino_t ino;
};

/* The newest of the process's own: a child has its parent's open too, and those are older. */
static bool keep_newest(void *arg, int fd)
{
	struct lost *l = arg;
	CLEANUP(closep) int owned = fd;
	ino_t ino = 0;
	struct slice_page *page = accept_page(owned, &ino);

	if (!page)
		return false;
	if (!page_fits(page, l->slice) || member_by_serial(l->slice, page->serial) ||
		(l->page && page->serial <= l->page->serial)) {
		(void)munmap(page, SLICE_PAGE_BYTES);
		return false;
	}
	if (l->page)
		(void)munmap(l->page, SLICE_PAGE_BYTES);
	l->page = page;
	l->ino = ino;
	return false;
}

/* Takes over the page, or unmaps it. */
static bool restore_lost(struct arbiter *a, struct lost *l, struct book_who *who, int *pidfd)
{
	struct book_member *m = believe(a, l->slice, who, l->page);
	struct error err = ERROR_INIT;
	struct side *side = m ? calloc(1, sizeof(*side)) : NULL;

	if (side)
		m->user = side;
	if (!side || watch_task(a, m->task, pidfd, &err) < 0) {
		if (m)
			book_member_drop(&a->book, m);
		(void)munmap(l->page, SLICE_PAGE_BYTES);
		return false;
	}
	side->page = l->page;
	side->page_ino = l->ino;
	book_adopt(m, l->page);
	return true;
}

bool conns_find_lost(struct arbiter *a, uint32_t pid, uint64_t start, const char *slice)
{
	CLEANUP(closep) int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct lost l = { .slice = book_slice_find(&a->book, slice) };
	char name[SLICE_NAME_MAX];
	struct book_who who = { .pid = pid, .start = start, .name = name };
	struct proc_stat st;

	if (!l.slice || l.slice->gone || pidfd < 0 || !proc_stat(a->o.procfs, pid, &st) ||
		st.start != start)
		return false;
	proc_each_memfd(a->o.procfs, pid, PAGE_NAME, keep_newest, &l);
	if (!l.page)
		return false;
	who.image = st.image;
	who.ns_pid = proc_ns_pid(a->o.procfs, pid);
	proc_name(a->o.procfs, pid, name);
	return restore_lost(a, &l, &who, &pidfd);
}

static bool found_one(void *arg, int fd)
{
	*(bool *)arg = true;
	(void)close(fd);
	return true;
}

bool conns_has_page(const struct arbiter *a, uint32_t pid)
{
	bool found = false;

	proc_each_memfd(a->o.procfs, pid, PAGE_NAME, found_one, &found);
	return found;
}

void conns_look_for_exec(struct arbiter *a)
{
	for (struct book_slice *s = a->book.slices; s; s = s->next) {
		for (struct book_member *m = s->members; m; m = m->next) {
			const struct side *side = m->user;
			struct proc_stat st;

			if (m->execed || !m->rec->image || (side && side->conn) ||
				!proc_stat(a->o.procfs, m->task->pid, &st) || !st.image ||
				st.image == m->rec->image || st.start != m->task->start)
				continue;
			book_execed(m);
		}
	}
}
