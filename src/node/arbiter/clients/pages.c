/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pages (abi/slice-page.h, abi/turn-page.h): how many there are, and the pages as files. The arbiter makes them, or
 * accepts them from an untrusted process.
 */
#include "node/arbiter/clients/pages.h"

#include "node/arbiter/clients/passed-fds.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/process/proc.h"
#include "node/arbiter/scheduler/scheduler.h"
#include "node/arbiter/slices/slice.h"
#include "node/arbiter/watch.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Every PAGES_CHECK_MS, PAGES_CHECK_BATCH of the pages without a watch are checked. */
#define PAGES_CHECK_MS    100
#define PAGES_CHECK_BATCH 128

/* --- how many --- */

/*
 * Counts pages of slices for as long as any process has them: pages that the arbiter makes, and pages that
 * processes bring.
 *
 * Why. The kernel charges a page's memory to the program that touches it first. That is the arbiter for a page
 * that it made. It is also the arbiter where a process frees the memory again (fallocate) and the arbiter reads
 * the page after that. A process could register in a loop and keep each page, and so use up the memory limit of
 * arbiter and agent. So the number of pages has a limit for a process, and for a slice (fair-quota.h). No page
 * is larger than TURN_PAGE_BYTES.
 *
 * Watched pages. inotify reports when no process has a page open or mapped any more: the watch ends with the
 * file.
 *
 * Blind pages. Where no watch is available, because root of a container has used them up, the end is not known.
 *
 * 1. The arbiter keeps a descriptor of the page. The page counts until a watch is available for it, or its
 *    process has ended.
 * 2. If the process has ended, another thread frees the page's memory, also where another process still has the
 *    page. The arbiter uses another thread because processes can hold the lock for this (passed-fds.h).
 * 3. The kernel charges the memory to any process that touches the page later.
 *
 * Pages of an earlier arbiter count from the moment on at which this arbiter sees them: it finds them in their
 * process (process/restore.c), or the process brings them.
 */

/* The pages of a slice. Outlives the slice while processes have pages. */
struct slice_pages {
	unsigned int n;
	unsigned int n_blind;              /* blind ones of .n */
	const struct arbiter_slice *slice; /* NULL: the slice is gone */
	bool detached;                     /* the slice has no reference to it */
};

/* A process for which pages count. It may have ended. */
struct page_client {
	struct page_client *next;
	uint32_t pid;
	uint64_t start;
	unsigned int n;
};

struct issued_page {
	struct issued_page *next;
	struct arbiter *arbiter;
	struct slice_pages *pages;
	struct page_client *client;
	int watch; /* -1: blind */
	/* .fd, .ino and .bytes are of blind pages only. */
	int fd; /* -1: another thread empties the page */
	ino_t ino;
	off_t bytes;
};

static void free_if_unused(struct slice_pages *of)
{
	if (of->detached && !of->n)
		free(of);
}

static struct page_client **find_client(struct pages *p, uint32_t pid, uint64_t start)
{
	struct page_client **at = &p->clients[pid % PAGES_BUCKETS];

	while (*at && ((*at)->pid != pid || (*at)->start != start))
		at = &(*at)->next;
	return at;
}

/* NULL: no memory. */
static struct page_client *client_of(struct pages *p, const struct page_owner *who)
{
	struct page_client **at = find_client(p, who->pid, who->start);

	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (*at) {
			(*at)->pid = who->pid;
			(*at)->start = who->start;
		}
	}
	return *at;
}

static void release_page_client(struct pages *p, struct page_client *c)
{
	if (--c->n)
		return;
	*find_client(p, c->pid, c->start) = c->next;
	free(c);
}

static struct issued_page **get_watch_bucket(struct pages *p, int watch)
{
	return &p->buckets[(unsigned int)watch % PAGES_BUCKETS];
}

static bool is_blind_page(const struct issued_page *page)
{
	return page->watch < 0;
}

