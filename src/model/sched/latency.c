/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

/* Of the other shares with work, the one that is furthest behind. NULL: there are none. */
static struct sched_share *find_least_other(struct sched_gpu *g, const struct sched_share *but)
{
	struct sched_share *least = NULL;

	for (struct sched_share *p = g->shares; p; p = p->next) {
		if (p == but || p->config.mps || sched_is_idle(p))
			continue;
		if (!p->n_busy && !sched_cap_allows_start(p))
			continue; /* waits for its bucket, not for the latency share */
		sched_limit_credit(p);
		if (!least || p->vtime < least->vtime)
			least = p;
	}
	return least;
}

static void update_share_demotion(struct sched_gpu *g, struct sched_share *p, uint64_t now)
{
	const struct sched_share *least = find_least_other(g, p);
	int64_t lead = INT64_MIN;
	bool level;

	sched_limit_credit(p);
	if (least)
		lead = (int64_t)(p->vtime - least->vtime) * (int64_t)p->config.weight;
	/* A share that is idle for a moment, in a loop that launches and waits, does not forgive the lead. */
	level = least ? lead <= 0 : now - g->contended_at >= SCHED_IDLE_NS;
	if (lead >= (int64_t)SCHED_LATENCY_LEAD_NS || !sched_cap_runtime_ns(p))
		p->demoted = true;
	else if (level && sched_cap_allows_start(p) && !p->slice->boosted &&
		 !p->slice->boost_running)
		p->demoted = false;
	/* A share that wants the GPU is busy as soon as its gates are set. */
	if (p->demoted || sched_is_idle(p))
		return;
	if (least)
		sched_wake_at(g,
			now + max_u64((uint64_t)((int64_t)SCHED_LATENCY_LEAD_NS - lead),
				      SCHED_GRACE_MIN_NS));
	if (sched_cap_runtime_ns(p) != SCHED_NEVER)
		sched_wake_at(g, now + sched_cap_runtime_ns(p));
}

void sched_update_demotions(struct sched_gpu *g, uint64_t now)
{
	for (struct sched_share *p = g->shares; p; p = p->next) {
		if (p->config.latency && p->n_clients)
			update_share_demotion(g, p, now);
	}
}

bool sched_is_priority_active(struct sched_gpu *g, uint64_t now)
{
	bool some = false, others = g->holder || sched_is_contended(g);

	for (struct sched_share *p = g->shares; p; p = p->next) {
		uint64_t until = p->idle_since + sched_grace_ns(p);

		p->awaited = false;
		if (!sched_has_priority(p) || !p->n_clients)
			continue;
		p->awaited = sched_is_idle(p) && others && now < until;
		if (p->awaited)
			sched_wake_at(g, until);
		/* A share that wants the GPU had no priority before. Its gates open now. */
		some |= !sched_is_idle(p) || p->awaited;
	}
	return some;
}
