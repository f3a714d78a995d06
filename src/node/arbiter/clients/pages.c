/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pages of slices, counted for as long as anybody has one: those that the arbiter gives, and those that processes
 * bring. The kernel charges a page's memory to the program that touches it first. That is the arbiter where it made
 * the page; and also where a process takes the memory away again (fallocate) and the arbiter looks at the page
 * after that. A process that registered again and again, and kept the page each time, would use up the memory
 * that arbiter and agent may have. So the number of pages is limited: of a process, and of a slice (room.h).
 * None has more than TURN_PAGE_BYTES.
 *
 * That nobody has a page any more, neither open nor mapped, inotify says: the watch ends with the file. Where no
 * watch is available, because root of a container has used them up, this is not known. Of such a page the arbiter
 * keeps a descriptor. The page counts until there is a watch for it, or its process has ended. Then the arbiter takes
 * the page's memory away, also where another process still has the page; the kernel charges a process that touches
 * it after that. Processes can hold the lock that this takes, so another thread does it (foreign.h).
 *
 * Pages of an arbiter before this one count from the moment on at which this one sees them: found in their process
 * (process/restore.c), or brought.
 */
#include "node/arbiter/internal.h"

#include "node/arbiter/clients/foreign.h"
#include "node/arbiter/turns/turn.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <unistd.h>

/* A slice's; outlives it while pages are out. */
struct pages_of {
	unsigned int n;
	unsigned int n_blind;      /* of them */
	const struct slice *slice; /* NULL: it has gone */
	bool left;                 /* by its slice */
};

/* A process that has, or had, pages that are out. */
struct page_client {
	struct page_client *next;
	uint32_t pid;
	uint64_t start;
	unsigned int n;
};

struct page_out {
	struct page_out *next;
	struct arbiter *arbiter;
	struct pages_of *of;
	struct page_client *client;
	int watch; /* -1: blind */
	/* Blind: */
	int fd; /* -1: it is being emptied */
	ino_t ino;
	off_t bytes;
};

static void free_if_unused(struct pages_of *of)
{
	if (of->left && !of->n)
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
static struct page_client *client_of(struct pages *p, const struct page_who *who)
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

static void client_give(struct pages *p, struct page_client *c)
{
	if (--c->n)
		return;
	*find_client(p, c->pid, c->start) = c->next;
	free(c);
}

static struct page_out **bucket_of(struct pages *p, int watch)
{
	return &p->buckets[(unsigned int)watch % PAGES_BUCKETS];
}

static bool is_blind(const struct page_out *o)
{
	return o->watch < 0;
}

static struct page_out **blind_bucket_of(struct pages *p, ino_t ino)
{
	return &p->blind[ino % PAGES_BUCKETS];
}

/* Where the list says that there is @o. */
static struct page_out **find_link(struct page_out **at, const struct page_out *o)
{
	while (*at != o)
		at = &(*at)->next;
	return at;
}

static void come_back(struct pages *p, struct page_out **at)
{
	struct page_out *o = *at;

	*at = o->next;
	if (is_blind(o)) {
		room_give(&p->blind_room, o->of->n_blind--);
		closep(&o->fd);
	}
	room_give(&p->room, o->of->n--);
	client_give(p, o->client);
	free_if_unused(o->of);
	free(o);
}

static void forget_all(struct pages *p, struct page_out **buckets)
{
	for (unsigned int i = 0; i < PAGES_BUCKETS; i++) {
		while (buckets[i])
			come_back(p, &buckets[i]);
	}
}

/* False: the kernel had no room for all that there was to say. */
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
			struct page_out **out;

			memcpy(&e, data.room + at, sizeof(e));
			if (e.mask & IN_Q_OVERFLOW)
				return false;
			out = bucket_of(p, e.wd);
			while (*out && (*out)->watch != e.wd)
				out = &(*out)->next;
			if (*out && (e.mask & IN_IGNORED))
				come_back(p, out);
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
	return watch_start(&a->pages.watch, a->loop, fd, on_events, a, err);
}

static void on_events(void *arg)
{
	struct arbiter *a = arg;
	struct error err = ERROR_INIT;

	if (read_events(&a->pages))
		return;
	/* Better to count anew than to count what nobody has for ever. */
	log_warn("pages that processes have are counted anew");
	a->pages.watch = watch_stop(a->pages.watch);
	forget_all(&a->pages, a->pages.buckets);
	(void)start_watch(a, &err);
}

