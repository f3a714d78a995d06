/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/gate-thread.h"

#include "container/cuda/device.h"
#include "container/cuda/driver.h"
#include "container/charges/charges.h"
#include "container/gate/internal.h"
#include "container/gate/pthread.h"
#include "container/gate/report.h"
#include "container/sys.h"

/* Registration. A submitting thread waits for the answer: FIRST_MS at most for the first registration of
 * the process, while other submitting threads wait too, and AGAIN_MS for a later one. The gate thread
 * polls for its answer every ANSWER_POLL_MS, for ANSWER_MS at most. The time between two tries is
 * BACK_OFF_MS, doubled up to BACK_OFF_MAX ms. */
#define FIRST_MS       1000
#define AGAIN_MS       200
#define ANSWER_MS      5000
#define ANSWER_POLL_MS 5
#define BACK_OFF_MS    20
#define BACK_OFF_MAX   1000
/* An arbiter that has read nothing for HUNG_NS hangs. Where no packet was sent for REPORT_AGAIN_NS, threads
 * that wait at a gate report again. */
#define HUNG_NS         UINT64_C(2000000000)
#define REPORT_AGAIN_NS UINT64_C(1000000000)
/* Interval of the checks whether the arbiter lives: LINK_NS, and LINK_IDLE_NS while the gate thread polls no
 * GPU. */
#define LINK_NS      UINT64_C(50000000)
#define LINK_IDLE_NS UINT64_C(5000000000)
/* Interval of polls at a closed gate with nothing in flight. Threads that pass the gate wake the gate
 * thread. */
#define WAITING_NS UINT64_C(50000000)
/* Time until a report that could not be sent is retried. */
#define REPORT_RETRY_NS UINT64_C(1000000)
/* Interval of the checks whether the arbiter has read the last report: UNREAD_NS, doubled up to
 * UNREAD_MAX_NS. */
#define UNREAD_NS     UINT64_C(50000)
#define UNREAD_MAX_NS UINT64_C(10000000)
/* Shortest interval of polls of a fence that has been stuck for more than STUCK_NS. */
#define STUCK_NS      UINT64_C(1000000000)
#define STUCK_POLL_NS UINT64_C(10000000)
#define NEVER         UINT64_MAX

/* --- the connection --- */

/* .start_lock is held. From now on the gates in the page hold no thread. */
static void leave_scheduler(struct gate_process *process, enum gate_mode to)
{
	atomic_store(&process->gate.page, NULL);
	sys_lock(&process->report_lock);
	gate_link_close(&process->link);
	atomic_store(&process->link_lost, false);
	atomic_store(&process->mode, (uint32_t)to);
	sys_unlock(&process->report_lock);
	gate_wake_all(process);
}

/* .start_lock is held. */
static void apply_sched_registration(struct gate_process *process, const struct own_fd *fd)
{
	sys_lock(&process->report_lock);
	process->link.socket = *fd;
	for (unsigned int i = 0; i < SLICE_GPUS_MAX; i++)
		process->gpus[i].reported.valid = false;
	atomic_store(&process->link_lost, false);
	if (!atomic_load(&process->page)) {
		process->gate.gpu_count = process->link.page->gpu_count;
		process->gate.log = gate_launches_open(process->link.dir);
		process->fences.gpus = process->gate.gpu_count;
		atomic_store(&process->fences.page, process->link.page);
		atomic_store(&process->page, process->link.page);
	}
	(void)atomic_fetch_add(&process->n_registered, 1);
	atomic_store(&process->mode, GATE_MODE_UP);
	sys_unlock(&process->report_lock);
	atomic_store(&process->gate.page, process->link.page);
	process->back_off = 0;
	gate_wake_all(process);
}

/* Sets when to try again. .start_lock is held. */
static void postpone_registration(struct gate_process *process)
{
	process->back_off = process->back_off ? 2 * process->back_off : BACK_OFF_MS;
	if (process->back_off > BACK_OFF_MAX)
		process->back_off = BACK_OFF_MAX;
	atomic_store(&process->next_try, sys_now() + process->back_off);
}

