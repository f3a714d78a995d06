/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of the scheduler (sched.h) among each other.
 *
 *	sched.c    what there is and what happens; decides until all is settled
 *	turn.c     one GPU: the turn begins, goes on, ends
 *	order.c    who is next, and for how long
 *	gang.c     slices on several GPUs
 *	latency.c  parts of class latency
 *	together.c parts that go together, where turns would leave the GPU idle
 *	charge.c   charges, virtual time, buckets
 *	urge.c     who goes next because nothing of it ends without that
 *	gates.c    what all that means for the gates
 *
 * An event brings the charges of its GPU up to date, changes what is so, and marks the GPUs that it
 * concerns as dirty; then each of them is decided about, which may make others dirty, and at last their
 * gates are set.
 */
#include "model/sched/sched.h"

#include <stddef.h>

#define TURNS_NEVER UINT64_MAX

struct turns_part {
	struct turns_part *next;    /* of the GPU */
	struct turns_part *sibling; /* of the slice, on another GPU */
	struct turns_slice *slice;
	struct turns_gpu *gpu;
	struct turns_seat *seats;
	unsigned int n_seats, n_busy, n_wants;
	struct turns_share share;

	uint64_t charged, waited, turns, revoked;
	uint64_t v,
		v_rest; /* virtual time in ns / weight, and the remainder of that division */
	int64_t bucket; /* of a capped part: charge that it may still have; ns / SLICE_CAP_ALL */

	uint64_t worked;      /* since then some seat of it is busy */
	uint64_t rests_since; /* no seat of it has been busy or wanted anything */
	uint64_t idle_since;  /* the same, but no earlier than its turn */
	bool awaited;         /* idle, but those who want wait for it */
	uint64_t gap;         /* how long it was idle, if not for long; mean */
	unsigned int soon;    /* how often that was so; of SOON_ALWAYS */
	uint64_t began;       /* .charged when its turn began */
	bool yielded;         /* its last turn ended because it was idle */

	bool demoted;
	bool dormant; /* has had nothing to do for TURNS_QUIET_NS: its slice's turns are without it */
	uint64_t closed; /* since when it runs only what is in flight; TURNS_NEVER: does not */
	uint64_t tail;   /* for how long it does mostly; mean, at most TURNS_SLICE_NS */
	uint64_t told;   /* the end of the turn that the meters of its seats know */
	int64_t lent;    /* in .bucket, for a turn that it is urged to have */

	struct turns_pace {
		uint64_t done,
			demand; /* since the last look, or of a stretch apart: submissions that have
					* ended, and ns in which it wanted the GPU */
		uint64_t each_ns; /* of demand for a submission, with turns; 0: not known */
		uint64_t now_ns;  /* the same in the last stretch alone */
		int64_t lost;     /* ns of demand, against that, since all go together */
	} pace;
};

struct turns_slice {
	struct turns_slice *next;
	struct turns_part *parts;
	uint64_t served, served_before; /* the number of its last turn, and of the one before */
	bool urged;                     /* goes next, whatever its lead */
	bool trying;                    /* has the turn that it was urged to have */
	uint64_t urged_at;              /* it was, the last time, or was done with it */
	uint64_t patience;              /* ns until then; 0: as at first */
	void *user;
};

struct turns_gpu {
	unsigned int index;
	struct turns_part *parts;
	struct turns_part *holder; /* NULL: nobody's turn */
	bool paused;               /* .holder, by one of class latency; .end is what is left */
	bool first;                /* one of class latency is at work */
	uint64_t began, end;       /* of the turn; TURNS_NEVER: until somebody else wants one */
	struct turns_part *interrupted; /* goes on after .holder; NULL: nobody does */
	uint64_t left;                  /* of that one's turn */
	uint64_t accrued;               /* charges are made up to then */
	uint64_t busy;                  /* ns in which anybody had work */
	uint64_t v;         /* no part that has work is behind this; never goes back */
	uint64_t contended; /* more than one part had something to do then */
	uint64_t tried_at;  /* one that was urged had the turn until then */
	uint64_t wake;      /* decide anew then */
	struct turns_stretch {
		bool together;  /* no turns: all gates are open */
		uint64_t since; /* 0: nothing is measured */
		uint64_t look_at;
		uint64_t busy;               /* .busy at its beginning */
		uint64_t wanted;             /* ns in which anybody wanted the GPU */
		uint64_t again_at, again_ns; /* together, after it was in vain */
	} stretch;
};

struct turns {
	struct turns_gpu gpus[TURNS_GPUS_MAX];
	struct turns_slice *slices;
	uint64_t dirty;  /* GPUs to be decided about */
	uint64_t served; /* turns of all */
	void (*gate)(void *arg, struct turns_seat *seat);
	uint64_t (*done)(void *arg, const struct turns_seat *seat);
	void *arg;
};

static inline uint64_t turns_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t turns_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline void turns_wake_at(struct turns_gpu *g, uint64_t when)
{
	g->wake = turns_min(g->wake, when);
}

static inline void turns_touch(struct turns *t, const struct turns_gpu *g)
{
	t->dirty |= UINT64_C(1) << g->index;
}

/* It goes first: its gates are open all the time. */
static inline bool turns_is_first(const struct turns_part *p)
{
	return p->share.latency && !p->demoted;
}

