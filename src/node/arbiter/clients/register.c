/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The first packet of a connection: a process registers, with a new page or with its old one. A connection is for
 * memory or for the scheduler. For the scheduler the process has a page of its own (abi/turn-page.h), and the
 * scheduler thread takes the connection.
 */
#include "node/arbiter/clients/register.h"

#include "abi/slice-dir.h"
#include "node/arbiter/clients/conn.h"
#include "node/arbiter/clients/pages.h"
#include "node/arbiter/control/readings.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/process/mps.h"
#include "node/arbiter/process/proc.h"
#include "node/arbiter/process/restore.h"
#include "node/arbiter/process/death.h"
#include "node/arbiter/scheduler/scheduler.h"
#include "node/arbiter/slices/slice.h"
#include "node/arbiter/watch.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool conn_welcome(struct arbiter_conn *c, const struct slice_hello *h, enum slice_status status,
	const char *reason, int page_fd)
{
	const struct grants_slice *slice = c->slice->grants;
	struct slice_welcome w = { .head = { .op = SLICE_WELCOME, .tag = h->head.tag },
		.version = SLICE_WIRE_VERSION,
		.status = status };

	(void)snprintf(w.slice, sizeof(w.slice), "%s", c->slice->id);
	if (reason)
		(void)snprintf(w.reason, sizeof(w.reason), "%s", reason);
	for (unsigned int i = 0; slice && i < slice->n_gpus; i++) {
		memcpy(w.gpus[i].uuid, slice->gpus[i].uuid, SLICE_UUID_BYTES);
		w.gpus[i].limit = slice->gpus[i].limit;
		w.gpu_count = i + 1;
	}
	if (status != SLICE_OK &&
		log_limit_pass(&c->slice->log_limit, time_mono_ns(), NS_PER_SEC * 10, 5))
		log_warn("process not admitted", LOG_STR("slice", c->slice->id),
			LOG_UINT("pid", c->pid), LOG_UINT("status", status),
			LOG_STR("reason", w.reason));
	return conn_answer(c, &w, sizeof(w), page_fd);
}

/* --- for memory --- */

static struct grants_client read_registering_client(const struct arbiter_conn *c,
	const struct slice_hello *h, char *name)
{
	const char *procfs = c->arbiter->o.procfs;
	uint32_t ns_pid = proc_ns_pid(procfs, c->pid);

	proc_name(procfs, c->pid, name);
	if (!*name) {
		memcpy(name, h->name, SLICE_NAME_MAX);
		proc_printable(name);
	}
	return (struct grants_client){ .pid = c->pid,
		.ns_pid = ns_pid ? ns_pid : h->pid,
		.start = c->start,
		.image = c->image,
		.name = name };
}

/* Abandons other registrations of this PID, which the process made before it executed another program. */
static void abandon_execed_members(struct arbiter_conn *c)
{
	struct grants_task *t = grants_task_find(&c->arbiter->grants, c->pid, c->start);

	for (struct grants_member *m = t ? t->members : NULL; m; m = m->next_of_task) {
		const struct member_state *side = m->user;

		if (m->abandoned || (side && side->conn) || !m->rec->image || !c->image ||
			m->rec->image == c->image)
			continue;
		grants_member_abandon(m);
		readings_request_soon(c->arbiter);
	}
}

static int attach_member_conn(struct arbiter_conn *c, struct grants_member *m,
	struct slice_page *page, ino_t ino)
{
	struct error err = ERROR_INIT;
	struct member_state *side = m->user;

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
	if (arbiter_death_watch(c->arbiter, m->task, &c->pidfd, &err) < 0)
		return -1;
	side->conn = c;
	if (page) {
		side->page = page;
		side->page_ino = ino;
		atomic_store(&page->turns, c->slice->compute.on);
	}
	c->member = m;
	arbiter_mps_check_member(c->slice, m);
	return 0;
}

