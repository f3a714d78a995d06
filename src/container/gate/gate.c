/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/gate.h"

#include "container/cuda/driver.h"
#include "container/cuda/stream.h"
#include "container/charges/charges.h"
#include "container/sys.h"
#include "container/gate/gate-thread.h"
#include "container/gate/internal.h"
#include "container/gate/report.h"

/* The longest sleep at the gate. After it the thread has the gate thread check whether the arbiter lives.
 * Tests set more, so that a lost wake-up shows. */
#ifndef GATE_WAIT_NS
#	define GATE_WAIT_NS 100000000
#endif

static _Atomic(void *) root;
_Atomic(struct gate *) gate_root;

/* What the thread submits, from gate_begin() to gate_end(). The loader has room for it in a library that
 * is loaded when the program starts. */
static _Thread_local struct {
	CUstream stream; /* for the own fence */
	uint32_t cost;
	uint8_t kind;
	bool own;
} now __attribute__((tls_model("initial-exec")));

struct gate_process *gate_process(void)
{
	struct gate_process *process = wiped_get(&root, sizeof(*process));

	if (process && !atomic_load_explicit(&gate_root, memory_order_relaxed))
		atomic_store_explicit(&gate_root, &process->gate, memory_order_release);
	return process;
}

struct gate_process *gate_process_if_any(void)
{
	struct gate_process *process = atomic_load_explicit(&root, memory_order_acquire);

	return process;
}

bool gate_is_scheduled(void)
{
	struct slice_page *page = link_page();

	if (__builtin_expect(!page, 0))
		page = link_open(true) == LINK_UP ? link_page() : NULL;
	return page && atomic_load_explicit(&page->turns, memory_order_relaxed);
}

void gate_wake_all(struct gate_process *process)
{
	struct turn_page *page = atomic_load(&process->page);

	for (uint32_t i = 0; page && i < process->gate.gpu_count; i++) {
		struct gate_gpu *g = &process->gpus[i];

		(void)atomic_fetch_add(&g->throttle_word, 1);
		(void)atomic_fetch_add(&g->standalone_gate, TURN_GENERATION);
		sys_futex_wake(&g->throttle_word, false);
		sys_futex_wake(&g->standalone_gate, false);
		sys_futex_wake(&page->gpus[i].gate, true);
	}
}

/* --- what is held --- */

/* The GPU's place in the page. < 0: no GPU of the slice, so the submission is not held. */
static int find_stream_gpu(struct gate_process *process, CUstream stream, unsigned int flags)
{
	int gpu;

	if (process->gate.gpu_count == 1)
		return 0;
	gpu = streams_find_gpu(&process->streams, flags & GATE_NO_STREAM ? NULL : stream,
		flags & GATE_OWN);
	return gpu >= 0 && (uint32_t)gpu < process->gate.gpu_count ? gpu : -1;
}

void gate_handle_leaves(void)
{
	struct gate_process *process = gate_process_if_any();

	if (process)
		streams_handle_leaves(&process->streams);
}

/* One submission at the gate. */
struct gate_entry {
	struct gate_process *process;
	struct gate_gpu *state;
	struct turn_gpu_page *page;
	unsigned int gpu;
	bool pass;
	bool stalled; /* TURN_THROTTLED held it for .stall_ns, and the gate was not closed since */
	bool is_waiting, is_held; /* counted in .waiters; in .throttled */
	bool rang_doorbell;       /* has taken TURN_DOORBELL away, and not reported yet */
	bool throttled;           /* the gate is TURN_THROTTLED */
	bool several;
	unsigned int kind; /* cost-model.h */
	uint32_t cost;
	uint64_t held_ns; /* .is_held: since when nothing has ended */
	uint64_t done;    /* .done at .held_ns */
};

/* Returns the gate's word. Takes TURN_DOORBELL from it. */
static uint32_t read_gate_clear_doorbell(struct gate_entry *e)
{
	uint32_t w = atomic_load(&e->page->gate);

	while (w & TURN_DOORBELL)
		if (atomic_compare_exchange_weak(&e->page->gate, &w, w & ~TURN_DOORBELL)) {
			e->rang_doorbell = true;
			return w & ~TURN_DOORBELL;
		}
	return w;
}

