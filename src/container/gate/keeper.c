/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/keeper.h"

#include "container/cuda/mps.h"
#include "container/cuda/quiet.h"
#include "container/charges/charges.h"
#include "container/gate/launches.h"
#include "container/gate/process.h"
#include "container/gate/thread.h"
#include "container/client/warn.h"

#define FIRST_MS     1000 /* for the first registration; others wait for it */
#define AGAIN_MS     200  /* for each later one of a submitting thread */
#define ANSWER_MS    5000 /* for the keeper's; nobody waits for it */
#define ASKED_MS     5    /* between two looks whether there is an answer */
#define BACK_OFF_MS  20   /* between two tries, doubled up to the most */
#define BACK_OFF_MAX 1000
#define DEAF_NS      UINT64_C(2000000000) /* that the arbiter reads nothing: it hangs */
#define SAY_AGAIN_NS UINT64_C(1000000000) /* what an arbiter has read that does nothing */
#define LINK_NS      UINT64_C(50000000)   /* between two looks whether the arbiter lives */
#define LINK_REST_NS UINT64_C(5000000000) /* the same while there is nothing to do */
#define WAITING_NS \
	UINT64_C(50000000) /* nothing in flight, the gate closed: who gets through wakes us */
#define UNSAID_NS     UINT64_C(1000000) /* until it is tried again */
#define UNREAD_NS     UINT64_C(50000) /* until one looks again whether it was read, doubled up to */
#define UNREAD_MAX_NS UINT64_C(10000000)
#define STUCK_NS \
	UINT64_C(1000000000) /* what is in flight takes that long: one looks only each */
#define STUCK_LOOK_NS UINT64_C(10000000)
#define NEVER         UINT64_MAX

/* ---- the connection ----------------------------------------------------------------------------- */

/* .start is held. Nobody goes by the page from now on. */
static void leave(struct turn_process *t, enum turn_mode to)
{
	atomic_store(&t->gate.page, NULL);
	sys_lock(&t->say);
	turn_link_close(&t->link);
	atomic_store(&t->gone, false);
	atomic_store(&t->mode, (uint32_t)to);
	sys_unlock(&t->say);
	turn_wake_all(t);
}

/* .start is held. */
static void arrive(struct turn_process *t, const struct own_fd *fd)
{
	sys_lock(&t->say);
	t->link.socket = *fd;
	for (unsigned int i = 0; i < SLICE_GPUS_MAX; i++)
		t->gpus[i].said.valid = false;
	atomic_store(&t->gone, false);
	if (!atomic_load(&t->page)) {
		t->gate.gpu_count = t->link.page->gpu_count;
		t->gate.log = launches_open(t->link.dir);
		t->marks.gpus = t->gate.gpu_count;
		atomic_store(&t->marks.page, t->link.page);
		atomic_store(&t->page, t->link.page);
	}
	(void)atomic_fetch_add(&t->registered, 1);
	atomic_store(&t->mode, TURN_UP);
	sys_unlock(&t->say);
	atomic_store(&t->gate.page, t->link.page);
	t->back_off = 0;
	turn_wake_all(t);
}

/* When to try again. .start is held. */
static void put_off(struct turn_process *t)
{
	t->back_off = t->back_off ? 2 * t->back_off : BACK_OFF_MS;
	if (t->back_off > BACK_OFF_MAX)
		t->back_off = BACK_OFF_MAX;
	atomic_store(&t->next_try, sys_now() + t->back_off);
}

/* What came of trying to register. .start is held. */
static void reached(struct turn_process *t, enum turn_link_answer r, const struct own_fd *fd)
{
	switch (r) {
	case TURN_LINK_UP:
		arrive(t, fd);
		return;
	case TURN_LINK_ASKED:
		return;
	case TURN_LINK_AWAY:
		put_off(t);
		break;
	case TURN_LINK_REFUSED:
		leave(t, TURN_OFF);
		t->back_off = BACK_OFF_MAX;
		put_off(t);
		break;
	case TURN_LINK_LOST:
		warn_once(WARN_NO_TURNS,
			"a descriptor of ours was closed: the turns of this process end with "
			"its arbiter");
		atomic_store(&t->next_try, INT64_MAX);
		break;
	}
}

/* Tries to, and waits. .start is held. */
static void reach(struct turn_process *t, int ms)
{
	struct own_fd fd = { 0 };
	enum turn_link_answer r = turn_link_register(&t->link, sys_now() + ms, &fd);

	reached(t, r, &fd);
}

