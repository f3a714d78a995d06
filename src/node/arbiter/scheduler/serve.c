/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A round of events.
 *
 * The descriptors of each slice are in an epoll instance of their own, which is in the thread's instance. So a
 * slice that sends more than the thread can read has SCHEDULER_SLICE_EVENTS of its events served in a round,
 * others in the next one. Other slices are served in the same round. Where more than SCHEDULER_EVENTS slices
 * have events, the rest is served in the next round.
 */
#include "node/arbiter/scheduler/internal.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* ---- events ----------------------------------------------------------------------------------- */

static void serve_slice(struct scheduler *t, const struct scheduler_slice *s)
{
	struct epoll_event events[SCHEDULER_SLICE_EVENTS];
	int n = epoll_wait(s->epoll, events, SCHEDULER_SLICE_EVENTS, 0);

	for (int i = 0; i < n; i++) {
		const struct scheduler_source *source = events[i].data.ptr;
		struct scheduler_registration *c = source->of;
		uint64_t now = scheduler_now(t);

		/* Packets and death of a process may be two events of one round. */
		if (c->ended)
			continue;
		if (source->kind == SCHEDULER_SOURCE_PACKETS)
			scheduler_registration_read(c, now);
		else
			scheduler_registration_end(c, now);
	}
}

static void set_count_timer(const struct scheduler *t, uint64_t every_ns)
{
	const struct timespec every = { .tv_nsec = (long)every_ns };
	const struct itimerspec at = { .it_interval = every, .it_value = every };

	(void)timerfd_settime(t->count_timer, 0, &at, NULL);
}

void scheduler_count_start(struct scheduler *t)
{
	set_count_timer(t, SCHEDULER_COUNT_NS);
}

static void on_count(struct scheduler *t)
{
	uint64_t times;

	if (read(t->count_timer, &times, sizeof(times)) != (ssize_t)sizeof(times))
		return;
	if (!t->n_registrations)
		set_count_timer(t, 0);
	if (!t->count.slice && !t->shown)
		scheduler_count_begin(t, &t->count);
}

static void serve_sched_source(struct scheduler *t, const struct scheduler_source *source)
{
	uint64_t times;

	switch (source->kind) {
	case SCHEDULER_SOURCE_CALL:
		(void)eventfd_read(t->wake, &times);
		break;
	case SCHEDULER_SOURCE_TIMER:
		if (read(t->timer, &times, sizeof(times)) == (ssize_t)sizeof(times))
			t->armed = UINT64_MAX;
		break;
	case SCHEDULER_SOURCE_COUNT:
		on_count(t);
		break;
	case SCHEDULER_SOURCE_SLICE:
		serve_slice(t, source->of);
		break;
	case SCHEDULER_SOURCE_PACKETS:
	case SCHEDULER_SOURCE_DEATH:
		break; /* these are in the slice's instance */
	}
}

void scheduler_round(struct scheduler *t, bool wait)
{
	struct epoll_event events[SCHEDULER_EVENTS];
	int n = epoll_wait(t->epoll, events, SCHEDULER_EVENTS, wait && !t->is_working ? -1 : 0);

	for (int i = 0; i < n; i++)
		serve_sched_source(t, events[i].data.ptr);
	scheduler_settle(t, scheduler_now(t));
	t->is_working = scheduler_step_call(t);
	if (t->count.slice && !t->shown)
		scheduler_count_step(t, &t->count);
	t->is_working |= t->count.slice && !t->shown;
}

int scheduler_watch_fd(int epoll, int fd, struct scheduler_source *source)
{
	struct epoll_event e = { .events = EPOLLIN, .data = { .ptr = source } };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

void scheduler_unwatch_fd(int epoll, int fd)
{
	(void)epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
}

int scheduler_events_open(struct scheduler *t, struct error *err)
{
	static const int kinds[] = { SCHEDULER_SOURCE_CALL, SCHEDULER_SOURCE_TIMER,
		SCHEDULER_SOURCE_COUNT };
	int *const fds[] = { &t->wake, &t->timer, &t->count_timer };
	bool good;

	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	t->count_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	good = t->epoll >= 0;
	for (int i = 0; good && i < 3; i++) {
		t->sources[i].kind = kinds[i];
		good = *fds[i] >= 0 &&
		       scheduler_watch_fd(t->epoll, *fds[i], &t->sources[i]) == 0;
	}
	return good ? 0 : error_sys(err, errno, "make the events of turns");
}

void scheduler_events_close(struct scheduler *t)
{
	closep(&t->count_timer);
	closep(&t->timer);
	closep(&t->wake);
	closep(&t->epoll);
}