static void uncount_begun_work(struct gate_entry *e)
{
	(void)atomic_fetch_sub(&e->page->begun, 1);
}

static bool is_cost_counted(const struct gate_entry *e)
{
	return e->throttled && !e->several;
}

static void report_waiting_entry(struct gate_entry *e)
{
	(void)gate_report_state(e->process, e->gpu);
	if (e->rang_doorbell || !e->is_waiting)
		gate_thread_wake();
	e->rang_doorbell = false;
}

/*
 * The gate is closed; its word was @w. The first call returns without a sleep, and enter_gate() tries
 * again.
 * 1. The thread counts .waiters, then takes .begun back. So the thread is in one of the two at every
 *    moment.
 * 2. The thread reports `wants`, then loads the gate's word again, in enter_gate(): that is @w of the
 *    next call.
 * 3. The arbiter reads the report, changes the word when it opens the gate, then wakes the futex.
 * 4. The thread sleeps only while the word is @w. So step 2 loads the changed word, or the thread does
 *    not fall asleep, or the wake-up ends its sleep.
 *
 * Without an arbiter the gate thread has the arbiter's part, and .standalone_gate is the word.
 *
 * A thread that finds the gate closed again reports `wants` once more. When the arbiter opened the gate,
 * it assumed that the thread would pass.
 */
static void wait_closed(struct gate_entry *e, enum gate_mode mode, uint32_t w)
{
	uint64_t from, took;

	if (!e->is_waiting) {
		(void)atomic_fetch_add(&e->state->waiters, 1);
		(void)atomic_fetch_add(&e->page->waits, 1);
	}
	uncount_begun_work(e);
	report_waiting_entry(e);
	if (!e->is_waiting) {
		e->is_waiting = true;
		return;
	}
	from = sys_now_ns();
	if (mode == GATE_MODE_UP)
		sys_futex_wait(&e->page->gate, w, GATE_WAIT_NS, true);
	else
		sys_futex_wait(&e->state->standalone_gate, w, GATE_WAIT_NS, false);
	took = sys_now_ns() - from;
	(void)atomic_fetch_add(&e->page->wait_ns, took);
	if (took >= GATE_WAIT_NS)
		gate_thread_wake();
}

/*
 * Waits while enough work is in flight. The first call returns without a sleep, and enter_gate() tries again.
 * .throttled, .throttle_word, .allowed_ns and .done are sequentially consistent.
 * 1. The thread counts .throttled, then loads .throttle_word as @throttle, then compares what is in
 *    flight with .allowed_ns.
 * 2. The gate thread raises .allowed_ns or .done, then loads .throttled.
 * 3. At least one of the two threads sees the other: the submitting thread passes, or the gate thread
 *    changes .throttle_word, then wakes the futex. A thread that has loaded the old word does not sleep
 *    on.
 */
static void wait_throttled(struct gate_entry *e, uint32_t throttle)
{
	uint64_t from = sys_now_ns(), done = atomic_load(&e->page->done), until;

	/* As in wait_closed(): counted here before .begun is taken back. */
	if (!e->is_held)
		(void)atomic_fetch_add(&e->state->throttled, 1);
	uncount_begun_work(e);
	if (!e->is_held || done != e->done) {
		e->held_ns = from;
		e->done = done;
	}
	atomic_store_explicit(&e->state->throttled_cost_ns, e->several ? 0 : e->cost,
		memory_order_relaxed);
	if (!e->is_held) {
		e->is_held = true;
		if (e->rang_doorbell)
			report_waiting_entry(e);
		gate_thread_wake(); /* it places a fence behind what is in flight */
		return;
	}
	until = e->held_ns + atomic_load(&e->state->stall_ns);
	if (from >= until) {
		e->stalled = true;
		return;
	}
	sys_futex_wait(&e->state->throttle_word, throttle,
		until - from < GATE_WAIT_NS ? until - from : GATE_WAIT_NS, false);
	(void)atomic_fetch_add(&e->page->throttled_ns, sys_now_ns() - from);
}

