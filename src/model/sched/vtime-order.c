/* SPDX-License-Identifier: Apache-2.0 */
/* Which share is next, and how long its quantum is (sched.h, "Lag"). */
#include "model/sched/internal.h"

bool sched_is_ready(const struct sched_share *share)
{
	bool wants = false;

	if (!share->n_clients || share->dormant || !sched_is_time_shared(share) ||
		share->gpu->holder == share)
		return false;
	for (const struct sched_share *other = sched_next_time_shared(share->slice->shares);
		other; other = sched_next_time_shared(other->sibling)) {
		wants |= other->n_wants > 0;
		if (!sched_cap_allows_start(other))
			return false;
	}
	return wants;
}

bool sched_is_contended(const struct sched_gpu *g)
{
	for (const struct sched_share *share = g->shares; share; share = share->next) {
		if (sched_is_ready(share))
			return true;
	}
	return false;
}

#define LEAD_BOOSTED (INT64_MIN / 4)

int64_t sched_vtime_lead(const struct sched_slice *s)
{
	int64_t max = INT64_MIN;

	if (s->boosted)
		return LEAD_BOOSTED;
	for (const struct sched_share *share = sched_next_time_shared(s->shares); share;
		share = sched_next_time_shared(share->sibling)) {
		int64_t lead = (int64_t)(share->vtime - share->gpu->vtime);

		max = lead > max ? lead : max;
	}
	return max;
}

/* Whether the share competes for the GPU. A share that has just lost the quantum counts too: it reports only
 * later that it wants more. */
static bool is_contending_share(const struct sched_share *share)
{
	return share->n_clients && sched_is_time_shared(share) && !sched_is_idle(share) &&
	       sched_cap_allows_start(share);
}

/* The length of a quantum on a GPU now, in ns, and in virtual time for the largest weight. */
struct quantum_measure {
	uint64_t ns, vtime;
};

static struct quantum_measure measure_quantum(const struct sched_gpu *g,
	const struct sched_share *with)
{
	uint64_t n = 0, max = 1;
	struct quantum_measure m;

	for (const struct sched_share *share = g->shares; share; share = share->next) {
		bool counts = share == with || is_contending_share(share);

		if (!counts)
			continue;
		max = max_u64(max, share->config.weight);
		n++;
	}
	m.ns = min_u64(SCHED_QUANTUM_NS, SCHED_ROUND_NS / max_u64(n, 1));
	m.ns = max_u64(m.ns, SCHED_QUANTUM_MIN_NS);
	m.vtime = m.ns / max;
	return m;
}

int64_t sched_vtime_band(const struct sched_gpu *g)
{
	return (int64_t)(measure_quantum(g, NULL).vtime / 4);
}

static bool can_have_quantum(const struct sched_share *share, uint64_t now)
{
	return sched_is_ready(share) && sched_can_start(share, now);
}

static int64_t least_lead(const struct sched_gpu *g, uint64_t now)
{
	int64_t min = INT64_MAX;

	for (const struct sched_share *share = g->shares; share; share = share->next) {
		int64_t lead = can_have_quantum(share, now) ? sched_vtime_lead(share->slice)
							    : INT64_MAX;

		min = lead < min ? lead : min;
	}
	return min;
}

struct sched_share *sched_pick_next(const struct sched_gpu *g, uint64_t now)
{
	int64_t min = least_lead(g, now), within = sched_vtime_band(g);
	struct sched_share *best = NULL;

	for (struct sched_share *share = g->shares; share; share = share->next) {
		if (can_have_quantum(share, now) &&
			sched_vtime_lead(share->slice) - min <= within &&
			(!best || share->slice->served < best->slice->served))
			best = share;
	}
	return best;
}

struct sched_share *sched_pick_interrupting(const struct sched_share *holder, uint64_t now)
{
	const struct sched_gpu *g = holder->gpu;
	int64_t min = least_lead(g, now), within = sched_vtime_band(g);

	if (sched_is_gang(holder->slice))
		return NULL;
	for (struct sched_share *share = g->shares; share; share = share->next) {
		if (share->yielded && share->vtime < holder->vtime &&
			can_have_quantum(share, now) && !sched_is_gang(share->slice) &&
			sched_vtime_lead(share->slice) - min <= within)
			return share;
	}
	return NULL;
}

bool sched_must_hand_over(const struct sched_share *holder, uint64_t now)
{
	int64_t lead = sched_vtime_lead(holder->slice);

	if (sched_is_gang(holder->slice) && sched_yields_to_gang(holder->slice))
		return true;
	for (const struct sched_share *share = sched_next_time_shared(holder->slice->shares);
		share; share = sched_next_time_shared(share->sibling)) {
		int64_t within = sched_vtime_band(share->gpu);

		for (const struct sched_share *other = share->gpu->shares; other;
			other = other->next) {
			if (can_have_quantum(other, now) &&
				sched_vtime_lead(other->slice) - lead <= within)
				return true;
		}
	}
	return false;
}

/*
 * A quantum lasts until the share is level with the share that is furthest ahead of it within reach. If that is
 * too little, it lasts one quantum more. So all shares end their quanta at the same virtual time, and shares of
 * equal weight have equal quanta.
 */
static uint64_t compute_quantum_length(const struct sched_share *share)
{
	struct quantum_measure m = measure_quantum(share->gpu, share);
	uint64_t reach = 0;

	for (const struct sched_share *other = share->gpu->shares; other; other = other->next) {
		if (other != share && is_contending_share(other) &&
			other->vtime > share->vtime &&
			other->vtime - share->vtime <= m.vtime + m.vtime / 4)
			reach = max_u64(reach, other->vtime - share->vtime);
	}
	if (reach <= m.vtime / 4)
		reach += m.vtime;
	return max_u64(reach * share->config.weight, SCHED_QUANTUM_MIN_NS);
}

uint64_t sched_quantum_max(const struct sched_share *share)
{
	uint64_t quantum = measure_quantum(share->gpu, share).vtime;

	return max_u64((quantum + quantum / 4) * share->config.weight, SCHED_QUANTUM_MIN_NS);
}

uint64_t sched_quantum_length(const struct sched_slice *s)
{
	uint64_t length = sched_slice_cap_runtime_ns(s);

	if (s->boost_running)
		length = min_u64(length, SCHED_BOOST_QUANTUM_NS);
	for (const struct sched_share *share = sched_next_time_shared(s->shares); share;
		share = sched_next_time_shared(share->sibling))
		length = min_u64(length, compute_quantum_length(share));
	return length;
}