static struct issued_page **get_blind_bucket(struct pages *p, ino_t ino)
{
	return &p->blind[ino % PAGES_BUCKETS];
}

/* The link of the list that points to @page. */
static struct issued_page **find_link(struct issued_page **at, const struct issued_page *page)
{
	while (*at != page)
		at = &(*at)->next;
	return at;
}

static void remove_unused_page(struct pages *p, struct issued_page **at)
{
	struct issued_page *page = *at;

	*at = page->next;
	if (is_blind_page(page)) {
		fair_quota_remove(&p->blind_quota, page->pages->n_blind--);
		closep(&page->fd);
	}
	fair_quota_remove(&p->quota, page->pages->n--);
	release_page_client(p, page->client);
	free_if_unused(page->pages);
	free(page);
}

static void forget_all(struct pages *p, struct issued_page **buckets)
{
	for (unsigned int i = 0; i < PAGES_BUCKETS; i++) {
		while (buckets[i])
			remove_unused_page(p, &buckets[i]);
	}
}

/* False: the kernel's queue overflowed. */
static bool read_events(struct pages *p)
{
	union {
		struct inotify_event head;
		char room[4096];
	} data;
	ssize_t n;

	while (p->watch && (n = read(p->watch->fd, &data, sizeof(data))) > 0) {
		struct inotify_event e;

		for (size_t at = 0; at + sizeof(e) <= (size_t)n; at += sizeof(e) + e.len) {
			struct issued_page **out;

			memcpy(&e, data.room + at, sizeof(e));
			if (e.mask & IN_Q_OVERFLOW)
				return false;
			out = get_watch_bucket(p, e.wd);
			while (*out && (*out)->watch != e.wd)
				out = &(*out)->next;
			if (*out && (e.mask & IN_IGNORED))
				remove_unused_page(p, out);
		}
	}
	return true;
}

static void on_events(void *arg);

static int start_watch(struct arbiter *a, struct error *err)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	if (fd < 0)
		return error_sys(err, errno, "watch pages");
	if (fd_watch_start(&a->pages.watch, a->loop, fd, on_events, a, err) < 0) {
		closep(&fd);
		return -1;
	}
	return 0;
}

static void on_events(void *arg)
{
	struct arbiter *a = arg;
	struct error err = ERROR_INIT;

	if (read_events(&a->pages))
		return;
	/* Lost events would make unused pages count for ever, so the count of watched pages restarts at zero. */
	log_warn("pages that processes have are counted anew");
	a->pages.watch = fd_watch_stop(a->pages.watch);
	forget_all(&a->pages, a->pages.buckets);
	(void)start_watch(a, &err);
}

/* -1: no watch. */
static int watch_page(struct pages *p, int fd)
{
	char path[40];

	if (!p->watch)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* The event itself never happens: the kernel reports only the end of the watch. A file has one watch. */
	return inotify_add_watch(p->watch->fd, path, IN_MOVE_SELF);
}

static bool is_page_watched(struct pages *p, int watch)
{
	const struct issued_page *page = *get_watch_bucket(p, watch);

	while (page && page->watch != watch)
		page = page->next;
	return page != NULL;
}

/* --- blind pages --- */

static void on_emptied(void *arg, int fd)
{
	struct issued_page *page = arg;
	struct pages *p = &page->arbiter->pages;

	page->fd = fd;
	if (fd < 0)
		remove_unused_page(p, find_link(get_blind_bucket(p, page->ino), page));
}

/*
 * Only the process that a blind page counts for may bring it. is_page_mapped() looks for that process only, so
 * the arbiter would empty a page that another process brought while the arbiter has it mapped. If the slice is
 * gone, the process may bring the page in a new slice.
 */
static bool is_page_of_process(const struct issued_page *page, const struct page_owner *who)
{
	const struct page_client *c = page->client;

	return c->pid == who->pid && c->start == who->start &&
	       (!page->pages->slice || page->pages->slice == who->slice);
}

