/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Markers: how one knows that work is done (container/gate/gate-thread.h). The contexts of the process, and events of ours
 * in them. All that lies here is in memory that a child of fork sees as zero.
 *
 * A marker of a GPU is an event recorded on each of its contexts. It is recorded when .ended was n, and
 * once all of its events have passed n submissions are done. No more are counted as done than are:
 * .ended is read before the events are recorded. Green contexts are in those of their primary ones.
 *
 * A marker passes when all that was in its contexts is done, and while streams capture none can be
 * recorded (it would spoil the capture: 900, then 901). So beside a capture, and while a marker is stuck
 * behind what takes very long (a stream that waits for a value, a kernel that spins), submissions have
 * events of their own behind them. Such a one counts beyond the last marker that has passed, if that was
 * placed before it; when a later marker passes, which counts it too, that is taken back. Events of one
 * stream pass in order, so where places are short one is recorded anew for several submissions. What finds
 * none all the same is known to be done when the next marker passes.
 *
 * A capture that nobody told us of (by a function that is newer than this) shows when a marker is refused:
 * from then on there are none, but events behind all submissions; as where there are more contexts than
 * we have places for, though there a marker is placed before. What was in flight at that moment has none: for
 * that a marker is risked again, seldom.
 *
 * Parked. A stream may wait for what another thread or another process does: for a value, a semaphore, a
 * host function. So there is an event before each such wait and one behind it. Where the first marker is stuck,
 * and the first of two such events has passed and the second has not, the stream between them stands there; that
 * a kernel takes long, in front of the wait or behind it, shows otherwise.
 *
 * Work counts as over where its context has gone or has an error that stays. Any other error tells
 * nothing: one tries again.
 *
 * The lock is held across these calls of the driver, but none that waits (cuCtxRecordEvent, cuEventQuery,
 * cuEventCreate), so that no context goes and no capture begins meanwhile.
 */
#include "abi/turn-page.h"
#include "container/cuda/driver.h"
#include "container/sys.h"
#include "container/gate/cost-model.h"
#include "container/gate/slot.h"

#define FENCE_CONTEXTS 32
#define FENCES_PENDING 32 /* one of them has passed */
#define OWN_FENCES     64
#define FENCE_WAITS    32
#define OWN_FENCES_FEW 16 /* with fewer free, those of the same stream share one */
#define FENCE_EXPECT_MAX_NS \
	UINT64_C(20000000) /* the most that is expected: estimates may be far off */
#define FENCE_STUCK_NS UINT64_C(5000000) /* a marker is, that is so much later than expected */
/* Until one is risked beside an unknown capture, doubled up to the most. Tests have less patience. */
#ifndef FENCE_RISK_NS
#	define FENCE_RISK_NS UINT64_C(10000000000)
#endif
#define FENCE_RISK_MAX_NS UINT64_C(600000000000)

struct fence_context {
	CUcontext context;     /* NULL: this place is free */
	unsigned long long id; /* the driver's: handles are used again. 0: it does not say */
	unsigned int gpu;
	bool broken; /* by an error that stays: nothing is in flight in it, nor will be */
	unsigned int
		leaving; /* so many threads destroy it: not to be touched, and what is in it may run still */
	bool made; /* its events are there */
	CUevent events[FENCES_PENDING];
	bool set[FENCES_PENDING]; /* was recorded, and has not passed */
};

/* An event behind single submissions. */
struct own_fence {
	struct gate_slot slot;
	_Atomic uint64_t stream; /* the driver's number of it; 0: it does not say */
	_Atomic uint64_t after;  /* the marker that was the last when its submissions began */
	_Atomic uint64_t order;
	CUevent event;
	uint64_t n; /* submissions that it is behind */
};

/* A wait of a stream for what another thread or process does (container/gate/gate.h, gate_block()). */
struct fence_wait {
	struct gate_slot slot;
	CUevent before, behind; /* in the same stream */
};

