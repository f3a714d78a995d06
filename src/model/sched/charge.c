/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

#define GAP_LONG    UINT64_C(10000000)
#define SOON_ALWAYS 256

/* ---- the bucket of a cap ---- */

#define BUCKET_OF(ns) ((int64_t)((ns)*SLICE_CAP_ALL))

/* After this time the bucket is full, or at its lowest. No product overflows. */
#define LONGEST UINT64_C(4000000000000)

/*
 * Updates the bucket for a time @ns in which the share is charged @charged, evenly. Both at once: @ns can be
 * longer than the bucket lasts, with charges all along.
 */
static void update_cap_bucket(struct sched_share *p, uint64_t ns, uint64_t charged)
{
	if (!p->config.cap)
		return;
	p->bucket += (int64_t)(min_u64(ns, LONGEST) * p->config.cap);
	p->bucket -= BUCKET_OF(min_u64(charged, LONGEST));
	if (p->bucket > BUCKET_OF(SCHED_CAP_BURST_NS))
		p->bucket = BUCKET_OF(SCHED_CAP_BURST_NS);
	if (p->bucket < -BUCKET_OF(SCHED_DEBT_MAX_NS))
		p->bucket = -BUCKET_OF(SCHED_DEBT_MAX_NS);
}

bool sched_cap_allows_start(const struct sched_share *p)
{
	return !p->config.cap || p->slice->boosted ||
	       p->bucket >= BUCKET_OF(SCHED_CAP_PORTION_NS);
}

uint64_t sched_cap_runtime_ns(const struct sched_share *p)
{
	if (!p->config.cap)
		return SCHED_NEVER;
	/* So little is not worth a change of the throttle. */
	if (p->bucket < BUCKET_OF(SCHED_GRACE_MIN_NS))
		return 0;
	return (uint64_t)p->bucket / (SLICE_CAP_ALL - p->config.cap);
}

void sched_lend_cap(struct sched_share *p, bool lend)
{
	int64_t lacks;

	p->bucket -= p->lent;
	p->lent = 0;
	if (p->bucket < -BUCKET_OF(SCHED_DEBT_MAX_NS))
		p->bucket = -BUCKET_OF(SCHED_DEBT_MAX_NS);
	lacks = BUCKET_OF(SCHED_CAP_PORTION_NS) - p->bucket;
	if (!lend || !p->config.cap || lacks <= 0)
		return;
	p->lent = lacks;
	p->bucket += lacks;
}

uint64_t sched_cap_refill_time(const struct sched_share *p, uint64_t now)
{
	uint64_t lacks;

	if (sched_cap_allows_start(p))
		return now;
	lacks = (uint64_t)(BUCKET_OF(SCHED_CAP_PORTION_NS) - p->bucket) / p->config.cap + 1;
	/* The share can be charged meanwhile, so that the time comes close again and again. */
	return now + max_u64(lacks, SCHED_GRACE_MIN_NS);
}

/* ---- virtual time ---- */

static void advance_share_vtime(struct sched_share *p, uint64_t ns)
{
	if (p->config.mps)
		return;
	ns += p->vtime_rest;
	p->vtime += ns / p->config.weight;
	p->vtime_rest = ns % p->config.weight;
}

/* Whether another share, of class latency, is at work on the share's GPU or in its grace period there. */
static bool is_blocked_by_latency(const struct sched_share *p)
{
	for (const struct sched_share *q = p->gpu->shares; q; q = q->next) {
		if (q != p && q->config.latency && q->n_clients &&
			(!sched_is_idle(q) || q->awaited))
			return true;
	}
	return false;
}

/*
 * Whether the share holds back the GPU's virtual time. It does in three cases:
 *
 * 1. A client of the share is busy, or the GPU waits for the idle share (.awaited).
 * 2. A client of the share wants the GPU, the share's bucket allows a quantum, and its slice is no gang.
 * 3. The same holds for the share of a gang, and a latency share is at work on the GPU. Otherwise the virtual time
 *    of the latency share would never be ahead of the gang's, and the latency share would never be demoted.
 *
 * A share that waits for its bucket, or a gang that waits for another GPU, does not: its quantum would not begin
 * earlier if other shares waited for it.
 */
