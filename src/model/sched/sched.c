/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

#include <stdlib.h>

/*
 * Decides about all GPUs that something has happened to. A decision may start the turn of a gang, which
 * makes its other GPUs dirty. That comes to an end: a turn of a gang that begins now is not ended by
 * another turn before its own end, which is later; it ends now only where one of class latency is at
 * work, and then it cannot begin before that has changed. So each gang begins and ends at most once for
 * each GPU of it, and what else becomes dirty is one GPU's own. The limit is for what this overlooks.
 */
#define DECISIONS_MAX (64 * TURNS_GPUS_MAX)

static void settle(struct turns *t, uint64_t now)
{
	uint64_t changed = t->dirty;

	for (unsigned int n = 0; t->dirty && n < DECISIONS_MAX; n++) {
		struct turns_gpu *g = &t->gpus[__builtin_ctzll(t->dirty)];

		t->dirty &= t->dirty - 1;
		turns_accrue(g, now);
		turns_decide(t, g, now);
		changed |= t->dirty;
	}
	for (; changed; changed &= changed - 1)
		turns_set_gates(t, &t->gpus[__builtin_ctzll(changed)], now);
}

static void touch_slice(struct turns *t, const struct turns_slice *s)
{
	for (const struct turns_part *p = s->parts; p; p = p->sibling)
		turns_touch(t, p->gpu);
}

static void come_back(struct turns *t, struct turns_part *p, uint64_t now)
{
	turns_come_back(p, now);
	if (!p->dormant)
		return;
	p->dormant = false;
	turns_regroup(t, p->slice, now);
}

/*
 * It has been idle since @since, and kept the others from the GPU until now, when it says so. That is charged to
 * nobody, but counts against it in virtual time, as where it is waited for; else a turn could be held for nothing.
 */
static void hold_against(struct turns_part *p, uint64_t since, uint64_t now)
{
	if (p->gpu->holder != p && !turns_is_first(p))
		return;
	turns_accrue(p->gpu, turns_min(now, since + TURNS_GRACE_MIN));
	p->awaited = true;
	turns_accrue(p->gpu, now);
	p->awaited = false;
}

/* ---- what happens ------------------------------------------------------------------------------ */

void turns_state(struct turns *t, struct turns_seat *seat, bool busy, bool wants,
	uint64_t idle_ns, uint64_t now)
{
	struct turns_part *p = seat->part;
	uint64_t since = busy ? now : now - turns_min(idle_ns, now);
	bool was_quiet = turns_is_quiet(p);

	if (wants && seat->gate != TURNS_CLOSED) {
		wants = false;
		busy = true;
		since = now;
	}
	if (busy == seat->busy && wants == seat->wants)
		return;
	turns_accrue(p->gpu, since);
	if (!p->n_busy)
		p->worked = now;
	p->n_busy = p->n_busy - seat->busy + busy;
	p->n_wants = p->n_wants - seat->wants + wants;
	seat->busy = busy;
	seat->wants = wants;
	if (!p->n_busy) {
		turns_learn_tail(p, since);
		p->closed = TURNS_NEVER;
		hold_against(p, since, now);
	}
	if (was_quiet && !turns_is_quiet(p))
		come_back(t, p, now);
	else if (!was_quiet && turns_is_quiet(p))
		p->idle_since = p->rests_since = since;
	touch_slice(t, p->slice);
	settle(t, now);
}

void turns_time(struct turns *t, uint64_t now)
{
	for (unsigned int i = 0; i < TURNS_GPUS_MAX; i++) {
		if (t->gpus[i].wake <= now)
			turns_touch(t, &t->gpus[i]);
	}
	settle(t, now);
}

uint64_t turns_next(const struct turns *t)
{
	uint64_t when = TURNS_NEVER;

	for (unsigned int i = 0; i < TURNS_GPUS_MAX; i++)
		when = turns_min(when, t->gpus[i].wake);
	return when;
}

void turns_settle(struct turns *t, uint64_t now)
{
	for (unsigned int i = 0; i < TURNS_GPUS_MAX; i++)
		turns_accrue(&t->gpus[i], now);
}

/* ---- who there is ------------------------------------------------------------------------------ */

struct turns *turns_new(void (*gate)(void *arg, struct turns_seat *seat),
	uint64_t (*done)(void *arg, const struct turns_seat *seat), void *arg)
{
	struct turns *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->gate = gate;
	t->done = done;
	t->arg = arg;
	for (unsigned int i = 0; i < TURNS_GPUS_MAX; i++) {
		t->gpus[i].index = i;
		t->gpus[i].wake = TURNS_NEVER;
	}
	return t;
}

static void free_seats(struct turns_part *p)
{
	struct turns_seat *next;

	for (struct turns_seat *seat = p->seats; seat; seat = next) {
		next = seat->next;
		free(seat);
	}
}

