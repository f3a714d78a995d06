/* SPDX-License-Identifier: Apache-2.0 */

/* The gate of a seat, in the page of its process (abi/turn-page.h): what turns decided, written. */
#include "node/arbiter/turns/internal.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint32_t word_of(enum turns_gate gate)
{
	switch (gate) {
	case TURNS_OPEN:
		return TURN_OPEN;
	case TURNS_METERED:
		return TURN_METERED;
	case TURNS_CLOSED:
		break;
	}
	return TURN_CLOSED;
}

/* The bell is the process's. One that rings it without end loses it, and who of it waits comes late. */
static void put_gate(_Atomic uint32_t *at, uint32_t gate)
{
	uint32_t old = atomic_load(at);

	for (int i = 0; i < TURN_GATE_TRIES; i++) {
		if (atomic_compare_exchange_weak(at, &old, gate | (old & TURN_BELL)))
			return;
	}
	atomic_store(at, gate);
}

void turn_set_gate(struct turn_seat *seat, enum turns_gate gate,
	const struct turns_meter *meter)
{
	struct turn_gpu_page *p = &seat->conn->page->gpus[seat->gpu];

	atomic_store_explicit(&p->window_ns, meter->window_ns, memory_order_relaxed);
	atomic_store_explicit(&p->tail_ns, meter->tail_ns, memory_order_relaxed);
	atomic_store_explicit(&p->turn_ns, meter->turn_ns, memory_order_relaxed);
	seat->gate = (seat->gate / TURN_GENERATION + 1) * TURN_GENERATION | word_of(gate);
	put_gate(&p->gate, seat->gate);
	if (gate != TURNS_CLOSED)
		(void)syscall(SYS_futex, &p->gate, FUTEX_WAKE, TURN_WAKES_MAX, NULL, NULL, 0);
}

void turn_tell_cap_of(struct turn_conn *c, unsigned int gpu)
{
	atomic_store_explicit(&c->page->gpus[gpu].cap, c->slice->gpus[gpu].told_cap,
		memory_order_relaxed);
}

void turn_tell_cap(struct turn_slice *s, unsigned int gpu)
{
	struct turn_share *g = &s->gpus[gpu];
	uint32_t cap = g->share.mps ? 0 : g->share.cap;

	if (cap && s->n_conns)
		cap = cap > s->n_conns ? cap / s->n_conns : 1;
	if (cap == g->told_cap)
		return;
	g->told_cap = cap;
	for (struct turn_conn *c = s->conns; c; c = c->next) {
		if (!c->ended)
			turn_tell_cap_of(c, gpu);
	}
}