/* Markers have numbers, from 1; 0 is as if one had passed before all. */
struct fence_ring {
	uint64_t targets[FENCES_PENDING]; /* .ended, by the marker's number */
	uint64_t done_beyond
		[FENCES_PENDING]; /* submissions after it, and before the next, that are done */
	struct cost_model_snapshot snapshots
		[FENCES_PENDING]; /* what container/gate/cost-model.h is to know when it passes */
	uint64_t passed;          /* the last that has */
	_Atomic uint64_t placed;   /* the last that was */
	_Atomic uint64_t last;     /* its target */
	_Atomic uint32_t contexts; /* that are known, and not broken */
	struct cost_model cost_model;
	/* Stuck. */
	uint64_t watched, due_ns; /* a marker, and when it is expected to pass at the latest */
	_Atomic uint32_t stuck;   /* 0, 1, or 2: others have got on since */
	_Atomic uint64_t unseen;  /* submissions in flight without an event of their own */
	_Atomic bool blocked;     /* .stuck, and a stream stands at one of .waits */
};

struct fences {
	struct sys_lock lock;
	_Atomic(struct turn_page *) page; /* set once, when there is one */
	uint32_t gpus;                    /* of .page, written before it */
	struct fence_context contexts[FENCE_CONTEXTS];
	struct fence_ring rings[SLICE_GPUS_MAX];
	struct own_fence own_fences[OWN_FENCES];
	struct fence_wait waits[FENCE_WAITS];
	_Atomic uint64_t order;
	bool unknown_captures; /* there are captures that nobody tells us of: one counts for good */
	bool full;             /* more contexts than places: the same */
	uint64_t risk_ns, risk_wait_ns; /* when one is risked again */
};

enum fence_result {
	FENCE_OK,
	FENCE_LATER, /* not now: a capture is under way, all places are taken, something is short */
	FENCE_DRIVER_DOWN, /* the driver shuts down: call it no more */
	FENCE_UNSUPPORTED, /* this driver has no cuCtxRecordEvent */
};

/* ---- contexts. Thread: any ---------------------------------------------------------------------- */

/* A context of the program's, which is there. @early: make what is needed there now. Where there is no
 * place for it @captures is raised for good. */
void fences_add_context(struct fences *m, CUcontext context, unsigned int gpu,
	_Atomic uint32_t *captures, bool early);

/* Before it may go, and then either of the two; several threads may be about it. One that is not known is none
 * of ours. */
void fences_context_leaves(struct fences *m, CUcontext context);
void fences_context_gone(struct fences *m, CUcontext context);
void fences_context_stays(struct fences *m, CUcontext context);

/* The calling thread's context, or that which its green one lives in; NULL: none. */
CUcontext fences_current_context(void);

/* That, if none of @gpu is known: it was made where nobody told us. While none is, the bell at the gate is set
 * (container/gate/process.h), so that none submits past this. */
void fences_add_current_context(struct fences *m, unsigned int gpu, _Atomic uint32_t *captures);

/* ---- markers ------------------------------------------------------------------------------------ */

/*
 * Counts one capture more in @captures, before it begins: from then on no marker is recorded. What is in
 * flight gets its marker first. Thread: any.
 */
void fences_capture_begins(struct fences *m, _Atomic uint32_t *captures);

/* Looks at the markers of @gpu. *done: submissions that are known to be done, if more than it says.
 * @each_ns: that one takes, as it seems. The thread is in the relaxed capture mode. Thread: the keeper. */
enum fence_result fences_poll(struct fences *m, unsigned int gpu, struct turn_gpu_page *p,
	uint64_t now, uint64_t each_ns, uint64_t *done);

/*
 * Places a marker behind what has *ended, unless *captures. *done, as above: at once, if all contexts of
 * the GPU have gone. Thread: the keeper, as above.
 */
