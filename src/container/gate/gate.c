/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/gate.h"

#include "container/cuda/quiet.h"
#include "container/cuda/stream.h"
#include "container/charges/charges.h"
#include "container/sys.h"
#include "container/gate/keeper.h"
#include "container/gate/process.h"
#include "container/client/wiped.h"

/* At most, at the gate: then one looks whether the arbiter lives. Tests have more patience, as no wake-up
 * is to be lost. */
#ifndef GATE_WAIT_NS
#	define GATE_WAIT_NS 100000000
#endif

static _Atomic(void *) root;
_Atomic(struct gate *) gate_root;

/* Of what the thread submits now, until gate_end(). In a library that is there from the start of a program
 * the loader has room for it. */
static _Thread_local struct {
	CUstream stream; /* beside a capture */
	uint32_t cost;
	uint8_t kind;
	bool own;
} now __attribute__((tls_model("initial-exec")));

struct turn_process *turn_process(void)
{
	struct turn_process *t = wiped_get(&root, sizeof(*t));

	if (t && !atomic_load_explicit(&gate_root, memory_order_relaxed))
		atomic_store_explicit(&gate_root, &t->gate, memory_order_release);
	return t;
}

struct turn_process *turn_process_if(void)
{
	struct turn_process *t = atomic_load_explicit(&root, memory_order_acquire);

	return t;
}

bool turn_wanted(void)
{
	struct slice_page *page = link_page();

	if (__builtin_expect(!page, 0))
		page = link_open(true) == LINK_UP ? link_page() : NULL;
	return page && atomic_load_explicit(&page->turns, memory_order_relaxed);
}

bool turn_beside(void)
{
	const struct slice_page *page = link_page();

	return page &&
	       atomic_load_explicit(&page->turns, memory_order_relaxed) == SLICE_TURNS_MPS;
}

/* ---- who is held -------------------------------------------------------------------------------- */

/* The place in the page; < 0: no GPU of the slice, which is not held. */
static int gpu_of(const struct turn_process *t, CUstream stream, unsigned int flags)
{
	CUdevice device;
	int gpu;

	if (t->gate.gpu_count == 1)
		return 0;
	if (!stream || flags & GATE_NO_STREAM)
		gpu = ledger_current_gpu();
	else if (stream_device(stream, flags & GATE_OWN, &device))
		return -1;
	else
		gpu = ledger_device_gpu(device);
	return gpu >= 0 && (uint32_t)gpu < t->gate.gpu_count ? gpu : -1;
}

/* One who submits. */
struct entry {
	struct turn_process *t;
	struct turn_gpu *g;
	struct turn_gpu_page *p;
	unsigned int gpu;
	bool pass;
	bool stalled; /* METERED held it for long enough, and the gate was not closed since */
	bool waits, held; /* is counted in .waiters, in .held */
	bool rang;        /* took the bell away, and has not said so */
	bool metered;     /* went by METERED */
	bool several;
	unsigned int kind; /* kinds.h */
	uint32_t cost;
	uint64_t held_ns; /* .held: since when nothing has ended, and */
	uint64_t done;    /* what had then */
};

/* The gate's word; takes the bell from it. */
static uint32_t look_at_gate(struct entry *e)
{
	uint32_t w = atomic_load(&e->p->gate);

	while (w & TURN_BELL)
		if (atomic_compare_exchange_weak(&e->p->gate, &w, w & ~TURN_BELL)) {
			e->rang = true;
			return w & ~TURN_BELL;
		}
	return w;
}

static void take_back(struct entry *e)
{
	(void)atomic_fetch_sub(&e->p->begun, 1);
}

static bool has_work(const struct entry *e)
{
	return e->metered && !e->several;
}

static void tell(struct entry *e)
{
	(void)turn_say(e->t, e->gpu);
	if (e->rang || !e->waits)
		keeper_wake();
	e->rang = false;
}

/*
 * Before the closed gate, whose word was @w. Counted as waiting before .begun is taken back, so that at no
 * moment it looks as if nobody were there. The gate is looked at once more after it was said: it opens
 * after the arbiter has read that, and changes this word. It is said anew by who finds the gate closed
 * again: when that opened the arbiter took this one for one that goes through.
 */