/* @begun and @work count this submission. */
static bool has_room_in_flight(const struct gate_entry *e, uint64_t begun, uint64_t work)
{
	struct cost_model *model = gate_cost_model(e->process, e->gpu);
	uint64_t n = begun - atomic_load(&e->page->done), cost = e->several ? 0 : e->cost;
	/* As of now: the gate thread may not have polled since the arbiter opened the gate. */
	uint64_t window = atomic_load_explicit(&e->page->window_ns, memory_order_relaxed);
	uint64_t allow = atomic_load(&e->state->allowed_ns);
	bool tight = pace_is_tight(window);
	struct pace_flight f = { 0 };
	/* Submissions whose end nothing shows. 0 until other work progresses beside the stuck fence: till
	 * then the stuck work may just be long. */
	uint64_t blind = fences_others_progress(&e->process->fences, e->gpu)
				 ? fences_count_unseen(&e->process->fences, e->gpu)
				 : 0;

	/* One more submission, which has an own fence, shows whether other work progresses. */
	if (fences_may_probe(&e->process->fences, e->gpu, n))
		return true;
	if (blind || atomic_load(&e->process->gate.captures)) {
		/* No fence shows how much work is done. */
		n = n > blind ? n - blind : 0;
		cost = cost_model_mean_ns(model);
		work = n * cost;
		tight = false;
	} else {
		work = cost_model_in_flight_ns(model, work);
	}
	f.n = n ? n - 1 : 0;
	f.work_ns = work > cost ? work - cost : 0;
	f.front_ns = atomic_load_explicit(&e->state->front_ns, memory_order_relaxed);
	f.from_ns = atomic_load_explicit(&e->state->from_ns, memory_order_relaxed);
	if (window && window < allow)
		allow = window;
	return pace_fits(&f, cost, allow, tight, tight ? sys_now_ns() : 0);
}

/* Whether TURN_THROTTLED lets the submission pass; @begun counts it. False: there is no room in flight for
 * it, and its work is not counted. */
static bool admit_throttled(struct gate_entry *e, uint64_t begun)
{
	struct cost_model *model = gate_cost_model(e->process, e->gpu);
	bool pass = e->pass || e->stalled;
	uint64_t work;

	if (e->several)
		return pass || has_room_in_flight(e, begun, atomic_load(&model->begun_ns));
	e->cost = cost_model_cost_ns(model, e->kind);
	work = cost_model_begin(model, e->cost);
	if (pass || has_room_in_flight(e, begun, work))
		return true;
	cost_model_uncount(model, e->cost);
	return false;
}

/* Counts a submission in, and waits where it must. False: nothing is held any more, and the submission is
 * not counted. */
static bool enter_gate(struct gate_entry *e)
{
	for (;;) {
		uint32_t throttle = atomic_load(&e->state->throttle_word), w, gate;
		uint64_t begun = atomic_fetch_add(&e->page->begun, 1) + 1;
		enum gate_mode mode = gate_mode(e->process);

		w = read_gate_clear_doorbell(e);
		if ((mode != GATE_MODE_UP && mode != GATE_MODE_STANDALONE) ||
			!gate_is_scheduled()) {
			uncount_begun_work(e);
			return false;
		}
		if (mode == GATE_MODE_STANDALONE)
			w = atomic_load(&e->state->standalone_gate);
		gate = w & TURN_STATE;
		e->stalled = e->stalled && gate != TURN_CLOSED;
		e->throttled = gate == TURN_THROTTLED;
		if (e->throttled ? admit_throttled(e, begun) : e->pass || gate == TURN_OPEN)
			return true;
		if (e->throttled)
			wait_throttled(e, throttle);
		else
			wait_closed(e, mode, w);
	}
}

/* Whether the submission is never held. Holding a programmatic launch is always right, but loses the
 * overlap. */
