/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Processes that were there before this arbiter or unknown to it: processes of an earlier arbiter, from its
 * records and their pages; processes whose records were lost, from their pages alone; processes that executed
 * another program.
 */
#include "node/arbiter/process/restore.h"

#include "node/arbiter/clients/conn.h"
#include "node/arbiter/clients/pages.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/process/mps.h"
#include "node/arbiter/process/proc.h"
#include "node/arbiter/process/death.h"
#include "node/arbiter/slices/slices.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Time to search the descriptors of all processes, before any process is served. */
#define RESTORE_SCAN_NS (2 * NS_PER_SEC)

/* --- after a restart --- */

struct adoption {
	struct arbiter *arbiter;
	struct grants_member *member;
};

static bool adopt_fd(void *arg, int fd)
{
	const struct adoption *adoption = arg;
	struct grants_member *m = adoption->member;
	CLEANUP(closep) int owned = fd;
	struct member_state *side = m->user;
	const struct page_owner who = { adoption->arbiter, m->slice->user, m->task->pid,
		m->task->start };
	struct slice_page *page = NULL;
	ino_t ino = 0;

	if (page_accept(&who, owned, &page, &ino) < 0)
		return false;
	if (!grants_page_matches(m->rec, page)) {
		(void)munmap(page, SLICE_PAGE_BYTES);
		return false;
	}
	side->page = page;
	side->page_ino = ino;
	/* The slice's file is missing or wrong: the limit that the page published stays in force. */
	for (unsigned int i = 0; i < m->slice->n_gpus; i++) {
		if (m->slice->removed || m->slice->gpus[i].limit == SLICE_LIMIT_NOT_KNOWN)
			grants_slice_set_limit(m->slice, i,
				atomic_load_explicit(&page->gpus[i].limit,
					memory_order_relaxed));
	}
	grants_adopt_page(m, page);
	arbiter_slice_publish_compute(m);
	if (m->slice->user)
		arbiter_mps_check_member(m->slice->user, m);
	return true;
}

/* Restores what an ended process left, if a reading had found its memory still in use. False: nothing is left. */
static bool restore_retained(struct arbiter *a, struct grants_record *rec)
{
	struct grants_slice *s;
	struct grants_member *m;

	if (!atomic_load_explicit(&rec->retained, memory_order_relaxed))
		return false;
	s = arbiter_slice_restore(a, rec);
	m = s ? grants_restore(&a->grants, s, rec) : NULL;
	if (m)
		m->abandoned = m->task->dead = true;
	return m != NULL;
}

/*
 * Searches the member's process for its page, until @search_end_ns. A page that is not found comes with its process,
 * which has lost its connection and registers again. Until then the whole grant counts as used.
 */
static void find_member_page(struct arbiter *a, struct grants_member *m, uint64_t search_end_ns)
{
	struct adoption adoption = { .arbiter = a, .member = m };

	if (time_mono_ns() < search_end_ns)
		(void)proc_each_memfd(a->o.procfs, m->task->pid, PAGE_NAME, NULL, adopt_fd,
			&adoption);
}

/* False: nothing is left of the member, or that cannot be known. */
static bool restore_one(struct arbiter *a, struct grants_record *rec, uint64_t search_end_ns)
{
	CLEANUP(closep) int pidfd = (int)syscall(SYS_pidfd_open, rec->pid, 0);
	struct error err = ERROR_INIT;
	struct grants_slice *s;
	struct grants_member *m;
	struct proc_stat st;

	if (pidfd < 0 && errno != ESRCH) {
		log_error("process of an earlier arbiter cannot be watched, it is not counted",
			LOG_STR("slice", rec->slice), LOG_UINT("pid", rec->pid),
			LOG_STR("reason", strerror(errno)));
		return false;
	}
	/* Another start time: another process has the PID. A process that is ending still counts until its pidfd
	 * reports the end. */
	if (pidfd < 0 || !proc_stat(a->o.procfs, rec->pid, &st) || st.start != rec->start ||
		proc_ended(pidfd))
		return restore_retained(a, rec);
	s = arbiter_slice_restore(a, rec);
	if (!s) {
		log_error("processes of one slice have different GPUs, one is not counted",
			LOG_STR("slice", rec->slice), LOG_UINT("pid", rec->pid));
		return false;
	}
	m = grants_restore(&a->grants, s, rec);
	if (!m)
		return false;
	m->user = calloc(1, sizeof(struct member_state));
	if (!m->user || arbiter_death_watch(a, m->task, &pidfd, &err) < 0) {
		grants_member_drop(&a->grants, m);
		return false;
	}
	if (rec->image && st.image && rec->image != st.image)
		grants_member_abandon(m);
	else
		find_member_page(a, m, search_end_ns);
	return true;
}

