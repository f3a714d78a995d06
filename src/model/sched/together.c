/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

/*
 * Whether there are turns at all (sched.h, "Together"). Time is cut into stretches. Apart, each measures how
 * much of the GPU's time is used and how fast each part gets on; together, looks tell how much of that each
 * part loses.
 */

#define STRETCH_NS UINT64_C(500000000) /* apart: many rounds */
#define LOOK_NS    UINT64_C(50000000)
#define CREDIT_NS  INT64_C(50000000) /* of what is lost later: programs have phases */
#define LINGER_NS  UINT64_C(2000000) /* who rests for no longer wants the GPU all along */
#define DEMAND_NS \
	UINT64_C(50000000) /* in a stretch: who wants less is served soon either way */
#define DONE_MIN  16       /* in a stretch: with fewer it is not known how fast it gets on */
#define DONE_MOST UINT64_C(1000000000) /* between two looks; it is what a process says */
#define AGAIN_MIN UINT64_C(1000000000) /* until it is tried again, doubled up to */
#define AGAIN_MAX UINT64_C(64000000000)

bool turns_has_demand(const struct turns_part *p, uint64_t at)
{
	if (!p->n_seats)
		return false;
	return !turns_is_quiet(p) || (p->rests_since && at < p->rests_since + LINGER_NS);
}

/* A cap, class latency and gangs are promised what the hardware's rotation does not keep. And beside MPS it is
 * not to be known what turns leave idle. */
static bool may_be(const struct turns *t, const struct turns_gpu *g)
{
	unsigned int n = 0;

	for (const struct turns_part *p = g->parts; p; p = p->next) {
		if (!p->n_seats)
			continue;
		if (p->share.cap || p->share.latency || p->share.mps ||
			(!p->dormant && turns_is_gang(p->slice)))
			return false;
		n++;
	}
	return t->done && n > 1;
}

static void count(const struct turns *t, struct turns_gpu *g)
{
	for (struct turns_part *p = g->parts; p; p = p->next) {
		for (struct turns_seat *s = p->seats; s; s = s->next) {
			uint64_t now = t->done(t->arg, s);

			/* One that has just come may have done some before. */
			if (s->done && now > s->done)
				p->pace.done += turns_min(now - s->done, DONE_MOST);
			s->done = now;
		}
	}
}

static void begin_stretch(struct turns_gpu *g, bool together, uint64_t now)
{
	g->stretch.together = together;
	g->stretch.since = now;
	g->stretch.look_at = now + LOOK_NS;
	g->stretch.busy = g->busy;
	g->stretch.wanted = 0;
	for (struct turns_part *p = g->parts; p; p = p->next)
		p->pace.done = p->pace.demand = 0;
}

/* ---- apart ------------------------------------------------------------------------------------- */

/*
 * How fast each part gets on with turns: as in the better one of the last two stretches, as in the first one it
 * finds its place. False: of one that wants the GPU that cannot be told.
 */
static bool learn_pace(struct turns_gpu *g)
{
	bool known = true;

	for (struct turns_part *p = g->parts; p; p = p->next) {
		struct turns_pace *m = &p->pace;
		uint64_t before = m->now_ns;

		m->lost = 0;
		m->each_ns = m->now_ns = 0;
		if (m->done < DONE_MIN) {
			known &= m->demand < DEMAND_NS;
			continue;
		}
		m->now_ns = turns_max(m->demand / m->done, 1);
		m->each_ns = turns_min(before, m->now_ns);
		known &= before > 0;
	}
	return known;
}

static void look_apart(struct turns *t, struct turns_gpu *g, uint64_t now)
{
	uint64_t used = g->busy - g->stretch.busy, wanted = g->stretch.wanted;
	bool pays = used * 100 <= wanted * TURNS_USED && wanted >= STRETCH_NS / 2;

	if (now < g->stretch.since + STRETCH_NS)
		return;
	pays = learn_pace(g) && pays && now >= g->stretch.again_at;
	if (pays && g->holder)
		turns_end(t, g->holder, /* interrupted= */ true, now);
	if (pays)
		g->interrupted = NULL;
	begin_stretch(g, pays, now);
}

/* ---- together ---------------------------------------------------------------------------------- */