static bool holds_back_vtime(const struct sched_share *p)
{
	if (p->config.mps)
		return false;
	if (p->n_busy || p->awaited)
		return true;
	return p->n_wants && sched_cap_allows_start(p) &&
	       (!sched_is_gang(p->slice) || is_blocked_by_latency(p));
}

/*
 * Where only gangs want the GPU, they hold back its virtual time. Otherwise a gang would keep its lead there
 * after its rivals are gone, and the lead would keep it from its other GPUs. No share owes more than
 * SCHED_DEBT_MAX_NS.
 */
void sched_update_gpu_vtime(struct sched_gpu *g)
{
	uint64_t min = SCHED_NEVER, least_gang = SCHED_NEVER;

	for (const struct sched_share *p = g->shares; p; p = p->next) {
		if (holds_back_vtime(p))
			min = min_u64(min, p->vtime);
		else if (p->n_wants && sched_is_gang(p->slice))
			least_gang = min_u64(least_gang, p->vtime);
	}
	if (min == SCHED_NEVER)
		min = least_gang;
	if (min != SCHED_NEVER)
		g->vtime = max_u64(g->vtime, min);
	for (struct sched_share *p = g->shares; p; p = p->next)
		p->vtime = min_u64(p->vtime, g->vtime + SCHED_DEBT_MAX_NS / p->config.weight);
}

void sched_limit_credit(struct sched_share *p)
{
	uint64_t credit = SCHED_QUANTUM_NS / p->config.weight, v = p->gpu->vtime;

	for (const struct sched_share *q = p->gpu->shares; q; q = q->next) {
		if (q != p && q->n_clients && !q->config.mps && !sched_is_idle(q))
			credit = min_u64(credit, SCHED_QUANTUM_NS / q->config.weight);
	}
	/* Enough for the shortest quantum. */
	credit = max_u64(credit, SCHED_QUANTUM_MIN_NS / p->config.weight);
	p->vtime = max_u64(p->vtime, v > credit ? v - credit : 0);
}

void sched_wake_up_share(struct sched_share *p, uint64_t now)
{
	uint64_t gap = min_u64(now - p->idle_since, GAP_LONG);

	p->soon_returns -= p->soon_returns / 8;
	if (gap <= SCHED_GRACE_MAX_NS) {
		p->soon_returns += SOON_ALWAYS / 8;
		p->idle_gap = (7 * p->idle_gap + gap) / 8;
	}
	sched_limit_credit(p);
}

void sched_set_share_config(struct sched_share *p, const struct sched_share_config *share)
{
	int64_t lead;

	sched_lend_cap(p, false);
	sched_limit_credit(p); /* so that no product overflows */
	lead = (int64_t)(p->vtime - p->gpu->vtime) * (int64_t)p->config.weight;
	/* As far ahead as before, in nanoseconds. */
	lead /= (int64_t)share->weight;
	p->vtime = lead < 0 && p->gpu->vtime < (uint64_t)-lead ? 0
							       : p->gpu->vtime + (uint64_t)lead;
	p->vtime_rest = 0;
	if (!p->config.cap)
		p->bucket = 0;
	p->demoted = false;
	p->config = *share;
	if (p->config.cap >= SLICE_CAP_ALL || p->config.mps)
		p->config.cap = 0;
	if (p->config.mps)
		p->config.latency = p->awaited = p->yielded = false;
}

/* ---- charges ---- */

/* The remainder of the division goes to the clients one by one, so the sum is exact. */
static void charge_clients(struct sched_share *p, uint64_t ns)
{
	uint64_t n = p->n_busy;

	for (struct sched_client *s = p->clients; s && n; s = s->next) {
		if (!s->busy)
			continue;
		s->charged_ns += ns / n;
		ns -= ns / n;
		n--;
	}
}