static void refuse_page(struct arbiter_conn *c, const struct slice_hello *h, int trouble)
{
	(void)conn_welcome(c, h, trouble == PAGE_TOO_MANY ? SLICE_TOO_MANY : SLICE_REFUSED,
		page_error_text(trouble), -1);
}

static void register_new(struct arbiter_conn *c, const struct slice_hello *h)
{
	struct arbiter *a = c->arbiter;
	CLEANUP(closep) int fd = -1;
	struct grants_record *rec = journal_record(&a->journal);
	struct grants_member *m = NULL;
	struct slice_page *page = NULL;
	char name[SLICE_NAME_MAX];
	struct grants_client who = read_registering_client(c, h, name);
	enum slice_status status;
	ino_t ino;

	if (!rec) {
		(void)conn_welcome(c, h, SLICE_TOO_MANY, "too many processes on this node", -1);
		return;
	}
	fd = page_new(&(struct page_owner){ a, c->slice, c->pid, c->start }, &page, &ino);
	if (fd < 0) {
		refuse_page(c, h, fd);
		return;
	}
	who.serial = journal_serial(&a->journal);
	abandon_execed_members(c);
	status = grants_register(&a->grants, c->slice->grants, &who, rec, page, &m);
	if (status != SLICE_OK) {
		(void)munmap(page, SLICE_PAGE_BYTES);
		(void)conn_welcome(c, h, status,
			status == SLICE_TOO_MANY ? "too many processes" : "no such slice", -1);
		return;
	}
	if (attach_member_conn(c, m, page, ino) < 0) {
		/* The member never had memory. If its page was attached, the page goes with the member. */
		c->member = NULL;
		m->page = NULL; /* else grants_member_drop() would read it */
		if (!m->user || !((struct member_state *)m->user)->page)
			(void)munmap(page, SLICE_PAGE_BYTES);
		if (m->user)
			((struct member_state *)m->user)->conn = NULL;
		grants_member_drop(&a->grants, m);
		(void)conn_welcome(c, h, SLICE_REFUSED, "no memory", -1);
		return;
	}
	log_debug("process registered", LOG_STR("slice", c->slice->id), LOG_UINT("pid", c->pid),
		LOG_STR("name", name));
	(void)conn_welcome(c, h, SLICE_OK, NULL, fd);
}

/* Returns why the page is refused. NULL: accepted, and *adopted says whether this mapping is now in use. */
static const char *adopt_client_page(struct arbiter_conn *c, const struct slice_hello *h,
	struct slice_page *page, ino_t ino, bool *adopted)
{
	struct grants_slice *s = c->slice->grants;
	struct grants_member *m = grants_member_find_serial(s, page->serial);
	const struct member_state *side;

	if (!m) {
		char name[SLICE_NAME_MAX];
		struct grants_client who = read_registering_client(c, h, name);

		m = restore_from_page(c->arbiter, s, &who, page);
		/* A new member has its connection and its page from the first moment. */
		if (m && attach_member_conn(c, m, page, ino) < 0) {
			grants_member_drop(&c->arbiter->grants, m);
			return "no memory";
		}
		if (!m)
			return "the page does not fit the slice, or there is no room for one";
		*adopted = true;
		grants_adopt_page(m, page);
		grants_return_unanswered(m, h->unanswered);
		return NULL;
	}
	if (m->task->pid != c->pid || m->task->start != c->start)
		return "the page is another process's";
	side = m->user;
	if (side && side->page && side->page_ino != ino)
		return "the page is not the one that was given";
	if (!grants_page_matches(m->rec, page))
		return "the page does not fit the book";
	*adopted = !side || !side->page;
	if (attach_member_conn(c, m, *adopted ? page : NULL, ino) < 0) {
		*adopted = false;
		return "no memory";
	}
	if (*adopted)
		grants_adopt_page(m, page);
	m->abandoned = false; /* the process is there and uses it */
	atomic_store_explicit(&m->rec->retained, 0, memory_order_seq_cst);
	grants_return_unanswered(m, h->unanswered);
	return NULL;
}