static void wait_closed(struct entry *e, enum turn_mode mode, uint32_t w)
{
	uint64_t from, took;

	if (!e->waits) {
		(void)atomic_fetch_add(&e->g->waiters, 1);
		(void)atomic_fetch_add(&e->p->waits, 1);
	}
	take_back(e);
	tell(e);
	if (!e->waits) {
		e->waits = true;
		return;
	}
	from = sys_now_ns();
	if (mode == TURN_UP)
		sys_futex_wait(&e->p->gate, w, GATE_WAIT_NS, true);
	else
		sys_futex_wait(&e->g->alone, w, GATE_WAIT_NS, false);
	took = sys_now_ns() - from;
	(void)atomic_fetch_add(&e->p->wait_ns, took);
	if (took >= GATE_WAIT_NS)
		keeper_wake();
}

/* Where enough is in flight. @meter was read before that was seen, but after this one was counted in
 * .held; so who raises the allowance and then looks at .held sees it, or it sees that. */
static void wait_metered(struct entry *e, uint32_t meter)
{
	uint64_t from = sys_now_ns(), done = atomic_load(&e->p->done), until;

	/* As above: counted before it is taken back. */
	if (!e->held)
		(void)atomic_fetch_add(&e->g->held, 1);
	take_back(e);
	if (!e->held || done != e->done) {
		e->held_ns = from;
		e->done = done;
	}
	atomic_store_explicit(&e->g->held_ns, e->several ? 0 : e->cost, memory_order_relaxed);
	if (!e->held) {
		e->held = true;
		if (e->rang)
			tell(e);
		keeper_wake(); /* for a marker behind what is in flight */
		return;
	}
	until = e->held_ns + atomic_load(&e->g->stall_ns);
	if (from >= until) {
		e->stalled = true;
		return;
	}
	sys_futex_wait(&e->g->meter, meter,
		until - from < GATE_WAIT_NS ? until - from : GATE_WAIT_NS, false);
	(void)atomic_fetch_add(&e->p->meter_ns, sys_now_ns() - from);
}

/* With this one, which is counted. */
static bool has_room(const struct entry *e, uint64_t begun, uint64_t work)
{
	struct kinds *k = turn_kinds(e->t, e->gpu);
	uint64_t n = begun - atomic_load(&e->p->done), cost = e->several ? 0 : e->cost;
	/* As it is now: since the gate was opened the keeper may not have looked. */
	uint64_t window = atomic_load_explicit(&e->p->window_ns, memory_order_relaxed);
	uint64_t allow = atomic_load(&e->g->allow_ns);
	bool tight = pace_is_tight(window);
	struct pace_flight f = { 0 };
	/* None if it has not been seen that others get on beside what is stuck: that is just long. */
	uint64_t blind =
		marks_passes_by(&e->t->marks, e->gpu) ? marks_blind(&e->t->marks, e->gpu) : 0;

	/* That is seen by one more, which has an event of its own. */
	if (marks_probes(&e->t->marks, e->gpu, n))
		return true;
	if (blind || atomic_load(&e->t->gate.captures)) {
		/* No marker says how much work is done. */
		n = n > blind ? n - blind : 0;
		cost = kinds_mean(k);
		work = n * cost;
		tight = false;
	} else {
		work = kinds_in_flight(k, work);
	}
	f.n = n ? n - 1 : 0;
	f.work_ns = work > cost ? work - cost : 0;
	f.front_ns = atomic_load_explicit(&e->g->front_ns, memory_order_relaxed);
	f.from_ns = atomic_load_explicit(&e->g->from_ns, memory_order_relaxed);
	if (window && window < allow)
		allow = window;
	return pace_fits(&f, cost, allow, tight, tight ? sys_now_ns() : 0);
}

/* By METERED, @begun with this one. False: there is no room for it. */
static bool meter_in(struct entry *e, uint64_t begun)
{
	struct kinds *k = turn_kinds(e->t, e->gpu);
	bool pass = e->pass || e->stalled;
	uint64_t work;

	if (e->several)
		return pass || has_room(e, begun, atomic_load(&k->begun_ns));
	e->cost = kinds_cost(k, e->kind);
	work = kinds_begin(k, e->cost);
	if (pass || has_room(e, begun, work))
		return true;
	kinds_take_back(k, e->cost);
	return false;
}

