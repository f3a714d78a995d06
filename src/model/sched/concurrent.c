/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

/*
 * Decides between time sharing and concurrent gates (sched.h, "Concurrent"). Time is cut into periods. A
 * time-shared period measures how much of the GPU's time is used, and the pace of each share. In a concurrent
 * period, checks compute how much of that pace each share loses.
 */

#define PERIOD_NS           UINT64_C(250000000) /* time-shared: some rounds */
#define CONCURRENT_CHECK_NS UINT64_C(50000000)
/* limit of the gain that offsets later losses: programs have phases */
#define CREDIT_NS INT64_C(50000000)
/* a share that rests for no longer wants the GPU all along */
#define LINGER_NS UINT64_C(2000000)
/* in a period: a share that wants less is served soon either way */
#define DEMAND_NS UINT64_C(50000000)
#define DONE_MIN  16 /* in a period: with fewer the pace is not known */
/* between two checks; the process reports the number */
#define DONE_MAX UINT64_C(1000000000)
/* bounds of the delay before the next attempt, which doubles with each loss */
#define CONCURRENT_RETRY_MIN UINT64_C(1000000000)
#define CONCURRENT_RETRY_MAX UINT64_C(64000000000)

bool sched_has_demand(const struct sched_share *share, uint64_t at)
{
	if (!share->n_clients)
		return false;
	return !sched_is_idle(share) ||
	       (share->inactive_since && at < share->inactive_since + LINGER_NS);
}

/*
 * The hardware's time-slicing does not keep what a cap and class latency promise. Beside MPS, the time that time
 * sharing leaves idle cannot be measured.
 */
static bool may_run_concurrently(const struct sched *sched, const struct sched_gpu *g)
{
	for (const struct sched_share *share = g->shares; share; share = share->next) {
		if (share->n_clients &&
			(share->config.cap || share->config.latency || share->config.mps))
			return false;
	}
	return sched->done;
}

/* Whether several shares wanted the GPU a moment ago. */
static bool was_contended(const struct sched_gpu *g, uint64_t now)
{
	return now - g->contended_at < SCHED_IDLE_NS;
}

static bool has_several_shares(const struct sched_gpu *g)
{
	unsigned int n = 0;

	for (const struct sched_share *share = g->shares; share; share = share->next)
		n += share->n_clients > 0;
	return n > 1;
}

/* --- gangs --- */

/* A bit for each GPU that gangs tie to @g, and for @g: the gates of all of them are concurrent, or none. */
static uint64_t find_tied_gpus(const struct sched *sched, const struct sched_gpu *g)
{
	uint64_t tied = UINT64_C(1) << g->index, todo = tied;

	while (todo) {
		const struct sched_gpu *at = &sched->gpus[__builtin_ctzll(todo)];

		todo &= todo - 1;
		for (const struct sched_share *share = at->shares; share; share = share->next) {
			if (!share->n_clients || share->dormant)
				continue;
			for (const struct sched_share *other =
					sched_next_time_shared(share->slice->shares);
				other; other = sched_next_time_shared(other->sibling)) {
				uint64_t bit = UINT64_C(1) << other->gpu->index;

				todo |= bit & ~tied;
				tied |= bit;
			}
		}
	}
	return tied;
}

static bool are_all_concurrent(const struct sched *sched, uint64_t gpus)
{
	for (; gpus; gpus &= gpus - 1) {
		if (!sched->gpus[__builtin_ctzll(gpus)].period.concurrent)
			return false;
	}
	return true;
}

/* Whether concurrent gates pay on each of them that several shares want. */
static bool do_all_pay(const struct sched *sched, uint64_t gpus, uint64_t now)
{
	for (; gpus; gpus &= gpus - 1) {
		const struct sched_gpu *g = &sched->gpus[__builtin_ctzll(gpus)];

		if (!may_run_concurrently(sched, g) ||
			(was_contended(g, now) && !g->period.pays))
			return false;
	}
	return true;
}

static void count_done_submissions(const struct sched *sched, struct sched_gpu *g)
{
	for (struct sched_share *share = g->shares; share; share = share->next) {
		for (struct sched_client *s = share->clients; s; s = s->next) {
			uint64_t now = sched->done(sched->arg, s);

			/* A new client's process may have done some before. */
			if (s->done && now > s->done)
				share->pace.done += min_u64(now - s->done, DONE_MAX);
			s->done = now;
		}
	}
}

