/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charges: which share pays for the GPU's time, virtual time, and the buckets of caps. The rules and their
 * proofs: sched.h, "Charges", "Caps".
 */
#include "model/sched/internal.h"

/* --- the bucket of a cap --- */

#define BUCKET_OF(ns) ((int64_t)((ns)*SLICE_CAP_ALL))

/* After this time the bucket is full, or at its lowest. No product overflows. */
#define BUCKET_TIME_MAX_NS UINT64_C(4000000000000)

/*
 * Updates the bucket for a time @ns in which the share is charged @charged, evenly. Adds the refill and subtracts the
 * charges before it applies the bounds: in a long @ns the share may be charged more than a full bucket.
 */
static void update_cap_bucket(struct sched_share *share, uint64_t ns, uint64_t charged)
{
	if (!share->config.cap)
		return;
	share->bucket += (int64_t)(min_u64(ns, BUCKET_TIME_MAX_NS) * share->config.cap);
	share->bucket -= BUCKET_OF(min_u64(charged, BUCKET_TIME_MAX_NS));
	if (share->bucket > BUCKET_OF(SCHED_CAP_BURST_NS))
		share->bucket = BUCKET_OF(SCHED_CAP_BURST_NS);
	if (share->bucket < -BUCKET_OF(SCHED_DEBT_MAX_NS))
		share->bucket = -BUCKET_OF(SCHED_DEBT_MAX_NS);
}

bool sched_cap_allows_start(const struct sched_share *share)
{
	return !share->config.cap || share->slice->boosted ||
	       share->bucket >= BUCKET_OF(SCHED_CAP_PORTION_NS);
}

uint64_t sched_cap_runtime_ns(const struct sched_share *share)
{
	if (!share->config.cap)
		return SCHED_NEVER;
	/* A rest below SCHED_GRACE_MIN_NS counts as empty: it does not justify a change of the throttle. */
	if (share->bucket < BUCKET_OF(SCHED_GRACE_MIN_NS))
		return 0;
	return (uint64_t)share->bucket / (SLICE_CAP_ALL - share->config.cap);
}

void sched_lend_cap(struct sched_share *share, bool lend)
{
	int64_t lacks;

	share->bucket -= share->lent;
	share->lent = 0;
	if (share->bucket < -BUCKET_OF(SCHED_DEBT_MAX_NS))
		share->bucket = -BUCKET_OF(SCHED_DEBT_MAX_NS);
	lacks = BUCKET_OF(SCHED_CAP_PORTION_NS) - share->bucket;
	if (!lend || !share->config.cap || lacks <= 0)
		return;
	share->lent = lacks;
	share->bucket += lacks;
}

uint64_t sched_cap_refill_time(const struct sched_share *share, uint64_t now)
{
	uint64_t lacks;

	if (sched_cap_allows_start(share))
		return now;
	lacks = (uint64_t)(BUCKET_OF(SCHED_CAP_PORTION_NS) - share->bucket) /
			share->config.cap +
		1;
	/* The share can be charged during the wait, which moves the time back repeatedly. So the wait is at least
	 * SCHED_GRACE_MIN_NS. */
	return now + max_u64(lacks, SCHED_GRACE_MIN_NS);
}

/* --- virtual time --- */

static void advance_share_vtime(struct sched_share *share, uint64_t ns)
{
	if (share->config.mps)
		return;
	ns += share->vtime_rest;
	share->vtime += ns / share->config.weight;
	share->vtime_rest = ns % share->config.weight;
}