/*
 * Goes on trying to. An arbiter that hangs takes connections and does not answer. Who waits for it goes on
 * waiting, as it may wake up, but asks anew now and then, as another one may have taken its place. .start is
 * held.
 */
static void reach_on(struct turn_process *t)
{
	struct own_fd fd = { 0 };
	int64_t now = sys_now();
	enum turn_link_answer r;

	if (now < atomic_load(&t->next_try))
		return;
	if (!t->link.asking.have) {
		r = turn_link_ask(&t->link);
		t->link.ask_until = now + ANSWER_MS;
	} else {
		r = turn_link_answered(&t->link, &fd);
		if (r == TURN_LINK_ASKED && now >= t->link.ask_until) {
			turn_link_close(&t->link);
			r = TURN_LINK_AWAY;
		}
	}
	if (r == TURN_LINK_ASKED)
		atomic_store(&t->next_try, now + ASKED_MS);
	reached(t, r, &fd);
}

/*
 * Whether the arbiter hangs: it reads nothing. It may have read all before that, so who waits for a gate
 * says that again now and then; one that lives reads it and goes on. .start is held.
 */
static bool is_deaf(struct turn_process *t, uint64_t now)
{
	struct turn_link *l = &t->link;
	bool r = false;

	sys_lock(&t->say);
	if (turn_link_reads(l))
		l->deaf_since = 0;
	else if (!l->deaf_since)
		l->deaf_since = now;
	else
		r = now - l->deaf_since >= DEAF_NS;
	if (l->said_sent != l->sent || !l->said_at) {
		l->said_sent = l->sent;
		l->said_at = now;
	}
	for (uint32_t i = 0; now - l->said_at >= SAY_AGAIN_NS && i < t->gate.gpu_count; i++)
		if (atomic_load(&t->gpus[i].waiters))
			t->gpus[i].said.valid = false;
	sys_unlock(&t->say);
	return r;
}

static void *keep(void *arg);

/* .start is held. */
static void start(struct turn_process *t)
{
	int gpu;

	/* Said before the arbiter is asked. */
	mps_look_current();
	reach(t, turn_mode(t) == TURN_NONE ? FIRST_MS : AGAIN_MS);
	if (turn_mode(t) != TURN_UP) {
		atomic_store(&t->mode, TURN_OFF);
		return;
	}
	/* One that was made before anybody told us of it. */
	gpu = t->gate.gpu_count == 1 ? 0 : ledger_current_gpu();
	if (gpu >= 0)
		marks_add(&t->marks, marks_current(), (unsigned int)gpu, &t->gate.captures,
			true);
	if (t->running)
		return;
	if (thread_start(keep, t)) {
		t->running = true;
		return;
	}
	warn_once(WARN_NO_TURNS, "no thread can be started: work is not held");
	leave(t, TURN_OVER);
}

struct turn_page *keeper_start(void)
{
	struct turn_process *t = turn_process();
	enum turn_mode mode;
	int e = errno;

	if (!t)
		return NULL;
	mode = turn_mode(t);
	if (mode == TURN_NONE || (mode == TURN_OFF && sys_now() >= atomic_load(&t->next_try))) {
		sys_lock(&t->start);
		mode = turn_mode(t);
		if (mode == TURN_NONE ||
			(mode == TURN_OFF && sys_now() >= atomic_load(&t->next_try)))
			start(t);
		sys_unlock(&t->start);
		keeper_wake();
		mode = turn_mode(t);
	}
	errno = e;
	return mode == TURN_UP || mode == TURN_AWAY ? atomic_load(&t->page) : NULL;
}

void keeper_wake(void)
{
	struct turn_process *t = turn_process_if();
	int e = errno;

	if (t && atomic_exchange(&t->wake, 1) == 2)
		sys_futex_wake(&t->wake, false);
	errno = e;
}

void keeper_context(CUcontext ctx, unsigned int gpu)
{
	struct turn_process *t;
	int e = errno;

	if (atomic_load_explicit(&link_off, memory_order_relaxed))
		return;
	t = turn_process();
	if (t)
		marks_add(&t->marks, ctx, gpu, &t->gate.captures, turn_wanted());
	errno = e;
}

void keeper_context_leaves(CUcontext ctx)
{
	struct turn_process *t = turn_process_if();
	int e = errno;

	if (t)
		marks_leaves(&t->marks, ctx);
	errno = e;
}

