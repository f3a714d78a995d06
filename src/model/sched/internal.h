/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Internals of the scheduler (sched.h).
 *
 *	sched.c         what exists and what happens; decides until all is settled
 *	quantum.c       one GPU: the quantum begins, goes on, ends
 *	vtime-order.c   which share is next, and for how long
 *	gang.c          slices on several GPUs
 *	latency.c       shares of class latency
 *	concurrent.c    opens all gates where time sharing would leave the GPU idle
 *	charge.c        charges, virtual time, buckets of caps
 *	boost.c         slices that go next, as their work ends only then
 *	gates.c         what the decisions mean for the gates
 *	burst.c         how long a share works between two rests, and when the next one is let in
 *	gaps.c          how long these rests are, and how long to wait
 *	budget.h        what interruptions and class latency may cost
 *
 * For each event:
 * 1. The scheduler brings the charges of its GPU up to date.
 * 2. The scheduler changes the state, and marks the GPUs concerned as dirty.
 * 3. The scheduler decides about each dirty GPU, which can make other GPUs dirty.
 * 4. When no GPU is dirty, the scheduler sets the gates of all these GPUs.
 *
 * Thread: one.
 */
#include "model/sched/budget.h"
#include "model/sched/gaps.h"
#include "model/sched/sched.h"
#include "lib/base/minmax.h"

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
	/* virtual time, ns / weight, and the remainder of that division */
	uint64_t vtime, vtime_rest;
	/* of a cap: charge that the share may still have; ns / SLICE_CAP_ALL */
	int64_t bucket;

	uint64_t busy_since;       /* since when some client is busy */
	uint64_t inactive_since;   /* since when no client is busy or wants the GPU */
	uint64_t idle_since;       /* .inactive_since, or the start of its quantum if later */
	bool awaited;              /* idle, but the GPU waits for it */
	struct sched_gaps gaps;    /* its idle times */
	uint64_t charged_at_start; /* .charged when its quantum began */
	bool yielded;              /* its last quantum ended because it was idle */
	/* its work between two rests (burst.c) */
	struct sched_burst {
		/* when the present one began, with the GPU for itself; SCHED_NEVER: it did not */
		uint64_t from;
		uint64_t mean_ns, off_ns; /* mean length, and mean difference from that */
		unsigned int n;           /* that are in the means; it stops at BURSTS_FEW */
		bool let_in; /* the next share was let in before the end of the last one */
		/* bursts without letting in, as the last time was wrong: left, and of the last time */
		uint64_t blind, blind_for;
	} burst;

	/* of class latency */
	bool demoted;
	bool first;                /* has the GPU for itself: the holder is paused */
	struct sched_budget waste; /* for which it may leave the GPU idle */
	bool trickles;             /* it has work so often that it may not go first each time */
	/* idle for SCHED_IDLE_NS: quanta of its slice exclude this GPU */
	bool dormant;
	/* since when it runs only what was in flight; SCHED_NEVER: it does not */
	uint64_t closed_since;
	uint64_t overrun;      /* length of its overruns; mean, at most SCHED_TIME_SLICE_NS */
	uint64_t reported_end; /* the end of the quantum that its clients know */
	int64_t lent;          /* in .bucket, for a boosted quantum */

	struct sched_pace {
		/*
		 * since the last check, or in a time-shared period: submissions that have ended, and ns in which
		 * it wanted the GPU
		 */
		uint64_t done, demand;
		uint64_t charged; /* .charged at the period's beginning */
		/* its pace: the lesser .now_ns of the last two time-shared periods; 0: not known */
		uint64_t each_ns;
		/* demand for a submission in the last time-shared period; 0: not known */
		uint64_t now_ns;
		/* ns of demand lost against .each_ns since the gates opened concurrently */
		int64_t lost;
	} pace;
};

struct sched_slice {
	struct sched_slice *next;
	struct sched_share *shares;
	/* the number of its last quantum, and of the one before */
	uint64_t served, served_before;
	bool boosted;         /* goes next, whatever its lead */
	bool boost_running;   /* has its boosted quantum */
	uint64_t boosted_at;  /* when a boost last began or ended */
	uint64_t boost_delay; /* ns between boosts; 0: the first delay */
	void *user;
};