/* Applies the answer to a registration. .start_lock is held. */
static void apply_registration_answer(struct gate_process *process, enum gate_link_answer r,
	const struct own_fd *fd)
{
	switch (r) {
	case GATE_LINK_UP:
		apply_sched_registration(process, fd);
		return;
	case GATE_LINK_PENDING:
		return;
	case GATE_LINK_DOWN:
		postpone_registration(process);
		break;
	case GATE_LINK_REFUSED:
		leave_scheduler(process, GATE_MODE_OFF);
		process->back_off = BACK_OFF_MAX;
		postpone_registration(process);
		break;
	case GATE_LINK_PAGE_LOST:
		warn_once(WARN_NOT_SCHEDULED,
			"a descriptor of ours was closed: the turns of this process end with "
			"its arbiter");
		atomic_store(&process->next_try, INT64_MAX);
		break;
	}
}

/* Registers, and waits for the answer. .start_lock is held. */
static void register_with_scheduler(struct gate_process *process, int ms)
{
	struct own_fd fd = { 0 };
	enum gate_link_answer r = gate_link_register(&process->link, sys_now() + ms, &fd);

	apply_registration_answer(process, r, &fd);
}

/*
 * Continues a registration without waiting. A hung arbiter accepts connections and does not answer. The
 * gate thread keeps polling for ANSWER_MS, as that arbiter may recover. Then it connects again, as
 * another arbiter may have taken its place. .start_lock is held.
 */
static void continue_registration(struct gate_process *process)
{
	struct own_fd fd = { 0 };
	int64_t now = sys_now();
	enum gate_link_answer r;

	if (now < atomic_load(&process->next_try))
		return;
	if (!process->link.pending.have) {
		r = gate_link_request(&process->link);
		process->link.pending_until = now + ANSWER_MS;
	} else {
		r = gate_link_poll_answer(&process->link, &fd);
		if (r == GATE_LINK_PENDING && now >= process->link.pending_until) {
			gate_link_close(&process->link);
			r = GATE_LINK_DOWN;
		}
	}
	if (r == GATE_LINK_PENDING)
		atomic_store(&process->next_try, now + ANSWER_POLL_MS);
	apply_registration_answer(process, r, &fd);
}

/*
 * Whether the arbiter hangs: it reads nothing. It may have read every packet before it hung. So after
 * REPORT_AGAIN_NS the threads that wait at a gate report again; a live arbiter reads that and goes on.
 * .start_lock is held.
 */
static bool is_arbiter_hung(struct gate_process *process, uint64_t now)
{
	struct gate_link *l = &process->link;
	bool r = false;

	sys_lock(&process->report_lock);
	if (gate_link_is_being_read(l))
		l->hung_since = 0;
	else if (!l->hung_since)
		l->hung_since = now;
	else
		r = now - l->hung_since >= HUNG_NS;
	if (l->progress_sent != l->sent || !l->progress_at) {
		l->progress_sent = l->sent;
		l->progress_at = now;
	}
	for (uint32_t i = 0;
		now - l->progress_at >= REPORT_AGAIN_NS && i < process->gate.gpu_count; i++)
		if (atomic_load(&process->gpus[i].waiters))
			process->gpus[i].reported.valid = false;
	sys_unlock(&process->report_lock);
	return r;
}

static void *run_gate_thread(void *arg);

/* .start_lock is held. */
static void start_gate_thread(struct gate_process *process)
{
	int gpu;

	/* The probe comes first: it stores in the slice's page whether the process runs under MPS, and the
	 * arbiter reads that at the registration (arbiter_mps_check_process()). */
	device_probe_current_mps();
	register_with_scheduler(process,
		gate_mode(process) == GATE_MODE_NONE ? FIRST_MS : AGAIN_MS);
	if (gate_mode(process) != GATE_MODE_UP) {
		atomic_store(&process->mode, GATE_MODE_OFF);
		return;
	}
	/* The current context, if the program made it before any hook reported it. */
	gpu = process->gate.gpu_count == 1 ? 0 : device_current_gpu();
	if (gpu >= 0)
		fences_add_context(&process->fences, fences_current_context(),
			(unsigned int)gpu, &process->gate.captures, true);
	if (process->thread_running)
		return;
	if (gate_spawn_thread(run_gate_thread, process)) {
		process->thread_running = true;
		return;
	}
	warn_once(WARN_NOT_SCHEDULED, "no thread can be started: work is not held");
	leave_scheduler(process, GATE_MODE_ENDED);
}

struct turn_page *gate_thread_start(void)
{
	struct gate_process *process = gate_process();
	enum gate_mode mode;
	int e = errno;