void keeper_context_stays(CUcontext ctx)
{
	struct turn_process *t = turn_process_if();
	int e = errno;

	if (t) {
		marks_stays(&t->marks, ctx);
		keeper_wake();
	}
	errno = e;
}

void keeper_context_gone(CUcontext ctx)
{
	struct turn_process *t = turn_process_if();
	int e = errno;

	if (t) {
		marks_gone(&t->marks, ctx);
		keeper_wake(); /* what was in flight there is over */
	}
	errno = e;
}

/* ---- what the thread knows of a GPU ------------------------------------------------------------- */

/* One look at one GPU. */
struct look {
	struct turn_process *t;
	struct turn_gpu *g;
	struct turn_gpu_page *p;
	unsigned int gpu;
	uint64_t now;
	enum turn_mode mode;
	uint32_t state; /* of the gate: TURN_OPEN... */
	bool near;      /* somebody waits for what is in flight to end */
	bool in_flight, waiting;
	uint64_t ended; /* .ended, a lower bound */
	bool changed;   /* the gate */
	bool advanced;  /* .done */
};

/* While there is no arbiter. */
static uint32_t alone_state(const struct look *l)
{
	uint32_t cap = atomic_load(&l->p->cap);
	bool closed = (atomic_load(&l->g->alone) & TURN_STATE) == TURN_CLOSED;
	/* As in say.c: else it might wait for ever for who stands at this gate. */
	bool busy = l->g->was_busy && !(closed && marks_parked(&l->t->marks, l->gpu));

	if (!cap)
		return TURN_OPEN;
	return pace_bucket(&l->g->bucket, l->now, cap, busy) ? TURN_METERED : TURN_CLOSED;
}

static void look_at_gate(struct look *l)
{
	struct turn_gpu *g = l->g;
	uint32_t w = atomic_load(&l->p->gate) & ~TURN_BELL;
	uint64_t turn = atomic_load(&l->p->turn_ns);

	if (l->mode == TURN_AWAY) {
		uint32_t was = atomic_load(&g->alone), state = alone_state(l);

		/* Others change it too, but no more than its generation. */
		while ((was & TURN_STATE) != state &&
			!atomic_compare_exchange_weak(&g->alone, &was,
				((was & ~TURN_STATE) | state) + TURN_GENERATION))
			;
		if ((was & TURN_STATE) != state)
			sys_futex_wake(&g->alone, false);
		w = state;
	}
	l->state = w & TURN_STATE;
	/* Those whom METERED held look at it. */
	l->changed = w != g->gate_seen || turn != g->turn_seen;
	g->gate_seen = w;
	g->turn_seen = turn;
	pace_gate(&g->pace, l->now, l->changed, l->state == TURN_CLOSED);
	l->near =
		l->state != TURN_OPEN || (l->mode == TURN_UP && atomic_load(&l->p->window_ns));
}

static void advance(struct look *l, uint64_t done)
{
	struct turn_gpu *g = l->g;
	uint64_t took;

	if (done <= g->done)
		return;
	took = pace_done(&g->pace, l->now, done - g->done);
	kinds_learn(turn_kinds(l->t, l->gpu), done - g->done, took, g->pace.each_ns);
	g->done = done;
	atomic_store(&g->ended_ns, g->pace.ended_ns);
	atomic_store(&l->p->done, done);
	l->advanced = true;
}

static void look_at_work(struct look *l)
{
	struct turn_gpu *g = l->g;
	uint64_t begun;

	/* Before .begun, which is no less then. */
	l->ended = atomic_load(&l->p->ended);
	begun = atomic_load(&l->p->begun);
	l->waiting = atomic_load(&g->waiters) || atomic_load(&g->held);
	l->in_flight = begun != g->done;
	if (begun != g->begun_seen)
		g->pace.quiet_ns = 0;
	g->begun_seen = begun;
	if (!l->in_flight) {
		pace_quiet(&g->pace, l->now);
		kinds_idle(turn_kinds(l->t, l->gpu));
	} else if (!g->was_busy) {
		pace_begins(&g->pace, l->now);
	} else {
		pace_pending(&g->pace, l->now);
	}
	g->was_busy = l->in_flight;
}

/*
 * To record a marker takes a lock of the driver from who submits. Under MPS nobody waits for the end of what is in
 * flight, so it can wait until nothing has been submitted between two looks, or for PACE_OPEN_MAX_NS.
 */
