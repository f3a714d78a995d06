/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A round of events. The descriptors of each slice are in an epoll instance of its own, which is in the thread's: so a
 * slice that sends more than may be read has TURN_FAIR of its events served in a round, each time others of them, and
 * the others' are served in the same round or, where more than TURN_EVENTS slices have some, the next.
 */
#include "node/arbiter/turns/internal.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* ---- events ----------------------------------------------------------------------------------- */

static void serve_slice(struct turn *t, const struct turn_slice *s)
{
	struct epoll_event events[TURN_FAIR];
	int n = epoll_wait(s->epoll, events, TURN_FAIR, 0);

	for (int i = 0; i < n; i++) {
		const struct turn_source *source = events[i].data.ptr;
		struct turn_conn *c = source->of;
		uint64_t now = turn_now(t);

		/* Its packets and its death may be two events of one round. */
		if (c->ended)
			continue;
		if (source->kind == TURN_PACKETS)
			turn_conn_read(c, now);
		else
			turn_conn_end(c, now);
	}
}

static void set_count_timer(const struct turn *t, uint64_t every_ns)
{
	const struct timespec every = { .tv_nsec = (long)every_ns };
	const struct itimerspec at = { .it_interval = every, .it_value = every };

	(void)timerfd_settime(t->count_timer, 0, &at, NULL);
}

void turn_count_start(struct turn *t)
{
	set_count_timer(t, TURN_COUNT_NS);
}

static void on_count(struct turn *t)
{
	uint64_t times;

	if (read(t->count_timer, &times, sizeof(times)) != (ssize_t)sizeof(times))
		return;
	if (!t->n_conns)
		set_count_timer(t, 0);
	if (!t->count.slice && !t->shown)
		turn_count_begin(t, &t->count);
}

static void serve(struct turn *t, const struct turn_source *source)
{
	uint64_t times;

	switch (source->kind) {
	case TURN_CALL:
		(void)eventfd_read(t->wake, &times);
		break;
	case TURN_TIMER:
		if (read(t->timer, &times, sizeof(times)) == (ssize_t)sizeof(times))
			t->armed = UINT64_MAX;
		break;
	case TURN_COUNT:
		on_count(t);
		break;
	case TURN_SLICE:
		serve_slice(t, source->of);
		break;
	case TURN_PACKETS:
	case TURN_DEATH:
		break; /* in the slice's */
	}
}

void turn_round(struct turn *t, bool wait)
{
	struct epoll_event events[TURN_EVENTS];
	int n = epoll_wait(t->epoll, events, TURN_EVENTS, wait && !t->works ? -1 : 0);

	for (int i = 0; i < n; i++)
		serve(t, events[i].data.ptr);
	turn_settled(t, turn_now(t));
	t->works = turn_step_call(t);
	if (t->count.slice && !t->shown)
		turn_count_step(t, &t->count);
	t->works |= t->count.slice && !t->shown;
}

int turn_watch(int epoll, int fd, struct turn_source *source)
{
	struct epoll_event e = { .events = EPOLLIN, .data = { .ptr = source } };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

void turn_unwatch(int epoll, int fd)
{
	(void)epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
}

int turn_events_open(struct turn *t, struct error *err)
{
	static const int kinds[] = { TURN_CALL, TURN_TIMER, TURN_COUNT };
	int *const fds[] = { &t->wake, &t->timer, &t->count_timer };
	bool good;

	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	t->count_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	good = t->epoll >= 0;
	for (int i = 0; good && i < 3; i++) {
		t->sources[i].kind = kinds[i];
		good = *fds[i] >= 0 && turn_watch(t->epoll, *fds[i], &t->sources[i]) == 0;
	}
	return good ? 0 : error_sys(err, errno, "make the events of turns");
}

void turn_events_close(struct turn *t)
{
	closep(&t->count_timer);
	closep(&t->timer);
	closep(&t->wake);
	closep(&t->epoll);
}