	if (!process)
		return NULL;
	mode = gate_mode(process);
	if (mode == GATE_MODE_NONE ||
		(mode == GATE_MODE_OFF && sys_now() >= atomic_load(&process->next_try))) {
		sys_lock(&process->start_lock);
		mode = gate_mode(process);
		if (mode == GATE_MODE_NONE ||
			(mode == GATE_MODE_OFF && sys_now() >= atomic_load(&process->next_try)))
			start_gate_thread(process);
		sys_unlock(&process->start_lock);
		gate_thread_wake();
		mode = gate_mode(process);
	}
	errno = e;
	return mode == GATE_MODE_UP || mode == GATE_MODE_STANDALONE
		       ? atomic_load(&process->page)
		       : NULL;
}

void gate_thread_wake(void)
{
	struct gate_process *process = gate_process_if_any();
	int e = errno;

	if (process && atomic_exchange(&process->wake, 1) == 2)
		sys_futex_wake(&process->wake, false);
	errno = e;
}

void gate_thread_add_context(CUcontext ctx, unsigned int gpu)
{
	struct gate_process *process;
	int e = errno;

	if (atomic_load_explicit(&link_off, memory_order_relaxed))
		return;
	process = gate_process();
	if (process)
		fences_add_context(&process->fences, ctx, gpu, &process->gate.captures,
			gate_is_scheduled());
	errno = e;
}

void gate_thread_context_leaves(CUcontext ctx)
{
	struct gate_process *process = gate_process_if_any();
	int e = errno;

	if (process)
		fences_context_leaves(&process->fences, ctx);
	errno = e;
}

void gate_thread_context_stays(CUcontext ctx)
{
	struct gate_process *process = gate_process_if_any();
	int e = errno;

	if (process) {
		fences_context_stays(&process->fences, ctx);
		gate_thread_wake();
	}
	errno = e;
}

void gate_thread_context_gone(CUcontext ctx)
{
	struct gate_process *process = gate_process_if_any();
	int e = errno;

	if (process) {
		fences_context_gone(&process->fences, ctx);
		gate_thread_wake(); /* what was in flight there is over */
	}
	errno = e;
}

/* --- one poll of one GPU --- */

/* What one poll of one GPU finds. */
struct gpu_poll {
	struct gate_process *process;
	struct gate_gpu *state;
	struct turn_gpu_page *page;
	unsigned int gpu;
	uint64_t now;
	enum gate_mode mode;
	uint32_t gate;   /* its state: TURN_OPEN... */
	bool is_awaited; /* another slice waits for what is in flight to end */
	bool in_flight, waiting;
	uint64_t ended; /* .ended, a lower bound */
	bool changed;   /* the gate, or what is stuck */
	bool advanced;  /* .done */
};

/* The gate's state while there is no arbiter. */
static uint32_t get_standalone_state(const struct gpu_poll *poll)
{
	uint32_t cap = atomic_load(&poll->page->cap);
	bool closed = (atomic_load(&poll->state->standalone_gate) & TURN_STATE) == TURN_CLOSED;
	/* As in report.c, blocked work does not count. It may depend on a thread at this closed gate,
	 * which the bucket would then never open. */
	bool busy = poll->state->was_busy &&
		    !(closed && fences_is_blocked(&poll->process->fences, poll->gpu));

	if (!cap)
		return TURN_OPEN;
	return pace_bucket(&poll->state->bucket, poll->now, cap, busy) ? TURN_THROTTLED
								       : TURN_CLOSED;
}

static void poll_gate_word(struct gpu_poll *poll)
{
	struct gate_gpu *g = poll->state;
	uint32_t w = atomic_load(&poll->page->gate) & ~TURN_DOORBELL;
	uint64_t quantum = atomic_load(&poll->page->quantum_ns);

	if (poll->mode == GATE_MODE_STANDALONE) {
		uint32_t was = atomic_load(&g->standalone_gate),
			 state = get_standalone_state(poll);

		/* Other threads change the word, too, but only its generation. */
		while ((was & TURN_STATE) != state &&
			!atomic_compare_exchange_weak(&g->standalone_gate, &was,
				((was & ~TURN_STATE) | state) + TURN_GENERATION))
			;
		if ((was & TURN_STATE) != state)
			sys_futex_wake(&g->standalone_gate, false);
		w = state;
	}
	poll->gate = w & TURN_STATE;
	/* The threads that TURN_THROTTLED held check the change. */
	poll->changed = w != g->last_gate || quantum != g->last_quantum_ns;
	g->last_gate = w;
	g->last_quantum_ns = quantum;
	pace_gate(&g->pace, poll->now, poll->changed, poll->gate == TURN_CLOSED);
	poll->is_awaited = poll->gate != TURN_OPEN ||
			   (poll->mode == GATE_MODE_UP && atomic_load(&poll->page->window_ns));
}

