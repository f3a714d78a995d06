/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a hand-over hangs on, served: an epoll instance of its own, on the loop and wherever the arbiter
 * breathes (turn.h says why). After each change of turns comes turn_settled(), which stores what was charged
 * where a gate was set, and arms the timer for what is next.
 */
#include "node/arbiter/turns/turn.h"

#include "node/arbiter/process/proc.h"
#include "lib/base/fd.h"
#include "lib/base/procfs.h"
#include "lib/base/time.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* ---- time ------------------------------------------------------------------------------------- */

/* Turns' callback: a gate is to be changed. What is charged to its slice is stored in the same event. */
static void on_gate(void *arg, struct turns_seat *s)
{
	struct turn *t = arg;
	struct turn_seat *seat = s->user;
	struct turn_slice *slice = seat->conn->conn->slice->turn;

	turn_set_gate(seat, s->gate, &s->meter);
	if (slice->touched)
		return;
	slice->touched = true;
	slice->next_touched = t->touched;
	t->touched = slice;
}

/* The same: how far its process says it is. Decides no more than whether there are turns (abi/turn-page.h). */
static uint64_t on_done(void *arg, const struct turns_seat *s)
{
	const struct turn_seat *seat = s->user;

	(void)arg;
	return atomic_load_explicit(&seat->conn->page->gpus[seat->gpu].done,
		memory_order_relaxed);
}