/* -1: there is none. */
static int watch_page(struct pages *p, int fd)
{
	char path[40];

	if (!p->watch)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* Of an event that never is: only the end of the watch is reported. One file has one watch. */
	return inotify_add_watch(p->watch->fd, path, IN_MOVE_SELF);
}

static bool is_out(struct pages *p, int watch)
{
	const struct page_out *o = *bucket_of(p, watch);

	while (o && o->watch != watch)
		o = o->next;
	return o != NULL;
}

/* ---- pages without a watch -------------------------------------------------------------------- */

static void on_emptied(void *arg, int fd)
{
	struct page_out *o = arg;
	struct pages *p = &o->arbiter->pages;

	o->fd = fd;
	if (fd < 0)
		come_back(p, find_link(blind_bucket_of(p, o->ino), o));
}

/*
 * Only the process that a blind page counts for may bring it: is_used() looks for that process, and a page that another
 * one brought would be emptied while the arbiter has it mapped. Where the slice has gone the process may bring it in
 * a new one.
 */
static bool is_of(const struct page_out *o, const struct page_who *who)
{
	const struct page_client *c = o->client;

	return c->pid == who->pid && c->start == who->start &&
	       (!o->of->slice || o->of->slice == who->slice);
}

/* The arbiter has it mapped. */
static bool is_used(const struct page_out *o)
{
	const struct page_client *c = o->client;
	const struct slice *s = o->of->slice;

	return book_task_find(&o->arbiter->book, c->pid, c->start) ||
	       (s && s->compute.turn &&
		       turn_has_process(o->arbiter->turn, s->compute.turn, c->pid, c->start));
}

static bool has_ended(const struct page_out *o)
{
	struct proc_stat st;

	return !proc_stat(o->arbiter->o.procfs, o->client->pid, &st) ||
	       st.start != o->client->start;
}

/* It counts on, as one with a watch. */
static void see(struct pages *p, struct page_out *o, int watch)
{
	struct page_out **at = find_link(blind_bucket_of(p, o->ino), o);

	*at = o->next;
	room_give(&p->blind_room, o->of->n_blind--);
	o->watch = watch;
	o->next = *bucket_of(p, watch);
	*bucket_of(p, watch) = o;
	closep(&o->fd);
}

/* False: there are no watches now. */
static bool look_at(struct page_out *o, bool watches)
{
	struct arbiter *a = o->arbiter;
	int watch = watches ? watch_page(&a->pages, o->fd) : -1;

	if (watch >= 0)
		see(&a->pages, o, watch);
	else if (has_ended(o) && !is_used(o) &&
		 foreign_empty(a->foreign, o->of, o->fd, o->bytes, on_emptied, o))
		o->fd = -1;
	return watch >= 0;
}

static void on_look(uv_timer_t *t)
{
	struct arbiter *a = t->data;
	struct pages *p = &a->pages;
	struct error err = ERROR_INIT;
	bool watches = p->watch || start_watch(a, &err) == 0;

	for (unsigned int i = 0, n = 0; i < PAGES_BUCKETS && n < PAGES_LOOK; i++) {
		struct page_out *next;

		for (struct page_out *o = p->blind[p->look_at]; o; o = next, n++) {
			next = o->next;
			if (o->fd >= 0)
				watches = look_at(o, watches);
		}
		p->look_at = (p->look_at + 1) % PAGES_BUCKETS;
	}
	if (!p->blind_room.n)
		(void)uv_timer_stop(t);
}

static struct page_out *find_blind(struct pages *p, ino_t ino)
{
	struct page_out *o = *blind_bucket_of(p, ino);

	while (o && o->ino != ino)
		o = o->next;
	return o;
}

/* ---- all pages -------------------------------------------------------------------------------- */

void pages_start(struct arbiter *a)
{
	struct pages *p = &a->pages;
	struct error err = ERROR_INIT;
	struct rlimit r;

	p->room.most = p->blind_room.most = PAGES_MAX;
	/* Of the quarter that connections leave (arbiter.c) half. */
	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur / 8 < PAGES_MAX)
		p->blind_room.most = (unsigned int)(r.rlim_cur / 8);
	(void)uv_timer_init(a->loop, &p->look);
	p->look.data = a;
	if (start_watch(a, &err) < 0)
		log_warn("pages count until their process has ended",
			LOG_STR("reason", err.msg));
}

