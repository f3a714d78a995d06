/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of the scheduler (sched.h) among each other.
 *
 *	sched.c    what there is and what happens; decides until all is settled
 *	quantum.c     one GPU: the turn begins, goes on, ends
 *	vtime-order.c    who is next, and for how long
 *	gang.c     slices on several GPUs
 *	latency.c  parts of class latency
 *	concurrent.c parts that go together, where turns would leave the GPU idle
 *	charge.c   charges, virtual time, buckets
 *	boost.c     who goes next because nothing of it ends without that
 *	gates.c    what all that means for the gates
 *
 * An event brings the charges of its GPU up to date, changes what is so, and marks the GPUs that it
 * concerns as dirty; then each of them is decided about, which may make others dirty, and at last their
 * gates are set.
 */
#include "model/sched/sched.h"

#include <stddef.h>

#define SCHED_NEVER UINT64_MAX

struct sched_share {
	struct sched_share *next;    /* of the GPU */
	struct sched_share *sibling; /* of the slice, on another GPU */
	struct sched_slice *slice;
	struct sched_gpu *gpu;
	struct sched_client *clients;
	unsigned int n_clients, n_busy, n_wants;
	struct sched_share_config config;

	uint64_t charged, waited, quanta, resumed, revoked;
	uint64_t quantum_ends[SCHED_ENDS];
	uint64_t vtime,
		vtime_rest; /* virtual time in ns / weight, and the remainder of that division */
	int64_t bucket; /* of a capped part: charge that it may still have; ns / SLICE_CAP_ALL */

	uint64_t busy_since;       /* since then some seat of it is busy */
	uint64_t inactive_since;   /* no seat of it has been busy or wanted anything */
	uint64_t idle_since;       /* the same, but no earlier than its turn */
	bool awaited;              /* idle, but those who want wait for it */
	uint64_t idle_gap;         /* how long it was idle, if not for long; mean */
	unsigned int soon_returns; /* how often that was so; of SOON_ALWAYS */
	uint64_t charged_at_start; /* .charged when its turn began */
	bool yielded;              /* its last turn ended because it was idle */

	bool demoted;
	bool dormant; /* has had nothing to do for SCHED_IDLE_NS: its slice's turns are without it */
	uint64_t
		closed_since; /* since when it runs only what is in flight; SCHED_NEVER: does not */
	uint64_t overrun; /* for how long it does mostly; mean, at most SCHED_TIME_SLICE_NS */
	uint64_t reported_end; /* the end of the turn that the meters of its seats know */
	int64_t lent;          /* in .bucket, for a turn that it is urged to have */

	struct sched_pace {
		uint64_t done,
			demand; /* since the last look, or of a stretch apart: submissions that have
					* ended, and ns in which it wanted the GPU */
		uint64_t each_ns; /* of demand for a submission, with turns; 0: not known */
		uint64_t now_ns;  /* the same in the last stretch alone */
		int64_t lost;     /* ns of demand, against that, since all go together */
	} pace;
};

struct sched_slice {
	struct sched_slice *next;
	struct sched_share *shares;
	uint64_t served, served_before; /* the number of its last turn, and of the one before */
	bool boosted;                   /* goes next, whatever its lead */
	bool boost_running;             /* has the turn that it was urged to have */
	uint64_t boosted_at;            /* it was, the last time, or was done with it */
	uint64_t boost_delay;           /* ns until then; 0: as at first */
	void *user;
};

struct sched_gpu {
	unsigned int index;
	struct sched_share *shares;
	struct sched_share *holder; /* NULL: nobody's turn */
	bool paused; /* .holder, by one of class latency; .quantum_end is what is left */
	bool priority_active; /* one of class latency is at work */
	uint64_t quantum_start,
		quantum_end; /* of the turn; SCHED_NEVER: until somebody else wants one */
	struct sched_share *interrupted; /* goes on after .holder; NULL: nobody does */
	uint64_t interrupted_left;       /* of that one's turn */
	uint64_t accrued;                /* charges are made up to then */
	uint64_t busy_ns;                /* ns in which anybody had work */
	uint64_t vtime;          /* no part that has work is behind this; never goes back */
	uint64_t contended_at;   /* more than one part had something to do then */
	uint64_t boost_ended_at; /* one that was urged had the turn until then */
	uint64_t wake;           /* decide anew then */
	struct sched_period {
		bool concurrent; /* no turns: all gates are open */
		uint64_t since;  /* 0: nothing is measured */
		uint64_t check_at;
		uint64_t busy;               /* .busy_ns at its beginning */
		uint64_t wanted_ns;          /* ns in which anybody wanted the GPU */
		uint64_t retry_at, retry_ns; /* together, after it was in vain */
	} period;
};

struct sched {
	struct sched_gpu gpus[SCHED_GPUS_MAX];
	struct sched_slice *slices;
	uint64_t dirty;  /* GPUs to be decided about */
	uint64_t served; /* turns of all */
	void (*gate)(void *arg, struct sched_client *client);
	uint64_t (*done)(void *arg, const struct sched_client *client);
	void *arg;
};

static inline uint64_t sched_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t sched_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline void sched_wake_at(struct sched_gpu *g, uint64_t when)
{
	g->wake = sched_min(g->wake, when);
}

static inline void sched_mark_dirty(struct sched *t, const struct sched_gpu *g)
{
	t->dirty |= UINT64_C(1) << g->index;
}

/* It goes first: its gates are open all the time. */
static inline bool sched_has_priority(const struct sched_share *p)
{
	return p->config.latency && !p->demoted;
}

/* Its gates open and close: it is next now and then, and others wait for it. */
static inline bool sched_is_time_shared(const struct sched_share *p)
{
	return !p->config.mps && !sched_has_priority(p);
}

