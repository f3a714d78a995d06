/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of class latency: whether one is at work on a GPU, and which are demoted because they are too far
 * ahead or their bucket is empty (sched.h, "Class latency").
 */
#include "model/sched/internal.h"

#define SWITCHES_NS  (2 * SCHED_SWITCH_NS) /* to the share and back */
#define WASTE_MAX_NS UINT64_C(5000000)
/* A share that trickles does so until it may waste this much again. */
#define TRICKLE_END_NS (WASTE_MAX_NS / 2)

/* Of the other shares with work, the one that is furthest behind. NULL: there are none. */
static struct sched_share *find_least_other(struct sched_gpu *g, const struct sched_share *but)
{
	struct sched_share *least = NULL;

	for (struct sched_share *share = g->shares; share; share = share->next) {
		if (share == but || share->config.mps || sched_is_idle(share))
			continue;
		if (!share->n_busy && !sched_cap_allows_start(share))
			continue; /* waits for its bucket, not for the latency share */
		sched_limit_credit(share);
		if (!least || share->vtime < least->vtime)
			least = share;
	}
	return least;
}

static void update_share_demotion(struct sched_gpu *g, struct sched_share *share, uint64_t now)
{
	const struct sched_share *least = find_least_other(g, share);
	int64_t lead = INT64_MIN;
	bool level;

	sched_limit_credit(share);
	if (least)
		lead = (int64_t)(share->vtime - least->vtime) * (int64_t)share->config.weight;
	/* A share that is idle for a moment, in a loop that launches and waits, does not forgive the lead. */
	level = least ? lead <= 0 : now - g->contended_at >= SCHED_IDLE_NS;
	if (lead >= (int64_t)SCHED_LATENCY_LEAD_NS || !sched_cap_runtime_ns(share))
		share->demoted = true;
	else if (level && sched_cap_allows_start(share) && !share->slice->boosted &&
		 !share->slice->boost_running)
		share->demoted = false;
	/* A share that wants the GPU is busy as soon as its gates are set. */
	if (share->demoted || sched_is_idle(share))
		return;
	if (least)
		sched_wake_at(g,
			now + max_u64((uint64_t)((int64_t)SCHED_LATENCY_LEAD_NS - lead),
				      SCHED_GRACE_MIN_NS));
	if (sched_cap_runtime_ns(share) != SCHED_NEVER)
		sched_wake_at(g, now + sched_cap_runtime_ns(share));
}

void sched_update_demotions(struct sched_gpu *g, uint64_t now)
{
	for (struct sched_share *share = g->shares; share; share = share->next) {
		if (share->config.latency && share->n_clients)
			update_share_demotion(g, share, now);
	}
}

/* --- how often it goes first --- */

static uint64_t get_waste_time(const struct sched_share *share, uint64_t ns, uint64_t now)
{
	return sched_budget_time(&share->waste, ns, SCHED_LATENCY_WASTE_PERCENT, now);
}

static void fill_waste(struct sched_share *share, uint64_t now)
{
	sched_budget_fill(&share->waste, SCHED_LATENCY_WASTE_PERCENT, WASTE_MAX_NS, now);
	if (share->waste.ns >= TRICKLE_END_NS)
		share->trickles = false;
	else if (share->trickles)
		sched_wake_at(share->gpu, get_waste_time(share, TRICKLE_END_NS, now));
}

/* Whether the GPU waits for the idle share. */
static bool is_share_awaited(struct sched_share *share, uint64_t now)
{
	uint64_t until = share->idle_since + sched_grace_ns(share, SWITCHES_NS);

	if (!share->first || !sched_is_idle(share))
		return false;
	until = min_u64(until, now + share->waste.ns);
	if (now >= until)
		return false;
	sched_wake_at(share->gpu, until);
	return true;
}

/* Whether the share, which has work, may pause others from now on. */
static bool may_go_first(struct sched_share *share, uint64_t now)
{
	if (share->waste.ns >= SWITCHES_NS) {
		share->waste.ns -= SWITCHES_NS;
		return true;
	}
	share->trickles = true;
	sched_wake_at(share->gpu, get_waste_time(share, SWITCHES_NS, now));
	return false;
}

/* Whether any other share would lose by a pause. */
static bool is_any_other_at_work(const struct sched_gpu *g)
{
	return (g->holder && !sched_slice_is_idle(g->holder->slice)) || sched_is_contended(g);
}

bool sched_is_priority_active(struct sched_gpu *g, uint64_t now)
{
	bool some = false, others = g->holder || sched_is_contended(g);

	for (struct sched_share *share = g->shares; share; share = share->next) {
		share->awaited = false;
		if (!sched_has_priority(share) || !share->n_clients) {
			share->first = false;
			continue;
		}
		fill_waste(share, now);
		share->awaited = others && is_share_awaited(share, now);
		if (sched_is_idle(share))
			share->first = share->awaited;
		else if (!share->first)
			share->first = !is_any_other_at_work(g) || may_go_first(share, now);
		some |= share->first;
	}
	return some;
}
