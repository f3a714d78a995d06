/* SPDX-License-Identifier: Apache-2.0 */
/* The gates and throttles that follow from the decisions (sched.h, "Quanta"). */
#include "model/sched/internal.h"

static bool is_beside_latency(const struct sched_share *share)
{
	for (const struct sched_share *other = share->gpu->shares; other; other = other->next) {
		if (other != share && other->config.latency && other->n_clients)
			return true;
	}
	return false;
}

/* Whether a latency share is there that must not wait for much work in flight. */
static bool is_beside_bursts(const struct sched_share *share)
{
	for (const struct sched_share *other = share->gpu->shares; other; other = other->next) {
		if (other != share && other->config.latency && other->n_clients &&
			!other->trickles)
			return true;
	}
	return false;
}

/* Whether no other share has wanted the GPU for a while. Then no limit is needed, and the arbiter need not
 * know soon when work ends. */
static bool is_alone(const struct sched_share *share, uint64_t now)
{
	return !share->config.cap && now - share->gpu->contended_at >= SCHED_IDLE_NS;
}

static enum sched_gate get_share_gate(const struct sched_share *share, uint64_t now)
{
	if (share->config.mps)
		return SCHED_GATE_OPEN;
	if (sched_has_priority(share))
		return is_alone(share, now) ? SCHED_GATE_OPEN : SCHED_GATE_THROTTLED;
	if (share->gpu->period.concurrent)
		return SCHED_GATE_OPEN;
	if (share->gpu->holder != share || share->gpu->paused)
		return SCHED_GATE_CLOSED;
	return is_alone(share, now) && !is_beside_latency(share) ? SCHED_GATE_OPEN
								 : SCHED_GATE_THROTTLED;
}

static struct sched_throttle get_throttle(const struct sched_share *share, uint64_t end,
	uint64_t now)
{
	struct sched_throttle m = { SCHED_WINDOW_NS, SCHED_OVERRUN_NS, SCHED_NEVER };

	if (sched_has_priority(share) && !share->config.cap)
		m.window_ns = m.overrun_ns = SCHED_NEVER;
	else if (is_beside_bursts(share))
		m.window_ns = m.overrun_ns = SCHED_WINDOW_LATENCY_NS;
	if (end != SCHED_NEVER)
		m.quantum_ns = end - min_u64(end, now);
	return m;
}

/* A client that waits at a gate passes it when it opens. */
static void admit_waiting_client(struct sched_client *client, uint64_t now)
{
	struct sched_share *share = client->share;

	if (!client->wants)
		return;
	client->wants = false;
	share->n_wants--;
	if (!share->n_busy)
		share->busy_since = now;
	share->n_busy += !client->busy;
	client->busy = true;
}

static void set_share_gates(struct sched *sched, struct sched_share *share, uint64_t now)
{
	enum sched_gate gate = get_share_gate(share, now);
	uint64_t end = gate == SCHED_GATE_THROTTLED && !sched_has_priority(share)
			       ? share->gpu->quantum_until
			       : SCHED_NEVER;
	struct sched_throttle throttle = { 0 };
	bool closes = false;

	if (gate == SCHED_GATE_THROTTLED)
		throttle = get_throttle(share, end, now);
	for (struct sched_client *s = share->clients; s; s = s->next) {
		if (s->gate == gate && s->throttle.window_ns == throttle.window_ns &&
			share->reported_end == end)
			continue;
		closes |= gate == SCHED_GATE_CLOSED && s->gate != SCHED_GATE_CLOSED;
		s->gate = gate;
		s->throttle = throttle;
		if (gate != SCHED_GATE_CLOSED)
			admit_waiting_client(s, now);
		sched->gate(sched->arg, s);
	}
	share->reported_end = end;
	/* Counts once for all clients of the share. Where another quantum of the share began in the same
	 * moment, no gate closed. A burst that is about to end loses nothing. */
	share->revoked += closes && !sched_is_idle(share) && !share->burst.let_in;
	/* An overrun that lasts until the share's next quantum is at least as long as that. */
	if (gate != SCHED_GATE_CLOSED && share->n_busy && share->closed_since != SCHED_NEVER)
		sched_learn_overrun(share, now);
	if (gate != SCHED_GATE_CLOSED || !share->n_busy)
		share->closed_since = SCHED_NEVER;
	else if (share->closed_since == SCHED_NEVER)
		sched_start_overrun(sched, share, now);
}

void sched_set_gates(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	for (struct sched_share *share = g->shares; share; share = share->next)
		set_share_gates(sched, share, now);
}