/* Whether the arbiter may have the page mapped: its process is registered. */
static bool is_page_mapped(const struct issued_page *page)
{
	const struct page_client *c = page->client;
	const struct arbiter_slice *s = page->pages->slice;

	return grants_task_find(&page->arbiter->grants, c->pid, c->start) ||
	       (s && s->compute.sched_slice &&
		       scheduler_has_process(page->arbiter->sched, s->compute.sched_slice,
			       c->pid, c->start));
}

static bool has_page_client_ended(const struct issued_page *page)
{
	struct proc_stat st;

	return !proc_stat(page->arbiter->o.procfs, page->client->pid, &st) ||
	       st.start != page->client->start;
}

/* Gives the page a watch. It counts on. */
static void set_blind_page_watch(struct pages *p, struct issued_page *page, int watch)
{
	struct issued_page **at = find_link(get_blind_bucket(p, page->ino), page);

	*at = page->next;
	fair_quota_remove(&p->blind_quota, page->pages->n_blind--);
	page->watch = watch;
	page->next = *get_watch_bucket(p, watch);
	*get_watch_bucket(p, watch) = page;
	closep(&page->fd);
}

/* False: no watches are available now. */
static bool check_blind_page(struct issued_page *page, bool watches)
{
	struct arbiter *a = page->arbiter;
	int watch = watches ? watch_page(&a->pages, page->fd) : -1;

	if (watch >= 0)
		set_blind_page_watch(&a->pages, page, watch);
	else if (has_page_client_ended(page) && !is_page_mapped(page) &&
		 passed_fds_empty_memfd(a->passed_fds, page->pages, page->fd, page->bytes,
			 on_emptied, page))
		page->fd = -1;
	return watch >= 0;
}

static void on_blind_pages_timer(uv_timer_t *t)
{
	struct arbiter *a = t->data;
	struct pages *p = &a->pages;
	struct error err = ERROR_INIT;
	bool watches = p->watch || start_watch(a, &err) == 0;

	for (unsigned int i = 0, n = 0; i < PAGES_BUCKETS && n < PAGES_CHECK_BATCH; i++) {
		struct issued_page *next;

		for (struct issued_page *page = p->blind[p->next_blind_bucket]; page;
			page = next, n++) {
			next = page->next;
			if (page->fd >= 0)
				watches = check_blind_page(page, watches);
		}
		p->next_blind_bucket = (p->next_blind_bucket + 1) % PAGES_BUCKETS;
	}
	if (!p->blind_quota.n)
		(void)uv_timer_stop(t);
}

static struct issued_page *find_blind_page(struct pages *p, ino_t ino)
{
	struct issued_page *page = *get_blind_bucket(p, ino);

	while (page && page->ino != ino)
		page = page->next;
	return page;
}

/* --- all pages --- */

void pages_start(struct arbiter *a)
{
	struct pages *p = &a->pages;
	struct error err = ERROR_INIT;
	struct rlimit r;

	p->quota.capacity = p->blind_quota.capacity = PAGES_MAX;
	/* Half of the quarter that connections leave (arbiter.c). */
	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur / 8 < PAGES_MAX)
		p->blind_quota.capacity = (unsigned int)(r.rlim_cur / 8);
	(void)uv_timer_init(a->loop, &p->blind_timer);
	p->blind_timer.data = a;
	if (start_watch(a, &err) < 0)
		log_warn("pages count until their process has ended",
			LOG_STR("reason", err.msg));
}

void pages_stop(struct arbiter *a)
{
	struct pages *p = &a->pages;

	p->watch = fd_watch_stop(p->watch);
	uv_close((uv_handle_t *)&p->blind_timer, NULL);
	forget_all(p, p->buckets);
	forget_all(p, p->blind);
	free(p->gone_slices);
	p->gone_slices = NULL;
}

