/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

/* Of 256 times: from then on it pays to wait. In vain that costs the grace; not to wait for one that comes
 * back costs the change to another one, and back. */
#define SOON_OFTEN 96

uint64_t turns_grace(const struct turns_part *p)
{
	if (p->soon < SOON_OFTEN)
		return 0;
	return turns_max(TURNS_GRACE_MIN, turns_min(4 * p->gap, TURNS_GRACE_MAX));
}

void turns_end(struct turns *t, const struct turns_part *holder, bool interrupted, uint64_t now)
{
	struct turns_slice *s = holder->slice;

	turns_tried(t, s, now);
	for (struct turns_part *p = s->parts; p; p = p->sibling) {
		struct turns_gpu *g = p->gpu;

		if (g->holder != p)
			continue;
		turns_accrue(g, now);
		if (!interrupted)
			p->yielded = turns_is_quiet(p);
		p->awaited = false;
		g->holder = NULL;
		g->paused = false;
		turns_touch(t, g);
	}
	if (interrupted)
		s->served = s->served_before;
}

void turns_regroup(struct turns *t, struct turns_slice *s, uint64_t now)
{
	for (const struct turns_part *p = s->parts; p; p = p->sibling) {
		turns_touch(t, p->gpu);
		if (p->gpu->holder == p)
			turns_end(t, p, /* interrupted= */ true, now);
	}
}

static void start(struct turns *t, struct turns_slice *s, uint64_t now)
{
	uint64_t length;

	turns_try(s, now);
	length = turns_length(s);
	s->served_before = s->served;
	s->served = ++t->served;
	for (struct turns_part *p = turns_member(s->parts); p; p = turns_member(p->sibling)) {
		struct turns_gpu *g = p->gpu;

		turns_accrue(g, now);
		if (g->holder)
			turns_end(t, g->holder, now < g->end, now);
		turns_lift(p);
		g->holder = p;
		g->interrupted = NULL;
		g->began = now;
		g->end = now + length;
		p->began = p->charged;
		p->idle_since = now;
		p->turns++;
		turns_touch(t, g);
	}
}

/* Another turn behind its last one. */
static void renew(struct turns *t, const struct turns_slice *s, uint64_t now)
{
	uint64_t length = turns_length(s);

	for (struct turns_part *p = turns_member(s->parts); p; p = turns_member(p->sibling)) {
		if (p->gpu->holder != p)
			continue; /* demoted there after the turn began */
		p->began = p->charged;
		p->turns++;
		p->gpu->began = now;
		p->gpu->end = now + length;
		turns_touch(t, p->gpu);
	}
}

/* Nobody else wants this GPU. */
static bool goes_on_alone(struct turns *t, struct turns_gpu *g, uint64_t now)
{
	if (now >= g->end) {
		turns_tried(t, g->holder->slice, now);
		g->end = TURNS_NEVER;
	}
	turns_wake_at(g, g->end);
	return true;
}

/* It is waited for, if it mostly comes back soon. */
static bool goes_on_idle(struct turns_gpu *g, uint64_t now)
{
	uint64_t until = turns_min(g->holder->idle_since + turns_grace(g->holder), g->end);

	turns_wake_at(g, until);
	return now < until;
}

static bool goes_on_busy(struct turns *t, struct turns_gpu *g, bool contended, uint64_t now)
{
	/* Others may have come that make turns shorter. */
	if (contended && g->end != TURNS_NEVER)
		g->end = turns_min(g->end, g->began + turns_longest(g->holder));
	if (now >= g->end || g->end == TURNS_NEVER) {
		turns_tried(t, g->holder->slice, now);
		if (!turns_slice_lasts(g->holder->slice))
			return false;
		if (contended && turns_is_outrun(g->holder, now))
			return false;
		renew(t, g->holder->slice, now);
	}
	turns_wake_at(g, g->end);
	return true;
}

/* The holder goes on, or its turn is over. */
static bool goes_on(struct turns *t, struct turns_gpu *g, uint64_t now)
{
	struct turns_part *p = g->holder;
	bool contended = turns_is_contended(g), on;

	if (!turns_slice_lasts(p->slice))
		return false;
	if (!contended && !p->share.cap)
		return goes_on_alone(t, g, now);
	if (!turns_slice_is_quiet(p->slice))
		on = goes_on_busy(t, g, contended, now);
	else
		on = !contended || goes_on_idle(g, now);
	p->awaited = on && contended && !p->n_busy;
	return on;
}

static uint64_t left_of(const struct turns_gpu *g, uint64_t now)
{
	return g->end == TURNS_NEVER ? TURNS_NEVER : g->end - turns_min(g->end, now);
}

/* One of class latency is at work. A gang does not go on on some of its GPUs only. */
static void give_way(struct turns *t, struct turns_gpu *g, uint64_t now)
{
	if (!g->holder || g->paused)
		return;
	if (turns_is_gang(g->holder->slice)) {
		turns_end(t, g->holder, true, now);
		return;
	}
	g->paused = true;
	g->end = left_of(g, now);
}