static void apply_done_count(struct gpu_poll *poll, uint64_t done)
{
	struct gate_gpu *g = poll->state;
	uint64_t took;

	if (done <= g->done)
		return;
	took = pace_done(&g->pace, poll->now, done - g->done);
	cost_model_learn(gate_cost_model(poll->process, poll->gpu), done - g->done, took,
		g->pace.each_ns);
	g->done = done;
	atomic_store(&g->ended_ns, g->pace.ended_ns);
	atomic_store(&poll->page->done, done);
	poll->advanced = true;
}

static void poll_work_in_flight(struct gpu_poll *poll)
{
	struct gate_gpu *g = poll->state;
	uint64_t begun;

	/* Loaded before .begun, which is no less then. */
	poll->ended = atomic_load(&poll->page->ended);
	begun = atomic_load(&poll->page->begun);
	poll->waiting = atomic_load(&g->waiters) || atomic_load(&g->throttled);
	poll->in_flight = begun != g->done;
	if (begun != g->last_begun)
		g->pace.quiet_ns = 0;
	g->last_begun = begun;
	if (!poll->in_flight) {
		pace_idle(&g->pace, poll->now);
		cost_model_set_idle(gate_cost_model(poll->process, poll->gpu));
	} else if (!g->was_busy) {
		pace_begins(&g->pace, poll->now);
	} else {
		pace_pending(&g->pace, poll->now);
	}
	g->was_busy = poll->in_flight;
}

/*
 * Recording a fence takes a lock of the driver from submitting threads. While no slice waits for the end of
 * what is in flight, the fence can wait until nothing was submitted between two polls, or for
 * PACE_POLL_OPEN_MAX_NS.
 */
static bool can_fence_wait(const struct gpu_poll *poll)
{
	struct gate_gpu *g = poll->state;
	bool calm = poll->ended == g->last_ended;

	g->last_ended = poll->ended;
	if (!g->unfenced_since)
		g->unfenced_since = poll->now;
	if (!calm && poll->now - g->unfenced_since < PACE_POLL_OPEN_MAX_NS && !poll->is_awaited)
		return true;
	g->unfenced_since = 0;
	return false;
}

static enum fence_result poll_fences(struct gpu_poll *poll)
{
	struct gate_gpu *g = poll->state;
	struct fences *f = &poll->process->fences;
	uint64_t done = g->done, unmarked;
	bool stuck = fences_is_stuck(f, poll->gpu),
	     passes_by = fences_others_progress(f, poll->gpu);
	uint64_t blind = fences_count_unseen(f, poll->gpu);
	enum fence_result r;

	/* Work that is over must not be subtracted twice. 0 until release_throttled_work() knows what is
	 * in front now. */
	atomic_store(&g->front_ns, 0);
	r = fences_poll(f, poll->gpu, poll->page, poll->now, g->pace.each_ns, &done);

	if (r != FENCE_OK)
		return r;
	/* Threads that TURN_THROTTLED held may go on beside what is stuck. */
	if (stuck != fences_is_stuck(f, poll->gpu) ||
		passes_by != fences_others_progress(f, poll->gpu) ||
		blind != fences_count_unseen(f, poll->gpu))
		poll->changed = true;
	apply_done_count(poll, done);
	poll_work_in_flight(poll);
	/* Only work of unknown end is in flight, behind the stuck fence: its time must not count for
	 * other work. */
	if (!fences_others_progress(f, poll->gpu))
		pace_overdue(&g->pace, poll->now, fences_count_ahead(f, poll->gpu, done));
	else if (g->last_begun - g->done <= fences_count_unseen(f, poll->gpu))
		pace_begins(&g->pace, poll->now);
	unmarked = poll->ended - fences_last_target(f, poll->gpu);
	if (!pace_fence_due(&g->pace, unmarked, fences_count_ahead(f, poll->gpu, done) != 0,
		    atomic_load(&g->throttled) != 0) ||
		can_fence_wait(poll))
		return FENCE_OK;
	r = fences_place(f, poll->gpu, &poll->page->ended, &poll->process->gate.captures,
		&done);
	if (done > g->done) {
		apply_done_count(poll, done);
		poll_work_in_flight(poll);
	}
	return r == FENCE_LATER ? FENCE_OK : r;
}

