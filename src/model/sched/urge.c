/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

#define PATIENCE_FIRST UINT64_C(100000000)
#define PATIENCE_LEAST UINT64_C(5000000)
#define PATIENCE_MOST  TURNS_STUCK_NS

static uint64_t done_of(const struct turns *t, const struct turns_seat *seat)
{
	return t->done ? t->done(t->arg, seat) : 0;
}

/* Such turns alone are within its cap. */
static uint64_t patience_of(const struct turns_slice *s)
{
	uint64_t patience = s->patience ? s->patience : PATIENCE_FIRST;

	for (const struct turns_part *p = turns_member(s->parts); p;
		p = turns_member(p->sibling)) {
		if (p->share.cap)
			patience = turns_max(patience,
				TURNS_URGED_NS * SLICE_CAP_ALL / p->share.cap);
	}
	return patience;
}

void turns_hold(const struct turns *t, struct turns_part *p, uint64_t now)
{
	p->closed = now;
	for (struct turns_seat *s = p->seats; s; s = s->next) {
		uint64_t done = done_of(t, s);

		if (!s->busy || done != s->held)
			s->held_at = now;
		s->held = done;
	}
	turns_wake_at(p->gpu, now + patience_of(p->slice));
}

/* Since when nothing of what a process has in flight behind its closed gate has ended. TURNS_NEVER: there is none. */
static uint64_t hangs_since(const struct turns *t, struct turns_part *p, uint64_t now)
{
	uint64_t since = TURNS_NEVER;

	if (p->closed == TURNS_NEVER)
		return TURNS_NEVER;
	for (struct turns_seat *s = p->seats; s; s = s->next) {
		uint64_t done = s->busy ? done_of(t, s) : s->held;

		if (done != s->held)
			s->held_at = now;
		s->held = done;
		if (s->busy)
			since = turns_min(since, s->held_at);
	}
	return since;
}

/* The same of a slice, while it has something to submit. */
static uint64_t waits_since(const struct turns *t, const struct turns_slice *s, uint64_t now)
{
	uint64_t since = TURNS_NEVER;

	if (!turns_slice_wants(s))
		return TURNS_NEVER;
	for (struct turns_part *p = turns_member(s->parts); p; p = turns_member(p->sibling))
		since = turns_min(since, hangs_since(t, p, now));
	return since;
}

static void urge(struct turns *t, struct turns_slice *s, bool urged, uint64_t now)
{
	s->urged = urged;
	s->urged_at = now;
	for (struct turns_part *p = s->parts; p; p = p->sibling)
		turns_touch(t, p->gpu);
}

static bool is_next(const struct turns_gpu *g, const struct turns_slice *but)
{
	for (const struct turns_part *p = g->parts; p; p = p->next) {
		if (p->slice != but && (p->slice->urged || p->slice->trying))
			return true;
	}
	return false;
}

/* One at a time on each GPU, and the others have their turns in between. TURNS_NEVER: there is one. */
static uint64_t free_from(const struct turns_slice *s)
{
	uint64_t from = 0;

	for (const struct turns_part *p = turns_member(s->parts); p;
		p = turns_member(p->sibling)) {
		if (is_next(p->gpu, s))
			return TURNS_NEVER;
		from = turns_max(from, p->gpu->tried_at + TURNS_NS);
	}
	return from;
}

static bool holds_any(const struct turns_slice *s)
{
	for (const struct turns_part *p = s->parts; p; p = p->sibling) {
		if (p->gpu->holder == p)
			return true;
	}
	return false;
}

/* When it may be urged; TURNS_NEVER: not at all as things are. One that need not be any more is not. */
static uint64_t due_at(struct turns *t, struct turns_slice *s, uint64_t now)
{
	uint64_t since, from;

	if (s->trying || holds_any(s))
		return TURNS_NEVER;
	since = waits_since(t, s, now);
	if (since == TURNS_NEVER && s->urged)
		urge(t, s, false, now);
	if (since == TURNS_NEVER || s->urged)
		return TURNS_NEVER;
	from = free_from(s);
	return from == TURNS_NEVER
		       ? TURNS_NEVER
		       : turns_max(from, turns_max(since, s->urged_at) + patience_of(s));
}

void turns_urge(struct turns *t, struct turns_gpu *g, uint64_t now)
{
	struct turns_slice *first = NULL;

	for (struct turns_part *p = g->parts; p; p = p->next) {
		uint64_t due = due_at(t, p->slice, now);

		if (due > now) {
			turns_wake_at(g, due);
		} else if (!first || p->slice->urged_at < first->urged_at) {
			first = p->slice;
		}
	}
	if (first)
		urge(t, first, true, now);
}

void turns_try(struct turns_slice *s, uint64_t now)
{
	if (!s->urged)
		return;
	s->urged = false;
	s->trying = true;
	for (struct turns_part *p = turns_member(s->parts); p; p = turns_member(p->sibling)) {
		turns_accrue(p->gpu, now);
		turns_lend(p, true);
		for (struct turns_seat *seat = p->seats; seat; seat = seat->next)
			seat->tried = p->closed != TURNS_NEVER && seat->busy;
	}
}

void turns_tried(struct turns *t, struct turns_slice *s, uint64_t now)
{
	uint64_t patience = s->patience ? s->patience : PATIENCE_FIRST;
	bool helped = false;

	if (!s->trying)
		return;
	s->trying = false;
	s->urged_at = now;
	for (struct turns_part *p = s->parts; p; p = p->sibling) {
		turns_accrue(p->gpu, now);
		turns_lend(p, false);
		p->gpu->tried_at = now;
		for (struct turns_seat *seat = p->seats; seat; seat = seat->next) {
			helped |=
				seat->tried && (!seat->busy || done_of(t, seat) != seat->held);
			seat->tried = false;
		}
	}
	s->patience = helped ? turns_max(patience / 2, PATIENCE_LEAST)
			     : turns_min(2 * patience, PATIENCE_MOST);
}