static void arm(struct turn *t)
{
	uint64_t next = turns_next(t->turns);
	struct itimerspec at = { .it_value = { 0 } };

	if (next == t->armed)
		return;
	t->armed = next;
	/* Zero would be never. */
	next = next ? next : 1;
	if (next != UINT64_MAX) {
		at.it_value.tv_sec = (time_t)(next / NS_PER_SEC);
		at.it_value.tv_nsec = (long)(next % NS_PER_SEC);
	}
	(void)timerfd_settime(t->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

void turn_settled(struct turn *t, uint64_t now)
{
	while (t->touched) {
		struct turn_slice *s = t->touched;

		t->touched = s->next_touched;
		s->touched = false;
		turn_count_slice(t, s, now);
	}
	arm(t);
}

static void on_timer(struct turn *t)
{
	uint64_t times;

	if (read(t->timer, &times, sizeof(times)) == (ssize_t)sizeof(times))
		t->armed = UINT64_MAX;
}

uint64_t turn_now(struct turn *t)
{
	uint64_t now = time_mono_ns();

	if (turns_next(t->turns) <= now) {
		turns_time(t->turns, now);
		turn_settled(t, now);
	}
	return now;
}

/* Whether its slice may be served once more in this round. What is left for the next one wakes us again. */
static bool may_be_served(struct turn *t, const struct turn_conn *tc)
{
	struct turn_slice *s = tc->conn->slice->turn;

	if (s->round != t->round) {
		s->round = t->round;
		s->left = TURN_BATCH;
	}
	/* An end leaves the connection there, and may be one of several events of it. */
	return s->left && !tc->ended;
}

static void serve_source(struct turn *t, const struct turn_source *source)
{
	struct turn_conn *tc = source->conn;

	if (source->kind == TURN_TIMER) {
		on_timer(t);
	} else if (may_be_served(t, tc)) {
		if (source->kind == TURN_PACKETS) {
			turn_packets(tc);
		} else {
			tc->conn->slice->turn->left--;
			turn_conn_end(tc, turn_now(t));
		}
	}
}

static void serve(struct turn *t)
{
	struct epoll_event events[TURN_EVENTS];
	int n = epoll_wait(t->epoll, events, TURN_EVENTS, 0);
	uint64_t now;

	/* Another one first in each round: of a slice that sends more than may be read, others have their turn. */
	t->round++;
	for (int i = 0; i < n; i++)
		serve_source(t,
			events[(t->round + (unsigned int)i) % (unsigned int)n].data.ptr);
	now = turn_now(t);
	turn_settled(t, now);
	t->served_ns = now;
}

static void on_events(void *arg)
{
	serve(arg);
}

void turn_breathe(struct arbiter *a)
{
	struct turn *t = a->turn;

	if (t && t->n_conns && time_mono_ns() - t->served_ns >= TURN_BREATHE_NS)
		serve(t);
}

/* Once in each round of the loop, when nobody looks at connections. */
static void on_round(uv_prepare_t *h)
{
	struct arbiter *a = h->data;
	struct turn *t = a->turn;

	if (!t->some_ended)
		return;
	t->some_ended = false;
	for (struct slice *s = a->slices; s; s = s->next) {
		if (s->turn)
			turn_conns_close(s->turn, false);
	}
}

static void on_count(uv_timer_t *h)
{
	struct arbiter *a = h->data;

	turn_count_all(a);
	if (!a->turn->n_conns)
		(void)uv_timer_stop(h);
}

void turn_count_start(struct turn *t)
{
	(void)uv_timer_start(&t->count, on_count, TURN_COUNT_MS, TURN_COUNT_MS);
}

int turn_watch(struct turn *t, int fd, struct turn_source *source)
{
	struct epoll_event e = { .events = EPOLLIN, .data = { .ptr = source } };

	return epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &e);
}

void turn_unwatch(struct turn *t, int fd)
{
	(void)epoll_ctl(t->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- GPUs ------------------------------------------------------------------------------------- */

static bool in_use(void *arg, const uint8_t *uuid)
{
	const struct turn *t = arg;

	for (unsigned int i = 0; i < TURNS_GPUS_MAX; i++) {
		if (t->gpus[i].users && !memcmp(t->gpus[i].uuid, uuid, SLICE_UUID_BYTES))
			return true;
	}
	return false;
}

int turn_gpu_get(struct turn *t, const uint8_t *uuid, const char *text, struct error *err)
{
	struct turn_gpu *g = NULL;

	for (unsigned int i = 0; i < TURNS_GPUS_MAX; i++) {
		if (t->gpus[i].users && !memcmp(t->gpus[i].uuid, uuid, SLICE_UUID_BYTES)) {
			t->gpus[i].users++;
			return (int)i;
		}
		if (!t->gpus[i].users && !g)
			g = &t->gpus[i];
	}
	if (!g)
		return error_set(err, ERR_LIMIT,
			"compute: expected at most %d GPUs of the node whose slices take turns, "
			"'%s' is one more",
			TURNS_GPUS_MAX, text);
	g->record = tally_busy(&t->tally, uuid, in_use, t);
	if (!g->record)
		return error_set(err, ERR_LIMIT, "compute: no room for the account of '%s'",
			text);
	memcpy(g->uuid, uuid, SLICE_UUID_BYTES);
	memcpy(g->text, text, SLICE_UUID_TEXT);
	g->users = 1;
	return (int)(g - t->gpus);
}

void turn_gpu_put(struct turn *t, unsigned int number)
{
	t->gpus[number].users--;
}

/* ---- start, stop ------------------------------------------------------------------------------ */

/* Who waits for a turn waits for this program. Where it may not, it does as well as it can. */
static void raise_priority(void)
{
	int now;

	errno = 0;
	now = getpriority(PRIO_PROCESS, 0);
	if ((now > TURN_NICE && !errno) && setpriority(PRIO_PROCESS, 0, TURN_NICE) < 0)
		log_debug("the arbiter's priority stays as it is",
			LOG_STR("reason", strerror(errno)));
}

static int open_tally(struct turn *t, const struct arbiter *a, struct error *err)
{
	char path[PATH_MAX], boot[40];

	if (path_join(path, sizeof(path), a->o.run_dir, TALLY_FILE, err) < 0)
		return -1;
	procfs_boot_id(a->o.procfs, boot, sizeof(boot));
	return tally_open(&t->tally, path, boot, err);
}

static int open_events(struct turn *t, struct arbiter *a, struct error *err)
{
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	t->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	t->timer_source.kind = TURN_TIMER;
	if (t->epoll < 0 || t->timer < 0 || turn_watch(t, t->timer, &t->timer_source) < 0) {
		(void)error_sys(err, errno, "make the events of turns");
		closep(&t->epoll);
		return -1;
	}
	if (watch_start(&t->watch, a->loop, t->epoll, on_events, t, err) < 0) {
		t->epoll = -1;
		return -1;
	}
	return 0;
}

int turn_start(struct arbiter *a, struct error *err)
{
	struct turn *t = calloc(1, sizeof(*t));

	if (!t)
		return error_nomem(err);
	t->epoll = t->timer = -1;
	t->armed = UINT64_MAX;
	t->turns = turns_new(on_gate, on_done, t);
	if (!t->turns)
		(void)error_nomem(err);
	if (!t->turns || open_tally(t, a, err) < 0 || open_events(t, a, err) < 0) {
		t->turns = turns_free(t->turns);
		tally_close(&t->tally);
		closep(&t->timer);
		free(t);
		return -1;
	}
	a->turn = t;
	(void)uv_prepare_init(a->loop, &t->prepare);
	(void)uv_timer_init(a->loop, &t->count);
	t->prepare.data = t->count.data = a;
	(void)uv_prepare_start(&t->prepare, on_round);
	raise_priority();
	return 0;
}

static void on_closed(uv_handle_t *h)
{
	struct turn *t = h->data;

	if (--t->n_handles == 0)
		free(t);
}

void turn_stop(struct arbiter *a)
{
	struct turn *t = a->turn;

	if (!t)
		return;
	a->turn = NULL;
	t->watch = watch_stop(t->watch);
	closep(&t->timer);
	tally_close(&t->tally);
	t->turns = turns_free(t->turns);
	t->count.data = t->prepare.data = t;
	t->n_handles = 2;
	uv_close((uv_handle_t *)&t->count, on_closed);
	uv_close((uv_handle_t *)&t->prepare, on_closed);
}
