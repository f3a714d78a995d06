/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

static bool is_beside_latency(const struct turns_part *p)
{
	for (const struct turns_part *q = p->gpu->parts; q; q = q->next) {
		if (q != p && q->share.latency && q->n_seats)
			return true;
	}
	return false;
}

/* Nobody else has wanted the GPU for a while: nothing needs to be metered, or be known soon. */
static bool is_alone(const struct turns_part *p, uint64_t now)
{
	return !p->share.cap && now - p->gpu->contended >= TURNS_QUIET_NS;
}

static enum turns_gate gate_of(const struct turns_part *p, uint64_t now)
{
	if (p->share.mps)
		return TURNS_OPEN;
	if (turns_is_first(p))
		return is_alone(p, now) ? TURNS_OPEN : TURNS_METERED;
	if (p->gpu->stretch.together)
		return TURNS_OPEN;
	if (p->gpu->holder != p || p->gpu->paused)
		return TURNS_CLOSED;
	return is_alone(p, now) && !is_beside_latency(p) ? TURNS_OPEN : TURNS_METERED;
}

static struct turns_meter meter_of(const struct turns_part *p, uint64_t end, uint64_t now)
{
	struct turns_meter m = { TURNS_WINDOW_FULL_NS, TURNS_TAIL_NS, TURNS_NEVER };

	if (turns_is_first(p) && !p->share.cap)
		m.window_ns = m.tail_ns = TURNS_NEVER;
	else if (is_beside_latency(p))
		m.window_ns = m.tail_ns = TURNS_WINDOW_LATENCY_NS;
	if (end != TURNS_NEVER)
		m.turn_ns = end - turns_min(end, now);
	return m;
}

/* Whoever stands before a gate that opens goes through. */
static void admit(struct turns_seat *seat, uint64_t now)
{
	struct turns_part *p = seat->part;

	if (!seat->wants)
		return;
	seat->wants = false;
	p->n_wants--;
	if (!p->n_busy)
		p->worked = now;
	p->n_busy += !seat->busy;
	seat->busy = true;
}

static void set_part(struct turns *t, struct turns_part *p, uint64_t now)
{
	enum turns_gate gate = gate_of(p, now);
	uint64_t end = gate == TURNS_METERED && !turns_is_first(p) ? p->gpu->end : TURNS_NEVER;
	struct turns_meter meter = { 0 };
	bool closes = false;

	if (gate == TURNS_METERED)
		meter = meter_of(p, end, now);
	for (struct turns_seat *s = p->seats; s; s = s->next) {
		if (s->gate == gate && s->meter.window_ns == meter.window_ns && p->told == end)
			continue;
		closes |= gate == TURNS_CLOSED && s->gate != TURNS_CLOSED;
		s->gate = gate;
		s->meter = meter;
		if (gate != TURNS_CLOSED)
			admit(s, now);
		t->gate(t->arg, s);
	}
	p->told = end;
	/* Once for all its seats, and not where a turn ended and another one of it began in the same moment. */
	p->revoked += closes && !turns_is_quiet(p);
	/* A tail that lasts until the next turn is at least as long as that. */
	if (gate != TURNS_CLOSED && p->n_busy && p->closed != TURNS_NEVER)
		turns_learn_tail(p, now);
	if (gate != TURNS_CLOSED || !p->n_busy)
		p->closed = TURNS_NEVER;
	else if (p->closed == TURNS_NEVER)
		turns_hold(t, p, now);
}

void turns_set_gates(struct turns *t, struct turns_gpu *g, uint64_t now)
{
	for (struct turns_part *p = g->parts; p; p = p->next)
		set_part(t, p, now);
}