/* Counts one in; waits where it must. False: nothing is held any more, and it is not counted. */
static bool enter(struct entry *e)
{
	for (;;) {
		uint32_t meter = atomic_load(&e->g->meter), w, state;
		uint64_t begun = atomic_fetch_add(&e->p->begun, 1) + 1;
		enum turn_mode mode = turn_mode(e->t);

		w = look_at_gate(e);
		if ((mode != TURN_UP && mode != TURN_AWAY) || !turn_wanted()) {
			take_back(e);
			return false;
		}
		if (mode == TURN_AWAY)
			w = atomic_load(&e->g->alone);
		state = w & TURN_STATE;
		e->stalled = e->stalled && state != TURN_CLOSED;
		e->metered = state == TURN_METERED;
		if (e->metered ? meter_in(e, begun) : e->pass || state == TURN_OPEN)
			return true;
		if (e->metered)
			wait_metered(e, meter);
		else
			wait_closed(e, mode, w);
	}
}

/* To hold one is always right, but the overlap is lost. */
static bool programmatic_passes(struct turn_gpu *g, struct turn_gpu_page *p, unsigned int flags)
{
	if (flags & GATE_PASS)
		return true;
	if (!(flags & GATE_PROGRAMMATIC) || atomic_load(&p->begun) == atomic_load(&p->done)) {
		if (atomic_load_explicit(&g->programmatic, memory_order_relaxed))
			atomic_store_explicit(&g->programmatic, 0, memory_order_relaxed);
		return false;
	}
	if (atomic_fetch_add_explicit(&g->programmatic, 1, memory_order_relaxed) <
		GATE_PROGRAMMATIC_MOST)
		return true;
	atomic_store_explicit(&g->programmatic, 0, memory_order_relaxed);
	return false;
}

static struct turn_gpu_page *tag(struct turn_gpu_page *p, uintptr_t tags)
{
	return (struct turn_gpu_page *)((uintptr_t)p | tags);
}

/* Neither beside captures, nor between programmatic launches: a marker would part them. */
static bool may_mark(struct turn_process *t, const struct entry *e, unsigned int flags)
{
	return has_work(e) && !(flags & GATE_PROGRAMMATIC) && !atomic_load(&t->gate.captures);
}

static struct turn_gpu_page *count_in(struct turn_process *t, int gpu, unsigned int flags,
	uintptr_t kind)
{
	struct turn_page *page = atomic_load_explicit(&t->page, memory_order_acquire);
	struct entry e = {
		.t = t,
		.g = &t->gpus[gpu],
		.p = &page->gpus[gpu],
		.gpu = (unsigned int)gpu,
		.several = flags & GATE_SEVERAL,
		.kind = kinds_of(kind),
	};
	bool in;

	e.pass = programmatic_passes(e.g, e.p, flags);
	in = enter(&e);
	/* Counted in .begun by now, if at all: the keeper does not take it for idle in between. */
	if (e.waits)
		(void)atomic_fetch_sub(&e.g->waiters, 1);
	if (e.held)
		(void)atomic_fetch_sub(&e.g->held, 1);
	if (e.rang)
		tell(&e);
	else if (e.waits)
		keeper_wake();
	if (!in)
		return NULL;
	if (!has_work(&e))
		return e.p;
	now.kind = (uint8_t)e.kind;
	now.cost = e.cost;
	if (!may_mark(t, &e, flags))
		return tag(e.p, GATE_WORK);
	if (kinds_alone(turn_kinds(t, e.gpu), e.kind))
		marks_submitted(&t->marks, e.gpu, &e.p->ended, &t->gate.captures, 1);
	return tag(e.p, GATE_WORK | GATE_MARK);
}

/* NULL: this process takes no turns. */
static struct turn_process *taking_turns(struct gate *g)
{
	struct turn_process *t = (struct turn_process *)g;

	if (!turn_wanted())
		return NULL;
	if (!t || turn_mode(t) == TURN_NONE || turn_mode(t) == TURN_OFF) {
		if (!keeper_start())
			return NULL;
		t = turn_process();
	}
	return t && turn_mode(t) != TURN_OVER ? t : NULL;
}

/* The place in the page of the GPU that it goes to; < 0: to none of the slice, or into a capture. */
static int goes_to(struct turn_process *t, CUstream stream, unsigned int flags)
{
	if (!(flags & GATE_NO_STREAM) && atomic_load(&t->gate.captures) &&
		stream_captures(stream, flags & GATE_OWN))
		return -1;
	return gpu_of(t, stream, flags);
}

