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
 * watch is available, this is not known; then pages are counted at a rate. Pages of an arbiter before this one count
 * from the moment on at which this one sees them: found in their process (process/restore.c), or brought.
 */
#include "arbiter/internal.h"

#include "base/fd.h"
#include "base/time.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define BLIND_NS (NS_PER_SEC / PAGES_BLIND_RATE)

/* A slice's; outlives it while pages are out. */
struct pages_of {
	unsigned int n;
	bool left;         /* by its slice */
	uint64_t blind_ns; /* until then its rate is used up */
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
	int watch;
	struct pages_of *of;
	struct page_client *client;
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

static void come_back(struct pages *p, struct page_out **at)
{
	struct page_out *o = *at;

	*at = o->next;
	room_give(&p->room, o->of->n--);
	client_give(p, o->client);
	free_if_unused(o->of);
	free(o);
}

static void forget_all(struct pages *p)
{
	for (unsigned int i = 0; i < PAGES_BUCKETS; i++) {
		while (p->buckets[i])
			come_back(p, &p->buckets[i]);
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

static void on_events(void *arg)
{
	struct arbiter *a = arg;

	if (read_events(&a->pages))
		return;
	/* Better to count anew than to count what nobody has for ever. */
	log_warn("pages that processes have are counted anew");
	pages_stop(a);
	pages_start(a);
}

void pages_start(struct arbiter *a)
{
	struct error err = ERROR_INIT;
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	a->pages.room.most = PAGES_MAX;
	if (fd < 0)
		(void)error_sys(&err, errno, "watch pages");
	if (fd < 0 || watch_start(&a->pages.watch, a->loop, fd, on_events, a, &err) < 0)
		log_warn("pages are given at a rate, not by their number",
			LOG_STR("reason", err.msg));
}

void pages_stop(struct arbiter *a)
{
	a->pages.watch = watch_stop(a->pages.watch);
	forget_all(&a->pages);
	free(a->pages.of_gone);
	a->pages.of_gone = NULL;
}

void pages_leave(struct slice *s)
{
	if (!s->pages)
		return;
	s->pages->left = true;
	free_if_unused(s->pages);
	s->pages = NULL;
}

/* PAGES_BLIND at once, as many as have come together since. */
static bool take_blindly(struct pages_of *of)
{
	uint64_t now = time_mono_ns();

	if (of->blind_ns < now)
		of->blind_ns = now;
	if (of->blind_ns - now > (PAGES_BLIND - 1) * BLIND_NS)
		return false;
	of->blind_ns += BLIND_NS;
	return true;
}

static bool has_room(struct pages *p, const struct pages_of *of, const struct page_who *who)
{
	const struct page_client *c = *find_client(p, who->pid, who->start);

	return room_for(&p->room, of->n) && (!c || c->n < PAGES_CLIENT_MAX);
}

static struct pages_of *pages_of(const struct page_who *who)
{
	struct pages_of **of = who->slice ? &who->slice->pages : &who->arbiter->pages.of_gone;

	if (!*of)
		*of = calloc(1, sizeof(**of));
	return *of;
}

static bool is_out(struct pages *p, int watch)
{
	const struct page_out *o = *bucket_of(p, watch);

	while (o && o->watch != watch)
		o = o->next;
	return o != NULL;
}

static bool count(struct pages *p, struct pages_of *of, const struct page_who *who, int watch)
{
	struct page_out *o = calloc(1, sizeof(*o));
	struct page_client *client = o ? client_of(p, who) : NULL;

	if (!client) {
		free(o);
		(void)inotify_rm_watch(p->watch->fd, watch);
		return false;
	}
	client->n++;
	*o = (struct page_out){ .next = *bucket_of(p, watch),
		.watch = watch,
		.of = of,
		.client = client };
	*bucket_of(p, watch) = o;
	room_take(&p->room, of->n++);
	return true;
}

bool pages_take(const struct page_who *who, int fd)
{
	struct pages *p = &who->arbiter->pages;
	struct pages_of *of = pages_of(who);
	char path[40];
	int watch;

	/* What has just come back may not have been read yet. */
	if (of && !has_room(p, of, who)) {
		on_events(who->arbiter);
		of = pages_of(who);
	}
	if (!of)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* Of an event that never is: only the end of the watch is reported. One file has one watch. */
	watch = p->watch ? inotify_add_watch(p->watch->fd, path, IN_MOVE_SELF) : -1;
	if (watch >= 0 && is_out(p, watch))
		return true;
	if (has_room(p, of, who))
		return watch < 0 ? take_blindly(of) : count(p, of, who, watch);
	if (watch >= 0)
		(void)inotify_rm_watch(p->watch->fd, watch);
	return false;
}
