/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The gate of a client, in the page of its process (abi/turn-page.h): writes what the scheduler decided.
 *
 * 1. The scheduler thread stores the window, the overrun and the quantum.
 * 2. The thread then changes the gate word: state and generation. So a process that sees the new word sees the
 *    values of step 1, or later ones.
 * 3. If the gate is not closed, the thread wakes the threads that are blocked on the word (futex).
 */
#include "node/arbiter/scheduler/internal.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint32_t get_gate_word(enum sched_gate gate)
{
	switch (gate) {
	case SCHED_GATE_OPEN:
		return TURN_OPEN;
	case SCHED_GATE_THROTTLED:
		return TURN_METERED;
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
		if (atomic_compare_exchange_weak(at, &old, gate | (old & TURN_BELL)))
			return;
	}
	atomic_store(at, gate);
}

void scheduler_set_gate(struct scheduler_client *client, enum sched_gate gate,
	const struct sched_throttle *throttle)
{
	struct turn_gpu_page *p = &client->registration->page->gpus[client->gpu];

	atomic_store_explicit(&p->window_ns, throttle->window_ns, memory_order_relaxed);
	atomic_store_explicit(&p->tail_ns, throttle->overrun_ns, memory_order_relaxed);
	atomic_store_explicit(&p->turn_ns, throttle->quantum_ns, memory_order_relaxed);
	client->gate =
		(client->gate / TURN_GENERATION + 1) * TURN_GENERATION | get_gate_word(gate);
	store_gate_word(&p->gate, client->gate);
	if (gate != SCHED_GATE_CLOSED)
		(void)syscall(SYS_futex, &p->gate, FUTEX_WAKE, SCHEDULER_WAKES_MAX, NULL, NULL,
			0);
}

void scheduler_set_process_cap(struct scheduler_registration *c, unsigned int gpu)
{
	atomic_store_explicit(&c->page->gpus[gpu].cap, c->slice->gpus[gpu].process_cap,
		memory_order_relaxed);
}

void scheduler_set_process_caps(struct scheduler_slice *s, unsigned int gpu)
{
	struct scheduler_share *g = &s->gpus[gpu];
	uint32_t cap = g->config.mps ? 0 : g->config.cap;

	if (cap && s->n_registrations)
		cap = cap > s->n_registrations ? cap / s->n_registrations : 1;
	if (cap == g->process_cap)
		return;
	g->process_cap = cap;
	for (struct scheduler_registration *c = s->registrations; c; c = c->next) {
		if (!c->ended)
			scheduler_set_process_cap(c, gpu);
	}
}