void pages_detach_slice(struct arbiter_slice *s)
{
	if (!s->pages)
		return;
	s->pages->detached = true;
	s->pages->slice = NULL;
	free_if_unused(s->pages);
	s->pages = NULL;
}

static bool has_page_capacity(struct pages *p, const struct slice_pages *of,
	const struct page_owner *who)
{
	const struct page_client *c = *find_client(p, who->pid, who->start);

	return fair_quota_allows(&p->quota, of->n) && (!c || c->n < PAGES_CLIENT_MAX);
}

/* NULL: no memory. */
static struct slice_pages *ensure_slice_pages(const struct page_owner *who)
{
	struct slice_pages **of =
		who->slice ? &who->slice->pages : &who->arbiter->pages.gone_slices;

	if (!*of) {
		*of = calloc(1, sizeof(**of));
		if (*of)
			(*of)->slice = who->slice;
	}
	return *of;
}

/* NULL: no memory. */
static struct issued_page *add_counted_page(struct slice_pages *of,
	const struct page_owner *who, int watch)
{
	struct pages *p = &who->arbiter->pages;
	struct issued_page *page = calloc(1, sizeof(*page));
	struct page_client *client = page ? client_of(p, who) : NULL;

	if (!client) {
		free(page);
		return NULL;
	}
	client->n++;
	fair_quota_add(&p->quota, of->n++);
	*page = (struct issued_page){ .arbiter = who->arbiter,
		.pages = of,
		.client = client,
		.watch = watch };
	return page;
}

static bool count_blind_page(struct slice_pages *of, const struct page_owner *who, int fd,
	const struct stat *st)
{
	struct pages *p = &who->arbiter->pages;
	CLEANUP(closep) int own = -1;
	struct issued_page *page;

	if (!fair_quota_allows(&p->blind_quota, of->n_blind))
		return false;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	page = own >= 0 ? add_counted_page(of, who, -1) : NULL;
	if (!page)
		return false;
	page->fd = steal_fd(&own);
	page->ino = st->st_ino;
	page->bytes = st->st_size;
	page->next = *get_blind_bucket(p, page->ino);
	*get_blind_bucket(p, page->ino) = page;
	fair_quota_add(&p->blind_quota, of->n_blind++);
	if (!uv_is_active((uv_handle_t *)&p->blind_timer))
		(void)uv_timer_start(&p->blind_timer, on_blind_pages_timer, PAGES_CHECK_MS,
			PAGES_CHECK_MS);
	return true;
}

static bool count_watched_page(struct slice_pages *of, const struct page_owner *who, int watch)
{
	struct pages *p = &who->arbiter->pages;
	struct issued_page *page = add_counted_page(of, who, watch);

	if (!page)
		return false;
	page->next = *get_watch_bucket(p, watch);
	*get_watch_bucket(p, watch) = page;
	return true;
}

/* Counts the page of this memfd until no process has it open or mapped. 0, or enum page_error. */
static int pages_count_page(const struct page_owner *who, int fd)
{
	struct pages *p = &who->arbiter->pages;
	struct slice_pages *of = ensure_slice_pages(who);
	const struct issued_page *known;
	struct stat st;
	int watch;

	if (fstat(fd, &st) < 0)
		return PAGE_NOT_OURS;
	known = find_blind_page(p, st.st_ino);
	if (known)
		return known->fd >= 0 && is_page_of_process(known, who) ? 0 : PAGE_NOT_OURS;
	/* Pages may have ended whose events are not read yet. */
	if (of && !has_page_capacity(p, of, who)) {
		on_events(who->arbiter);
		of = ensure_slice_pages(who);
	}
	if (!of)
		return PAGE_TOO_MANY;
	watch = watch_page(p, fd);
	if (watch >= 0 && is_page_watched(p, watch))
		return 0;
	if (has_page_capacity(p, of, who) && (watch < 0 ? count_blind_page(of, who, fd, &st)
							: count_watched_page(of, who, watch)))
		return 0;
	if (watch >= 0)
		(void)inotify_rm_watch(p->watch->fd, watch);
	return PAGE_TOO_MANY;
}