static void register_returning_client(struct arbiter_conn *c, const struct slice_hello *h,
	int fd)
{
	const struct page_owner who = { c->arbiter, c->slice, c->pid, c->start };
	struct slice_page *page = NULL;
	const char *reason;
	bool adopted = false;
	ino_t ino = 0;
	int r = page_accept(&who, fd, &page, &ino);

	if (r < 0) {
		refuse_page(c, h, r);
		return;
	}
	reason = adopt_client_page(c, h, page, ino, &adopted);
	if (!adopted)
		(void)munmap(page, SLICE_PAGE_BYTES);
	(void)conn_welcome(c, h, reason ? SLICE_REFUSED : SLICE_OK, reason, -1);
}

/* --- for the scheduler --- */

#define TURN_PAGE_NAME "gpuslice-turns"

static int new_page(const struct page_owner *who, struct turn_page **ret, ino_t *ino)
{
	void *at = NULL;
	int fd = page_make(who, TURN_PAGE_NAME, TURN_PAGE_BYTES, &at, ino);
	struct turn_page *page = at;

	if (fd < 0)
		return fd;
	page->magic = TURN_PAGE_MAGIC;
	page->version = TURN_PAGE_VERSION;
	page->bytes = TURN_PAGE_BYTES;
	page->gpu_count = who->slice->compute.n_gpus;
	page->serial = journal_serial(&who->arbiter->journal);
	*ret = page;
	return fd;
}

static int accept_page(const struct page_owner *who, int fd, struct turn_page **ret, ino_t *ino)
{
	unsigned int n_gpus = who->slice->compute.n_gpus;
	void *at = NULL;
	int r = page_map(who, fd, TURN_PAGE_BYTES, &at, ino);
	struct turn_page *page = at;

	if (r < 0)
		return r;
	if (page->magic != TURN_PAGE_MAGIC || page->version != TURN_PAGE_VERSION ||
		page->bytes != TURN_PAGE_BYTES || page->gpu_count != n_gpus || !page->serial) {
		(void)munmap(page, TURN_PAGE_BYTES);
		return PAGE_NOT_OURS;
	}
	*ret = page;
	return 0;
}

static struct scheduler_refusal refuse_sched_page(struct arbiter_conn *c, int trouble)
{
	if (trouble == PAGE_TOO_MANY)
		scheduler_report_crowded(c->arbiter->sched, c->slice->compute.sched_slice);
	return (struct scheduler_refusal){
		.status = trouble == PAGE_TOO_MANY ? SLICE_TOO_MANY : SLICE_REFUSED,
		.reason = page_error_text(trouble),
	};
}

/* Processes that have just ended may have left their records. */
static struct scheduler_refusal join_scheduler(struct arbiter_conn *c,
	const struct scheduler_join_request *who)
{
	struct scheduler *scheduler = c->arbiter->sched;
	struct scheduler_slice *s = c->slice->compute.sched_slice;
	struct scheduler_refusal r = scheduler_register(scheduler, s, who, &c->sched_conn);

	if (r.records && scheduler_sweep_slice(scheduler, s))
		r = scheduler_register(scheduler, s, who, &c->sched_conn);
	if (r.records)
		scheduler_report_crowded(scheduler, s);
	if (r.status == SLICE_OK)
		fd_watch_pause(c->watch, true); /* from now on the scheduler thread reads it */
	else
		(void)munmap(who->page, TURN_PAGE_BYTES);
	return r;
}