/* The end of a turn that was paused with @left. What ran on meanwhile was part of it. */
static uint64_t end_of(const struct turns_part *p, uint64_t left, uint64_t now)
{
	uint64_t longest = turns_longest(p), had = p->charged - p->began;

	if (left == TURNS_NEVER)
		return TURNS_NEVER;
	return now + turns_min(left, longest > had ? longest - had : 0);
}

static void resume(struct turns_gpu *g, uint64_t now)
{
	g->paused = false;
	g->end = end_of(g->holder, g->end, now);
	g->holder->idle_since = turns_max(g->holder->idle_since, g->began);
}

/* Those that wait for their buckets. */
static void wake_for_buckets(struct turns_gpu *g, uint64_t now)
{
	for (const struct turns_part *p = g->parts; p; p = p->next) {
		bool waits = p->n_wants || (p->demoted && p->n_seats) ||
			     (p->n_seats && turns_slice_wants(p->slice));

		if (waits && !turns_may_begin(p))
			turns_wake_at(g, turns_refilled(p, now));
	}
}

/*
 * So long the holder goes on before that one comes in between: the further behind it is the shorter, so that
 * the GPU changes no more often than is needed for its share.
 */
static uint64_t before(const struct turns_part *holder, const struct turns_part *p)
{
	uint64_t quantum = 4 * (uint64_t)turns_band(p->gpu) + 1;
	uint64_t behind = turns_min(holder->v - p->v, quantum);

	return TURNS_SHORT_MAX_NS -
	       (TURNS_SHORT_MAX_NS - TURNS_SHORT_MIN_NS) * behind / quantum;
}

/* The holder goes on; but somebody else may go in between, until it is level with it. */
static void let_in(struct turns *t, struct turns_gpu *g, uint64_t now)
{
	struct turns_part *holder = g->holder, *p = turns_hurry(g, now);
	uint64_t left = left_of(g, now), from = p ? g->began + before(holder, p) : 0;

	if (p && now < from) {
		turns_wake_at(g, from);
	} else if (p) {
		start(t, p->slice, now);
		g->end = turns_min(g->end,
			now + turns_max(TURNS_LEAST_NS,
				      (holder->v - turns_min(p->v, holder->v)) *
					      p->share.weight));
		g->interrupted = holder;
		g->left = left;
	}
}

/* The one that was interrupted has its turn back. */
static bool goes_back(struct turns *t, struct turns_gpu *g, uint64_t now)
{
	struct turns_part *p = g->interrupted;

	g->interrupted = NULL;
	if (!p || !p->n_seats || turns_is_quiet(p) || !turns_has_turns(p) || !turns_lasts(p) ||
		turns_is_gang(p->slice) || p->slice->urged || !end_of(p, g->left, 0))
		return false;
	p->slice->served = ++t->served;
	g->holder = p;
	g->began = now;
	g->end = end_of(p, g->left, now);
	turns_touch(t, g);
	return true;
}

/* Whether there is more than one that wants the GPU. */
static void see_contention(struct turns_gpu *g, uint64_t now)
{
	unsigned int n = 0;

	for (const struct turns_part *p = g->parts; p; p = p->next)
		n += !turns_is_quiet(p) && !p->share.mps;
	if (n > 1)
		g->contended = now;
	if (g->contended + TURNS_QUIET_NS > now)
		turns_wake_at(g, g->contended + TURNS_QUIET_NS);
}

/* Of a slice with several GPUs: the one that it does not use is not kept for it. */
static void see_dormant(struct turns *t, struct turns_gpu *g, uint64_t now)
{
	for (struct turns_part *p = g->parts; p; p = p->next) {
		uint64_t from = p->rests_since + TURNS_QUIET_NS;

		if (p->dormant || !p->n_seats || !turns_is_quiet(p) ||
			!p->slice->parts->sibling)
			continue;
		if (now < from) {
			turns_wake_at(g, from);
			continue;
		}
		p->dormant = true;
		turns_regroup(t, p->slice, now);
	}
}

void turns_decide(struct turns *t, struct turns_gpu *g, uint64_t now)
{
	struct turns_part *next;

	g->wake = TURNS_NEVER;
	see_dormant(t, g, now);
	turns_keep_up(g);
	see_contention(g, now);
	if (turns_go_together(t, g, now))
		return;
	turns_urge(t, g, now);
	wake_for_buckets(g, now);
	turns_judge(g, now);
	g->first = turns_first_at_work(g, now);
	if (g->holder && !turns_has_turns(g->holder))
		turns_end(t, g->holder, /* interrupted= */ true, now);
	if (g->first) {
		give_way(t, g, now);
		return;
	}
	if (g->holder && g->paused)
		resume(g, now);
	if (g->holder && goes_on(t, g, now)) {
		let_in(t, g, now);
		return;
	}
	if (g->holder)
		turns_end(t, g->holder, /* interrupted= */ false, now);
	if (goes_back(t, g, now))
		return;
	next = turns_pick(g, now);
	if (next)
		start(t, next->slice, now);
}
