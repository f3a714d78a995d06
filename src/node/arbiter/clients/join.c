/* SPDX-License-Identifier: Apache-2.0 */

/* A hello for the scheduler: the process gets a page or brings its old one, and the scheduler thread takes the
 * connection. */
#include "node/arbiter/internal.h"

#include "node/arbiter/scheduler/scheduler.h"
#include "lib/base/fd.h"

#include <stddef.h>
#include <sys/mman.h>

#define NAME "gpuslice-turns"

/* ---- pages (abi/turn-page.h): made, or accepted from an untrusted process --------------------- */

static int new_page(const struct page_owner *who, struct turn_page **ret, ino_t *ino)
{
	void *at = NULL;
	int fd = page_make(who, NAME, TURN_PAGE_BYTES, &at, ino);
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

/* Arbiters before 1.0 did not allocate the memory behind the last GPU of the slice. */
static int accept_page(const struct page_owner *who, int fd, struct turn_page **ret, ino_t *ino)
{
	unsigned int n_gpus = who->slice->compute.n_gpus;
	void *at = NULL;
	int r = page_map(who, fd, TURN_PAGE_BYTES,
		offsetof(struct turn_page, gpus) + n_gpus * sizeof(struct turn_gpu_page), &at,
		ino);
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

/* ---- hello ------------------------------------------------------------------------------------ */

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
	struct scheduler *t = c->arbiter->sched;
	struct scheduler_slice *s = c->slice->compute.sched_slice;
	struct scheduler_refusal r = scheduler_register(t, s, who, &c->sched_conn);

	if (r.records && scheduler_sweep_slice(t, s))
		r = scheduler_register(t, s, who, &c->sched_conn);
	if (r.records)
		scheduler_report_crowded(t, s);
	if (r.status == SLICE_OK)
		fd_watch_pause(c->watch, true); /* from now on the scheduler thread reads it */
	else
		(void)munmap(who->page, TURN_PAGE_BYTES);
	return r;
}

void conn_hello_sched(struct arbiter_conn *c, const struct slice_hello *h, int fd)
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

	mps_check_process(c);
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