static void begin_period(struct sched_gpu *g, bool concurrent, uint64_t now)
{
	g->period.concurrent = concurrent;
	g->period.pays = false;
	g->period.since = now;
	g->period.check_at = now + CONCURRENT_CHECK_NS;
	g->period.busy = g->busy_ns;
	g->period.wanted_ns = 0;
	for (struct sched_share *share = g->shares; share; share = share->next) {
		share->pace.done = share->pace.demand = 0;
		share->pace.charged = share->charged;
	}
}

/* --- time sharing --- */

/*
 * A share may have had more of the GPU than its weight gives it, as others left theirs. It is not entitled to that, so
 * it may lose that: its pace counts as it would be without. @all: what all shares were charged.
 */
static uint64_t compute_entitled_pace(const struct sched_share *share, uint64_t pace_ns,
	uint64_t all, uint64_t weights)
{
	uint64_t had = share->charged - share->pace.charged, right;

	if (!weights)
		return pace_ns;
	right = max_u64(all / weights * share->config.weight, 1);
	return had > right ? pace_ns * (had * 64 / right) / 64 : pace_ns;
}

/*
 * The pace of each share with time sharing: the better one of the last two periods, as a share finds its place
 * in the first one. False: the pace of a share that wants the GPU is not known.
 */
static bool learn_pace(struct sched_gpu *g)
{
	uint64_t all = 0, weights = 0;
	bool known = true;

	for (const struct sched_share *share = g->shares; share; share = share->next) {
		all += share->charged - share->pace.charged;
		weights += share->pace.demand >= DEMAND_NS ? share->config.weight : 0;
	}
	for (struct sched_share *share = g->shares; share; share = share->next) {
		struct sched_pace *m = &share->pace;
		uint64_t before = m->now_ns;

		m->lost = 0;
		m->each_ns = m->now_ns = 0;
		if (m->done < DONE_MIN) {
			known &= m->demand < DEMAND_NS;
			continue;
		}
		m->now_ns = max_u64(m->demand / m->done, 1);
		m->now_ns = compute_entitled_pace(share, m->now_ns, all, weights);
		m->each_ns = min_u64(before, m->now_ns);
		known &= before > 0;
	}
	return known;
}

/* Concurrent gates have no weights. So where weights differ they must win more. */
static uint64_t get_busy_limit(const struct sched_gpu *g)
{
	uint32_t weight = 0;

	for (const struct sched_share *share = g->shares; share; share = share->next) {
		if (!sched_has_demand(share, g->accrued))
			continue;
		if (weight && share->config.weight != weight)
			return SCHED_BUSY_WEIGHTED_PERCENT;
		weight = share->config.weight;
	}
	return SCHED_BUSY_PERCENT;
}

/* Begins on all @gpus, where it pays on each. */
static void begin_concurrent(struct sched *sched, uint64_t gpus, uint64_t now)
{
	if (!do_all_pay(sched, gpus, now))
		return;
	for (; gpus; gpus &= gpus - 1) {
		struct sched_gpu *g = &sched->gpus[__builtin_ctzll(gpus)];

		if (g->holder)
			sched_end_quantum(sched, g->holder, SCHED_END_CONCURRENT, now);
		g->interrupted = NULL;
		begin_period(g, true, now);
		sched_mark_dirty(sched, g);
	}
}

static void check_time_shared(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	uint64_t used = g->busy_ns - g->period.busy, wanted = g->period.wanted_ns;
	bool pays = used * 100 <= wanted * get_busy_limit(g) && wanted >= PERIOD_NS / 2;

	if (now < g->period.since + PERIOD_NS)
		return;
	pays = learn_pace(g) && pays && now >= g->period.retry_at;
	begin_period(g, false, now);
	g->period.pays = pays;
	if (pays)
		begin_concurrent(sched, find_tied_gpus(sched, g), now);
}

/* --- concurrent --- */

/*
 * The loss that the share gets back. For a share without a pace (it is new) it is not known what time sharing
 * would have given it.
 */
static uint64_t compute_lost_time(const struct sched_share *share)
{
	if (!share->pace.each_ns || share->pace.lost < 0)
		return 0;
	return min_u64((uint64_t)share->pace.lost,
		SCHED_CONCURRENT_LOSS_NS + CONCURRENT_CHECK_NS);
}

/*
 * Time sharing resumes with all shares level, except for losses. The loss of a share is a part of the time of
 * all shares, and the share gets that back first.
 */