struct sched_gpu {
	unsigned int index;
	struct sched_share *shares;
	struct sched_share *holder; /* NULL: no share has the quantum */
	/* .holder is paused by a latency share; .quantum_until is then the time left */
	bool paused;
	bool priority_active; /* a latency share is at work */
	/* of the quantum; SCHED_NEVER: when another share wants one */
	uint64_t quantum_start, quantum_until;
	struct sched_share *interrupted; /* goes on after .holder; NULL: none */
	uint64_t interrupted_left;       /* of the quantum of .interrupted */
	struct sched_budget switches;    /* that interruptions may cost */
	uint64_t accrued;                /* charges are made up to then */
	uint64_t busy_ns;                /* ns in which any share had work */
	/* v of the share furthest behind of those that hold it back (charge.c); never falls */
	uint64_t vtime;
	uint64_t contended_at;   /* when more than one share last had something to do */
	uint64_t boost_ended_at; /* when the last boosted quantum ended */
	uint64_t wake;           /* when the next decision is due */
	struct sched_period {
		bool concurrent; /* no time sharing: all gates are open */
		bool pays;       /* the last time-shared period left the GPU idle */
		uint64_t since;  /* 0: nothing is measured */
		uint64_t check_at;
		uint64_t busy;      /* .busy_ns at its beginning */
		uint64_t wanted_ns; /* ns in which any share wanted the GPU */
		/* next concurrent attempt after a loss, and the delay */
		uint64_t retry_at, retry_ns;
	} period;
};

struct sched {
	struct sched_gpu gpus[SCHED_GPUS_MAX];
	struct sched_slice *slices;
	uint64_t dirty;  /* GPUs that need a decision */
	uint64_t served; /* quanta of all slices */
	void (*gate)(void *arg, struct sched_client *client);
	uint64_t (*done)(void *arg, const struct sched_client *client);
	void *arg;
};

static inline void sched_wake_at(struct sched_gpu *g, uint64_t when)
{
	g->wake = min_u64(g->wake, when);
}

static inline void sched_mark_dirty(struct sched *sched, const struct sched_gpu *g)
{
	sched->dirty |= UINT64_C(1) << g->index;
}

/* Whether the share goes first: its gates never close. */
static inline bool sched_has_priority(const struct sched_share *share)
{
	return share->config.latency && !share->demoted;
}

/* Whether the share takes quanta: its gates open and close, and other shares wait for it. */
static inline bool sched_is_time_shared(const struct sched_share *share)
{
	return !share->config.mps && !sched_has_priority(share);
}

static inline bool sched_is_idle(const struct sched_share *share)
{
	return !share->n_busy && !share->n_wants;
}

/*
 * The time-shared shares of a slice, which have their quanta together. Skips those without clients and those
 * that are dormant (a process has clients on GPUs that it does not use). Loop:
 *
 *	for (share = sched_next_time_shared(s->shares); share; share = sched_next_time_shared(share->sibling))
 */
static inline struct sched_share *sched_next_time_shared(struct sched_share *share)
{
	while (share && (!share->n_clients || share->dormant || !sched_is_time_shared(share)))
		share = share->sibling;
	return share;
}

/* charge.c */
/* Charges the time up to @now, in which nothing has changed. */
void sched_accrue(struct sched_gpu *g, uint64_t now);
/* Advances the GPU's virtual time to the share that is furthest behind, and limits debts. */
void sched_update_gpu_vtime(struct sched_gpu *g);
/* Call it when a share that was idle has something to do again. Limits its credit, and learns its idle time. */
void sched_wake_up_share(struct sched_share *share, uint64_t now);
/* Call it when the work that was in flight as the gates closed has ended, at @end. Learns the overrun's
 * length. */
void sched_learn_overrun(struct sched_share *share, uint64_t end);
/* Limits the share's credit to one quantum. Otherwise a share that did not hold back the GPU's virtual time
 * could be far behind. */
void sched_limit_credit(struct sched_share *share);
/* Applies a config, also with work in flight. In nanoseconds the share keeps its lead over the GPU's virtual
 * time, or its credit, limited to one quantum. The caller sets the gates. */
void sched_set_share_config(struct sched_share *share, const struct sched_share_config *config);
/* Whether the bucket has enough for a quantum. Always true without a cap or with a boost. */
bool sched_cap_allows_start(const struct sched_share *share);
/* How long the bucket lasts if the share has the GPU alone; 0: it is empty; SCHED_NEVER: no cap. */
uint64_t sched_cap_runtime_ns(const struct sched_share *share);
/* Lends the bucket what it lacks of a portion, or takes that back. What the share owed stays. */
void sched_lend_cap(struct sched_share *share, bool lend);
/* When the bucket has enough for the share to begin. */
uint64_t sched_cap_refill_time(const struct sched_share *share, uint64_t now);

/* vtime-order.c */
/* Whether the share wants the quantum and may have it; of a gang, as far as its own buckets allow. */
bool sched_is_ready(const struct sched_share *share);
/* Whether any share of the GPU is ready (sched_is_ready()). */
bool sched_is_contended(const struct sched_gpu *g);
/*
 * How far the slice is ahead in virtual time; of a gang, where it is furthest ahead. A boosted slice is behind
 * all.
 */
int64_t sched_vtime_lead(const struct sched_slice *s);
/*
 * A slice whose lead is above the least by no more than this counts as level. The order of level slices is that
 * of their last quanta, the same in each round.
 */