static struct pace_flight get_flight_state(const struct gpu_poll *poll)
{
	const struct gate_gpu *g = poll->state;
	const struct cost_model *model = gate_cost_model(poll->process, poll->gpu);

	return (struct pace_flight){
		.n = g->last_begun - g->done,
		.work_ns = cost_model_in_flight_ns(model, atomic_load(&model->begun_ns)),
		.front_ns = atomic_load(&g->front_ns),
		.from_ns = atomic_load(&g->from_ns),
	};
}

/* How many of the threads that TURN_THROTTLED holds may go. Where work is not known, all check for
 * themselves. */
static int count_releasable(const struct gpu_poll *poll, uint64_t allow_ns)
{
	const struct gate_gpu *g = poll->state;
	const struct cost_model *model = gate_cost_model(poll->process, poll->gpu);
	struct pace_flight f = get_flight_state(poll);
	bool tight = atomic_load(&g->tight);
	uint64_t n;

	if (poll->changed || (poll->advanced && gate_needs_event(poll->process, poll->gpu)))
		return INT32_MAX;
	if (!atomic_load(&g->throttled) ||
		!pace_fits(&f, tight ? atomic_load(&g->throttled_cost_ns) : 1, allow_ns, tight,
			poll->now))
		return 0;
	n = f.work_ns < allow_ns ? (allow_ns - f.work_ns) / cost_model_mean_ns(model) + 1 : 1;
	if (f.n < PACE_IN_FLIGHT_MIN && n < PACE_IN_FLIGHT_MIN - f.n)
		n = PACE_IN_FLIGHT_MIN - f.n;
	return n < INT32_MAX ? (int)n : INT32_MAX;
}

/* When a held submission fits, by the clock. */
static uint64_t when_fits(const struct gpu_poll *poll)
{
	struct pace_flight f = get_flight_state(poll);

	return pace_fits_at(&f, atomic_load(&poll->state->throttled_cost_ns),
		atomic_load(&poll->state->allowed_ns));
}

/* Lets threads pass that TURN_THROTTLED held, if they may go now. Memory order: wait_throttled() in gate.c. */
static void release_throttled_work(struct gpu_poll *poll)
{
	struct gate_gpu *g = poll->state;
	bool has_quantum = poll->mode == GATE_MODE_UP && poll->gate == TURN_THROTTLED;
	bool tight = pace_is_tight(atomic_load(&poll->page->window_ns));
	uint64_t allow = pace_window(atomic_load(&poll->page->window_ns),
		atomic_load(&poll->page->overrun_ns), has_quantum ? g->last_quantum_ns : 0,
		poll->now - g->pace.opened_ns);
	int n;

	atomic_store(&g->stall_ns, pace_stall(&g->pace));
	atomic_store(&g->tight, tight);
	/* Work that may have other slices' work in front of it has not begun. */
	atomic_store(&g->front_ns, tight && !g->pace.behind
					   ? fences_front_ns(&poll->process->fences, poll->gpu)
					   : 0);
	atomic_store(&g->from_ns, g->pace.from_ns);
	atomic_store(&g->allowed_ns, allow);
	n = count_releasable(poll, allow);
	if (!n)
		return;
	(void)atomic_fetch_add(&g->throttle_word, 1);
	if (atomic_load(&g->throttled))
		sys_futex_wake_some(&g->throttle_word, n);
}

/*
 * Wakes threads that still wait though the gate is not closed.
 * - An arbiter may have been killed after it opened the gate, and before it woke the threads.
 * - A thread that loaded one mode may sleep at that mode's word when the mode has changed.
 */
static void wake_waiting(struct gpu_poll *poll)
{
	if (!poll->waiting || poll->gate == TURN_CLOSED)
		return;
	sys_futex_wake(&poll->page->gate, true);
	sys_futex_wake(&poll->state->standalone_gate, false);
}

/* Since the poll nothing was submitted, and no thread waits. */
static bool is_still_idle(const struct gpu_poll *poll)
{
	return atomic_load(&poll->page->begun) == poll->state->done &&
	       !atomic_load(&poll->state->waiters) && !atomic_load(&poll->state->throttled);
}

