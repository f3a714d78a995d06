/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What follows a change of the scheduler: gates, accounts, the timer.
 *
 * 1. The scheduler sets gates by callback, which marks the slices of these gates.
 * 2. scheduler_settle() stores the charges of these slices, then arms the timer for the next deadline.
 */
#include "node/arbiter/scheduler/internal.h"

#include "lib/base/time.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* --- gates --- */

/*
 * The gate of a client, in the page of its process (abi/turn-page.h): writes what the scheduler decided.
 *
 * 1. The scheduler thread stores the window, the overrun and the quantum.
 * 2. The thread then changes the gate word: state and generation. So a process that sees the new word sees the
 *    values of step 1, or later ones.
 * 3. If the gate is not closed, the thread wakes the threads that are blocked on the word (futex).
 */

static uint32_t get_gate_word(enum sched_gate gate)
{
	switch (gate) {
	case SCHED_GATE_OPEN:
		return TURN_OPEN;
	case SCHED_GATE_THROTTLED:
		return TURN_THROTTLED;
	case SCHED_GATE_CLOSED:
		break;
	}
	return TURN_CLOSED;
}

/* Keeps the doorbell, which the process owns. A process that changes the doorbell without end loses it after
 * SCHEDULER_GATE_TRIES attempts. Blocked threads of that process may then wake up late. */
static void store_gate_word(_Atomic uint32_t *at, uint32_t gate)
{
	uint32_t old = atomic_load(at);

	for (int i = 0; i < SCHEDULER_GATE_TRIES; i++) {
		if (atomic_compare_exchange_weak(at, &old, gate | (old & TURN_DOORBELL)))
			return;
	}
	atomic_store(at, gate);
}

void scheduler_set_gate(struct scheduler_client *client, enum sched_gate gate,
	const struct sched_throttle *throttle)
{
	struct turn_gpu_page *p = &client->registration->page->gpus[client->gpu];

	atomic_store_explicit(&p->window_ns, throttle->window_ns, memory_order_relaxed);
	atomic_store_explicit(&p->overrun_ns, throttle->overrun_ns, memory_order_relaxed);
	atomic_store_explicit(&p->quantum_ns, throttle->quantum_ns, memory_order_relaxed);
	client->gate =
		(client->gate / TURN_GENERATION + 1) * TURN_GENERATION | get_gate_word(gate);
	store_gate_word(&p->gate, client->gate);
	if (gate != SCHED_GATE_CLOSED)
		(void)syscall(SYS_futex, &p->gate, FUTEX_WAKE, SCHEDULER_WAKES_MAX, NULL, NULL,
			0);
}

void scheduler_set_process_cap(struct scheduler_registration *reg, unsigned int gpu)
{
	atomic_store_explicit(&reg->page->gpus[gpu].cap, reg->slice->gpus[gpu].process_cap,
		memory_order_relaxed);
}

void scheduler_set_process_caps(struct scheduler_slice *s, unsigned int gpu)
{
	struct scheduler_share *share = &s->gpus[gpu];
	uint32_t cap = share->config.mps ? 0 : share->config.cap;

	if (cap && s->n_registrations)
		cap = cap > s->n_registrations ? cap / s->n_registrations : 1;
	if (cap == share->process_cap)
		return;
	share->process_cap = cap;
	for (struct scheduler_registration *reg = s->registrations; reg; reg = reg->next) {
		if (!reg->ended)
			scheduler_set_process_cap(reg, gpu);
	}
}

/* --- charges and counters --- */

/* From the scheduler and the pages to the accounts. */

static uint64_t load_page_counter(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_acquire);
}

void scheduler_read_counters(const struct turn_gpu_page *p, uint64_t ret[USAGE_COUNTERS])
{
	/*
	 * 1. A process counts a copy in .copies, then in .ended.
	 * 2. This thread loads .ended, then .copies. So the loaded .copies has each copy of the loaded .ended,
	 *    and no copy counts as a launch.
	 */
	uint64_t ended = load_page_counter(&p->ended), copies = load_page_counter(&p->copies);

	ret[USAGE_LAUNCHES] = ended > copies ? ended - copies : 0;
	ret[USAGE_COPIES] = copies;
	ret[USAGE_BYTES] = load_page_counter(&p->bytes);
	ret[USAGE_WAITS] = load_page_counter(&p->waits);
	ret[USAGE_WAIT_NS] = load_page_counter(&p->wait_ns);
	ret[USAGE_THROTTLE_NS] = load_page_counter(&p->throttled_ns);
}

