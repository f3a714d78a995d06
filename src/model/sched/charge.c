/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

#define GAP_LONG    UINT64_C(10000000)
#define SOON_ALWAYS 256

/* ---- the bucket of a capped part ---------------------------------------------------------------- */

#define BUCKET_OF(ns) ((int64_t)((ns)*SLICE_CAP_ALL))

/* After so long it is full or as deep in debt as it may be; and no product overflows. */
#define LONGEST UINT64_C(4000000000000)

/*
 * In @ns, in which it is charged @charged, evenly. Both at once: a stretch of time may be longer than what
 * the bucket holds lasts, and be charged all along.
 */
static void fill(struct turns_part *p, uint64_t ns, uint64_t charged)
{
	if (!p->share.cap)
		return;
	p->bucket += (int64_t)(turns_min(ns, LONGEST) * p->share.cap);
	p->bucket -= BUCKET_OF(turns_min(charged, LONGEST));
	if (p->bucket > BUCKET_OF(TURNS_BURST_NS))
		p->bucket = BUCKET_OF(TURNS_BURST_NS);
	if (p->bucket < -BUCKET_OF(TURNS_DEBT_NS))
		p->bucket = -BUCKET_OF(TURNS_DEBT_NS);
}

bool turns_may_begin(const struct turns_part *p)
{
	return !p->share.cap || p->slice->urged || p->bucket >= BUCKET_OF(TURNS_PORTION_NS);
}

uint64_t turns_lasts(const struct turns_part *p)
{
	if (!p->share.cap)
		return TURNS_NEVER;
	/* So little that it is not worth a change of the meter. */
	if (p->bucket < BUCKET_OF(TURNS_GRACE_MIN))
		return 0;
	return (uint64_t)p->bucket / (SLICE_CAP_ALL - p->share.cap);
}

void turns_lend(struct turns_part *p, bool lend)
{
	int64_t lacks;

	p->bucket -= p->lent;
	p->lent = 0;
	if (p->bucket < -BUCKET_OF(TURNS_DEBT_NS))
		p->bucket = -BUCKET_OF(TURNS_DEBT_NS);
	lacks = BUCKET_OF(TURNS_PORTION_NS) - p->bucket;
	if (!lend || !p->share.cap || lacks <= 0)
		return;
	p->lent = lacks;
	p->bucket += lacks;
}

uint64_t turns_refilled(const struct turns_part *p, uint64_t now)
{
	uint64_t lacks;

	if (turns_may_begin(p))
		return now;
	lacks = (uint64_t)(BUCKET_OF(TURNS_PORTION_NS) - p->bucket) / p->share.cap + 1;
	/* It may be charged meanwhile, and come close again and again. */
	return now + turns_max(lacks, TURNS_GRACE_MIN);
}

/* ---- virtual time ------------------------------------------------------------------------------ */

static void advance(struct turns_part *p, uint64_t ns)
{
	if (p->share.mps)
		return;
	ns += p->v_rest;
	p->v += ns / p->share.weight;
	p->v_rest = ns % p->share.weight;
}

/* One of class latency keeps the GPU from all others there. */
static bool is_kept_by_latency(const struct turns_part *p)
{
	for (const struct turns_part *q = p->gpu->parts; q; q = q->next) {
		if (q != p && q->share.latency && q->n_seats &&
			(!turns_is_quiet(q) || q->awaited))
			return true;
	}
	return false;
}

/*
 * It holds back the GPU's virtual time: whoever has work, or could have. Not one that waits for its
 * bucket or for another GPU, as it goes no faster if others wait for it; but a gang beside one of class
 * latency at work, which would else never be ahead of it, and never stand back.
 */
static bool holds_back(const struct turns_part *p)
{
	if (p->share.mps)
		return false;
	if (p->n_busy || p->awaited)
		return true;
	return p->n_wants && turns_may_begin(p) &&
	       (!turns_is_gang(p->slice) || is_kept_by_latency(p));
}

/*
 * Where only gangs want it they do, or the lead that one had there when its rivals went would stay, and keep
 * it from its other GPUs. And nobody owes more than TURNS_DEBT_NS.
 */
void turns_keep_up(struct turns_gpu *g)
{
	uint64_t least = TURNS_NEVER, least_gang = TURNS_NEVER;

	for (const struct turns_part *p = g->parts; p; p = p->next) {
		if (holds_back(p))
			least = turns_min(least, p->v);
		else if (p->n_wants && turns_is_gang(p->slice))
			least_gang = turns_min(least_gang, p->v);
	}
	if (least == TURNS_NEVER)
		least = least_gang;
	if (least != TURNS_NEVER)
		g->v = turns_max(g->v, least);
	for (struct turns_part *p = g->parts; p; p = p->next)
		p->v = turns_min(p->v, g->v + TURNS_DEBT_NS / p->share.weight);
}

void turns_lift(struct turns_part *p)
{
	uint64_t credit = TURNS_NS / p->share.weight, v = p->gpu->v;

	for (const struct turns_part *q = p->gpu->parts; q; q = q->next) {
		if (q != p && q->n_seats && !q->share.mps && !turns_is_quiet(q))
			credit = turns_min(credit, TURNS_NS / q->share.weight);
	}
	/* Enough for the shortest turn. */
	credit = turns_max(credit, TURNS_LEAST_NS / p->share.weight);
	p->v = turns_max(p->v, v > credit ? v - credit : 0);
}