struct turns *turns_free(struct turns *t)
{
	while (t && t->slices) {
		for (struct turns_part *p = t->slices->parts; p; p = p->sibling)
			free_seats(p);
		turns_slice_drop(t, t->slices);
	}
	free(t);
	return NULL;
}

struct turns_slice *turns_slice_new(struct turns *t, void *user)
{
	struct turns_slice *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->user = user;
	s->next = t->slices;
	t->slices = s;
	return s;
}

static void unlink_part(struct turns_part *p)
{
	struct turns_part **at = &p->gpu->parts;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (p->gpu->holder == p)
		p->gpu->holder = NULL;
	if (p->gpu->interrupted == p)
		p->gpu->interrupted = NULL;
}

void turns_slice_drop(struct turns *t, struct turns_slice *s)
{
	struct turns_slice **at = &t->slices;

	while (s->parts) {
		struct turns_part *p = s->parts;

		s->parts = p->sibling;
		unlink_part(p);
		free(p);
	}
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	free(s);
}

static struct turns_part *find_part(const struct turns_slice *s, unsigned int gpu)
{
	struct turns_part *p = s->parts;

	while (p && p->gpu->index != gpu)
		p = p->sibling;
	return p;
}

/* A part stays as long as its slice: what was charged is not forgotten, and not what is owed. */
static struct turns_part *find_or_make_part(struct turns *t, struct turns_slice *s,
	unsigned int gpu, uint64_t now)
{
	struct turns_part *p = find_part(s, gpu);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->slice = s;
	p->gpu = &t->gpus[gpu];
	p->share = (struct turns_share){ .weight = 1 };
	p->v = p->gpu->v;
	p->dormant = true;
	p->idle_since = now;
	p->closed = p->told = TURNS_NEVER;
	p->tail = TURNS_SLICE_NS;
	p->sibling = s->parts;
	s->parts = p;
	p->next = p->gpu->parts;
	p->gpu->parts = p;
	return p;
}

int turns_slice_share(struct turns *t, struct turns_slice *s, unsigned int gpu,
	const struct turns_share *share, uint64_t now)
{
	struct turns_part *p = find_or_make_part(t, s, gpu, now);
	bool had;

	if (!p)
		return -1;
	turns_accrue(p->gpu, now);
	had = turns_has_turns(p);
	turns_set_share(p, share);
	turns_forget_pace(p);
	if (turns_has_turns(p) != had)
		turns_regroup(t, s, now);
	touch_slice(t, s);
	settle(t, now);
	return 0;
}

struct turns_seat *turns_seat_new(struct turns *t, struct turns_slice *s, unsigned int gpu,
	void *user, uint64_t now)
{
	struct turns_seat *seat = calloc(1, sizeof(*seat));
	struct turns_part *p;

	if (!seat)
		return NULL;
	p = find_or_make_part(t, s, gpu, now);
	if (!p) {
		free(seat);
		return NULL;
	}
	turns_accrue(p->gpu, now);
	seat->part = p;
	seat->user = user;
	seat->held_at = now;
	seat->next = p->seats;
	p->seats = seat;
	if (p->n_seats++ == 0) {
		turns_forget_pace(p);
		turns_regroup(t, s, now);
	}
	touch_slice(t, s);
	settle(t, now);
	return seat;
}

void turns_seat_drop(struct turns *t, struct turns_seat *seat, uint64_t now)
{
	struct turns_part *p = seat->part;
	struct turns_seat **at = &p->seats;

	turns_accrue(p->gpu, now);
	if (!turns_is_quiet(p))
		p->idle_since = p->rests_since = now;
	p->n_busy -= seat->busy;
	p->n_wants -= seat->wants;
	if (!p->n_busy)
		p->closed = TURNS_NEVER;
	while (*at != seat)
		at = &(*at)->next;
	*at = seat->next;
	free(seat);
	if (--p->n_seats == 0) {
		turns_forget_pace(p);
		turns_regroup(t, p->slice, now);
	}
	touch_slice(t, p->slice);
	settle(t, now);
}

/* ---- what is told ------------------------------------------------------------------------------ */

void turns_account(const struct turns *t, const struct turns_slice *s, unsigned int gpu,
	uint64_t now, struct turns_account *ret)
{
	const struct turns_part *p = find_part(s, gpu);

	*ret = (struct turns_account){ 0 };
	if (!p)
		return;
	ret->charged_ns = p->charged;
	ret->turns = p->turns;
	ret->revoked = p->revoked;
	ret->waited_ns = p->waited;
	ret->turn = t->gpus[gpu].holder == p && !t->gpus[gpu].paused;
	ret->demoted = p->demoted;
	ret->stuck_ns = p->closed < now ? now - p->closed : 0;
}

bool turns_are_together(const struct turns *t, unsigned int gpu)
{
	return t->gpus[gpu].stretch.together;
}

uint64_t turns_busy_ns(const struct turns *t, unsigned int gpu)
{
	return t->gpus[gpu].busy;
}