/* Its gates open and close: it is next now and then, and others wait for it. */
static inline bool turns_has_turns(const struct turns_part *p)
{
	return !p->share.mps && !turns_is_first(p);
}

static inline bool turns_is_quiet(const struct turns_part *p)
{
	return !p->n_busy && !p->n_wants;
}

/* The parts of a slice that take turns, all together (a process has seats on GPUs that it does not use):
 * for (p = turns_member(s->parts); p;
 * p = turns_member(p->sibling)). */
static inline struct turns_part *turns_member(struct turns_part *p)
{
	while (p && (!p->n_seats || p->dormant || !turns_has_turns(p)))
		p = p->sibling;
	return p;
}

/* charge.c */
/* Charges the time up to @now, as things have been since the last time. */
void turns_accrue(struct turns_gpu *g, uint64_t now);
/* Virtual time goes on, as things are now. */
void turns_keep_up(struct turns_gpu *g);
/* A part that was idle has something to do again. */
void turns_come_back(struct turns_part *p, uint64_t now);
/* What was in flight when its gates closed ended at @end. */
void turns_learn_tail(struct turns_part *p, uint64_t end);
/* It has no credit beyond one turn. Where others could not go, it may be far behind. */
void turns_lift(struct turns_part *p);
void turns_set_share(struct turns_part *p, const struct turns_share *share);
/* Its bucket has enough for a turn; always so if it has no cap, or is urged. */
bool turns_may_begin(const struct turns_part *p);
/* How long it may go on, if it has the GPU alone; 0: not at all; TURNS_NEVER: no cap. */
uint64_t turns_lasts(const struct turns_part *p);
/* It has a portion, until it is taken back: what it had is not forgotten. */
void turns_lend(struct turns_part *p, bool lend);
/* When it may begin. */
uint64_t turns_refilled(const struct turns_part *p, uint64_t now);

/* order.c */
/* Wants the turn and may have it; of a gang, as far as its own buckets go. */
bool turns_is_ready(const struct turns_part *p);
bool turns_is_contended(const struct turns_gpu *g);
/* How far it is ahead in virtual time; of a gang, where it is furthest ahead. Of one that is urged: behind all. */
int64_t turns_lead(const struct turns_slice *s);
/* Who is ahead by no more than this is as good as level: the order is that of their last turns then, so
 * that it is the same in each round. */
int64_t turns_band(const struct turns_gpu *g);
/* Whose turn it is next. NULL: nobody's that can begin. */
struct turns_part *turns_pick(const struct turns_gpu *g, uint64_t now);
/* Who should go in between, if anybody: one whose last turn was cut short by its being idle. */
struct turns_part *turns_hurry(const struct turns_gpu *g, uint64_t now);
/* Somebody should have the turn rather than the holder go on after the end of its turn. */
bool turns_is_outrun(const struct turns_part *holder, uint64_t now);
/* That a turn of the part may be as things are now. */
uint64_t turns_longest(const struct turns_part *p);
/* Of the next turn of a slice, on all its GPUs. */
uint64_t turns_length(const struct turns_slice *s);

/* gang.c */
bool turns_is_gang(const struct turns_slice *s);
bool turns_slice_is_quiet(const struct turns_slice *s);
bool turns_slice_wants(const struct turns_slice *s);
/* How long all its buckets last. */
uint64_t turns_slice_lasts(const struct turns_slice *s);
/* All its GPUs are free for it, and it is its time on all of them. */
bool turns_can_start(const struct turns_part *p, uint64_t now);
/* One of its GPUs is kept for a gang that goes before it. */
bool turns_stands_back(const struct turns_slice *s);

/* latency.c */
/* Finds out whether those of class latency are within their share. */
void turns_judge(struct turns_gpu *g, uint64_t now);
/* One that goes first is at work, or will be again in a moment. */
bool turns_first_at_work(struct turns_gpu *g, uint64_t now);

/* together.c */
/* Wants the GPU, or did a moment ago. */
bool turns_has_demand(const struct turns_part *p, uint64_t at);
/* How fast it gets on with turns is not known any more, and so not what turns would give the others. */
void turns_forget_pace(struct turns_part *p);
/* Finds out whether all go together. */
bool turns_go_together(struct turns *t, struct turns_gpu *g, uint64_t now);

/* urge.c */
/* The gates of a part that has work in flight close. */
void turns_hold(const struct turns *t, struct turns_part *p, uint64_t now);
/* Finds out which slices are to go next, or need not any more. */
void turns_urge(struct turns *t, struct turns_gpu *g, uint64_t now);
/* The turn of a slice begins, and has come to its end. */
void turns_try(struct turns_slice *s, uint64_t now);
void turns_tried(struct turns *t, struct turns_slice *s, uint64_t now);

/* turn.c */
/* Where a slice comes to have another set of GPUs, no turn goes on on some of them only. */
void turns_regroup(struct turns *t, struct turns_slice *s, uint64_t now);
/* How long it is waited for when it is idle. */
uint64_t turns_grace(const struct turns_part *p);
/* On all GPUs of the slice. An interrupted turn is not counted: it goes on before others' begin. */
void turns_end(struct turns *t, const struct turns_part *holder, bool interrupted,
	uint64_t now);
void turns_decide(struct turns *t, struct turns_gpu *g, uint64_t now);

/* gates.c */
void turns_set_gates(struct turns *t, struct turns_gpu *g, uint64_t now);