int64_t sched_vtime_band(const struct sched_gpu *g);
/* The share whose quantum is next; NULL: none that can begin. */
struct sched_share *sched_pick_next(const struct sched_gpu *g, uint64_t now);
/* The share that interrupts @holder: one whose last quantum ended early because it was idle. NULL: none. */
struct sched_share *sched_pick_interrupting(const struct sched_share *holder, uint64_t now);
/* Whether the holder must hand over to another share at the end of its quantum. */
bool sched_must_hand_over(const struct sched_share *holder, uint64_t now);
/* The longest quantum of the share as things are now. */
uint64_t sched_quantum_max(const struct sched_share *share);
/* The length of the slice's next quantum, on all its GPUs. */
uint64_t sched_quantum_length(const struct sched_slice *s);

/* gang.c */
/* Whether the slice is a gang. Whether all its time-shared shares are idle. Whether one of them wants its GPU. */
bool sched_is_gang(const struct sched_slice *s);
bool sched_slice_is_idle(const struct sched_slice *s);
bool sched_slice_wants(const struct sched_slice *s);
/* How long all buckets of the slice last. */
uint64_t sched_slice_cap_runtime_ns(const struct sched_slice *s);
/* Whether the share may begin its quantum. Of a gang: it can have all its GPUs, and none is owed to another
 * slice. */
bool sched_can_start(const struct sched_share *share, uint64_t now);
/* Whether one of the slice's GPUs is reserved for a gang that goes before the slice. */
bool sched_yields_to_gang(const struct sched_slice *s);

/* latency.c */
/* Demotes latency shares that are beyond their share, and promotes those that are level again. */
void sched_update_demotions(struct sched_gpu *g, uint64_t now);
/* Whether a share with priority has the GPU for itself: it is at work, or awaited. */
bool sched_is_priority_active(struct sched_gpu *g, uint64_t now);

/* concurrent.c */
/* Whether the share wants the GPU at @at, or did a moment before. */
bool sched_has_demand(const struct sched_share *share, uint64_t at);
/*
 * Forgets the pace of the share. So a concurrent period of its GPU ends: what time sharing would give the others
 * is not known either.
 */
void sched_reset_pace(struct sched_share *share);
/* Decides whether all gates are open concurrently, and returns that. */
bool sched_decide_concurrency(struct sched *sched, struct sched_gpu *g, uint64_t now);

/* burst.c */
/* How long the share works between two rests; mean. */
uint64_t sched_burst_ns(const struct sched_share *share);
/* Call these when the share's quantum starts and ends (@idle: as the share was idle), when the last work of another share
 * ended at @since, and when an idle share has something to do again. */
void sched_burst_quantum_starts(struct sched_share *share, uint64_t now);
void sched_burst_quantum_ends(struct sched_share *share, bool idle);
void sched_burst_gpu_free(struct sched_gpu *g, uint64_t since);
void sched_burst_goes_on(struct sched_share *share, uint64_t now);
/* Call it when a client of the share wants more behind its closed gate while its work is in flight. */
void sched_burst_was_cut(struct sched_share *share);
/* When the next share should be let in, so that its work arrives just before that of @holder ends. SCHED_NEVER: the end is
 * not known. */
uint64_t sched_let_in_time(const struct sched_share *holder);
/* The next share was let in. */
void sched_let_in(struct sched_share *holder);

/* boost.c */
/* Call it when the gates of a share with work in flight close. */
void sched_start_overrun(const struct sched *sched, struct sched_share *share, uint64_t now);
/* Decides which slices are boosted, and which need no boost any more. */
void sched_update_boosts(struct sched *sched, struct sched_gpu *g, uint64_t now);
/* Call them when a quantum of the slice begins, and when it ends. They change only a boosted slice: lend to its
 * caps and take that back, and set the delay of its next boost. */
void sched_boost_begin(struct sched_slice *s, uint64_t now);
void sched_boost_end(struct sched *sched, struct sched_slice *s, uint64_t now);

/* quantum.c */
/* Call it when the set of GPUs of a slice changes. Ends its quantum, which must not go on on a part of the GPUs. */
void sched_regroup_slice(struct sched *sched, struct sched_slice *s, uint64_t now);
/* How long the GPU waits for the idle share, if its return saves @worth_ns. */
uint64_t sched_grace_ns(const struct sched_share *share, uint64_t worth_ns);
/*
 * Ends the quantum on all GPUs of the slice. An end before its time, other than for an idle slice or an empty
 * bucket, does not count in the order of quanta: the slice goes on before the quanta of others begin.
 */
void sched_end_quantum(struct sched *sched, const struct sched_share *holder,
	enum sched_end_reason why, uint64_t now);
/* Decides about one GPU: concurrency, boosts, demotions, and which share has the quantum until when. Can mark
 * other GPUs as dirty. Sets no gate. */
void sched_decide(struct sched *sched, struct sched_gpu *g, uint64_t now);

/* gates.c */
/* Sets the gates of all clients of the GPU as decided, and calls .gate for each whose gate, window or end
 * changes. */
void sched_set_gates(struct sched *sched, struct sched_gpu *g, uint64_t now);
