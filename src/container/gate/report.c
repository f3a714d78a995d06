/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/report.h"

#include "container/gate/gate-thread.h"
#include "container/gate/internal.h"
#include "container/sys.h"

#include <string.h>

/*
 * The loads are in this order: gate, .waiters and .throttled, .begun. What a thread changes between two
 * of them, that thread reports itself, or the gate thread does, which is awake (internal.h).
 * - At a gate that is not closed, a thread that waits counts as busy: it has passed, or will. The arbiter
 *   assumes that, too.
 * - Behind a closed gate blocked work (container/gate/fences/fences.h) is not busy. It makes no progress,
 *   and it may depend on a thread that waits at that gate. So the slice is not charged for it, and that
 *   thread gets its quantum no later.
 */
static struct slice_state get_reported_state(struct gate_process *process, unsigned int gpu)
{
	struct turn_gpu_page *p = &atomic_load(&process->page)->gpus[gpu];
	uint32_t gate = atomic_load(&p->gate);
	bool closed = (gate & TURN_STATE) == TURN_CLOSED;
	bool waiting = atomic_load(&process->gpus[gpu].waiters) ||
		       atomic_load(&process->gpus[gpu].throttled);
	bool in_flight = atomic_load(&p->begun) != atomic_load(&p->done);
	bool blocked = closed && fences_is_blocked(&process->fences, gpu);

	return (struct slice_state){
		.gpu = gpu,
		.generation = gate / TURN_GENERATION,
		.busy = (in_flight && !blocked) || (waiting && !closed),
		.wants = waiting && closed,
	};
}

static bool is_state_reported(const struct gate_gpu *g, const struct slice_state *s)
{
	return g->reported.valid && g->reported.generation == s->generation &&
	       g->reported.busy == (s->busy != 0) && g->reported.wants == (s->wants != 0);
}

bool gate_report_state(struct gate_process *process, unsigned int gpu)
{
	struct gate_gpu *g = &process->gpus[gpu];
	enum gate_link_sent r = GATE_LINK_SENT;
	struct slice_state s;
	uint64_t now, ended;
	int e = errno;

	sys_lock(&process->report_lock);
	if (gate_mode(process) != GATE_MODE_UP)
		goto out;
	s = get_reported_state(process, gpu);
	if (is_state_reported(g, &s))
		goto out;
	now = sys_now_ns();
	ended = atomic_load(&g->ended_ns);
	s.idle_ns = s.busy || now < ended ? 0 : now - ended;
	g->reported.valid = false;
	r = gate_link_send_state(&process->link, &s);
	if (r == GATE_LINK_SENT) {
		g->reported.valid = true;
		g->reported.generation = s.generation;
		g->reported.busy = s.busy;
		g->reported.wants = s.wants;
	} else if (r == GATE_LINK_GONE && !atomic_exchange(&process->link_lost, true)) {
		gate_thread_wake();
	}
out:
	sys_unlock(&process->report_lock);
	errno = e;
	return r == GATE_LINK_SENT;
}

bool gate_state_is_reported(struct gate_process *process, unsigned int gpu)
{
	struct slice_state s;
	bool r = true;

	sys_lock(&process->report_lock);
	if (gate_mode(process) == GATE_MODE_UP) {
		/* Checked before the gate is loaded. If the gate then still has the report's generation,
		 * it had that generation when the arbiter read the report. */
		r = gate_link_was_read(&process->link);
		s = get_reported_state(process, gpu);
		r = r && is_state_reported(&process->gpus[gpu], &s);
	}
	sys_unlock(&process->report_lock);
	return r;
}
