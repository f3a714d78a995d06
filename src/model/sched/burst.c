/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bursts: what a share does without a longer rest, such as a token of a language model. Where all bursts of a share take
 * the same time, the scheduler knows when the GPU will be free, and lets the next share in a little earlier (sched.h,
 * "Let in").
 */
#include "model/sched/internal.h"

#define BURST_REST_NS UINT64_C(40000) /* a longer rest ends the burst */
#define BURSTS_FEW    8               /* with fewer, the length is not known */
/* A share whose gate opens submits so much later. */
#define LET_IN_NS   UINT64_C(100000)
#define BLIND_FIRST 4
#define BLIND_MAX   64

static bool is_any_other_busy(const struct sched_share *share)
{
	for (const struct sched_share *other = share->gpu->shares; other; other = other->next) {
		if (other != share && other->n_busy)
			return true;
	}
	return false;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void learn_burst(struct sched_share *share)
{
	struct sched_burst *b = &share->burst;
	uint64_t ns;

	b->blind -= b->blind > 0;
	if (b->from == SCHED_NEVER || share->inactive_since <= b->from)
		return;
	ns = share->inactive_since - b->from;
	if (!b->n)
		b->mean_ns = ns;
	b->off_ns = (7 * b->off_ns + distance(ns, b->mean_ns)) / 8;
	b->mean_ns = (7 * b->mean_ns + ns) / 8;
	b->n += b->n < BURSTS_FEW;
}

uint64_t sched_burst_ns(const struct sched_share *share)
{
	return share->burst.n ? share->burst.mean_ns : SCHED_OVERRUN_NS;
}

void sched_burst_quantum_starts(struct sched_share *share, uint64_t now)
{
	share->burst.let_in = false;
	share->burst.from = is_any_other_busy(share) ? SCHED_NEVER : now + SCHED_SWITCH_NS;
}

void sched_burst_quantum_ends(struct sched_share *share, bool idle)
{
	if (idle && sched_is_idle(share))
		learn_burst(share);
	share->burst.from = SCHED_NEVER;
}

void sched_burst_gpu_free(struct sched_gpu *g, uint64_t since)
{
	struct sched_share *share = g->holder;

	if (share && share->n_busy && share->burst.from == SCHED_NEVER && !g->paused &&
		!is_any_other_busy(share))
		share->burst.from = max_u64(since, g->quantum_start) + SCHED_SWITCH_NS;
}

/* The next share was let in too early: not for the next bursts. */
static void count_wrong_let_in(struct sched_burst *b)
{
	b->blind_for = b->blind_for ? min_u64(2 * b->blind_for, BLIND_MAX) : BLIND_FIRST;
	b->blind = b->blind_for;
	b->let_in = false;
}

void sched_burst_was_cut(struct sched_share *share)
{
	if (share->burst.let_in)
		count_wrong_let_in(&share->burst);
}

void sched_burst_goes_on(struct sched_share *share, uint64_t now)
{
	struct sched_burst *b = &share->burst;
	uint64_t rest = now - min_u64(share->inactive_since, now);

	if (b->let_in && rest <= BURST_REST_NS) {
		count_wrong_let_in(b);
	} else if (b->let_in) {
		b->blind_for = 0;
		b->let_in = false;
	}
	if (share->gpu->holder != share || rest <= BURST_REST_NS)
		return;
	learn_burst(share);
	b->from = now;
}

uint64_t sched_let_in_time(const struct sched_share *holder)
{
	const struct sched_burst *b = &holder->burst;
	uint64_t early = LET_IN_NS + b->off_ns;

	if (b->from == SCHED_NEVER || b->n < BURSTS_FEW || b->blind ||
		b->off_ns * 8 > b->mean_ns || b->mean_ns < 3 * early)
		return SCHED_NEVER;
	return b->from + b->mean_ns - early;
}

void sched_let_in(struct sched_share *holder)
{
	holder->burst.let_in = true;
}
