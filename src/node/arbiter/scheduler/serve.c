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

/* --- events --- */

static void serve_slice(struct scheduler *scheduler, const struct scheduler_slice *s)
{
	struct epoll_event events[SCHEDULER_SLICE_EVENTS];
	int n = epoll_wait(s->epoll, events, SCHEDULER_SLICE_EVENTS, 0);

	for (int i = 0; i < n; i++) {
		const struct scheduler_source *source = events[i].data.ptr;
		struct scheduler_registration *reg = source->of;
		uint64_t now = scheduler_now(scheduler);

		/* Packets and death of a process may be two events of one round. */
		if (reg->ended)
			continue;
		if (source->kind == SCHEDULER_SOURCE_PACKETS)
			scheduler_registration_read(reg, now);
		else
			scheduler_registration_end(reg, now);
	}
}

static void set_count_timer(const struct scheduler *scheduler, uint64_t every_ns)
{
	const struct timespec every = { .tv_nsec = (long)every_ns };
	const struct itimerspec at = { .it_interval = every, .it_value = every };

	(void)timerfd_settime(scheduler->count_timer, 0, &at, NULL);
}

void scheduler_count_start(struct scheduler *scheduler)
{
	set_count_timer(scheduler, SCHEDULER_COUNT_NS);
}

static void on_count(struct scheduler *scheduler)
{
	uint64_t times;

	if (read(scheduler->count_timer, &times, sizeof(times)) != (ssize_t)sizeof(times))
		return;
	if (!scheduler->n_registrations)
		set_count_timer(scheduler, 0);
	if (!scheduler->count.slice && !scheduler->shown)
		scheduler_count_begin(scheduler, &scheduler->count);
}

static void serve_sched_source(struct scheduler *scheduler,
	const struct scheduler_source *source)
{
	uint64_t times;

	switch (source->kind) {
	case SCHEDULER_SOURCE_CALL:
		(void)eventfd_read(scheduler->wake, &times);
		break;
	case SCHEDULER_SOURCE_TIMER:
		if (read(scheduler->timer, &times, sizeof(times)) == (ssize_t)sizeof(times))
			scheduler->armed = UINT64_MAX;
		break;
	case SCHEDULER_SOURCE_COUNT:
		on_count(scheduler);
		break;
	case SCHEDULER_SOURCE_SLICE:
		serve_slice(scheduler, source->of);
		break;
	case SCHEDULER_SOURCE_PACKETS:
	case SCHEDULER_SOURCE_DEATH:
		break; /* these are in the slice's instance */
	}
}

void scheduler_round(struct scheduler *scheduler, bool wait)
{
	struct epoll_event events[SCHEDULER_EVENTS];
	int n = epoll_wait(scheduler->epoll, events, SCHEDULER_EVENTS,
		wait && !scheduler->is_working ? -1 : 0);

	for (int i = 0; i < n; i++)
		serve_sched_source(scheduler, events[i].data.ptr);
	scheduler_settle(scheduler, scheduler_now(scheduler));
	scheduler->is_working = scheduler_step_call(scheduler);
	if (scheduler->count.slice && !scheduler->shown)
		scheduler_count_step(scheduler, &scheduler->count);
	scheduler->is_working |= scheduler->count.slice && !scheduler->shown;
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

int scheduler_events_open(struct scheduler *scheduler, struct error *err)
{
	static const int kinds[] = { SCHEDULER_SOURCE_CALL, SCHEDULER_SOURCE_TIMER,
		SCHEDULER_SOURCE_COUNT };
	int *const fds[] = { &scheduler->wake, &scheduler->timer, &scheduler->count_timer };
	bool good;

	scheduler->epoll = epoll_create1(EPOLL_CLOEXEC);
	scheduler->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	scheduler->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	scheduler->count_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	good = scheduler->epoll >= 0;
	for (int i = 0; good && i < 3; i++) {
		scheduler->sources[i].kind = kinds[i];
		good = *fds[i] >= 0 && scheduler_watch_fd(scheduler->epoll, *fds[i],
					       &scheduler->sources[i]) == 0;
	}
	return good ? 0 : error_sys(err, errno, "make the events of turns");
}

void scheduler_events_close(struct scheduler *scheduler)
{
	closep(&scheduler->count_timer);
	closep(&scheduler->timer);
	closep(&scheduler->wake);
	closep(&scheduler->epoll);
}