static bool marker_can_wait(const struct look *l)
{
	struct turn_gpu *g = l->g;
	bool calm = l->ended == g->ended_seen;

	g->ended_seen = l->ended;
	if (!g->unmarked_ns)
		g->unmarked_ns = l->now;
	if (!calm && l->now - g->unmarked_ns < PACE_OPEN_MAX_NS && turn_beside())
		return true;
	g->unmarked_ns = 0;
	return false;
}

static enum marks_result look_at_marks(struct look *l)
{
	struct turn_gpu *g = l->g;
	struct marks *m = &l->t->marks;
	uint64_t done = g->done, unmarked;
	bool stuck = marks_stuck(m, l->gpu), passes_by = marks_passes_by(m, l->gpu);
	uint64_t blind = marks_blind(m, l->gpu);
	enum marks_result r;

	/* What is over is not to be counted once more until meter() knows what is in front now. */
	atomic_store(&g->front_ns, 0);
	r = marks_look(m, l->gpu, l->p, l->now, g->pace.each_ns, &done);

	if (r != MARKS_OK)
		return r;
	/* Those whom METERED held may go on beside it. */
	if (stuck != marks_stuck(m, l->gpu) || passes_by != marks_passes_by(m, l->gpu) ||
		blind != marks_blind(m, l->gpu))
		l->changed = true;
	advance(l, done);
	look_at_work(l);
	/* What has no end of its own behind a marker that is stuck takes no time of the others that do. */
	if (!marks_passes_by(m, l->gpu))
		pace_overdue(&g->pace, l->now, marks_ahead(m, l->gpu, done));
	else if (g->begun_seen - g->done <= marks_blind(m, l->gpu))
		pace_begins(&g->pace, l->now);
	unmarked = l->ended - marks_last(m, l->gpu);
	if (!pace_marker_due(&g->pace, unmarked, marks_ahead(m, l->gpu, done) != 0,
		    atomic_load(&g->held) != 0) ||
		marker_can_wait(l))
		return MARKS_OK;
	r = marks_place(m, l->gpu, &l->p->ended, &l->t->gate.captures, &done);
	if (done > g->done) {
		advance(l, done);
		look_at_work(l);
	}
	return r == MARKS_LATER ? MARKS_OK : r;
}

static struct pace_flight flight(const struct look *l)
{
	const struct turn_gpu *g = l->g;
	const struct kinds *k = turn_kinds(l->t, l->gpu);

	return (struct pace_flight){
		.n = g->begun_seen - g->done,
		.work_ns = kinds_in_flight(k, atomic_load(&k->begun_ns)),
		.front_ns = atomic_load(&g->front_ns),
		.from_ns = atomic_load(&g->from_ns),
	};
}

/* So many of those whom METERED holds may go. Where work is not known they look for themselves. */
static int count_room(const struct look *l, uint64_t allow_ns)
{
	const struct turn_gpu *g = l->g;
	const struct kinds *k = turn_kinds(l->t, l->gpu);
	struct pace_flight f = flight(l);
	bool tight = atomic_load(&g->tight);
	uint64_t n;

	if (l->changed || (l->advanced && turn_wants_event(l->t, l->gpu)))
		return INT32_MAX;
	if (!atomic_load(&g->held) ||
		!pace_fits(&f, tight ? atomic_load(&g->held_ns) : 1, allow_ns, tight, l->now))
		return 0;
	n = f.work_ns < allow_ns ? (allow_ns - f.work_ns) / kinds_mean(k) + 1 : 1;
	if (f.n < PACE_LEAST && n < PACE_LEAST - f.n)
		n = PACE_LEAST - f.n;
	return n < INT32_MAX ? (int)n : INT32_MAX;
}

/* By the clock. */
static uint64_t when_fits(const struct look *l)
{
	struct pace_flight f = flight(l);

	return pace_fits_at(&f, atomic_load(&l->g->held_ns), atomic_load(&l->g->allow_ns));
}