void turns_come_back(struct turns_part *p, uint64_t now)
{
	uint64_t gap = turns_min(now - p->idle_since, GAP_LONG);

	p->soon -= p->soon / 8;
	if (gap <= TURNS_GRACE_MAX) {
		p->soon += SOON_ALWAYS / 8;
		p->gap = (7 * p->gap + gap) / 8;
	}
	turns_lift(p);
}

void turns_set_share(struct turns_part *p, const struct turns_share *share)
{
	int64_t lead;

	turns_lend(p, false);
	turns_lift(p); /* so that no product overflows */
	lead = (int64_t)(p->v - p->gpu->v) * (int64_t)p->share.weight;
	/* As far ahead as it was, in nanoseconds. */
	lead /= (int64_t)share->weight;
	p->v = lead < 0 && p->gpu->v < (uint64_t)-lead ? 0 : p->gpu->v + (uint64_t)lead;
	p->v_rest = 0;
	if (!p->share.cap)
		p->bucket = 0;
	p->demoted = false;
	p->share = *share;
	if (p->share.cap >= SLICE_CAP_ALL || p->share.mps)
		p->share.cap = 0;
	if (p->share.mps)
		p->share.latency = p->awaited = p->yielded = false;
}

/* ---- charges ----------------------------------------------------------------------------------- */

/* What is left over by the division goes one by one, so the sum is exact. */
static void charge_seats(struct turns_part *p, uint64_t ns)
{
	uint64_t n = p->n_busy;

	for (struct turns_seat *s = p->seats; s && n; s = s->next) {
		if (!s->busy)
			continue;
		s->charged_ns += ns / n;
		ns -= ns / n;
		n--;
	}
}

/* For so long what was in flight when its gates closed is taken to have the GPU. */
static uint64_t tail_of(const struct turns_part *p)
{
	return turns_min(p->tail + p->tail / 2 + TURNS_GRACE_MIN, TURNS_SLICE_NS);
}

/* What was in flight when its gates closed. */
enum tail {
	TAIL_NONE, /* there is none, or the hardware rotates */
	TAIL_RUNS, /* has the GPU */
	TAIL_WAITS, /* should be over: the hardware's slice ended just then, and another one has the next */
};

static enum tail look_at_tail(const struct turns_part *p, uint64_t now)
{
	uint64_t age = now - p->closed, runs = tail_of(p);

	if (!p->n_busy || p->closed > now || age >= runs + TURNS_SLICE_NS)
		return TAIL_NONE;
	/* Beside another one that had work before, it rotates already. */
	for (const struct turns_part *q = p->gpu->parts; q; q = q->next) {
		if (q != p && q->n_busy && q->worked < p->closed)
			return TAIL_NONE;
	}
	if (age < runs)
		return TAIL_RUNS;
	return runs < TURNS_SLICE_NS ? TAIL_WAITS : TAIL_NONE;
}

void turns_learn_tail(struct turns_part *p, uint64_t end)
{
	uint64_t most = turns_min(2 * p->tail + TURNS_GRACE_MIN, TURNS_SLICE_NS);

	/* One that is much longer than those before it has waited. */
	if (p->closed < end)
		p->tail = (7 * p->tail + turns_min(end - p->closed, most)) / 8;
}

static void charge(struct turns_part *p, uint64_t ns)
{
	p->charged += ns;
	charge_seats(p, ns);
	advance(p, ns);
}

/* Charges @time from .accrued on, in which all stays as it is. */
static void accrue(struct turns_gpu *g, uint64_t time)
{
	uint64_t left = time, n = 0, by[3] = { 0 }, sharers;
	enum tail who = TAIL_WAITS;
	bool wanted = false;

	for (struct turns_part *p = g->parts; p; p = p->next) {
		if (turns_has_demand(p, g->accrued)) {
			p->pace.demand += time;
			wanted = true;
		}
		n += p->n_busy > 0;
		by[look_at_tail(p, g->accrued)] += p->n_busy > 0;
	}
	g->busy += n ? time : 0;
	g->stretch.wanted += wanted ? time : 0;
	if (by[TAIL_RUNS])
		who = TAIL_RUNS;
	else if (by[TAIL_NONE])
		who = TAIL_NONE;
	n = sharers = by[who];
	for (struct turns_part *p = g->parts; p; p = p->next) {
		uint64_t mine = 0;

		if (p->n_wants)
			p->waited += time;
		if (n && p->n_busy && look_at_tail(p, g->accrued) == who) {
			mine = left / n;
			charge(p, mine);
			left -= mine;
			n--;
		} else if (p->awaited) {
			advance(p, time / (sharers + 1));
		}
		fill(p, time, mine);
	}
	turns_keep_up(g);
	g->accrued += time;
}

void turns_accrue(struct turns_gpu *g, uint64_t now)
{
	while (g->accrued < now) {
		uint64_t until = now;

		for (const struct turns_part *p = g->parts; p; p = p->next) {
			enum tail tail = look_at_tail(p, g->accrued);
			uint64_t end = p->closed + tail_of(p);

			if (tail != TAIL_NONE)
				until = turns_min(until,
					tail == TAIL_RUNS ? end : end + TURNS_SLICE_NS);
		}
		accrue(g, until - g->accrued);
	}
}