static bool programmatic_passes(struct gate_gpu *g, struct turn_gpu_page *p, unsigned int flags)
{
	if (flags & GATE_PASS)
		return true;
	if (!(flags & GATE_PROGRAMMATIC) || atomic_load(&p->begun) == atomic_load(&p->done)) {
		if (atomic_load_explicit(&g->programmatic, memory_order_relaxed))
			atomic_store_explicit(&g->programmatic, 0, memory_order_relaxed);
		return false;
	}
	if (atomic_fetch_add_explicit(&g->programmatic, 1, memory_order_relaxed) <
		GATE_PROGRAMMATIC_MAX)
		return true;
	atomic_store_explicit(&g->programmatic, 0, memory_order_relaxed);
	return false;
}

static struct turn_gpu_page *tag_gpu_page(struct turn_gpu_page *p, uintptr_t tags)
{
	return (struct turn_gpu_page *)((uintptr_t)p | tags);
}

/* No fence beside captures. None between programmatic launches either: it would separate them. */
static bool may_place_fence(struct gate_process *process, const struct gate_entry *e,
	unsigned int flags)
{
	return is_cost_counted(e) && !(flags & GATE_PROGRAMMATIC) &&
	       !atomic_load(&process->gate.captures);
}

static struct turn_gpu_page *count_submission(struct gate_process *process, int gpu,
	unsigned int flags, uintptr_t kind)
{
	struct turn_page *page = atomic_load_explicit(&process->page, memory_order_acquire);
	struct gate_entry e = {
		.process = process,
		.state = &process->gpus[gpu],
		.page = &page->gpus[gpu],
		.gpu = (unsigned int)gpu,
		.several = flags & GATE_SEVERAL,
		.kind = cost_model_find_kind(kind),
	};
	bool in;

	e.pass = programmatic_passes(e.state, e.page, flags);
	in = enter_gate(&e);
	/* The submission is counted in .begun by now, if at all. So the gate thread does not find the GPU
	 * idle in between. */
	if (e.is_waiting)
		(void)atomic_fetch_sub(&e.state->waiters, 1);
	if (e.is_held)
		(void)atomic_fetch_sub(&e.state->throttled, 1);
	if (e.rang_doorbell)
		report_waiting_entry(&e);
	else if (e.is_waiting)
		gate_thread_wake();
	if (!in)
		return NULL;
	if (!is_cost_counted(&e))
		return e.page;
	now.kind = (uint8_t)e.kind;
	now.cost = e.cost;
	if (!may_place_fence(process, &e, flags))
		return tag_gpu_page(e.page, GATE_WORK);
	if (cost_model_needs_fences(gate_cost_model(process, e.gpu), e.kind))
		fences_place_after_submit(&process->fences, e.gpu, &e.page->ended,
			&process->gate.captures, 1);
	return tag_gpu_page(e.page, GATE_WORK | GATE_FENCE);
}

/* NULL: this process has no gates. */
static struct gate_process *get_scheduled_process(struct gate *g)
{
	struct gate_process *process = (struct gate_process *)g;

	if (!gate_is_scheduled())
		return NULL;
	if (!process || gate_mode(process) == GATE_MODE_NONE ||
		gate_mode(process) == GATE_MODE_OFF) {
		if (!gate_thread_start())
			return NULL;
		process = gate_process();
	}
	return process && gate_mode(process) != GATE_MODE_ENDED ? process : NULL;
}

/* The GPU's place in the page. < 0: no GPU of the slice, or the submission goes into a capture. */
static int find_target_gpu(struct gate_process *process, CUstream stream, unsigned int flags)
{
	if (!(flags & GATE_NO_STREAM) && atomic_load(&process->gate.captures) &&
		stream_captures(stream, flags & GATE_OWN))
		return -1;
	return find_stream_gpu(process, stream, flags);
}