/* --- pages as files --- */

#define PAGE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

const char *page_error_text(int trouble)
{
	switch (trouble) {
	case PAGE_TOO_MANY:
		return "this process, this slice or this node has too many pages";
	case PAGE_NOT_OURS:
		return "no page, or not one of ours";
	default:
		return "no memory for a page";
	}
}

static void *map_client_page(int fd, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

int page_make(const struct page_owner *who, const char *name, size_t bytes, void **ret,
	ino_t *ino)
{
	CLEANUP(closep) int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st;
	int r;

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 ||
		fcntl(fd, F_ADD_SEALS, PAGE_SEALS | F_SEAL_SEAL) < 0 || fstat(fd, &st) < 0)
		return PAGE_NO_MEMORY;
	r = pages_count_page(who, fd);
	if (r < 0)
		return r;
	/* Without this, missing memory is a signal (SIGBUS) at the first access instead of an error here. */
	if (fallocate(fd, 0, 0, (off_t)bytes) < 0)
		return PAGE_NO_MEMORY;
	*ret = map_client_page(fd, bytes);
	*ino = st.st_ino;
	return *ret ? steal_fd(&fd) : PAGE_NO_MEMORY;
}

/* Uses no call that takes a lock which a process can hold as long as it likes. Other calls tell more, but take
 * such a lock: the file's position (lseek), the inode (SEEK_HOLE, F_ADD_SEALS). */
bool page_has_form(int fd, size_t bytes)
{
	struct stat st;
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & PAGE_SEALS) == PAGE_SEALS && fstat(fd, &st) == 0 &&
	       st.st_size == (off_t)bytes;
}

int page_map(const struct page_owner *who, int fd, size_t bytes, void **ret, ino_t *ino)
{
	struct stat st;
	int r;

	/* If memory of the page is missing, the kernel would charge it to the arbiter at the first read. The
	 * process can still free the memory after this check; the count of pages covers that. */
	if (!page_has_form(fd, bytes) || fstat(fd, &st) < 0 ||
		(uint64_t)st.st_blocks * S_BLKSIZE < bytes)
		return PAGE_NOT_OURS;
	r = pages_count_page(who, fd);
	if (r < 0)
		return r;
	*ino = st.st_ino;
	*ret = map_client_page(fd, bytes);
	return *ret ? 0 : PAGE_NOT_OURS;
}

int page_new(const struct page_owner *who, struct slice_page **ret, ino_t *ino)
{
	void *at = NULL;
	int fd = page_make(who, PAGE_NAME, SLICE_PAGE_BYTES, &at, ino);

	*ret = at;
	return fd;
}

int page_accept(const struct page_owner *who, int fd, struct slice_page **ret, ino_t *ino)
{
	void *at = NULL;
	int r = page_map(who, fd, SLICE_PAGE_BYTES, &at, ino);
	struct slice_page *page = at;

	if (r < 0)
		return r;
	if (page->magic != SLICE_PAGE_MAGIC || page->version != SLICE_PAGE_VERSION ||
		page->bytes != SLICE_PAGE_BYTES || !page->serial) {
		(void)munmap(page, SLICE_PAGE_BYTES);
		return PAGE_NOT_OURS;
	}
	*ret = page;
	return 0;
}

bool page_fits(const struct slice_page *page, const struct grants_slice *s)
{
	if (page->gpu_count != s->n_gpus)
		return false;
	for (unsigned int i = 0; i < s->n_gpus; i++) {
		if (memcmp(page->gpus[i].uuid, s->gpus[i].uuid, SLICE_UUID_BYTES) != 0)
			return false;
	}
	return true;
}
