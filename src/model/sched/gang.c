/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

bool turns_is_gang(const struct turns_slice *s)
{
	const struct turns_part *p = turns_member(s->parts);

	return p && turns_member(p->sibling);
}

bool turns_slice_is_quiet(const struct turns_slice *s)
{
	for (const struct turns_part *p = turns_member(s->parts); p;
		p = turns_member(p->sibling)) {
		if (!turns_is_quiet(p))
			return false;
	}
	return true;
}

bool turns_slice_wants(const struct turns_slice *s)
{
	for (const struct turns_part *p = turns_member(s->parts); p;
		p = turns_member(p->sibling)) {
		if (p->n_wants)
			return true;
	}
	return false;
}

uint64_t turns_slice_lasts(const struct turns_slice *s)
{
	uint64_t lasts = TURNS_NEVER;

	for (const struct turns_part *p = turns_member(s->parts); p;
		p = turns_member(p->sibling))
		lasts = turns_min(lasts, turns_lasts(p));
	return lasts;
}

/* A total order, so that of all gangs that wait there is one that none of the others holds up. */
static bool before(const struct turns_slice *a, const struct turns_slice *b)
{
	int64_t lead_a = turns_lead(a), lead_b = turns_lead(b);

	return lead_a != lead_b ? lead_a < lead_b : a->served < b->served;
}

/* It is urged, but one of class latency keeps it from going now: nobody stands back for that. */
static bool is_kept_off(const struct turns_slice *s)
{
	if (!s->urged)
		return false;
	for (const struct turns_part *p = turns_member(s->parts); p;
		p = turns_member(p->sibling)) {
		if (p->gpu->first)
			return true;
	}
	return false;
}

/* A gang that should go before it waits for this GPU. */
static bool is_reserved(const struct turns_gpu *g, const struct turns_slice *against)
{
	for (const struct turns_part *p = g->parts; p; p = p->next) {
		if (p->slice != against && turns_is_ready(p) && turns_is_gang(p->slice) &&
			!is_kept_off(p->slice) && before(p->slice, against))
			return true;
	}
	return false;
}

/* Who has the turn there has not come to the end of it: if that is a gang, or was urged to have it. */
static bool is_kept(const struct turns_gpu *g, uint64_t now)
{
	const struct turns_part *p = g->holder;

	return p && (turns_is_gang(p->slice) || p->slice->trying) &&
	       !turns_slice_is_quiet(p->slice) && g->end != TURNS_NEVER && now < g->end;
}

/* A slice that has only this GPU, and has had less, waits for it or has the turn. */
static bool is_for_another(const struct turns_gpu *g, const struct turns_slice *s)
{
	int64_t lead = turns_lead(s), band = turns_band(g);

	for (const struct turns_part *p = g->parts; p; p = p->next) {
		bool has = g->holder == p && !turns_is_quiet(p);

		if (p->slice != s && (has || turns_is_ready(p)) && !turns_is_gang(p->slice) &&
			lead - turns_lead(p->slice) > band)
			return true;
	}
	return false;
}

bool turns_stands_back(const struct turns_slice *s)
{
	for (const struct turns_part *p = turns_member(s->parts); p;
		p = turns_member(p->sibling)) {
		if (is_reserved(p->gpu, s))
			return true;
	}
	return false;
}

bool turns_can_start(const struct turns_part *p, uint64_t now)
{
	if (!turns_is_gang(p->slice))
		return true;
	for (const struct turns_part *q = turns_member(p->slice->parts); q;
		q = turns_member(q->sibling)) {
		if (q->gpu->first || is_kept(q->gpu, now) || is_for_another(q->gpu, p->slice))
			return false;
	}
	return !turns_stands_back(p->slice);
}