void restore_grants(struct arbiter *a)
{
	uint64_t search_end_ns = time_mono_ns() + RESTORE_SCAN_NS;
	unsigned int kept = 0, pages = 0;

	for (size_t i = 0; i < journal_touched(&a->journal); i++) {
		struct grants_record *rec = &a->journal.records[i];

		if (atomic_load_explicit(&rec->state, memory_order_acquire) !=
			GRANTS_RECORD_USED)
			continue;
		if (grants_record_is_valid(rec) && restore_one(a, rec, search_end_ns))
			kept++;
		else
			atomic_store_explicit(&rec->state, GRANTS_RECORD_FREE,
				memory_order_seq_cst);
	}
	for (const struct grants_slice *s = a->grants.slices; s; s = s->next) {
		for (const struct grants_member *m = s->members; m; m = m->next)
			pages += m->page != NULL;
	}
	if (kept)
		log_info("processes of an earlier arbiter", LOG_UINT("processes", kept),
			LOG_UINT("pages", pages));
}

/* --- processes without their record --- */

/* Any process can bring such a page, so the same quota applies as to a registration. */
struct grants_member *restore_from_page(struct arbiter *a, struct grants_slice *s,
	struct grants_client *who, const struct slice_page *page)
{
	struct grants_record *rec = journal_record(&a->journal);
	struct grants_member *m;

	if (!rec || !page_fits(page, s) || !grants_has_capacity(&a->grants, s))
		return NULL;
	who->serial = page->serial;
	grants_record_fill(rec, s, who, page);
	m = grants_restore(&a->grants, s, rec);
	if (!m) {
		atomic_store_explicit(&rec->state, GRANTS_RECORD_FREE, memory_order_seq_cst);
		return NULL;
	}
	log_warn("process has a page that the book does not know, believing it",
		LOG_STR("slice", s->id), LOG_UINT("pid", who->pid), LOG_STR("name", who->name));
	return m;
}

struct lost_page {
	struct page_owner client;
	struct grants_slice *slice;
	struct slice_page *page;
	ino_t ino;
};

/* The newest page is the process's own. A child also has its parent's page open, which is older. */
static bool select_newest_page(void *arg, int fd)
{
	struct lost_page *l = arg;
	CLEANUP(closep) int owned = fd;
	struct slice_page *page = NULL;
	ino_t ino = 0;

	if (page_accept(&l->client, owned, &page, &ino) < 0)
		return false;
	if (!page_fits(page, l->slice) || grants_member_find_serial(l->slice, page->serial) ||
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

/* Adopts the page, or unmaps it. */
static bool adopt_lost_page(struct arbiter *a, struct lost_page *l, struct grants_client *who,
	int *pidfd)
{
	struct grants_member *m = restore_from_page(a, l->slice, who, l->page);
	struct error err = ERROR_INIT;
	struct member_state *side = m ? calloc(1, sizeof(*side)) : NULL;

	if (side)
		m->user = side;
	if (!side || arbiter_death_watch(a, m->task, pidfd, &err) < 0) {
		if (m)
			grants_member_drop(&a->grants, m);
		(void)munmap(l->page, SLICE_PAGE_BYTES);
		return false;
	}
	side->page = l->page;
	side->page_ino = l->ino;
	grants_adopt_page(m, l->page);
	arbiter_slice_publish_compute(m);
	if (m->slice->user)
		arbiter_mps_check_member(m->slice->user, m);
	return true;
}

enum restore_result restore_lost_process(struct arbiter *a, uint32_t pid, uint64_t start,
	const char *slice, long *at)
{
	CLEANUP(closep) int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct lost_page l = { .client = { a, arbiter_slices_find(a, slice), pid, start },
		.slice = grants_slice_find(&a->grants, slice) };
	char name[SLICE_NAME_MAX];
	struct grants_client who = { .pid = pid, .start = start, .name = name };
	struct proc_stat st;
	bool all;

	if (!l.slice || l.slice->removed || pidfd < 0 || !proc_stat(a->o.procfs, pid, &st) ||
		st.start != start)
		return RESTORE_NO_PAGE;
	all = proc_each_memfd(a->o.procfs, pid, PAGE_NAME, at, select_newest_page, &l);
	if (!l.page)
		return all ? RESTORE_NO_PAGE : RESTORE_MORE;
	who.image = st.image;
	who.ns_pid = proc_ns_pid(a->o.procfs, pid);
	proc_name(a->o.procfs, pid, name);
	return adopt_lost_page(a, &l, &who, &pidfd) ? RESTORE_ADOPTED : RESTORE_NO_PAGE;
}

/* --- exec --- */

void restore_detect_exec(struct arbiter *a)
{
	for (struct grants_slice *s = a->grants.slices; s; s = s->next) {
		for (struct grants_member *m = s->members; m; m = m->next) {
			const struct member_state *side = m->user;
			struct proc_stat st;

			if (m->abandoned || !m->rec->image || (side && side->conn) ||
				!proc_stat(a->o.procfs, m->task->pid, &st) || !st.image ||
				st.image == m->rec->image || st.start != m->task->start)
				continue;
			grants_member_abandon(m);
		}
	}
}
