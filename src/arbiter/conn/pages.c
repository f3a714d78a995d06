/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pages that slices were given, counted for as long as anybody has one. Its memory is the arbiter's by the
 * kernel's account, whoever keeps it: a process that registered again and again, and kept what it was given each
 * time, would use up what arbiter and agent may have. So what a slice has out at a time is limited (room.h).
 *
 * That nobody has it any more, neither open nor mapped, inotify says: the watch ends with the file. Where there
 * is no watch to be had, nobody knows; then they are given at a rate. Pages of an arbiter before this one, and
 * those that processes bring, which are theirs by the kernel's account, are not counted.
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

struct page_out {
	struct page_out *next;
	int watch;
	struct pages_of *of;
};

static void free_if_unused(struct pages_of *of)
{
	if (of->left && !of->n)
		free(of);
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

bool pages_take(struct slice *s, int fd)
{
	struct pages *p = &s->arbiter->pages;
	struct page_out *o;
	char path[40];

	if (!s->pages)
		s->pages = calloc(1, sizeof(*s->pages));
	if (!s->pages)
		return false;
	/* What has just come back may not have been read yet. */
	if (!room_for(&p->room, s->pages->n))
		on_events(s->arbiter);
	if (!room_for(&p->room, s->pages->n))
		return false;
	o = calloc(1, sizeof(*o));
	if (!o)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* Of an event that never is: only the end of the watch is said. */
	o->watch = p->watch ? inotify_add_watch(p->watch->fd, path, IN_MOVE_SELF) : -1;
	if (o->watch < 0) {
		free(o);
		return take_blindly(s->pages);
	}
	o->of = s->pages;
	o->next = *bucket_of(p, o->watch);
	*bucket_of(p, o->watch) = o;
	room_take(&p->room, s->pages->n++);
	return true;
}