/* Lets through what METERED held, if it may go now. */
static void meter(struct look *l)
{
	struct turn_gpu *g = l->g;
	bool turns = l->mode == TURN_UP && l->state == TURN_METERED;
	bool tight = pace_is_tight(atomic_load(&l->p->window_ns));
	uint64_t allow = pace_window(atomic_load(&l->p->window_ns), atomic_load(&l->p->tail_ns),
		turns ? g->turn_seen : 0, l->now - g->pace.opened_ns);
	int n;

	atomic_store(&g->stall_ns, pace_stall(&g->pace));
	atomic_store(&g->tight, tight);
	/* What may have others' work in front of it has not begun. */
	atomic_store(&g->front_ns,
		tight && !g->pace.behind ? marks_front_ns(&l->t->marks, l->gpu) : 0);
	atomic_store(&g->from_ns, g->pace.from_ns);
	atomic_store(&g->allow_ns, allow);
	n = count_room(l, allow);
	if (!n)
		return;
	(void)atomic_fetch_add(&g->meter, 1);
	if (atomic_load(&g->held))
		sys_futex_wake_some(&g->meter, n);
}

/*
 * Who still waits though nothing is closed. An arbiter may have been killed after it opened the gate and
 * before it woke them; and who saw one mode may sleep at its word when the mode has changed.
 */
static void wake_waiting(struct look *l)
{
	if (!l->waiting || l->state == TURN_CLOSED)
		return;
	sys_futex_wake(&l->p->gate, true);
	sys_futex_wake(&l->g->alone, false);
}

/* Nobody has come since the keeper looked: nothing was submitted, and nobody waits. */
static bool nobody_came(const struct look *l)
{
	return atomic_load(&l->p->begun) == l->g->done && !atomic_load(&l->g->waiters) &&
	       !atomic_load(&l->g->held);
}

/* Sets the bell. False: somebody came meanwhile, and the keeper is awake. */
static bool set_bell(struct look *l)
{
	uint32_t w = atomic_load(&l->p->gate);

	while (!(w & TURN_BELL) &&
		!atomic_compare_exchange_weak(&l->p->gate, &w, w | TURN_BELL))
		;
	if (nobody_came(l))
		return true;
	w = atomic_load(&l->p->gate);
	while (w & TURN_BELL && !atomic_compare_exchange_weak(&l->p->gate, &w, w & ~TURN_BELL))
		;
	return false;
}

/* It rests: until the bell rings, once the arbiter has read that. */
static uint64_t rest(struct look *l)
{
	struct turn_gpu *g = l->g;

	if (l->mode != TURN_UP || g->told)
		return NEVER;
	(void)turn_say(l->t, l->gpu);
	if (turn_said(l->t, l->gpu)) {
		g->told = true;
		return NEVER;
	}
	g->unread_ns = g->unread_ns < UNREAD_NS ? UNREAD_NS : 2 * g->unread_ns;
	if (g->unread_ns > UNREAD_MAX_NS)
		g->unread_ns = UNREAD_MAX_NS;
	return g->unread_ns;
}

/* Until when nothing need be looked at. */
static uint64_t settle(struct look *l)
{
	struct turn_gpu *g = l->g;
	bool closed = l->state == TURN_CLOSED, said = true;
	uint64_t sleep, fits = 0;

	if (!l->in_flight && !l->waiting) {
		switch (pace_rest(&g->pace, l->now, l->near, closed)) {
		case PACE_REST:
			if (!set_bell(l))
				return 0;
			g->rests = true;
			g->told = false;
			g->unread_ns = 0;
			return rest(l);
		case PACE_SAY:
			said = turn_say(l->t, l->gpu);
			break;
		case PACE_STAY:
			break;
		}
	} else {
		said = turn_say(l->t, l->gpu);
	}
	if (atomic_load(&g->tight) && atomic_load(&g->held))
		fits = when_fits(l);
	if (!l->in_flight && l->waiting && closed) {
		sleep = WAITING_NS;
		if (l->mode == TURN_AWAY)
			sleep = pace_bucket_wait(&g->bucket, atomic_load(&l->p->cap));
	} else {
		sleep = pace_sleep(&g->pace, l->now,
			&(struct pace_sight){ .near = l->near,
				.held = atomic_load(&g->held) != 0,
				.fits_ns = fits,
				.ahead = marks_ahead(&l->t->marks, l->gpu, g->done),
				.unmarked = l->ended - marks_last(&l->t->marks, l->gpu) });
	}
	return said || sleep < UNSAID_NS ? sleep : UNSAID_NS;
}

/* *sleep: until it is to be looked at again. */
static enum marks_result look(struct turn_process *t, unsigned int gpu, uint64_t *sleep)
{
	struct look l = {
		.t = t,
		.g = &t->gpus[gpu],
		.p = &atomic_load(&t->page)->gpus[gpu],
		.gpu = gpu,
		.mode = turn_mode(t),
	};
	enum marks_result r;

