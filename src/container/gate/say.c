/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/keeper.h"
#include "container/gate/process.h"

/*
 * In this order: what a thread changes between two of these loads it says itself, or the keeper does,
 * which is awake (process.h). At an open gate those who waited are as good as through: so the arbiter
 * takes it, too. At a closed gate what is parked (container/gate/marks/marks.h) is not: nothing of it gets on, and what it waits for
 * may be a thread that stands there. So it is not charged for, and that thread's turn comes when it would come.
 */
static struct slice_state truth(struct turn_process *t, unsigned int gpu)
{
	struct turn_gpu_page *p = &atomic_load(&t->page)->gpus[gpu];
	uint32_t gate = atomic_load(&p->gate);
	bool closed = (gate & TURN_STATE) == TURN_CLOSED;
	bool waiting = atomic_load(&t->gpus[gpu].waiters) || atomic_load(&t->gpus[gpu].held);
	bool in_flight = atomic_load(&p->begun) != atomic_load(&p->done);
	bool parked = closed && marks_parked(&t->marks, gpu);

	return (struct slice_state){
		.gpu = gpu,
		.generation = gate / TURN_GENERATION,
		.busy = (in_flight && !parked) || (waiting && !closed),
		.wants = waiting && closed,
	};
}

static bool is_said(const struct turn_gpu *g, const struct slice_state *s)
{
	return g->said.valid && g->said.generation == s->generation &&
	       g->said.busy == (s->busy != 0) && g->said.wants == (s->wants != 0);
}

bool turn_say(struct turn_process *t, unsigned int gpu)
{
	struct turn_gpu *g = &t->gpus[gpu];
	enum turn_link_sent r = TURN_SENT;
	struct slice_state s;
	uint64_t now, ended;
	int e = errno;

	sys_lock(&t->say);
	if (turn_mode(t) != TURN_UP)
		goto out;
	s = truth(t, gpu);
	if (is_said(g, &s))
		goto out;
	now = sys_now_ns();
	ended = atomic_load(&g->ended_ns);
	s.idle_ns = s.busy || now < ended ? 0 : now - ended;
	g->said.valid = false;
	r = turn_state(&t->link, &s);
	if (r == TURN_SENT) {
		g->said.valid = true;
		g->said.generation = s.generation;
		g->said.busy = s.busy;
		g->said.wants = s.wants;
	} else if (r == TURN_GONE && !atomic_exchange(&t->gone, true)) {
		keeper_wake();
	}
out:
	sys_unlock(&t->say);
	errno = e;
	return r == TURN_SENT;
}

bool turn_said(struct turn_process *t, unsigned int gpu)
{
	struct slice_state s;
	bool r = true;

	sys_lock(&t->say);
	if (turn_mode(t) == TURN_UP) {
		/* Read first: a gate that changes after it was read is of a later generation. */
		r = turn_link_was_read(&t->link);
		s = truth(t, gpu);
		r = r && is_said(&t->gpus[gpu], &s);
	}
	sys_unlock(&t->say);
	return r;
}

void turn_wake_all(struct turn_process *t)
{
	struct turn_page *page = atomic_load(&t->page);

	for (uint32_t i = 0; page && i < t->gate.gpu_count; i++) {
		struct turn_gpu *g = &t->gpus[i];

		(void)atomic_fetch_add(&g->meter, 1);
		(void)atomic_fetch_add(&g->alone, TURN_GENERATION);
		sys_futex_wake(&g->meter, false);
		sys_futex_wake(&g->alone, false);
		sys_futex_wake(&page->gpus[i].gate, true);
	}
}