/* How long the overrun is assumed to have the GPU. */
static uint64_t get_overrun_ns(const struct sched_share *p)
{
	return min_u64(p->overrun + p->overrun / 2 + SCHED_GRACE_MIN_NS, SCHED_TIME_SLICE_NS);
}

/* The overrun of a share. */
enum overrun_state {
	OVERRUN_NONE, /* no overrun, or the hardware rotates */
	OVERRUN_RUNS, /* has the GPU */
	/* is assumed to wait behind the next share, which has the hardware's next time slice */
	OVERRUN_WAITS,
};

static enum overrun_state get_overrun_state(const struct sched_share *p, uint64_t now)
{
	uint64_t age = now - p->closed_since, runs = get_overrun_ns(p);

	if (!p->n_busy || p->closed_since > now || age >= runs + SCHED_TIME_SLICE_NS)
		return OVERRUN_NONE;
	/* Another share had work before: the hardware rotates already. */
	for (const struct sched_share *q = p->gpu->shares; q; q = q->next) {
		if (q != p && q->n_busy && q->busy_since < p->closed_since)
			return OVERRUN_NONE;
	}
	if (age < runs)
		return OVERRUN_RUNS;
	return runs < SCHED_TIME_SLICE_NS ? OVERRUN_WAITS : OVERRUN_NONE;
}

void sched_learn_overrun(struct sched_share *p, uint64_t end)
{
	uint64_t max = min_u64(2 * p->overrun + SCHED_GRACE_MIN_NS, SCHED_TIME_SLICE_NS);

	/* Of an overrun that is much longer than those before, a part was a wait for the GPU. */
	if (p->closed_since < end)
		p->overrun = (7 * p->overrun + min_u64(end - p->closed_since, max)) / 8;
}

static void charge_share(struct sched_share *p, uint64_t ns)
{
	p->charged += ns;
	charge_clients(p, ns);
	advance_share_vtime(p, ns);
}

/* Charges @time from .accrued on, in which nothing changes. */
static void accrue_gpu_time(struct sched_gpu *g, uint64_t time)
{
	uint64_t left = time, n = 0, by[3] = { 0 }, sharers;
	enum overrun_state who = OVERRUN_WAITS;
	bool wanted = false;

	for (struct sched_share *p = g->shares; p; p = p->next) {
		if (sched_has_demand(p, g->accrued)) {
			p->pace.demand += time;
			wanted = true;
		}
		n += p->n_busy > 0;
		by[get_overrun_state(p, g->accrued)] += p->n_busy > 0;
	}
	g->busy_ns += n ? time : 0;
	g->period.wanted_ns += wanted ? time : 0;
	if (by[OVERRUN_RUNS])
		who = OVERRUN_RUNS;
	else if (by[OVERRUN_NONE])
		who = OVERRUN_NONE;
	n = sharers = by[who];
	for (struct sched_share *p = g->shares; p; p = p->next) {
		uint64_t mine = 0;

		if (p->n_wants)
			p->waited += time;
		if (n && p->n_busy && get_overrun_state(p, g->accrued) == who) {
			mine = left / n;
			charge_share(p, mine);
			left -= mine;
			n--;
		} else if (p->awaited) {
			advance_share_vtime(p, time / (sharers + 1));
		}
		update_cap_bucket(p, time, mine);
	}
	sched_update_gpu_vtime(g);
	g->accrued += time;
}

void sched_accrue(struct sched_gpu *g, uint64_t now)
{
	while (g->accrued < now) {
		uint64_t until = now;

		for (const struct sched_share *p = g->shares; p; p = p->next) {
			enum overrun_state overrun = get_overrun_state(p, g->accrued);
			uint64_t end = p->closed_since + get_overrun_ns(p);

			if (overrun != OVERRUN_NONE)
				until = min_u64(until, overrun == OVERRUN_RUNS
							       ? end
							       : end + SCHED_TIME_SLICE_NS);
		}
		accrue_gpu_time(g, until - g->accrued);
	}
}
