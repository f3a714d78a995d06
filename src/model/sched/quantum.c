/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

/*
 * Of SOON_ALWAYS (256): if short idle times are this frequent, it pays to wait. A wait in vain costs the grace
 * period. Not to wait for a share that comes back costs two context switches.
 */
#define SOON_OFTEN 96

uint64_t sched_grace_ns(const struct sched_share *p)
{
	if (p->soon_returns < SOON_OFTEN)
		return 0;
	return max_u64(SCHED_GRACE_MIN_NS, min_u64(4 * p->idle_gap, SCHED_GRACE_MAX_NS));
}

/* Whether the quantum ended before its time, and for no reason of the share's own. */
static bool is_interruption(enum sched_end_reason why)
{
	return why != SCHED_END_EXPIRED && why != SCHED_END_IDLE && why != SCHED_END_CAP;
}

void sched_end_quantum(struct sched *t, const struct sched_share *holder,
	enum sched_end_reason why, uint64_t now)
{
	struct sched_slice *s = holder->slice;
	bool interrupted = is_interruption(why);

	sched_boost_end(t, s, now);
	for (struct sched_share *p = s->shares; p; p = p->sibling) {
		struct sched_gpu *g = p->gpu;

		if (g->holder != p)
			continue;
		sched_accrue(g, now);
		if (!interrupted)
			p->yielded = sched_is_idle(p);
		p->awaited = false;
		if (why == SCHED_END_CHANGED && !p->n_clients)
			p->quantum_ends[SCHED_END_CLOSED]++;
		else
			p->quantum_ends[why]++;
		g->holder = NULL;
		g->paused = false;
		sched_mark_dirty(t, g);
	}
	if (interrupted)
		s->served = s->served_before;
}

void sched_regroup_slice(struct sched *t, struct sched_slice *s, uint64_t now)
{
	for (const struct sched_share *p = s->shares; p; p = p->sibling) {
		sched_mark_dirty(t, p->gpu);
		if (p->gpu->holder == p)
			sched_end_quantum(t, p, SCHED_END_CHANGED, now);
	}
}

/* @why_others: the reason where the quantum of another slice ends before its time, as that of @s begins. */
static void start_quantum(struct sched *t, struct sched_slice *s,
	enum sched_end_reason why_others, uint64_t now)
{
	uint64_t length;

	sched_boost_begin(s, now);
	length = sched_quantum_length(s);
	s->served_before = s->served;
	s->served = ++t->served;
	for (struct sched_share *p = sched_next_time_shared(s->shares); p;
		p = sched_next_time_shared(p->sibling)) {
		struct sched_gpu *g = p->gpu;

		sched_accrue(g, now);
		if (g->holder)
			sched_end_quantum(t, g->holder,
				now < g->quantum_until ? why_others : SCHED_END_EXPIRED, now);
		sched_limit_credit(p);
		g->holder = p;
		g->interrupted = NULL;
		g->quantum_start = now;
		g->quantum_until = now + length;
		p->charged_at_start = p->charged;
		p->idle_since = now;
		p->quanta++;
		sched_mark_dirty(t, g);
	}
}

/* Starts another quantum of the slice right after its last one. */
static void renew_quantum(struct sched *t, const struct sched_slice *s, uint64_t now)
{
	uint64_t length = sched_quantum_length(s);

	for (struct sched_share *p = sched_next_time_shared(s->shares); p;
		p = sched_next_time_shared(p->sibling)) {
		if (p->gpu->holder != p)
			continue; /* demoted there after the quantum began */
		p->charged_at_start = p->charged;
		p->quantum_ends[SCHED_END_RENEWED]++;
		p->quanta++;
		p->gpu->quantum_start = now;
		p->gpu->quantum_until = now + length;
		sched_mark_dirty(t, p->gpu);
	}
}

/* The holder's quantum goes on, as no other share wants this GPU. It has no end once its time is over. */
static void continue_alone(struct sched *t, struct sched_gpu *g, uint64_t now)
{
	if (now >= g->quantum_until) {
		sched_boost_end(t, g->holder->slice, now);
		g->quantum_until = SCHED_NEVER;
	}
	sched_wake_at(g, g->quantum_until);
}