void pages_stop(struct arbiter *a)
{
	struct pages *p = &a->pages;

	p->watch = watch_stop(p->watch);
	uv_close((uv_handle_t *)&p->look, NULL);
	forget_all(p, p->buckets);
	forget_all(p, p->blind);
	free(p->of_gone);
	p->of_gone = NULL;
}

void pages_leave(struct slice *s)
{
	if (!s->pages)
		return;
	s->pages->left = true;
	s->pages->slice = NULL;
	free_if_unused(s->pages);
	s->pages = NULL;
}

static bool has_room(struct pages *p, const struct pages_of *of, const struct page_who *who)
{
	const struct page_client *c = *find_client(p, who->pid, who->start);

	return room_for(&p->room, of->n) && (!c || c->n < PAGES_CLIENT_MAX);
}

/* NULL: no memory. */
static struct pages_of *pages_of(const struct page_who *who)
{
	struct pages_of **of = who->slice ? &who->slice->pages : &who->arbiter->pages.of_gone;

	if (!*of) {
		*of = calloc(1, sizeof(**of));
		if (*of)
			(*of)->slice = who->slice;
	}
	return *of;
}

/* NULL: no memory. */
static struct page_out *count(struct pages_of *of, const struct page_who *who, int watch)
{
	struct pages *p = &who->arbiter->pages;
	struct page_out *o = calloc(1, sizeof(*o));
	struct page_client *client = o ? client_of(p, who) : NULL;

	if (!client) {
		free(o);
		return NULL;
	}
	client->n++;
	room_take(&p->room, of->n++);
	*o = (struct page_out){ .arbiter = who->arbiter,
		.of = of,
		.client = client,
		.watch = watch };
	return o;
}

static bool count_blind(struct pages_of *of, const struct page_who *who, int fd,
	const struct stat *st)
{
	struct pages *p = &who->arbiter->pages;
	CLEANUP(closep) int own = -1;
	struct page_out *o;

	if (!room_for(&p->blind_room, of->n_blind))
		return false;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	o = own >= 0 ? count(of, who, -1) : NULL;
	if (!o)
		return false;
	o->fd = steal_fd(&own);
	o->ino = st->st_ino;
	o->bytes = st->st_size;
	o->next = *blind_bucket_of(p, o->ino);
	*blind_bucket_of(p, o->ino) = o;
	room_take(&p->blind_room, of->n_blind++);
	if (!uv_is_active((uv_handle_t *)&p->look))
		(void)uv_timer_start(&p->look, on_look, PAGES_LOOK_MS, PAGES_LOOK_MS);
	return true;
}

static bool count_watched(struct pages_of *of, const struct page_who *who, int watch)
{
	struct pages *p = &who->arbiter->pages;
	struct page_out *o = count(of, who, watch);

	if (!o)
		return false;
	o->next = *bucket_of(p, watch);
	*bucket_of(p, watch) = o;
	return true;
}

int pages_take(const struct page_who *who, int fd)
{
	struct pages *p = &who->arbiter->pages;
	struct pages_of *of = pages_of(who);
	const struct page_out *known;
	struct stat st;
	int watch;

	if (fstat(fd, &st) < 0)
		return PAGE_NOT_OURS;
	known = find_blind(p, st.st_ino);
	if (known)
		return known->fd >= 0 && is_of(known, who) ? 0 : PAGE_NOT_OURS;
	/* What has just come back may not have been read yet. */
	if (of && !has_room(p, of, who)) {
		on_events(who->arbiter);
		of = pages_of(who);
	}
	if (!of)
		return PAGE_TOO_MANY;
	watch = watch_page(p, fd);
	if (watch >= 0 && is_out(p, watch))
		return 0;
	if (has_room(p, of, who) &&
		(watch < 0 ? count_blind(of, who, fd, &st) : count_watched(of, who, watch)))
		return 0;
	if (watch >= 0)
		(void)inotify_rm_watch(p->watch->fd, watch);
	return PAGE_TOO_MANY;
}