struct turn_gpu_page *gate_begin_slow(struct gate *g, CUstream stream, unsigned int flags,
	uintptr_t kind)
{
	struct turn_gpu_page *ret = NULL;
	struct gate_process *process;
	int e = errno, gpu;

	process = get_scheduled_process(g);
	gpu = process ? find_target_gpu(process, stream, flags) : -1;
	if (gpu < 0)
		goto out;
	ret = &atomic_load_explicit(&process->page, memory_order_acquire)->gpus[gpu];
	if (atomic_load(&process->gate.captures) || gate_mode(process) != GATE_MODE_UP ||
		!gate_pass_open(ret))
		ret = count_submission(process, gpu, flags, kind);
	if (ret && process->gate.log)
		gate_launches_add(process->gate.log, kind);
	if (ret)
		fences_add_current_context(&process->fences, (unsigned int)gpu,
			&process->gate.captures);
	/* An own fence separates programmatic launches. Without it nothing would show that they are done. */
	if (ret && !(flags & GATE_SEVERAL) && gate_needs_event(process, (unsigned int)gpu)) {
		now.stream = stream;
		now.own = flags & GATE_OWN;
		ret = tag_gpu_page(ret, GATE_OWN_FENCE);
	}
out:
	errno = e;
	return ret;
}

/* The page stays, even if the process has left the scheduler since gate_begin(). */
void gate_end_tagged(struct turn_gpu_page *tagged)
{
	uintptr_t tags = (uintptr_t)tagged & GATE_TAGS;
	struct turn_gpu_page *p = (struct turn_gpu_page *)((uintptr_t)tagged & ~GATE_TAGS);
	struct gate_process *process = gate_process_if_any();
	struct turn_page *page = process ? atomic_load(&process->page) : NULL;
	unsigned int gpu = page ? (unsigned int)(p - page->gpus) : 0;
	struct cost_model *model = page ? gate_cost_model(process, gpu) : NULL;
	bool alone = model && tags & GATE_FENCE && cost_model_needs_fences(model, now.kind);
	uint64_t apart =
		model && atomic_load_explicit(&process->gpus[gpu].tight, memory_order_relaxed)
			? PACE_FENCE_GAP_TIGHT_NS
			: PACE_FENCE_GAP_NS;
	int e = errno;

	if (page && tags & GATE_OWN_FENCE)
		fences_record_own(&process->fences, gpu, now.stream, now.own);
	if (model && tags & GATE_WORK)
		cost_model_end(model, now.kind, now.cost);
	(void)atomic_fetch_add(&p->ended, 1);
	if (model && tags & GATE_FENCE && (alone || cost_model_unfenced_ns(model) >= apart))
		fences_place_after_submit(&process->fences, gpu, &p->ended,
			&process->gate.captures, 1);
	errno = e;
}

/* --- streams that wait for others --- */

void gate_stream_wait_begin_slow(struct gate_stream_wait *wait, CUstream stream,
	unsigned int flags)
{
	struct gate_process *process;
	int e = errno, gpu;

	process = get_scheduled_process(atomic_load_explicit(&gate_root, memory_order_acquire));
	gpu = process ? find_target_gpu(process, stream, flags) : -1;
	if (gpu >= 0) {
		wait->gpu = (unsigned int)gpu;
		wait->stream = stream;
		wait->own = flags & GATE_OWN;
		wait->slot = fences_wait_begin(&process->fences, wait->gpu, stream, wait->own);
	}
	errno = e;
}

void gate_stream_wait_end_slow(const struct gate_stream_wait *wait, bool given)
{
	struct gate_process *process = gate_process_if_any();
	int e = errno;

	if (process)
		fences_wait_end(&process->fences, wait->slot, wait->stream, wait->own, given);
	errno = e;
}

/* --- captures --- */

/* Also where the slice has no gates yet: it may get them during the capture. */
void gate_capture_begins(void)
{
	struct gate_process *process;
	int e = errno;

	if (atomic_load_explicit(&link_off, memory_order_relaxed))
		return;
	process = gate_process();
	if (process)
		fences_capture_begins(&process->fences, &process->gate.captures);
	errno = e;
}

/* A child of fork may end a capture that its parent began. The child's count is 0 then. */
void gate_capture_ended(void)
{
	struct gate_process *process = gate_process_if_any();
	uint32_t n = process ? atomic_load(&process->gate.captures) : 0;

	while (n && !atomic_compare_exchange_weak(&process->gate.captures, &n, n - 1))
		;
	if (n)
		gate_thread_wake();
}