static inline bool sched_is_idle(const struct sched_share *p)
{
	return !p->n_busy && !p->n_wants;
}

/* The parts of a slice that take turns, all together (a process has seats on GPUs that it does not use):
 * for (p = sched_next_time_shared(s->parts); p;
 * p = sched_next_time_shared(p->sibling)). */
static inline struct sched_share *sched_next_time_shared(struct sched_share *p)
{
	while (p && (!p->n_clients || p->dormant || !sched_is_time_shared(p)))
		p = p->sibling;
	return p;
}

/* charge.c */
/* Charges the time up to @now, as things have been since the last time. */
void sched_accrue(struct sched_gpu *g, uint64_t now);
/* Virtual time goes on, as things are now. */
void sched_update_gpu_vtime(struct sched_gpu *g);
/* A part that was idle has something to do again. */
void sched_wake_up_share(struct sched_share *p, uint64_t now);
/* What was in flight when its gates closed ended at @end. */
void sched_learn_overrun(struct sched_share *p, uint64_t end);
/* It has no credit beyond one turn. Where others could not go, it may be far behind. */
void sched_limit_credit(struct sched_share *p);
void sched_set_share_config(struct sched_share *p, const struct sched_share_config *share);
/* Its bucket has enough for a turn; always so if it has no cap, or is urged. */
bool sched_cap_allows_start(const struct sched_share *p);
/* How long it may go on, if it has the GPU alone; 0: not at all; SCHED_NEVER: no cap. */
uint64_t sched_cap_runtime_ns(const struct sched_share *p);
/* It has a portion, until it is taken back: what it had is not forgotten. */
void sched_lend_cap(struct sched_share *p, bool lend);
/* When it may begin. */
uint64_t sched_cap_refill_time(const struct sched_share *p, uint64_t now);

/* vtime-order.c */
/* Wants the turn and may have it; of a gang, as far as its own buckets go. */
bool sched_is_ready(const struct sched_share *p);
bool sched_is_contended(const struct sched_gpu *g);
/* How far it is ahead in virtual time; of a gang, where it is furthest ahead. Of one that is urged: behind all. */
int64_t sched_vtime_lead(const struct sched_slice *s);
/* Who is ahead by no more than this is as good as level: the order is that of their last turns then, so
 * that it is the same in each round. */
int64_t sched_vtime_band(const struct sched_gpu *g);
/* Whose turn it is next. NULL: nobody's that can begin. */
struct sched_share *sched_pick_next(const struct sched_gpu *g, uint64_t now);
/* Who should go in between, if anybody: one whose last turn was cut short by its being idle. */
struct sched_share *sched_pick_interrupting(const struct sched_gpu *g, uint64_t now);
/* Somebody should have the turn rather than the holder go on after the end of its turn. */
bool sched_must_hand_over(const struct sched_share *holder, uint64_t now);
/* That a turn of the part may be as things are now. */
uint64_t sched_quantum_max(const struct sched_share *p);
/* Of the next turn of a slice, on all its GPUs. */
uint64_t sched_quantum_length(const struct sched_slice *s);

/* gang.c */
bool sched_is_gang(const struct sched_slice *s);
bool sched_slice_is_idle(const struct sched_slice *s);
bool sched_slice_wants(const struct sched_slice *s);
/* How long all its buckets last. */
uint64_t sched_slice_cap_runtime_ns(const struct sched_slice *s);
/* All its GPUs are free for it, and it is its time on all of them. */
bool sched_can_start(const struct sched_share *p, uint64_t now);
/* One of its GPUs is kept for a gang that goes before it. */
bool sched_yields_to_gang(const struct sched_slice *s);

/* latency.c */
/* Finds out whether those of class latency are within their share. */
void sched_update_demotions(struct sched_gpu *g, uint64_t now);
/* One that goes first is at work, or will be again in a moment. */
bool sched_is_priority_active(struct sched_gpu *g, uint64_t now);

/* concurrent.c */
/* Wants the GPU, or did a moment ago. */
bool sched_has_demand(const struct sched_share *p, uint64_t at);
/* How fast it gets on with turns is not known any more, and so not what turns would give the others. */
void sched_reset_pace(struct sched_share *p);
/* Finds out whether all go together. */
bool sched_decide_concurrency(struct sched *t, struct sched_gpu *g, uint64_t now);

/* boost.c */
/* The gates of a part that has work in flight close. */
void sched_start_overrun(const struct sched *t, struct sched_share *p, uint64_t now);
/* Finds out which slices are to go next, or need not any more. */
void sched_update_boosts(struct sched *t, struct sched_gpu *g, uint64_t now);
/* The turn of a slice begins, and has come to its end. */
void sched_boost_begin(struct sched_slice *s, uint64_t now);
void sched_boost_end(struct sched *t, struct sched_slice *s, uint64_t now);

/* quantum.c */
/* Where a slice comes to have another set of GPUs, no turn goes on on some of them only. */
void sched_regroup_slice(struct sched *t, struct sched_slice *s, uint64_t now);
/* How long it is waited for when it is idle. */
uint64_t sched_grace_ns(const struct sched_share *p);
/* On all GPUs of the slice. One that ends before its time, but for an idle slice or an empty bucket, is not
 * counted in the order of quanta: it goes on before others' begin. */
void sched_quantum_end(struct sched *t, const struct sched_share *holder,
	enum sched_quantum_end why, uint64_t now);
void sched_decide(struct sched *t, struct sched_gpu *g, uint64_t now);

/* gates.c */
void sched_set_gates(struct sched *t, struct sched_gpu *g, uint64_t now);
