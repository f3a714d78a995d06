/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

/* The part that has least of all others that have work. NULL: there are none. */
static struct turns_part *least_of_others(struct turns_gpu *g, const struct turns_part *but)
{
	struct turns_part *least = NULL;

	for (struct turns_part *p = g->parts; p; p = p->next) {
		if (p == but || p->share.mps || turns_is_quiet(p))
			continue;
		if (!p->n_busy && !turns_may_begin(p))
			continue; /* waits for its bucket, not for us */
		turns_lift(p);
		if (!least || p->v < least->v)
			least = p;
	}
	return least;
}

static void judge_one(struct turns_gpu *g, struct turns_part *p, uint64_t now)
{
	const struct turns_part *least = least_of_others(g, p);
	int64_t lead = INT64_MIN;
	bool level;

	turns_lift(p);
	if (least)
		lead = (int64_t)(p->v - least->v) * (int64_t)p->share.weight;
	/* That another one has nothing to do for a moment, in a loop that launches and waits, forgives
	 * nothing. */
	level = least ? lead <= 0 : now - g->contended >= TURNS_QUIET_NS;
	if (lead >= (int64_t)TURNS_LEAD_NS || !turns_lasts(p))
		p->demoted = true;
	else if (level && turns_may_begin(p) && !p->slice->urged && !p->slice->trying)
		p->demoted = false;
	/* One that wants is busy as soon as its gates are set. */
	if (p->demoted || turns_is_quiet(p))
		return;
	if (least)
		turns_wake_at(g, now + turns_max((uint64_t)((int64_t)TURNS_LEAD_NS - lead),
					       TURNS_GRACE_MIN));
	if (turns_lasts(p) != TURNS_NEVER)
		turns_wake_at(g, now + turns_lasts(p));
}

void turns_judge(struct turns_gpu *g, uint64_t now)
{
	for (struct turns_part *p = g->parts; p; p = p->next) {
		if (p->share.latency && p->n_seats)
			judge_one(g, p, now);
	}
}

bool turns_first_at_work(struct turns_gpu *g, uint64_t now)
{
	bool some = false, others = g->holder || turns_is_contended(g);

	for (struct turns_part *p = g->parts; p; p = p->next) {
		uint64_t until = p->idle_since + turns_grace(p);

		p->awaited = false;
		if (!turns_is_first(p) || !p->n_seats)
			continue;
		p->awaited = turns_is_quiet(p) && others && now < until;
		if (p->awaited)
			turns_wake_at(g, until);
		/* One that wants, as it was not first before, has its gates opened now. */
		some |= !turns_is_quiet(p) || p->awaited;
	}
	return some;
}