/* That it has back. Of one that has come since it is not known what turns would have given it. */
static uint64_t owed(const struct turns_part *p)
{
	if (!p->pace.each_ns || p->pace.lost < 0)
		return 0;
	return turns_min((uint64_t)p->pace.lost, TURNS_LOST_NS + LOOK_NS);
}

/*
 * Turns go on from where all are level, but for what one has lost, which is a part of the time of all: that it
 * has back first.
 */
static void part_ways(struct turns_gpu *g, uint64_t now)
{
	uint64_t most = g->v, weights = 0, worst = 0;

	for (const struct turns_part *p = g->parts; p; p = p->next) {
		if (!turns_has_demand(p, now))
			continue;
		most = turns_max(most, p->v);
		worst = turns_max(worst, owed(p));
		weights += p->share.weight;
	}
	for (struct turns_part *p = g->parts; p; p = p->next) {
		if (turns_has_demand(p, now))
			p->v = most + (worst - owed(p)) / weights;
	}
	g->v = most;
	begin_stretch(g, false, now);
}

static void see_losses(struct turns_gpu *g)
{
	for (struct turns_part *p = g->parts; p; p = p->next) {
		struct turns_pace *m = &p->pace;
		uint64_t most = m->demand + 2 * (uint64_t)CREDIT_NS, got = most;

		/* What a process says has no end. */
		if (!m->each_ns || m->done <= most / m->each_ns)
			got = m->done * m->each_ns;
		m->lost += (int64_t)m->demand - (int64_t)got;
		m->lost = m->lost < -CREDIT_NS ? -CREDIT_NS : m->lost;
		m->demand = m->done = 0;
	}
}

static bool some_lose(const struct turns_gpu *g)
{
	for (const struct turns_part *p = g->parts; p; p = p->next) {
		if (p->pace.lost > (int64_t)TURNS_LOST_NS)
			return true;
	}
	return false;
}

/* One beside which the others had turns wants none any more: with turns they would get on faster now. */
static bool some_rest(const struct turns_gpu *g, uint64_t now)
{
	for (const struct turns_part *p = g->parts; p; p = p->next) {
		if (p->pace.now_ns && turns_is_quiet(p) && now - p->rests_since >= STRETCH_NS)
			return true;
	}
	return false;
}

static void put_off(struct turns_gpu *g, uint64_t now)
{
	g->stretch.again_ns =
		turns_min(turns_max(2 * g->stretch.again_ns, AGAIN_MIN), AGAIN_MAX);
	g->stretch.again_at = now + g->stretch.again_ns;
}

static void look_together(struct turns_gpu *g, uint64_t now)
{
	bool all = now - g->stretch.since >= TURNS_TOGETHER_NS, lose;

	see_losses(g);
	lose = some_lose(g);
	if (lose)
		put_off(g, now);
	else if (all)
		g->stretch.again_ns = 0;
	if (lose || all || some_rest(g, now))
		part_ways(g, now);
}

/* ---- what happens ------------------------------------------------------------------------------ */

void turns_forget_pace(struct turns_part *p)
{
	p->pace = (struct turns_pace){ 0 };
	p->gpu->stretch.since = 0;
}

static void look(struct turns *t, struct turns_gpu *g, uint64_t now)
{
	g->stretch.look_at = now + LOOK_NS;
	count(t, g);
	if (g->stretch.together)
		look_together(g, now);
	else if (now - g->contended < TURNS_QUIET_NS)
		look_apart(t, g, now);
	else
		begin_stretch(g, false, now);
}

bool turns_go_together(struct turns *t, struct turns_gpu *g, uint64_t now)
{
	bool may = may_be(t, g), known = g->stretch.since != 0;

	if (g->stretch.together && (!may || !known))
		part_ways(g, now);
	if (!may) {
		g->stretch.since = 0;
		return false;
	}
	if (!known) {
		count(t, g);
		begin_stretch(g, false, now);
	} else if (now >= g->stretch.look_at) {
		look(t, g, now);
	}
	/* Apart, turns end often enough. */
	if (g->stretch.together)
		turns_wake_at(g, g->stretch.look_at);
	return g->stretch.together;
}
