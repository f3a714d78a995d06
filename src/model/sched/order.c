/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

bool turns_is_ready(const struct turns_part *p)
{
	bool wants = false;

	if (!p->n_seats || p->dormant || !turns_has_turns(p) || p->gpu->holder == p)
		return false;
	for (const struct turns_part *q = turns_member(p->slice->parts); q;
		q = turns_member(q->sibling)) {
		wants |= q->n_wants > 0;
		if (!turns_may_begin(q))
			return false;
	}
	return wants;
}

bool turns_is_contended(const struct turns_gpu *g)
{
	for (const struct turns_part *p = g->parts; p; p = p->next) {
		if (turns_is_ready(p))
			return true;
	}
	return false;
}

#define LEAD_URGED (INT64_MIN / 4)

int64_t turns_lead(const struct turns_slice *s)
{
	int64_t most = INT64_MIN;

	if (s->urged)
		return LEAD_URGED;
	for (const struct turns_part *p = turns_member(s->parts); p;
		p = turns_member(p->sibling)) {
		int64_t lead = (int64_t)(p->v - p->gpu->v);

		most = lead > most ? lead : most;
	}
	return most;
}

/* Shares the GPU with others: also who has lost the turn just now, and says only later that it wants more. */
static bool contends(const struct turns_part *p)
{
	return p->n_seats && turns_has_turns(p) && !turns_is_quiet(p) && turns_may_begin(p);
}

/* How long a turn is here and now, and the same in virtual time for the largest weight. */
struct measure {
	uint64_t turn, quantum;
};

static struct measure measure(const struct turns_gpu *g, const struct turns_part *with)
{
	uint64_t n = 0, most = 1;
	struct measure m;

	for (const struct turns_part *p = g->parts; p; p = p->next) {
		bool counts = p == with || contends(p);

		if (!counts)
			continue;
		most = turns_max(most, p->share.weight);
		n++;
	}
	m.turn = turns_min(TURNS_NS, TURNS_ROUND_NS / turns_max(n, 1));
	m.turn = turns_max(m.turn, TURNS_LEAST_NS);
	m.quantum = m.turn / most;
	return m;
}

int64_t turns_band(const struct turns_gpu *g)
{
	return (int64_t)(measure(g, NULL).quantum / 4);
}

static bool can_go(const struct turns_part *p, uint64_t now)
{
	return turns_is_ready(p) && turns_can_start(p, now);
}

static int64_t least_lead(const struct turns_gpu *g, uint64_t now)
{
	int64_t least = INT64_MAX;

	for (const struct turns_part *p = g->parts; p; p = p->next) {
		int64_t lead = can_go(p, now) ? turns_lead(p->slice) : INT64_MAX;

		least = lead < least ? lead : least;
	}
	return least;
}

struct turns_part *turns_pick(const struct turns_gpu *g, uint64_t now)
{
	int64_t least = least_lead(g, now), within = turns_band(g);
	struct turns_part *best = NULL;

	for (struct turns_part *p = g->parts; p; p = p->next) {
		if (can_go(p, now) && turns_lead(p->slice) - least <= within &&
			(!best || p->slice->served < best->slice->served))
			best = p;
	}
	return best;
}

struct turns_part *turns_hurry(const struct turns_gpu *g, uint64_t now)
{
	int64_t least = least_lead(g, now), within = turns_band(g);

	if (turns_is_gang(g->holder->slice))
		return NULL;
	for (struct turns_part *p = g->parts; p; p = p->next) {
		if (p->yielded && p->v < g->holder->v && can_go(p, now) &&
			!turns_is_gang(p->slice) && turns_lead(p->slice) - least <= within)
			return p;
	}
	return NULL;
}

bool turns_is_outrun(const struct turns_part *holder, uint64_t now)
{
	int64_t lead = turns_lead(holder->slice);

	if (turns_is_gang(holder->slice) && turns_stands_back(holder->slice))
		return true;
	for (const struct turns_part *p = turns_member(holder->slice->parts); p;
		p = turns_member(p->sibling)) {
		int64_t within = turns_band(p->gpu);

		for (const struct turns_part *q = p->gpu->parts; q; q = q->next) {
			if (can_go(q, now) && turns_lead(q->slice) - lead <= within)
				return true;
		}
	}
	return false;
}

/*
 * Until it is level with the one that is furthest ahead of it within reach; if that is too little, and
 * one quantum more. So all come to stand at the same virtual time at the end of their turns, and the
 * turns of equal ones are equal.
 */
static uint64_t length_of(const struct turns_part *p)
{
	struct measure m = measure(p->gpu, p);
	uint64_t reach = 0;

	for (const struct turns_part *q = p->gpu->parts; q; q = q->next) {
		if (q != p && contends(q) && q->v > p->v &&
			q->v - p->v <= m.quantum + m.quantum / 4)
			reach = turns_max(reach, q->v - p->v);
	}
	if (reach <= m.quantum / 4)
		reach += m.quantum;
	return turns_max(reach * p->share.weight, TURNS_LEAST_NS);
}

uint64_t turns_longest(const struct turns_part *p)
{
	uint64_t quantum = measure(p->gpu, p).quantum;

	return turns_max((quantum + quantum / 4) * p->share.weight, TURNS_LEAST_NS);
}

uint64_t turns_length(const struct turns_slice *s)
{
	uint64_t length = turns_slice_lasts(s);

	if (s->trying)
		length = turns_min(length, TURNS_URGED_NS);
	for (const struct turns_part *p = turns_member(s->parts); p;
		p = turns_member(p->sibling))
		length = turns_min(length, length_of(p));
	return length;
}