enum fence_result fences_place(struct fences *m, unsigned int gpu, _Atomic uint64_t *ended,
	_Atomic uint32_t *captures, uint64_t *done);

/*
 * Places one as above, but only if @apart submissions or more are not marked, and if nobody else is about
 * it. The keeper alone would come too late for a program that submits much at once: one marker behind all of
 * it tells nothing until all is done. Thread: any, the one that has just submitted.
 */
void fences_place_after_submit(struct fences *m, unsigned int gpu, _Atomic uint64_t *ended,
	_Atomic uint32_t *captures, uint32_t apart);

/* Submissions up to the first marker that is yet to pass, of which @done are; 0: there is none. */
uint64_t fences_count_ahead(struct fences *m, unsigned int gpu, uint64_t done);
uint64_t fences_last_target(const struct fences *m, unsigned int gpu);
/* Estimated ns of work up to that marker, that is not known to be done (container/gate/cost-model.h); 0: there is none. */
uint64_t fences_front_ns(struct fences *m, unsigned int gpu);

/* Puts an event behind what the calling thread has just submitted to @stream, unless that captures. Before
 * it counts .ended. Stream 0 also for what has no stream: it is in the order of that. Thread: any. */
void fences_record_own(struct fences *m, unsigned int gpu, CUstream stream, bool thread_stream);

/* ---- parked. Thread: any ------------------------------------------------------------------------ */

/*
 * Around the call of the driver that may make @stream wait for others: an event before it, and one behind. So a
 * stream that stands there is told from one in which a kernel takes long, in front of the wait or behind it.
 * Returns the place, for fences_wait_end(); 0: it is not noted, as it captures, or FENCE_WAITS are not over.
 */
unsigned int fences_wait_begin(struct fences *m, unsigned int gpu, CUstream stream,
	bool thread_stream);
/* @given: the driver has taken it. */
void fences_wait_end(struct fences *m, unsigned int place, CUstream stream, bool thread_stream,
	bool given);

/* Whether the first marker is stuck, and a stream of the GPU stands at such a wait. As of the keeper's last
 * look. */
static inline bool fences_is_blocked(const struct fences *m, unsigned int gpu)
{
	return atomic_load_explicit(&m->rings[gpu].blocked, memory_order_relaxed);
}

/* ---- stuck. Thread: any ------------------------------------------------------------------------- */

/* Whether the first marker is: submissions should have events of their own behind them. */
static inline bool fences_is_stuck(const struct fences *m, unsigned int gpu)
{
	return atomic_load_explicit(&m->rings[gpu].stuck, memory_order_relaxed);
}

/* ... and whether some that had one are done since. */
static inline bool fences_others_progress(const struct fences *m, unsigned int gpu)
{
	return atomic_load_explicit(&m->rings[gpu].stuck, memory_order_relaxed) == 2;
}

/* Of what is in flight then: how many of which nothing can be known until it passes. They may be done or
 * not, so they are in flight; but a window that is full of them says nothing. At most; 0 if none is stuck. */
static inline uint64_t fences_count_unseen(const struct fences *m, unsigned int gpu)
{
	return atomic_load_explicit(&m->rings[gpu].unseen, memory_order_relaxed);
}

/* Whether the last of @in_flight submissions is to go on all the same, as the one by which it is seen whether
 * others get on: there is one beyond those that nothing is known of. */
static inline bool fences_may_probe(const struct fences *m, unsigned int gpu,
	uint64_t in_flight)
{
	return atomic_load_explicit(&m->rings[gpu].stuck, memory_order_relaxed) == 1 &&
	       in_flight <= fences_count_unseen(m, gpu) + 1;
}

/* For how long one has been. Thread: the keeper. */
static inline uint64_t fences_stuck_ns(const struct fences *m, unsigned int gpu, uint64_t now)
{
	return fences_is_stuck(m, gpu) ? now - m->rings[gpu].due_ns : 0;
}