/* The GPU waits for the idle holder, if the holder often comes back soon. */
static enum sched_end_reason continue_idle(struct sched_gpu *g, uint64_t now)
{
	uint64_t until =
		min_u64(g->holder->idle_since + sched_grace_ns(g->holder), g->quantum_until);

	sched_wake_at(g, until);
	return now < until ? SCHED_END_NONE : SCHED_END_IDLE;
}

static enum sched_end_reason continue_busy(struct sched *t, struct sched_gpu *g, bool contended,
	uint64_t now)
{
	/* New shares can make quanta shorter. */
	if (contended && g->quantum_until != SCHED_NEVER)
		g->quantum_until = min_u64(g->quantum_until,
			g->quantum_start + sched_quantum_max(g->holder));
	if (now >= g->quantum_until || g->quantum_until == SCHED_NEVER) {
		sched_boost_end(t, g->holder->slice, now);
		if (!sched_slice_cap_runtime_ns(g->holder->slice))
			return SCHED_END_CAP;
		if (contended && sched_must_hand_over(g->holder, now))
			return SCHED_END_EXPIRED;
		renew_quantum(t, g->holder->slice, now);
	}
	sched_wake_at(g, g->quantum_until);
	return SCHED_END_NONE;
}

/* Why the holder's quantum is over; SCHED_END_NONE: it goes on. */
static enum sched_end_reason continue_quantum(struct sched *t, struct sched_gpu *g,
	uint64_t now)
{
	struct sched_share *p = g->holder;
	enum sched_end_reason why = SCHED_END_NONE;
	bool contended = sched_is_contended(g);

	if (!sched_slice_cap_runtime_ns(p->slice))
		return SCHED_END_CAP;
	if (!contended && !p->config.cap) {
		continue_alone(t, g, now);
		return SCHED_END_NONE;
	}
	if (!sched_slice_is_idle(p->slice))
		why = continue_busy(t, g, contended, now);
	else if (contended)
		why = continue_idle(g, now);
	p->awaited = why == SCHED_END_NONE && contended && !p->n_busy;
	return why;
}

static uint64_t get_quantum_left(const struct sched_gpu *g, uint64_t now)
{
	return g->quantum_until == SCHED_NEVER
		       ? SCHED_NEVER
		       : g->quantum_until - min_u64(g->quantum_until, now);
}

/* Pauses the quantum while a latency share is at work. The quantum of a gang ends: it must not go on on a
 * part of the gang's GPUs. */
static void pause_quantum(struct sched *t, struct sched_gpu *g, uint64_t now)
{
	if (!g->holder || g->paused)
		return;
	if (sched_is_gang(g->holder->slice)) {
		sched_end_quantum(t, g->holder, SCHED_END_LATENCY, now);
		return;
	}
	g->paused = true;
	g->quantum_until = get_quantum_left(g, now);
}

/* When a quantum ends that goes on after a pause with @left. Work that ran on in the pause was a part of the
 * quantum. */
static uint64_t compute_quantum_until(const struct sched_share *p, uint64_t left, uint64_t now)
{
	uint64_t longest = sched_quantum_max(p), had = p->charged - p->charged_at_start;

	if (left == SCHED_NEVER)
		return SCHED_NEVER;
	return now + min_u64(left, longest > had ? longest - had : 0);
}

static void resume_quantum(struct sched_gpu *g, uint64_t now)
{
	g->paused = false;
	g->quantum_until = compute_quantum_until(g->holder, g->quantum_until, now);
	g->holder->idle_since = max_u64(g->holder->idle_since, g->quantum_start);
}

/* For shares that wait for their buckets. */
static void wake_for_buckets(struct sched_gpu *g, uint64_t now)
{
	for (const struct sched_share *p = g->shares; p; p = p->next) {
		bool waits = p->n_wants || (p->demoted && p->n_clients) ||
			     (p->n_clients && sched_slice_wants(p->slice));

		if (waits && !sched_cap_allows_start(p))
			sched_wake_at(g, sched_cap_refill_time(p, now));
	}
}

/*
 * How long the holder goes on before @p interrupts it. The further @p is behind, the shorter, so that the GPU
 * switches no more often than @p needs for its share.
 */
static uint64_t compute_interrupt_delay(const struct sched_share *holder,
	const struct sched_share *p)
{
	uint64_t quantum = 4 * (uint64_t)sched_vtime_band(p->gpu) + 1;
	uint64_t behind = min_u64(holder->vtime - p->vtime, quantum);

	return SCHED_INTERRUPT_MAX_NS -
	       (SCHED_INTERRUPT_MAX_NS - SCHED_INTERRUPT_MIN_NS) * behind / quantum;
}