/* Sets TURN_DOORBELL (internal.h). False: a thread came meanwhile, and the gate thread stays awake. */
static bool set_doorbell(struct gpu_poll *poll)
{
	uint32_t w = atomic_load(&poll->page->gate);

	while (!(w & TURN_DOORBELL) &&
		!atomic_compare_exchange_weak(&poll->page->gate, &w, w | TURN_DOORBELL))
		;
	if (is_still_idle(poll))
		return true;
	w = atomic_load(&poll->page->gate);
	while (w & TURN_DOORBELL &&
		!atomic_compare_exchange_weak(&poll->page->gate, &w, w & ~TURN_DOORBELL))
		;
	return false;
}

/* The gate thread rests: until the doorbell rings, once the arbiter has read the report. Returns ns until
 * the next call. */
static uint64_t report_gpu_rest(struct gpu_poll *poll)
{
	struct gate_gpu *g = poll->state;

	if (poll->mode != GATE_MODE_UP || g->report_read)
		return NEVER;
	(void)gate_report_state(poll->process, poll->gpu);
	if (gate_state_is_reported(poll->process, poll->gpu)) {
		g->report_read = true;
		return NEVER;
	}
	g->unread_poll_ns = g->unread_poll_ns < UNREAD_NS ? UNREAD_NS : 2 * g->unread_poll_ns;
	if (g->unread_poll_ns > UNREAD_MAX_NS)
		g->unread_poll_ns = UNREAD_MAX_NS;
	return g->unread_poll_ns;
}

/* Returns ns until the next poll of the GPU. */
static uint64_t plan_next_gpu_poll(struct gpu_poll *poll)
{
	struct gate_gpu *g = poll->state;
	bool closed = poll->gate == TURN_CLOSED, reported = true;
	uint64_t sleep, fits = 0;

	if (!poll->in_flight && !poll->waiting) {
		switch (pace_rest(&g->pace, poll->now, poll->is_awaited, closed)) {
		case PACE_REST:
			if (!set_doorbell(poll))
				return 0;
			g->resting = true;
			g->report_read = false;
			g->unread_poll_ns = 0;
			return report_gpu_rest(poll);
		case PACE_REPORT:
			reported = gate_report_state(poll->process, poll->gpu);
			break;
		}
	} else {
		reported = gate_report_state(poll->process, poll->gpu);
	}
	if (atomic_load(&g->tight) && atomic_load(&g->throttled))
		fits = when_fits(poll);
	if (!poll->in_flight && poll->waiting && closed) {
		sleep = WAITING_NS;
		if (poll->mode == GATE_MODE_STANDALONE)
			sleep = pace_bucket_wait(&g->bucket, atomic_load(&poll->page->cap));
	} else {
		sleep = pace_sleep(&g->pace, poll->now,
			&(struct pace_state){ .is_awaited = poll->is_awaited,
				.throttled = atomic_load(&g->throttled) != 0,
				.fits_ns = fits,
				.ahead = fences_count_ahead(&poll->process->fences, poll->gpu,
					g->done),
				.unfenced =
					poll->ended - fences_last_target(&poll->process->fences,
							      poll->gpu) });
	}
	return reported || sleep < REPORT_RETRY_NS ? sleep : REPORT_RETRY_NS;
}

/* *sleep: ns until the next poll. */
static enum fence_result poll_gpu_gate(struct gate_process *process, unsigned int gpu,
	uint64_t *sleep)
{
	struct gpu_poll poll = {
		.process = process,
		.state = &process->gpus[gpu],
		.page = &atomic_load(&process->page)->gpus[gpu],
		.gpu = gpu,
		.mode = gate_mode(process),
	};
	enum fence_result r;

	/* TURN_DOORBELL alone proves nothing: fences/fences.c may have set it again after a thread took it
	 * away. */
	if (poll.state->resting && atomic_load(&poll.page->gate) & TURN_DOORBELL &&
		is_still_idle(&poll)) {
		*sleep = report_gpu_rest(&poll);
		return FENCE_OK;
	}
	if (poll.state->resting) {
		poll.state->resting = false;
		pace_doorbell_rang(&poll.state->pace);
	}
	poll.now = sys_now_ns();
	poll_gate_word(&poll);
	r = poll_fences(&poll);
	if (r != FENCE_OK)
		return r;
	release_throttled_work(&poll);
	*sleep = plan_next_gpu_poll(&poll);
	/* A fence that has been stuck for STUCK_NS hides all ends behind it, so the gate thread polls less
	 * often. A thread that is then held wakes the gate thread. */
	if (fences_stuck_ns(&process->fences, gpu, poll.now) > STUCK_NS &&
		*sleep < STUCK_POLL_NS &&
		poll.state->last_begun - poll.state->done <=
			fences_count_unseen(&process->fences, gpu))
		*sleep = STUCK_POLL_NS;
	wake_waiting(&poll);
	return FENCE_OK;
}