	/* It may be set anew since somebody took it away (container/gate/marks/marks.c). */
	if (l.g->rests && atomic_load(&l.p->gate) & TURN_BELL && nobody_came(&l)) {
		*sleep = rest(&l);
		return MARKS_OK;
	}
	if (l.g->rests) {
		l.g->rests = false;
		pace_bell(&l.g->pace);
	}
	l.now = sys_now_ns();
	look_at_gate(&l);
	r = look_at_marks(&l);
	if (r != MARKS_OK)
		return r;
	meter(&l);
	*sleep = settle(&l);
	/* Behind what takes that long nothing is seen soon; who is held wakes us. */
	if (marks_stuck_ns(&t->marks, gpu, l.now) > STUCK_NS && *sleep < STUCK_LOOK_NS &&
		l.g->begun_seen - l.g->done <= marks_blind(&t->marks, gpu))
		*sleep = STUCK_LOOK_NS;
	wake_waiting(&l);
	return MARKS_OK;
}

/* ---- the thread --------------------------------------------------------------------------------- */

/* Whether the arbiter is there, and turns are on. Returns until when that may be left alone. */
static uint64_t look_at_link(struct turn_process *t, uint64_t *next)
{
	uint64_t now = sys_now_ns();
	int64_t wait;

	sys_lock(&t->start);
	if (turn_mode(t) == TURN_UP && !turn_wanted()) {
		atomic_store(&t->next_try, 0);
		leave(t, TURN_OFF);
	}
	if (turn_mode(t) == TURN_UP && (atomic_load(&t->gone) || now >= *next)) {
		*next = now + LINK_NS;
		if (atomic_load(&t->gone) || turn_link_hung_up(&t->link) || is_deaf(t, now)) {
			t->back_off = 0;
			atomic_store(&t->next_try, 0);
			leave(t, TURN_AWAY);
		}
	}
	if (turn_mode(t) == TURN_AWAY)
		reach_on(t);
	wait = atomic_load(&t->next_try) - sys_now();
	sys_unlock(&t->start);
	if (turn_mode(t) != TURN_AWAY)
		return NEVER;
	return wait < 1 ? 1000000 : wait > BACK_OFF_MAX ? NEVER : (uint64_t)wait * 1000000;
}

/* Who registers anew knows nothing of what was said before. */
static void look_at_registration(struct turn_process *t, uint32_t *seen)
{
	uint32_t now = atomic_load(&t->registered);

	if (now == *seen)
		return;
	*seen = now;
	for (unsigned int i = 0; i < SLICE_GPUS_MAX; i++) {
		t->gpus[i].told = false;
		t->gpus[i].unread_ns = 0;
	}
}

static void sleep_until_woken(struct turn_process *t, uint64_t ns)
{
	uint32_t awake = 0;

	if (ns && atomic_compare_exchange_strong(&t->wake, &awake, 2))
		sys_futex_wait(&t->wake, 2, ns, false);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void *keep(void *arg)
{
	struct turn_process *t = arg;
	enum marks_result r = MARKS_OK;
	uint64_t link_next = 0;
	uint32_t seen = 0;

	thread_prepare("gpuslice-turns");
	(void)quiet_begin();
	while (r == MARKS_OK && turn_mode(t) != TURN_OVER) {
		uint64_t ns, each;

		/* Before all that is looked at: who changes some of it after that wakes us. */
		atomic_store(&t->wake, 0);
		ns = look_at_link(t, &link_next);
		look_at_registration(t, &seen);
		if (turn_mode(t) != TURN_UP && turn_mode(t) != TURN_AWAY) {
			sleep_until_woken(t, NEVER);
			continue;
		}
		each = NEVER;
		for (uint32_t i = 0; r == MARKS_OK && i < t->gate.gpu_count; i++) {
			uint64_t sleep = NEVER;

			r = look(t, i, &sleep);
			each = least(each, sleep);
		}
		if (each == NEVER)
			each = turn_mode(t) == TURN_UP ? LINK_REST_NS : NEVER;
		if (r == MARKS_OK)
			sleep_until_woken(t, least(ns, each));
	}
	if (r == MARKS_NEVER)
		warn_once(WARN_NO_TURNS,
			"this driver cannot say when work is done (cuCtxRecordEvent): work is "
			"not held");
	sys_lock(&t->start);
	leave(t, TURN_OVER);
	sys_unlock(&t->start);
	return NULL;
}
