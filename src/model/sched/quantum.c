/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides for one GPU when a quantum begins, goes on, pauses and ends (sched.h, "Quanta", "Waiting for an
 * idle holder", "Let in", "Interruption").
 */
#include "model/sched/internal.h"

/* Switches for interruptions, in ns, that a GPU may have at once after a time without any. */
#define SWITCHES_MAX_NS UINT64_C(6400000)
/* A return reaches the scheduler so much later. */
#define REPORT_NS UINT64_C(50000)
/* The GPU passes from one share to the next so much later than the first one's work ends. */
#define HAND_OVER_NS UINT64_C(60000)

uint64_t sched_grace_ns(const struct sched_share *share, uint64_t worth_ns)
{
	uint64_t wait = sched_gaps_best_wait(&share->gaps, worth_ns);

	return wait ? min_u64(wait + REPORT_NS, SCHED_GRACE_MAX_NS) : 0;
}

/* Whether the quantum ended before its time, and for no reason of the share's own. */
static bool is_interruption(enum sched_end_reason why)
{
	return why != SCHED_END_EXPIRED && why != SCHED_END_IDLE && why != SCHED_END_CAP;
}

void sched_end_quantum(struct sched *sched, const struct sched_share *holder,
	enum sched_end_reason why, uint64_t now)
{
	struct sched_slice *s = holder->slice;
	bool interrupted = is_interruption(why);

	sched_boost_end(sched, s, now);
	for (struct sched_share *share = s->shares; share; share = share->sibling) {
		struct sched_gpu *g = share->gpu;

		if (g->holder != share)
			continue;
		sched_accrue(g, now);
		sched_burst_quantum_ends(share, why == SCHED_END_IDLE);
		if (!interrupted)
			share->yielded = sched_is_idle(share) || why == SCHED_END_IDLE;
		share->awaited = false;
		if (why == SCHED_END_CHANGED && !share->n_clients)
			share->quantum_ends[SCHED_END_CLOSED]++;
		else
			share->quantum_ends[why]++;
		g->holder = NULL;
		g->paused = false;
		sched_mark_dirty(sched, g);
	}
	if (interrupted)
		s->served = s->served_before;
}

void sched_regroup_slice(struct sched *sched, struct sched_slice *s, uint64_t now)
{
	for (const struct sched_share *share = s->shares; share; share = share->sibling) {
		sched_mark_dirty(sched, share->gpu);
		if (share->gpu->holder == share)
			sched_end_quantum(sched, share, SCHED_END_CHANGED, now);
	}
}

/* @why_others: the reason where the quantum of another slice ends before its time, as that of @s begins. */
static void start_quantum(struct sched *sched, struct sched_slice *s,
	enum sched_end_reason why_others, uint64_t now)
{
	uint64_t length;

	sched_boost_begin(s, now);
	length = sched_quantum_length(s);
	s->served_before = s->served;
	s->served = ++sched->served;
	for (struct sched_share *share = sched_next_time_shared(s->shares); share;
		share = sched_next_time_shared(share->sibling)) {
		struct sched_gpu *g = share->gpu;

		sched_accrue(g, now);
		if (g->holder)
			sched_end_quantum(sched, g->holder,
				now < g->quantum_until ? why_others : SCHED_END_EXPIRED, now);
		sched_limit_credit(share);
		sched_burst_quantum_starts(share, now);
		g->holder = share;
		g->interrupted = NULL;
		g->quantum_start = now;
		g->quantum_until = now + length;
		share->charged_at_start = share->charged;
		share->idle_since = now;
		share->quanta++;
		sched_mark_dirty(sched, g);
	}
}

/* Starts another quantum of the slice right after its last one. */
static void renew_quantum(struct sched *sched, const struct sched_slice *s, uint64_t now)
{
	uint64_t length = sched_quantum_length(s);

	for (struct sched_share *share = sched_next_time_shared(s->shares); share;
		share = sched_next_time_shared(share->sibling)) {
		if (share->gpu->holder != share)
			continue; /* demoted there after the quantum began */
		share->charged_at_start = share->charged;
		share->quantum_ends[SCHED_END_RENEWED]++;
		share->quanta++;
		share->gpu->quantum_start = now;
		share->gpu->quantum_until = now + length;
		sched_mark_dirty(sched, share->gpu);
	}
}

/* The holder's quantum goes on, as no other share wants this GPU. It has no end once its time is over. */
static void continue_alone(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	if (now >= g->quantum_until) {
		sched_boost_end(sched, g->holder->slice, now);
		g->quantum_until = SCHED_NEVER;
	}
	sched_wake_at(g, g->quantum_until);
}

/*
 * What it saves if the holder comes back before the GPU passes to @next.
 * 1. One switch. Two, if @next does not give the GPU up by itself.
 * 2. Where @next is ahead of the holder, the holder must not lose its turn to it: also what @next would do first.
 */
static uint64_t compute_return_worth(const struct sched_share *holder,
	const struct sched_share *next)
{
	uint64_t worth = SCHED_SWITCH_NS + HAND_OVER_NS;

	if (!next)
		return worth;
	if (!next->yielded)
		worth += SCHED_SWITCH_NS;
	if (next->vtime > holder->vtime + sched_burst_ns(holder) / 2 / holder->config.weight)
		worth += min_u64(sched_burst_ns(next), SCHED_GRACE_MAX_NS);
	return worth;
}

/* The GPU waits for the idle holder, as long as that pays. */
static enum sched_end_reason continue_idle(struct sched_gpu *g, uint64_t now)
{
	uint64_t worth = compute_return_worth(g->holder, sched_pick_next(g, now));
	uint64_t until = min_u64(g->holder->idle_since + sched_grace_ns(g->holder, worth),
		g->quantum_until);

	sched_wake_at(g, until);
	return now < until ? SCHED_END_NONE : SCHED_END_IDLE;
}

/* The work of the holder is about to end, and the GPU will not wait for more. So the next share can submit now. */
static bool lets_in(struct sched_gpu *g, uint64_t now)
{
	struct sched_share *holder = g->holder;
	uint64_t when = sched_let_in_time(holder);
	const struct sched_share *next;

	if (when == SCHED_NEVER || sched_is_gang(holder->slice))
		return false;
	if (now < when) {
		sched_wake_at(g, when);
		return false;
	}
	next = sched_pick_next(g, now);
	if (!next || sched_is_gang(next->slice) ||
		sched_grace_ns(holder, compute_return_worth(holder, next)))
		return false;
	sched_let_in(holder);
	return true;
}

static enum sched_end_reason continue_busy(struct sched *sched, struct sched_gpu *g,
	bool contended, uint64_t now)
{
	if (contended && lets_in(g, now))
		return SCHED_END_IDLE;
	/* New shares can make quanta shorter. */
	if (contended && g->quantum_until != SCHED_NEVER)
		g->quantum_until = min_u64(g->quantum_until,
			g->quantum_start + sched_quantum_max(g->holder));
	if (now >= g->quantum_until || g->quantum_until == SCHED_NEVER) {
		sched_boost_end(sched, g->holder->slice, now);
		if (!sched_slice_cap_runtime_ns(g->holder->slice))
			return SCHED_END_CAP;
		if (contended && sched_must_hand_over(g->holder, now))
			return SCHED_END_EXPIRED;
		renew_quantum(sched, g->holder->slice, now);
	}
	sched_wake_at(g, g->quantum_until);
	return SCHED_END_NONE;
}

/* Why the holder's quantum is over; SCHED_END_NONE: it goes on. */
static enum sched_end_reason continue_quantum(struct sched *sched, struct sched_gpu *g,
	uint64_t now)
{
	struct sched_share *share = g->holder;
	enum sched_end_reason why = SCHED_END_NONE;
	bool contended = sched_is_contended(g);

	if (!sched_slice_cap_runtime_ns(share->slice))
		return SCHED_END_CAP;
	if (!contended && !share->config.cap) {
		continue_alone(sched, g, now);
		return SCHED_END_NONE;
	}
	if (!sched_slice_is_idle(share->slice))
		why = continue_busy(sched, g, contended, now);
	else if (contended)
		why = continue_idle(g, now);
	share->awaited = why == SCHED_END_NONE && contended && !share->n_busy;
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
static void pause_quantum(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	if (!g->holder || g->paused)
		return;
	if (sched_is_gang(g->holder->slice)) {
		sched_end_quantum(sched, g->holder, SCHED_END_LATENCY, now);
		return;
	}
	g->paused = true;
	g->holder->burst.from = SCHED_NEVER;
	g->quantum_until = get_quantum_left(g, now);
}

/* When a quantum ends that goes on after a pause with @left. Work that ran on in the pause was a part of the
 * quantum. */
static uint64_t compute_quantum_until(const struct sched_share *share, uint64_t left,
	uint64_t now)
{
	uint64_t longest = sched_quantum_max(share),
		 had = share->charged - share->charged_at_start;

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
	for (const struct sched_share *share = g->shares; share; share = share->next) {
		bool waits = share->n_wants || (share->demoted && share->n_clients) ||
			     (share->n_clients && sched_slice_wants(share->slice));

		if (waits && !sched_cap_allows_start(share))
			sched_wake_at(g, sched_cap_refill_time(share, now));
	}
}

/* When the GPU may be interrupted next. Each interruption costs two switches, so many shares that rest could cost the others
 * most of the GPU. */
static uint64_t get_interrupt_free_time(struct sched_gpu *g, uint64_t now)
{
	sched_budget_fill(&g->switches, SCHED_INTERRUPT_PERCENT, SWITCHES_MAX_NS, now);
	return sched_budget_time(&g->switches, 2 * SCHED_SWITCH_NS, SCHED_INTERRUPT_PERCENT,
		now);
}

/* Until then the holder's burst will probably end by itself, after what it has in flight, which no gate interrupts. */
static uint64_t get_own_end(const struct sched_share *holder)
{
	uint64_t from = holder->burst.from;

	if (!holder->yielded || !holder->burst.n ||
		sched_burst_ns(holder) > SCHED_TIME_SLICE_NS)
		return 0;
	return (from == SCHED_NEVER ? holder->gpu->quantum_start : from) + SCHED_TIME_SLICE_NS +
	       SCHED_SWITCH_NS;
}

/* @share has the GPU until it is level with @holder. Then the holder goes on with the @left of its quantum. */
static void start_interruption(struct sched *sched, struct sched_share *share,
	struct sched_share *holder, uint64_t left, uint64_t now)
{
	struct sched_gpu *g = share->gpu;
	uint64_t behind = holder->vtime - min_u64(share->vtime, holder->vtime);

	start_quantum(sched, share->slice, SCHED_END_INTERRUPTED, now);
	g->quantum_until = min_u64(g->quantum_until,
		now + max_u64(SCHED_QUANTUM_MIN_NS, behind * share->config.weight));
	g->interrupted = holder;
	g->interrupted_left = left;
}

/* The holder goes on, but another share can interrupt it. */
static void interrupt_quantum(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	struct sched_share *holder = g->holder, *share;
	uint64_t from;

	share = sched_pick_interrupting(holder, now);
	if (!share)
		return;
	from = max_u64(g->quantum_start + SCHED_INTERRUPT_NS, get_interrupt_free_time(g, now));
	from = max_u64(from, get_own_end(holder));
	if (now < from) {
		sched_wake_at(g, from);
		return;
	}
	g->switches.ns -= 2 * SCHED_SWITCH_NS;
	start_interruption(sched, share, holder, get_quantum_left(g, now), now);
}

static bool can_resume(const struct sched_gpu *g)
{
	const struct sched_share *share = g->interrupted;

	return share && share->n_clients && !sched_is_idle(share) &&
	       sched_is_time_shared(share) && sched_cap_runtime_ns(share) &&
	       !sched_is_gang(share->slice) && !share->slice->boosted &&
	       compute_quantum_until(share, g->interrupted_left, 0);
}

/* Another share interrupts the interrupted one, too: that costs one switch, not two. */
static bool interrupt_further(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	struct sched_share *holder = g->interrupted, *share;

	if (!can_resume(g) || get_interrupt_free_time(g, now) > now)
		return false;
	share = sched_pick_interrupting(holder, now);
	if (!share)
		return false;
	g->switches.ns -= SCHED_SWITCH_NS;
	start_interruption(sched, share, holder, g->interrupted_left, now);
	return true;
}

/* The interrupted share gets the rest of its quantum. */
static bool resume_interrupted(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	struct sched_share *share = g->interrupted;
	bool can = can_resume(g);

	g->interrupted = NULL;
	if (!can)
		return false;
	share->slice->served = ++sched->served;
	share->resumed++;
	g->holder = share;
	g->quantum_start = now;
	g->quantum_until = compute_quantum_until(share, g->interrupted_left, now);
	sched_mark_dirty(sched, g);
	return true;
}

/* Whether more than one share wants the GPU. */
static void update_contention(struct sched_gpu *g, uint64_t now)
{
	unsigned int n = 0;

	for (const struct sched_share *share = g->shares; share; share = share->next)
		n += !sched_is_idle(share) && !share->config.mps;
	if (n > 1)
		g->contended_at = now;
	if (g->contended_at + SCHED_IDLE_NS > now)
		sched_wake_at(g, g->contended_at + SCHED_IDLE_NS);
}

/* Makes idle shares of slices with several GPUs dormant, so that no GPU is kept for a slice that does not use
 * it. */
static void update_dormant(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	for (struct sched_share *share = g->shares; share; share = share->next) {
		uint64_t from = share->inactive_since + SCHED_IDLE_NS;

		if (share->dormant || !share->n_clients || !sched_is_idle(share) ||
			!share->slice->shares->sibling)
			continue;
		if (now < from) {
			sched_wake_at(g, from);
			continue;
		}
		share->dormant = true;
		sched_regroup_slice(sched, share->slice, now);
	}
}

void sched_decide(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	enum sched_end_reason why = SCHED_END_NONE;
	struct sched_share *next;

	g->wake = SCHED_NEVER;
	update_dormant(sched, g, now);
	sched_update_gpu_vtime(g);
	update_contention(g, now);
	if (sched_decide_concurrency(sched, g, now))
		return;
	sched_update_boosts(sched, g, now);
	wake_for_buckets(g, now);
	sched_update_demotions(g, now);
	g->priority_active = sched_is_priority_active(g, now);
	if (g->holder && !sched_is_time_shared(g->holder))
		sched_end_quantum(sched, g->holder, SCHED_END_CHANGED, now);
	if (g->priority_active) {
		pause_quantum(sched, g, now);
		return;
	}
	if (g->holder && g->paused)
		resume_quantum(g, now);
	if (g->holder)
		why = continue_quantum(sched, g, now);
	if (g->holder && why == SCHED_END_NONE) {
		interrupt_quantum(sched, g, now);
		return;
	}
	if (g->holder)
		sched_end_quantum(sched, g->holder, why, now);
	if (interrupt_further(sched, g, now) || resume_interrupted(sched, g, now))
		return;
	next = sched_pick_next(g, now);
	if (next)
		start_quantum(sched, next->slice, SCHED_END_GANG, now);
}