/* Whether another share, of class latency, is at work on the share's GPU, or awaited there. */
static bool is_blocked_by_latency(const struct sched_share *share)
{
	for (const struct sched_share *other = share->gpu->shares; other; other = other->next) {
		if (other != share && other->config.latency && other->n_clients &&
			(!sched_is_idle(other) || other->awaited))
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
static bool holds_back_vtime(const struct sched_share *share)
{
	if (share->config.mps)
		return false;
	if (share->n_busy || share->awaited)
		return true;
	return share->n_wants && sched_cap_allows_start(share) &&
	       (!sched_is_gang(share->slice) || is_blocked_by_latency(share));
}

/*
 * Where only gangs want the GPU, they hold back its virtual time. Otherwise a gang would keep its lead there
 * after its rivals are gone, and the lead would keep it from its other GPUs. No share owes more than
 * SCHED_DEBT_MAX_NS.
 */
void sched_update_gpu_vtime(struct sched_gpu *g)
{
	uint64_t min = SCHED_NEVER, least_gang = SCHED_NEVER;

	for (const struct sched_share *share = g->shares; share; share = share->next) {
		if (holds_back_vtime(share))
			min = min_u64(min, share->vtime);
		else if (share->n_wants && sched_is_gang(share->slice))
			least_gang = min_u64(least_gang, share->vtime);
	}
	if (min == SCHED_NEVER)
		min = least_gang;
	if (min != SCHED_NEVER)
		g->vtime = max_u64(g->vtime, min);
	for (struct sched_share *share = g->shares; share; share = share->next)
		share->vtime = min_u64(share->vtime,
			g->vtime + SCHED_DEBT_MAX_NS / share->config.weight);
}

void sched_limit_credit(struct sched_share *share)
{
	uint64_t credit = SCHED_QUANTUM_NS / share->config.weight, v = share->gpu->vtime;

	for (const struct sched_share *other = share->gpu->shares; other; other = other->next) {
		if (other != share && other->n_clients && !other->config.mps &&
			!sched_is_idle(other))
			credit = min_u64(credit, SCHED_QUANTUM_NS / other->config.weight);
	}
	/* Enough for the shortest quantum. */
	credit = max_u64(credit, SCHED_QUANTUM_MIN_NS / share->config.weight);
	share->vtime = max_u64(share->vtime, v > credit ? v - credit : 0);
}

void sched_wake_up_share(struct sched_share *share, uint64_t now)
{
	if (share->inactive_since)
		sched_gaps_add(&share->gaps, now - share->inactive_since);
	sched_limit_credit(share);
}

void sched_set_share_config(struct sched_share *share, const struct sched_share_config *config)
{
	int64_t lead;

	sched_lend_cap(share, false);
	sched_limit_credit(share); /* so that no product overflows */
	lead = (int64_t)(share->vtime - share->gpu->vtime) * (int64_t)share->config.weight;
	/* As far ahead as before, in nanoseconds. */
	lead /= (int64_t)config->weight;
	share->vtime = lead < 0 && share->gpu->vtime < (uint64_t)-lead
			       ? 0
			       : share->gpu->vtime + (uint64_t)lead;
	share->vtime_rest = 0;
	if (!share->config.cap)
		share->bucket = 0;
	share->demoted = false;
	share->config = *config;
	if (share->config.cap >= SLICE_CAP_ALL || share->config.mps)
		share->config.cap = 0;
	if (share->config.mps)
		share->config.latency = share->awaited = share->yielded = false;
}

/* --- charges --- */

/* The remainder of the division goes to the clients one by one, so the sum is exact. */
static void charge_clients(struct sched_share *share, uint64_t ns)
{
	uint64_t n = share->n_busy;

	for (struct sched_client *s = share->clients; s && n; s = s->next) {
		if (!s->busy)
			continue;
		s->charged_ns += ns / n;
		ns -= ns / n;
		n--;
	}
}

/* How long the overrun is assumed to have the GPU. */
static uint64_t get_overrun_ns(const struct sched_share *share)
{
	return min_u64(share->overrun + share->overrun / 2 + SCHED_GRACE_MIN_NS,
		SCHED_TIME_SLICE_NS);
}

/* The overrun of a share. */
enum overrun_state {
	OVERRUN_NONE, /* no overrun, or the hardware rotates */
	OVERRUN_RUNS, /* has the GPU */
	/* is assumed to wait behind the next share, which has the hardware's next time slice */
	OVERRUN_WAITS,
};

/*
 * Work of a latency share that may not go first yet waits behind the holder's until then, on average: the hardware
 * rotates after a time slice at most. 0: the share does not wait.
 */
static uint64_t get_trickle_wait_end(const struct sched_share *share)
{
	const struct sched_share *holder = share->gpu->holder;

	return share->n_busy && sched_has_priority(share) && !share->first && holder &&
			       holder->n_busy
		       ? share->busy_since + SCHED_TIME_SLICE_NS / 2
		       : 0;
}

static enum overrun_state get_overrun_state(const struct sched_share *share, uint64_t now)
{
	uint64_t age = now - share->closed_since, runs = get_overrun_ns(share);

	if (now < get_trickle_wait_end(share))
		return OVERRUN_WAITS;
	if (!share->n_busy || share->closed_since > now || age >= runs + SCHED_TIME_SLICE_NS)
		return OVERRUN_NONE;
	/* Another share had work before: the hardware rotates already. */
	for (const struct sched_share *other = share->gpu->shares; other; other = other->next) {
		if (other != share && other->n_busy && other->busy_since < share->closed_since)
			return OVERRUN_NONE;
	}
	if (age < runs)
		return OVERRUN_RUNS;
	return runs < SCHED_TIME_SLICE_NS ? OVERRUN_WAITS : OVERRUN_NONE;
}

void sched_learn_overrun(struct sched_share *share, uint64_t end)
{
	uint64_t max = min_u64(2 * share->overrun + SCHED_GRACE_MIN_NS, SCHED_TIME_SLICE_NS);

	/* Part of an overrun that is much longer than earlier ones was a wait for the GPU. */
	if (share->closed_since < end)
		share->overrun =
			(7 * share->overrun + min_u64(end - share->closed_since, max)) / 8;
}

static void charge_share(struct sched_share *share, uint64_t ns)
{
	share->charged += ns;
	charge_clients(share, ns);
	advance_share_vtime(share, ns);
}

/* Charges @time from .accrued on, in which nothing changes. */
static void accrue_gpu_time(struct sched_gpu *g, uint64_t time)
{
	uint64_t left = time, n = 0, by[3] = { 0 }, sharers;
	enum overrun_state who = OVERRUN_WAITS;
	bool wanted = false;

	for (struct sched_share *share = g->shares; share; share = share->next) {
		if (sched_has_demand(share, g->accrued)) {
			share->pace.demand += time;
			wanted = true;
		}
		n += share->n_busy > 0;
		by[get_overrun_state(share, g->accrued)] += share->n_busy > 0;
	}
	g->busy_ns += n ? time : 0;
	g->period.wanted_ns += wanted ? time : 0;
	if (by[OVERRUN_RUNS])
		who = OVERRUN_RUNS;
	else if (by[OVERRUN_NONE])
		who = OVERRUN_NONE;
	n = sharers = by[who];
	for (struct sched_share *share = g->shares; share; share = share->next) {
		uint64_t mine = 0;

		if (share->n_wants)
			share->waited += time;
		if (n && share->n_busy && get_overrun_state(share, g->accrued) == who) {
			mine = left / n;
			charge_share(share, mine);
			left -= mine;
			n--;
		} else if (share->awaited) {
			advance_share_vtime(share, time / (sharers + 1));
			if (share->first)
				share->waste.ns -= min_u64(share->waste.ns, time);
		}
		update_cap_bucket(share, time, mine);
	}
	sched_update_gpu_vtime(g);
	g->accrued += time;
}

void sched_accrue(struct sched_gpu *g, uint64_t now)
{
	while (g->accrued < now) {
		uint64_t until = now;

		for (const struct sched_share *share = g->shares; share; share = share->next) {
			enum overrun_state overrun = get_overrun_state(share, g->accrued);
			uint64_t end = share->closed_since + get_overrun_ns(share),
				 waits = get_trickle_wait_end(share);

			if (waits > g->accrued)
				until = min_u64(until, waits);

			if (overrun != OVERRUN_NONE && share->closed_since <= g->accrued)
				until = min_u64(until, overrun == OVERRUN_RUNS
							       ? end
							       : end + SCHED_TIME_SLICE_NS);
		}
		accrue_gpu_time(g, until - g->accrued);
	}
}