void scheduler_count_client(struct scheduler_client *client)
{
	struct turn_gpu_page *p = &client->registration->page->gpus[client->gpu];
	uint64_t now[USAGE_COUNTERS];

	if (!client->client || !client->record)
		return;
	scheduler_read_counters(p, now);
	usage_client_count(client->record, now);
	usage_raise(&client->record->charged_ns,
		client->charged_ns + client->client->charged_ns);
	atomic_store_explicit(&p->charged_ns, usage_load(&client->record->charged_ns),
		memory_order_relaxed);
}

void scheduler_check_stuck(struct scheduler_client *client, uint64_t now)
{
	struct scheduler_share *share = &client->registration->slice->gpus[client->gpu];
	uint64_t done = load_page_counter(&client->registration->page->gpus[client->gpu].done);
	bool closed = (client->gate & TURN_STATE) == TURN_CLOSED, stuck;

	if (!client->client || !client->client->busy || done != client->done)
		client->stalled_since = 0;
	else if (!client->stalled_since && closed)
		client->stalled_since = now;
	client->done = done;
	stuck = client->stalled_since && now - client->stalled_since >= SCHED_STUCK_NS;
	share->n_stuck = share->n_stuck - client->stuck + stuck;
	client->stuck = stuck;
}

/* The best guess whose work does not end: the process that has made no progress for the longest time. Returns
 * its PID, or 0 without such a process. */
static uint32_t find_longest_stalled(const struct scheduler_slice *s, unsigned int gpu)
{
	uint64_t since = UINT64_MAX;
	uint32_t pid = 0;

	for (const struct scheduler_registration *reg = s->registrations; reg;
		reg = reg->next) {
		const struct scheduler_client *client = &reg->clients[gpu];

		if (client->stalled_since && client->stalled_since < since) {
			since = client->stalled_since;
			pid = reg->pid;
		}
	}
	return pid;
}

/* Logs each change once. */
static void log_stuck(struct scheduler_slice *s, unsigned int i, const char *gpu,
	uint64_t part_ns)
{
	struct scheduler_share *share = &s->gpus[i];
	bool stuck = part_ns >= SCHEDULER_STUCK_NS || share->n_stuck;

	if (stuck == share->stuck)
		return;
	share->stuck = stuck;
	if (stuck)
		log_warn("work on a GPU does not end, or its process is stopped",
			LOG_STR("slice", s->id), LOG_STR("gpu", gpu),
			LOG_UINT("pid", find_longest_stalled(s, i)));
	else
		log_info("work on a GPU that did not end is over", LOG_STR("slice", s->id),
			LOG_STR("gpu", gpu));
}

void scheduler_count_slice(struct scheduler *scheduler, struct scheduler_slice *s, uint64_t now)
{
	for (unsigned int i = 0; s->sched && i < s->n_gpus; i++) {
		struct scheduler_share *share = &s->gpus[i];
		struct sched_account account;

		sched_account(scheduler->sched, s->sched, share->number, now, &account);
		usage_raise(&share->account->charged_ns,
			share->charged_ns + account.charged_ns);
		usage_raise(&share->account->queue_ns, share->queue_ns + account.waited_ns);
		usage_raise(&share->account->quanta, share->quanta + account.quanta);
		usage_raise(&share->account->revocations, share->revocations + account.revoked);
		for (unsigned int k = 0; k < SCHED_ENDS; k++)
			usage_raise(&share->account->quantum_ends[k],
				share->quantum_ends[k] + account.quantum_ends[k]);
		log_stuck(s, i, scheduler->gpus[share->number].text, account.stuck_ns);
	}
}

/* --- all accounts, some registrations at a time --- */

static void move_count_to_slice(struct scheduler_count *c, struct scheduler_slice *s)
{
	while (s && !s->sched)
		s = s->next;
	c->slice = s;
	c->registration = s ? s->registrations : NULL;
}