/* The holder goes on, but another share can interrupt it and run until level with the holder. */
static void interrupt_quantum(struct sched *t, struct sched_gpu *g, uint64_t now)
{
	struct sched_share *holder = g->holder, *p = sched_pick_interrupting(g, now);
	uint64_t left = get_quantum_left(g, now),
		 from = p ? g->quantum_start + compute_interrupt_delay(holder, p) : 0;

	if (p && now < from) {
		sched_wake_at(g, from);
	} else if (p) {
		start_quantum(t, p->slice, SCHED_END_INTERRUPTED, now);
		g->quantum_until = min_u64(g->quantum_until,
			now + max_u64(SCHED_QUANTUM_MIN_NS,
				      (holder->vtime - min_u64(p->vtime, holder->vtime)) *
					      p->config.weight));
		g->interrupted = holder;
		g->interrupted_left = left;
	}
}

/* The interrupted share gets the rest of its quantum. */
static bool resume_interrupted(struct sched *t, struct sched_gpu *g, uint64_t now)
{
	struct sched_share *p = g->interrupted;

	g->interrupted = NULL;
	if (!p || !p->n_clients || sched_is_idle(p) || !sched_is_time_shared(p) ||
		!sched_cap_runtime_ns(p) || sched_is_gang(p->slice) || p->slice->boosted ||
		!compute_quantum_until(p, g->interrupted_left, 0))
		return false;
	p->slice->served = ++t->served;
	p->resumed++;
	g->holder = p;
	g->quantum_start = now;
	g->quantum_until = compute_quantum_until(p, g->interrupted_left, now);
	sched_mark_dirty(t, g);
	return true;
}

/* Whether more than one share wants the GPU. */
static void update_contention(struct sched_gpu *g, uint64_t now)
{
	unsigned int n = 0;

	for (const struct sched_share *p = g->shares; p; p = p->next)
		n += !sched_is_idle(p) && !p->config.mps;
	if (n > 1)
		g->contended_at = now;
	if (g->contended_at + SCHED_IDLE_NS > now)
		sched_wake_at(g, g->contended_at + SCHED_IDLE_NS);
}

/* Makes idle shares of slices with several GPUs dormant, so that no GPU is kept for a slice that does not use
 * it. */
static void update_dormant(struct sched *t, struct sched_gpu *g, uint64_t now)
{
	for (struct sched_share *p = g->shares; p; p = p->next) {
		uint64_t from = p->inactive_since + SCHED_IDLE_NS;

		if (p->dormant || !p->n_clients || !sched_is_idle(p) ||
			!p->slice->shares->sibling)
			continue;
		if (now < from) {
			sched_wake_at(g, from);
			continue;
		}
		p->dormant = true;
		sched_regroup_slice(t, p->slice, now);
	}
}

void sched_decide(struct sched *t, struct sched_gpu *g, uint64_t now)
{
	enum sched_end_reason why = SCHED_END_NONE;
	struct sched_share *next;

	g->wake = SCHED_NEVER;
	update_dormant(t, g, now);
	sched_update_gpu_vtime(g);
	update_contention(g, now);
	if (sched_decide_concurrency(t, g, now))
		return;
	sched_update_boosts(t, g, now);
	wake_for_buckets(g, now);
	sched_update_demotions(g, now);
	g->priority_active = sched_is_priority_active(g, now);
	if (g->holder && !sched_is_time_shared(g->holder))
		sched_end_quantum(t, g->holder, SCHED_END_CHANGED, now);
	if (g->priority_active) {
		pause_quantum(t, g, now);
		return;
	}
	if (g->holder && g->paused)
		resume_quantum(g, now);
	if (g->holder)
		why = continue_quantum(t, g, now);
	if (g->holder && why == SCHED_END_NONE) {
		interrupt_quantum(t, g, now);
		return;
	}
	if (g->holder)
		sched_end_quantum(t, g->holder, why, now);
	if (resume_interrupted(t, g, now))
		return;
	next = sched_pick_next(g, now);
	if (next)
		start_quantum(t, next->slice, SCHED_END_GANG, now);
}
