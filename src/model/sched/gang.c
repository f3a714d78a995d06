/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

bool sched_is_gang(const struct sched_slice *s)
{
	const struct sched_share *p = sched_next_time_shared(s->shares);

	return p && sched_next_time_shared(p->sibling);
}

bool sched_slice_is_idle(const struct sched_slice *s)
{
	for (const struct sched_share *p = sched_next_time_shared(s->shares); p;
		p = sched_next_time_shared(p->sibling)) {
		if (!sched_is_idle(p))
			return false;
	}
	return true;
}

bool sched_slice_wants(const struct sched_slice *s)
{
	for (const struct sched_share *p = sched_next_time_shared(s->shares); p;
		p = sched_next_time_shared(p->sibling)) {
		if (p->n_wants)
			return true;
	}
	return false;
}

uint64_t sched_slice_cap_runtime_ns(const struct sched_slice *s)
{
	uint64_t lasts = SCHED_NEVER;

	for (const struct sched_share *p = sched_next_time_shared(s->shares); p;
		p = sched_next_time_shared(p->sibling))
		lasts = min_u64(lasts, sched_cap_runtime_ns(p));
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
	for (const struct sched_share *p = sched_next_time_shared(s->shares); p;
		p = sched_next_time_shared(p->sibling)) {
		if (p->gpu->priority_active)
			return true;
	}
	return false;
}

/* Whether a gang that goes before @against waits for this GPU. */
static bool is_reserved(const struct sched_gpu *g, const struct sched_slice *against)
{
	for (const struct sched_share *p = g->shares; p; p = p->next) {
		if (p->slice != against && sched_is_ready(p) && sched_is_gang(p->slice) &&
			!is_kept_off_by_latency(p->slice) && is_gang_before(p->slice, against))
			return true;
	}
	return false;
}

/* Whether the holder is a gang or has a boosted quantum, has work, and its quantum is not over. */
static bool is_quantum_protected(const struct sched_gpu *g, uint64_t now)
{
	const struct sched_share *p = g->holder;

	return p && (sched_is_gang(p->slice) || p->slice->boost_running) &&
	       !sched_slice_is_idle(p->slice) && g->quantum_until != SCHED_NEVER &&
	       now < g->quantum_until;
}

/* Whether a slice without other GPUs that is behind @s has the quantum of this GPU, or waits for it. */
static bool is_owed_to_another(const struct sched_gpu *g, const struct sched_slice *s)
{
	int64_t lead = sched_vtime_lead(s), band = sched_vtime_band(g);

	for (const struct sched_share *p = g->shares; p; p = p->next) {
		bool has = g->holder == p && !sched_is_idle(p);

		if (p->slice != s && (has || sched_is_ready(p)) && !sched_is_gang(p->slice) &&
			lead - sched_vtime_lead(p->slice) > band)
			return true;
	}
	return false;
}

bool sched_yields_to_gang(const struct sched_slice *s)
{
	for (const struct sched_share *p = sched_next_time_shared(s->shares); p;
		p = sched_next_time_shared(p->sibling)) {
		if (is_reserved(p->gpu, s))
			return true;
	}
	return false;
}

bool sched_can_start(const struct sched_share *p, uint64_t now)
{
	if (!sched_is_gang(p->slice))
		return true;
	for (const struct sched_share *q = sched_next_time_shared(p->slice->shares); q;
		q = sched_next_time_shared(q->sibling)) {
		if (q->gpu->priority_active || is_quantum_protected(q->gpu, now) ||
			is_owed_to_another(q->gpu, p->slice))
			return false;
	}
	return !sched_yields_to_gang(p->slice);
}