/* --- the thread --- */

/* Checks whether the arbiter is there, and whether the slice has gates. Returns ns until a registration
 * is due. */
static uint64_t poll_gate_link(struct gate_process *process, uint64_t *next)
{
	uint64_t now = sys_now_ns();
	int64_t wait;

	sys_lock(&process->start_lock);
	if (gate_mode(process) == GATE_MODE_UP && !gate_is_scheduled()) {
		atomic_store(&process->next_try, 0);
		leave_scheduler(process, GATE_MODE_OFF);
	}
	if (gate_mode(process) == GATE_MODE_UP &&
		(atomic_load(&process->link_lost) || now >= *next)) {
		*next = now + LINK_NS;
		if (atomic_load(&process->link_lost) || gate_link_hung_up(&process->link) ||
			is_arbiter_hung(process, now)) {
			process->back_off = 0;
			atomic_store(&process->next_try, 0);
			leave_scheduler(process, GATE_MODE_STANDALONE);
		}
	}
	if (gate_mode(process) == GATE_MODE_STANDALONE)
		continue_registration(process);
	wait = atomic_load(&process->next_try) - sys_now();
	sys_unlock(&process->start_lock);
	if (gate_mode(process) != GATE_MODE_STANDALONE)
		return NEVER;
	return wait < 1 ? 1000000 : wait > BACK_OFF_MAX ? NEVER : (uint64_t)wait * 1000000;
}

/* The arbiter of another registration knows no earlier report. */
static void check_registration(struct gate_process *process, uint32_t *seen)
{
	uint32_t now = atomic_load(&process->n_registered);

	if (now == *seen)
		return;
	*seen = now;
	for (unsigned int i = 0; i < SLICE_GPUS_MAX; i++) {
		process->gpus[i].report_read = false;
		process->gpus[i].unread_poll_ns = 0;
	}
}

static void sleep_until_woken(struct gate_process *process, uint64_t ns)
{
	uint32_t awake = 0;

	if (ns && atomic_compare_exchange_strong(&process->wake, &awake, 2))
		sys_futex_wait(&process->wake, 2, ns, false);
}

static void *run_gate_thread(void *arg)
{
	struct gate_process *process = arg;
	enum fence_result r = FENCE_OK;
	uint64_t link_next = 0;
	uint32_t seen = 0;

	gate_prepare_thread("gpuslice-turns");
	(void)quiet_begin();
	while (r == FENCE_OK && gate_mode(process) != GATE_MODE_ENDED) {
		uint64_t ns, each;

		/* Wake-ups.
		 * 1. The gate thread stores 0, then polls.
		 * 2. A thread that changes something changes it first, then stores 1, and wakes the futex
		 *    if the word was 2.
		 * 3. The gate thread sleeps only if it can change 0 to 2. So no change after step 1 is
		 *    missed. */
		atomic_store(&process->wake, 0);
		ns = poll_gate_link(process, &link_next);
		check_registration(process, &seen);
		if (gate_mode(process) != GATE_MODE_UP &&
			gate_mode(process) != GATE_MODE_STANDALONE) {
			sleep_until_woken(process, NEVER);
			continue;
		}
		each = NEVER;
		for (uint32_t i = 0; r == FENCE_OK && i < process->gate.gpu_count; i++) {
			uint64_t sleep = NEVER;

			r = poll_gpu_gate(process, i, &sleep);
			each = min_u64(each, sleep);
		}
		if (each == NEVER)
			each = gate_mode(process) == GATE_MODE_UP ? LINK_IDLE_NS : NEVER;
		if (r == FENCE_OK)
			sleep_until_woken(process, min_u64(ns, each));
	}
	if (r == FENCE_UNSUPPORTED)
		warn_once(WARN_NOT_SCHEDULED,
			"this driver cannot say when work is done (cuCtxRecordEvent): work is "
			"not held");
	sys_lock(&process->start_lock);
	leave_scheduler(process, GATE_MODE_ENDED);
	sys_unlock(&process->start_lock);
	return NULL;
}