void scheduler_count_begin(struct scheduler *scheduler, struct scheduler_count *c)
{
	uint64_t now = scheduler_now(scheduler);

	sched_update_charges(scheduler->sched, now);
	scheduler_settle(scheduler, now);
	move_count_to_slice(c, scheduler->slices);
}

static void count_registration(struct scheduler_registration *reg, uint64_t now)
{
	for (unsigned int i = 0; i < reg->n_gpus; i++) {
		scheduler_count_client(&reg->clients[i]);
		scheduler_check_stuck(&reg->clients[i], now);
	}
}

static void end_slice_count(struct scheduler *scheduler, struct scheduler_count *c,
	uint64_t now)
{
	struct scheduler_slice *s = c->slice;

	scheduler_count_slice(scheduler, s, now);
	/* Here and not when a process leaves: all processes leave when the arbiter ends. */
	for (unsigned int i = 0; i < s->n_gpus; i++)
		scheduler_set_process_caps(s, i);
	move_count_to_slice(c, s->next);
}

void scheduler_count_step(struct scheduler *scheduler, struct scheduler_count *c)
{
	uint64_t now = scheduler_now(scheduler);

	for (int i = 0; i < SCHEDULER_STEP && c->slice; i++) {
		if (c->registration) {
			count_registration(c->registration, now);
			c->registration = c->registration->next;
		}
		if (!c->registration)
			end_slice_count(scheduler, c, now);
	}
}

void scheduler_count_skip_process(struct scheduler *scheduler,
	const struct scheduler_registration *reg)
{
	if (scheduler->count.registration == reg)
		scheduler->count.registration = reg->next;
}

void scheduler_count_skip_slice(struct scheduler *scheduler, const struct scheduler_slice *s)
{
	if (scheduler->count.slice == s)
		move_count_to_slice(&scheduler->count, s->next);
}

/* --- the scheduler's callbacks --- */

/* The scheduler changed a gate. The charges of its slice are stored in the same event. */
void scheduler_on_gate(void *arg, struct sched_client *s)
{
	struct scheduler *scheduler = arg;
	struct scheduler_client *client = s->user;
	struct scheduler_slice *slice = client->registration->slice;

	if (!scheduler->frozen)
		scheduler_set_gate(client, s->gate, &s->throttle);
	if (slice->touched)
		return;
	slice->touched = true;
	slice->next_touched = scheduler->touched;
	scheduler->touched = slice;
}

/* The progress that the process reports in its page. It decides only whether shares run concurrently, and
 * when a share gets a boost (abi/turn-page.h). */
uint64_t scheduler_on_done(void *arg, const struct sched_client *s)
{
	const struct scheduler_client *client = s->user;

	(void)arg;
	return atomic_load_explicit(&client->registration->page->gpus[client->gpu].done,
		memory_order_relaxed);
}

/* --- time --- */

static void arm_sched_timer(struct scheduler *scheduler)
{
	uint64_t next = sched_next_deadline(scheduler->sched);
	struct itimerspec at = { .it_value = { 0 } };

	if (next == scheduler->armed)
		return;
	scheduler->armed = next;
	/* Zero would disarm the timer. */
	next = next ? next : 1;
	if (next != UINT64_MAX) {
		at.it_value.tv_sec = (time_t)(next / NS_PER_SEC);
		at.it_value.tv_nsec = (long)(next % NS_PER_SEC);
	}
	(void)timerfd_settime(scheduler->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

void scheduler_settle(struct scheduler *scheduler, uint64_t now)
{
	while (scheduler->touched) {
		struct scheduler_slice *s = scheduler->touched;

		scheduler->touched = s->next_touched;
		s->touched = false;
		scheduler_count_slice(scheduler, s, now);
	}
	arm_sched_timer(scheduler);
}

uint64_t scheduler_now(struct scheduler *scheduler)
{
	uint64_t now = time_mono_ns();

	if (sched_next_deadline(scheduler->sched) <= now) {
		sched_advance_time(scheduler->sched, now);
		scheduler_settle(scheduler, now);
	}
	return now;
}
