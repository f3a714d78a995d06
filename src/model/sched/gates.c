/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

static bool is_beside_latency(const struct sched_share *p)
{
	for (const struct sched_share *q = p->gpu->shares; q; q = q->next) {
		if (q != p && q->config.latency && q->n_clients)
			return true;
	}
	return false;
}

/* Whether no other share has wanted the GPU for a while. Then no limit is needed, and the arbiter need not
 * know soon when work ends. */
static bool is_alone(const struct sched_share *p, uint64_t now)
{
	return !p->config.cap && now - p->gpu->contended_at >= SCHED_IDLE_NS;
}

static enum sched_gate get_share_gate(const struct sched_share *p, uint64_t now)
{
	if (p->config.mps)
		return SCHED_GATE_OPEN;
	if (sched_has_priority(p))
		return is_alone(p, now) ? SCHED_GATE_OPEN : SCHED_GATE_THROTTLED;
	if (p->gpu->period.concurrent)
		return SCHED_GATE_OPEN;
	if (p->gpu->holder != p || p->gpu->paused)
		return SCHED_GATE_CLOSED;
	return is_alone(p, now) && !is_beside_latency(p) ? SCHED_GATE_OPEN
							 : SCHED_GATE_THROTTLED;
}

static struct sched_throttle get_throttle(const struct sched_share *p, uint64_t end,
	uint64_t now)
{
	struct sched_throttle m = { SCHED_WINDOW_NS, SCHED_OVERRUN_NS, SCHED_NEVER };

	if (sched_has_priority(p) && !p->config.cap)
		m.window_ns = m.overrun_ns = SCHED_NEVER;
	else if (is_beside_latency(p))
		m.window_ns = m.overrun_ns = SCHED_WINDOW_LATENCY_NS;
	if (end != SCHED_NEVER)
		m.quantum_ns = end - min_u64(end, now);
	return m;
}

/* A client that waits at a gate passes it when it opens. */
static void admit_waiting_client(struct sched_client *client, uint64_t now)
{
	struct sched_share *p = client->share;

	if (!client->wants)
		return;
	client->wants = false;
	p->n_wants--;
	if (!p->n_busy)
		p->busy_since = now;
	p->n_busy += !client->busy;
	client->busy = true;
}

static void set_share_gates(struct sched *t, struct sched_share *p, uint64_t now)
{
	enum sched_gate gate = get_share_gate(p, now);
	uint64_t end = gate == SCHED_GATE_THROTTLED && !sched_has_priority(p)
			       ? p->gpu->quantum_until
			       : SCHED_NEVER;
	struct sched_throttle throttle = { 0 };
	bool closes = false;

	if (gate == SCHED_GATE_THROTTLED)
		throttle = get_throttle(p, end, now);
	for (struct sched_client *s = p->clients; s; s = s->next) {
		if (s->gate == gate && s->throttle.window_ns == throttle.window_ns &&
			p->reported_end == end)
			continue;
		closes |= gate == SCHED_GATE_CLOSED && s->gate != SCHED_GATE_CLOSED;
		s->gate = gate;
		s->throttle = throttle;
		if (gate != SCHED_GATE_CLOSED)
			admit_waiting_client(s, now);
		t->gate(t->arg, s);
	}
	p->reported_end = end;
	/* Counts once for all clients of the share. Where another quantum of the share began in the same
	 * moment, no gate closed. */
	p->revoked += closes && !sched_is_idle(p);
	/* An overrun that lasts until the share's next quantum is at least as long as that. */
	if (gate != SCHED_GATE_CLOSED && p->n_busy && p->closed_since != SCHED_NEVER)
		sched_learn_overrun(p, now);
	if (gate != SCHED_GATE_CLOSED || !p->n_busy)
		p->closed_since = SCHED_NEVER;
	else if (p->closed_since == SCHED_NEVER)
		sched_start_overrun(t, p, now);
}

void sched_set_gates(struct sched *t, struct sched_gpu *g, uint64_t now)
{
	for (struct sched_share *p = g->shares; p; p = p->next)
		set_share_gates(t, p, now);
}