/* Answers a hello for quanta. May close the connection. */
static void conn_hello_sched(struct arbiter_conn *c, const struct slice_hello *h, int fd)
{
	const struct page_owner who = { c->arbiter, c->slice, c->pid, c->start };
	struct scheduler_join_request client = { .user = c,
		.fd = c->watch->fd,
		.pidfd = c->pidfd,
		.pid = c->pid,
		.ns_pid = h->pid,
		.start = c->start,
		.image = c->image,
		.name = h->name,
		.has_page = h->flags & SLICE_HELLO_AGAIN };
	const struct arbiter_slice_compute *compute = &c->slice->compute;
	CLEANUP(closep) int made = -1;
	struct scheduler_refusal r;
	int trouble;

	arbiter_mps_check_process(c);
	if (compute->on == SLICE_TURNS_NONE) {
		(void)conn_welcome(c, h, SLICE_REFUSED,
			compute->error.code != ERR_NONE ? compute->error.msg
							: "this slice has no turns",
			-1);
		return;
	}
	r = scheduler_check_room(c->arbiter->sched, compute->sched_slice, &client);
	if (r.status == SLICE_OK) {
		if (client.has_page)
			trouble = accept_page(&who, fd, &client.page, &client.page_ino);
		else
			trouble = made = new_page(&who, &client.page, &client.page_ino);
		r = trouble < 0 ? refuse_sched_page(c, trouble) : join_scheduler(c, &client);
	}
	(void)conn_welcome(c, h, r.status, r.reason, r.status == SLICE_OK ? made : -1);
}

/* --- the first packet --- */

/* Whether the sender of the hello was killed, which is normal and not logged. For a process that the arbiter
 * cannot see, only the end of its socket shows that. Until then the process waits for an answer, and gets one. */
static bool has_client_exited(const struct arbiter_conn *c)
{
	struct pollfd p = { .fd = c->watch->fd };

	return c->ended || (!c->pid && poll(&p, 1, 0) == 1 && p.revents & POLLHUP);
}

/*
 * Whether the process may speak for the slice whose socket it reached: it sees the slice's directory. A process
 * without such a directory runs outside of containers (a benchmark, a test), so it must be root's or the
 * arbiter's user's. Where the kernel hides this from the arbiter, only the mode of the directory of slices
 * keeps other processes out.
 */
static bool is_of_slice(const struct arbiter_conn *c)
{
	struct proc_file_id dir;

	switch (c->pid ? proc_slice_dir(c->arbiter->o.procfs, c->pid, &dir)
		       : PROC_DIR_UNREADABLE) {
	case PROC_DIR_FOUND:
		return proc_file_id_equal(&dir, &c->slice->dir);
	case PROC_DIR_ABSENT:
		return c->uid == 0 || c->uid == geteuid();
	case PROC_DIR_UNREADABLE:
		break;
	}
	return true;
}

void conn_hello(struct arbiter_conn *c, const struct slice_hello *h, int fd)
{
	const struct grants_slice *slice = c->slice->grants;
	const struct grants_task *t = grants_task_find(&c->arbiter->grants, c->pid, c->start);

	/* A child with the connection of its dead parent is not the parent. */
	if (c->hello_received || (t && t->dead) || has_client_exited(c)) {
		conn_close(c);
		return;
	}
	c->hello_received = true;
	if (!is_of_slice(c)) {
		/* The PID may be another process's by now. */
		if (proc_ended(c->pidfd))
			conn_close(c);
		else
			(void)conn_welcome(c, h, SLICE_REFUSED,
				"the directory of this slice is not mounted in this process at " SLICE_CONTAINER_DIR,
				-1);
		return;
	}
	if (h->version != SLICE_WIRE_VERSION)
		(void)conn_welcome(c, h, SLICE_BAD_VERSION, "this arbiter speaks version 1",
			-1);
	else if (!slice || slice->removed)
		(void)conn_welcome(c, h, SLICE_GONE, "no such slice", -1);
	else if (!(h->flags & (SLICE_HELLO_MEMORY | SLICE_HELLO_TURNS)))
		(void)conn_welcome(c, h, SLICE_OK, NULL, -1);
	else if (!c->pid)
		(void)conn_welcome(c, h, SLICE_REFUSED,
			"the arbiter cannot see this process: it needs the node's PID namespace",
			-1);
	else if (h->flags & SLICE_HELLO_TURNS)
		conn_hello_sched(c, h, fd);
	else if (h->flags & SLICE_HELLO_AGAIN)
		register_returning_client(c, h, fd);
	else
		register_new(c, h);
}
