/* SPDX-License-Identifier: Apache-2.0 */
/* Gangs: which slice with several GPUs goes first, and which GPU is kept for it (sched.h, "Gangs"). */
#include "model/sched/internal.h"

bool sched_is_gang(const struct sched_slice *s)
{
	const struct sched_share *share = sched_next_time_shared(s->shares);

	return share && sched_next_time_shared(share->sibling);
}

bool sched_slice_is_idle(const struct sched_slice *s)
{
	for (const struct sched_share *share = sched_next_time_shared(s->shares); share;
		share = sched_next_time_shared(share->sibling)) {
		if (!sched_is_idle(share))
			return false;
	}
	return true;
}

bool sched_slice_wants(const struct sched_slice *s)
{
	for (const struct sched_share *share = sched_next_time_shared(s->shares); share;
		share = sched_next_time_shared(share->sibling)) {
		if (share->n_wants)
			return true;
	}
	return false;
}

uint64_t sched_slice_cap_runtime_ns(const struct sched_slice *s)
{
	uint64_t lasts = SCHED_NEVER;

	for (const struct sched_share *share = sched_next_time_shared(s->shares); share;
		share = sched_next_time_shared(share->sibling))
		lasts = min_u64(lasts, sched_cap_runtime_ns(share));
	return lasts;
}

/*
 * Whether @a goes before @b. The order is total: of all gangs that wait, there is one that no other holds up.
 */
static bool is_gang_before(const struct sched_slice *a, const struct sched_slice *b)
{
	int64_t lead_a = sched_vtime_lead(a), lead_b = sched_vtime_lead(b);

	return lead_a != lead_b ? lead_a < lead_b : a->served < b->served;
}

/* Whether the slice is boosted, but a latency share keeps it from its quantum now. No other slice yields to
 * such a slice. */
static bool is_kept_off_by_latency(const struct sched_slice *s)
{
	if (!s->boosted)
		return false;
	for (const struct sched_share *share = sched_next_time_shared(s->shares); share;
		share = sched_next_time_shared(share->sibling)) {
		if (share->gpu->priority_active)
			return true;
	}
	return false;
}

/* Whether a gang that goes before @against waits for this GPU. */
static bool is_reserved(const struct sched_gpu *g, const struct sched_slice *against)
{
	for (const struct sched_share *share = g->shares; share; share = share->next) {
		if (share->slice != against && sched_is_ready(share) &&
			sched_is_gang(share->slice) && !is_kept_off_by_latency(share->slice) &&
			is_gang_before(share->slice, against))
			return true;
	}
	return false;
}

/* Whether the holder is a gang or has a boosted quantum, has work, and its quantum is not over. */
static bool is_quantum_protected(const struct sched_gpu *g, uint64_t now)
{
	const struct sched_share *share = g->holder;

	return share && (sched_is_gang(share->slice) || share->slice->boost_running) &&
	       !sched_slice_is_idle(share->slice) && g->quantum_until != SCHED_NEVER &&
	       now < g->quantum_until;
}

/* Whether a slice without other GPUs that is behind @s has the quantum of this GPU, or waits for it. */
static bool is_owed_to_another(const struct sched_gpu *g, const struct sched_slice *s)
{
	int64_t lead = sched_vtime_lead(s), band = sched_vtime_band(g);

	for (const struct sched_share *share = g->shares; share; share = share->next) {
		bool has = g->holder == share && !sched_is_idle(share);

		if (share->slice != s && (has || sched_is_ready(share)) &&
			!sched_is_gang(share->slice) &&
			lead - sched_vtime_lead(share->slice) > band)
			return true;
	}
	return false;
}

bool sched_yields_to_gang(const struct sched_slice *s)
{
	for (const struct sched_share *share = sched_next_time_shared(s->shares); share;
		share = sched_next_time_shared(share->sibling)) {
		if (is_reserved(share->gpu, s))
			return true;
	}
	return false;
}

bool sched_can_start(const struct sched_share *share, uint64_t now)
{
	if (!sched_is_gang(share->slice))
		return true;
	for (const struct sched_share *other = sched_next_time_shared(share->slice->shares);
		other; other = sched_next_time_shared(other->sibling)) {
		if (other->gpu->priority_active || is_quantum_protected(other->gpu, now) ||
			is_owed_to_another(other->gpu, share->slice))
			return false;
	}
	return !sched_yields_to_gang(share->slice);
}