struct turn_gpu_page *gate_begin_slow(struct gate *g, CUstream stream, unsigned int flags,
	uintptr_t kind)
{
	struct turn_gpu_page *ret = NULL;
	struct turn_process *t;
	int e = errno, gpu;

	t = taking_turns(g);
	gpu = t ? goes_to(t, stream, flags) : -1;
	if (gpu < 0)
		goto out;
	ret = count_in(t, gpu, flags, kind);
	if (ret && t->gate.log)
		launches_add(t->gate.log, kind);
	if (ret)
		marks_here(&t->marks, (unsigned int)gpu, &t->gate.captures);
	/* It parts programmatic launches, but else those would not be known to be done. */
	if (ret && !(flags & GATE_SEVERAL) && turn_wants_event(t, (unsigned int)gpu)) {
		now.stream = stream;
		now.own = flags & GATE_OWN;
		ret = tag(ret, GATE_BEHIND);
	}
out:
	errno = e;
	return ret;
}

/* The page is of a GPU of ours, but who has ended turns meanwhile. */
void gate_end_tagged(struct turn_gpu_page *tagged)
{
	uintptr_t tags = (uintptr_t)tagged & GATE_TAGS;
	struct turn_gpu_page *p = (struct turn_gpu_page *)((uintptr_t)tagged & ~GATE_TAGS);
	struct turn_process *t = turn_process_if();
	struct turn_page *page = t ? atomic_load(&t->page) : NULL;
	unsigned int gpu = page ? (unsigned int)(p - page->gpus) : 0;
	struct kinds *k = page ? turn_kinds(t, gpu) : NULL;
	bool alone = k && tags & GATE_MARK && kinds_alone(k, now.kind);
	uint64_t apart = k && atomic_load_explicit(&t->gpus[gpu].tight, memory_order_relaxed)
				 ? PACE_APART_TIGHT_NS
				 : PACE_APART_NS;
	int e = errno;

	if (page && tags & GATE_BEHIND)
		marks_behind(&t->marks, gpu, now.stream, now.own);
	if (k && tags & GATE_WORK)
		kinds_end(k, now.kind, now.cost);
	(void)atomic_fetch_add(&p->ended, 1);
	if (k && tags & GATE_MARK && (alone || kinds_unmarked(k) >= apart))
		marks_submitted(&t->marks, gpu, &p->ended, &t->gate.captures, 1);
	errno = e;
}

/* ---- what waits for others ---------------------------------------------------------------------- */

void gate_park_slow(struct gate_park *k, CUstream stream, unsigned int flags)
{
	struct turn_process *t;
	int e = errno, gpu;

	t = taking_turns(atomic_load_explicit(&gate_root, memory_order_acquire));
	gpu = t ? goes_to(t, stream, flags) : -1;
	if (gpu >= 0) {
		k->gpu = (unsigned int)gpu;
		k->stream = stream;
		k->own = flags & GATE_OWN;
		k->place = marks_wait_begins(&t->marks, k->gpu, stream, k->own);
	}
	errno = e;
}

void gate_parked_slow(const struct gate_park *k, bool given)
{
	struct turn_process *t = turn_process_if();
	int e = errno;

	if (t)
		marks_wait_given(&t->marks, k->place, k->stream, k->own, given);
	errno = e;
}

/* ---- captures ----------------------------------------------------------------------------------- */

/* Also where there are no turns yet: they may come while it captures. */
void gate_capture_begins(void)
{
	struct turn_process *t;
	int e = errno;

	if (atomic_load_explicit(&link_off, memory_order_relaxed))
		return;
	t = turn_process();
	if (t)
		marks_capture_begins(&t->marks, &t->gate.captures);
	errno = e;
}

/* A child of fork may end what its parent began: it knows of none. */
void gate_capture_ended(void)
{
	struct turn_process *t = turn_process_if();
	uint32_t n = t ? atomic_load(&t->gate.captures) : 0;

	while (n && !atomic_compare_exchange_weak(&t->gate.captures, &n, n - 1))
		;
	if (n)
		keeper_wake();
}

void gate_capture_failed(void)
{
	gate_capture_ended();
}
