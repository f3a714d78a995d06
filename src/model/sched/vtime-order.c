/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

bool sched_is_ready(const struct sched_share *p)
{
	bool wants = false;

	if (!p->n_clients || p->dormant || !sched_is_time_shared(p) || p->gpu->holder == p)
		return false;
	for (const struct sched_share *q = sched_next_time_shared(p->slice->shares); q;
		q = sched_next_time_shared(q->sibling)) {
		wants |= q->n_wants > 0;
		if (!sched_cap_allows_start(q))
			return false;
	}
	return wants;
}

bool sched_is_contended(const struct sched_gpu *g)
{
	for (const struct sched_share *p = g->shares; p; p = p->next) {
		if (sched_is_ready(p))
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
	for (const struct sched_share *p = sched_next_time_shared(s->shares); p;
		p = sched_next_time_shared(p->sibling)) {
		int64_t lead = (int64_t)(p->vtime - p->gpu->vtime);

		max = lead > max ? lead : max;
	}
	return max;
}

/* Whether the share competes for the GPU. A share that has just lost the quantum counts too: it reports only
 * later that it wants more. */
static bool is_contending_share(const struct sched_share *p)
{
	return p->n_clients && sched_is_time_shared(p) && !sched_is_idle(p) &&
	       sched_cap_allows_start(p);
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

	for (const struct sched_share *p = g->shares; p; p = p->next) {
		bool counts = p == with || is_contending_share(p);

		if (!counts)
			continue;
		max = max_u64(max, p->config.weight);
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

static bool can_have_quantum(const struct sched_share *p, uint64_t now)
{
	return sched_is_ready(p) && sched_can_start(p, now);
}

static int64_t least_lead(const struct sched_gpu *g, uint64_t now)
{
	int64_t min = INT64_MAX;

	for (const struct sched_share *p = g->shares; p; p = p->next) {
		int64_t lead =
			can_have_quantum(p, now) ? sched_vtime_lead(p->slice) : INT64_MAX;

		min = lead < min ? lead : min;
	}
	return min;
}

struct sched_share *sched_pick_next(const struct sched_gpu *g, uint64_t now)
{
	int64_t min = least_lead(g, now), within = sched_vtime_band(g);
	struct sched_share *best = NULL;

	for (struct sched_share *p = g->shares; p; p = p->next) {
		if (can_have_quantum(p, now) && sched_vtime_lead(p->slice) - min <= within &&
			(!best || p->slice->served < best->slice->served))
			best = p;
	}
	return best;
}

struct sched_share *sched_pick_interrupting(const struct sched_gpu *g, uint64_t now)
{
	int64_t min = least_lead(g, now), within = sched_vtime_band(g);

	if (sched_is_gang(g->holder->slice))
		return NULL;
	for (struct sched_share *p = g->shares; p; p = p->next) {
		if (p->yielded && p->vtime < g->holder->vtime && can_have_quantum(p, now) &&
			!sched_is_gang(p->slice) && sched_vtime_lead(p->slice) - min <= within)
			return p;
	}
	return NULL;
}

bool sched_must_hand_over(const struct sched_share *holder, uint64_t now)
{
	int64_t lead = sched_vtime_lead(holder->slice);

	if (sched_is_gang(holder->slice) && sched_yields_to_gang(holder->slice))
		return true;
	for (const struct sched_share *p = sched_next_time_shared(holder->slice->shares); p;
		p = sched_next_time_shared(p->sibling)) {
		int64_t within = sched_vtime_band(p->gpu);

		for (const struct sched_share *q = p->gpu->shares; q; q = q->next) {
			if (can_have_quantum(q, now) &&
				sched_vtime_lead(q->slice) - lead <= within)
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
static uint64_t compute_quantum_length(const struct sched_share *p)
{
	struct quantum_measure m = measure_quantum(p->gpu, p);
	uint64_t reach = 0;

	for (const struct sched_share *q = p->gpu->shares; q; q = q->next) {
		if (q != p && is_contending_share(q) && q->vtime > p->vtime &&
			q->vtime - p->vtime <= m.vtime + m.vtime / 4)
			reach = max_u64(reach, q->vtime - p->vtime);
	}
	if (reach <= m.vtime / 4)
		reach += m.vtime;
	return max_u64(reach * p->config.weight, SCHED_QUANTUM_MIN_NS);
}

uint64_t sched_quantum_max(const struct sched_share *p)
{
	uint64_t quantum = measure_quantum(p->gpu, p).vtime;

	return max_u64((quantum + quantum / 4) * p->config.weight, SCHED_QUANTUM_MIN_NS);
}

uint64_t sched_quantum_length(const struct sched_slice *s)
{
	uint64_t length = sched_slice_cap_runtime_ns(s);

	if (s->boost_running)
		length = min_u64(length, SCHED_BOOST_QUANTUM_NS);
	for (const struct sched_share *p = sched_next_time_shared(s->shares); p;
		p = sched_next_time_shared(p->sibling))
		length = min_u64(length, compute_quantum_length(p));
	return length;
}