static void end_concurrent_gpu(struct sched_gpu *g, uint64_t now)
{
	uint64_t max = g->vtime, weights = 0, worst = 0;

	for (const struct sched_share *share = g->shares; share; share = share->next) {
		if (!sched_has_demand(share, now))
			continue;
		max = max_u64(max, share->vtime);
		worst = max_u64(worst, compute_lost_time(share));
		weights += share->config.weight;
	}
	weights = max_u64(weights, 1);
	for (struct sched_share *share = g->shares; share; share = share->next) {
		if (sched_has_demand(share, now))
			share->vtime = max + (worst - compute_lost_time(share)) / weights;
	}
	g->vtime = max;
	begin_period(g, false, now);
}

/* Also on the GPUs that gangs tie to it. */
static void end_concurrent(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	end_concurrent_gpu(g, now);
	for (uint64_t tied = find_tied_gpus(sched, g); tied; tied &= tied - 1) {
		struct sched_gpu *other = &sched->gpus[__builtin_ctzll(tied)];

		if (!other->period.concurrent)
			continue;
		sched_accrue(other, now);
		end_concurrent_gpu(other, now);
		sched_mark_dirty(sched, other);
	}
}

static void measure_losses(struct sched_gpu *g)
{
	for (struct sched_share *share = g->shares; share; share = share->next) {
		struct sched_pace *m = &share->pace;
		uint64_t max = m->demand + 2 * (uint64_t)CREDIT_NS, got = max;

		/* The number that a process reports has no bound. */
		if (!m->each_ns || m->done <= max / m->each_ns)
			got = m->done * m->each_ns;
		m->lost += (int64_t)m->demand - (int64_t)got;
		m->lost = m->lost < -CREDIT_NS ? -CREDIT_NS : m->lost;
		m->demand = m->done = 0;
	}
}

static bool is_any_losing(const struct sched_gpu *g)
{
	for (const struct sched_share *share = g->shares; share; share = share->next) {
		if (share->pace.lost > (int64_t)SCHED_CONCURRENT_LOSS_NS)
			return true;
	}
	return false;
}

/* Whether a share that had quanta beside the others wants none any more. With time sharing the others would
 * get on faster now. */
static bool is_any_inactive(const struct sched_gpu *g, uint64_t now)
{
	for (const struct sched_share *share = g->shares; share; share = share->next) {
		if (share->pace.now_ns && sched_is_idle(share) &&
			now - share->inactive_since >= PERIOD_NS)
			return true;
	}
	return false;
}

static void postpone_concurrent(struct sched_gpu *g, uint64_t now)
{
	g->period.retry_ns = min_u64(max_u64(2 * g->period.retry_ns, CONCURRENT_RETRY_MIN),
		CONCURRENT_RETRY_MAX);
	g->period.retry_at = now + g->period.retry_ns;
}

static void check_concurrent(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	bool all = now - g->period.since >= SCHED_CONCURRENT_MAX_NS, lose;

	measure_losses(g);
	/* Where one share has the GPU, its pace with time sharing is not known, and it loses nothing. */
	lose = was_contended(g, now) && is_any_losing(g);
	if (lose)
		postpone_concurrent(g, now);
	else if (all)
		g->period.retry_ns = 0;
	if (lose || all || is_any_inactive(g, now))
		end_concurrent(sched, g, now);
}

/* --- events --- */

void sched_reset_pace(struct sched_share *share)
{
	share->pace = (struct sched_pace){ 0 };
	share->gpu->period.since = 0;
}

static void evaluate_concurrency(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	g->period.check_at = now + CONCURRENT_CHECK_NS;
	count_done_submissions(sched, g);
	if (g->period.concurrent)
		check_concurrent(sched, g, now);
	else if (was_contended(g, now))
		check_time_shared(sched, g, now);
	else
		begin_period(g, false, now);
}

bool sched_decide_concurrency(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	bool may = may_run_concurrently(sched, g) &&
		   (g->period.concurrent || has_several_shares(g));
	bool known = g->period.since != 0;

	if (g->period.concurrent &&
		(!may || !known || !are_all_concurrent(sched, find_tied_gpus(sched, g))))
		end_concurrent(sched, g, now);
	if (!may) {
		g->period.since = 0;
		return false;
	}
	if (!known) {
		count_done_submissions(sched, g);
		begin_period(g, false, now);
	} else if (now >= g->period.check_at) {
		evaluate_concurrency(sched, g, now);
	}
	/* With time sharing, quanta end often enough. */
	if (g->period.concurrent)
		sched_wake_at(g, g->period.check_at);
	return g->period.concurrent;
}
