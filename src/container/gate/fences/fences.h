/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Fences: how the process knows that work is done (container/gate/gate-thread.h). Here are the contexts
 * of the process and this library's events in them. All state is in memory that a child of fork sees as
 * zero.
 *
 * A fence of a GPU is an event recorded on each of its contexts. The work of a green context is in its
 * primary context.
 * 1. A thread reads .ended as n, then records the events.
 * 2. Once all of the events have passed, n submissions are done. So .done is never larger than the number
 *    of submissions that are done.
 *
 * Own fences. A fence passes when all that was in its contexts is done. While streams capture no fence
 * can be recorded: it would spoil the capture (900, then 901). A fence may also be stuck behind what
 * takes very long: a stream that waits for a value, a kernel that spins. So beside a capture or a stuck
 * fence, submissions have events of their own behind them.
 * 1. A submitting thread reads the number of the last fence placed (.after), records the event, then
 *    counts .ended.
 * 2. Once the event has passed, its submissions count beyond that fence, unless a later fence has passed.
 * 3. When a later fence passes, the extra count is taken back: that fence counts the submissions, or the
 *    next one does.
 *
 * Events of one stream pass in order, so where slots are short one event is recorded again for several
 * submissions. A submission without a slot is known to be done when the next fence passes.
 *
 * Unknown captures. A capture that no hook reported (by a function that is newer than this library) shows
 * when the driver refuses a fence. After that moment the library places no fence, only own fences behind
 * all submissions. Where there are more contexts than places, the library places one last fence, then
 * only own fences, too. Work that was in flight at that moment may have no fence of its own. So the
 * library tries one fence at most every FENCE_RISK_NS, which the driver may refuse. Each refusal doubles
 * that time, up to FENCE_RISK_MAX_NS.
 *
 * Blocked. A stream may wait for what another thread or another process does: for a value, a semaphore, a
 * host function. So there is an event before each such wait and one behind it. The stream is blocked
 * there if the first fence is stuck, the event before has passed, and the event behind has not. A kernel
 * that takes long, in front of the wait or behind it, shows otherwise.
 *
 * Errors. Work counts as over where its context has gone or has an error that stays. Any other error
 * shows nothing: the thread tries again.
 *
 * The lock is held across driver calls, but none that waits: cuCtxRecordEvent, cuEventQuery,
 * cuEventCreate, cuEventDestroy, cuCtxGetId, and making a context current. So no context goes and no
 * capture begins meanwhile.
 */
#include "abi/turn-page.h"
#include "container/cuda/driver.h"
#include "container/sys.h"
#include "container/gate/cost-model.h"
#include "container/gate/slot.h"

#define FENCE_CONTEXTS 32
#define FENCES_PENDING 32 /* places for fences; one has the last fence that has passed */
#define OWN_FENCES     64
#define FENCE_WAITS    32
#define OWN_FENCES_FEW 16 /* with fewer free, submissions of one stream share an own fence */
/* A fence is stuck once it is FENCE_STUCK_NS later than expected. The expected time is at most
 * FENCE_EXPECT_MAX_NS, as estimates may be far off. */
#define FENCE_EXPECT_MAX_NS UINT64_C(20000000)
#define FENCE_STUCK_NS      UINT64_C(5000000)
/* Time between two tries of a fence beside an unknown capture, doubled up to FENCE_RISK_MAX_NS. Tests set
 * less. */
#ifndef FENCE_RISK_NS
#	define FENCE_RISK_NS UINT64_C(10000000000)
#endif
#define FENCE_RISK_MAX_NS UINT64_C(600000000000)

struct fence_context {
	CUcontext context;     /* NULL: this place is free */
	unsigned long long id; /* the driver's + 1: handles are used again. 0: unknown */
	unsigned int gpu;
	bool broken; /* by an error that stays: nothing is in flight in it, nor will be */
	/* Number of threads that destroy the context. While it is not 0 no thread touches the context, and
	 * its work may still run. */
	unsigned int leaving;
	bool made; /* its events exist */
	CUevent events[FENCES_PENDING];
	bool set[FENCES_PENDING]; /* the event was recorded, and has not passed */
};

/* An event behind single submissions. */
struct own_fence {
	struct gate_slot slot;
	_Atomic uint64_t stream; /* the driver's ID of the stream + 1; 0: unknown */
	/* The last fence placed before .ended counted the submissions. */
	_Atomic uint64_t after;
	_Atomic uint64_t order; /* grows with each recording of any own fence */
	CUevent event;
	uint64_t n; /* submissions that the event is behind */
};

/* A wait of a stream for what another thread or process does (container/gate/gate.h, struct gate_stream_wait). */
struct fence_wait {
	struct gate_slot slot;
	CUevent before, behind; /* in the same stream */
};

/* Fences have numbers, from 1. 0 stands for a fence before all others, which has passed. */
struct fence_ring {
	/* By the fence's number: .ended when the fence was placed; submissions between the fence and the
	 * next one that are done; what cost_model_fence_passed() gets. */
	uint64_t targets[FENCES_PENDING];
	uint64_t done_beyond[FENCES_PENDING];
	struct cost_model_snapshot snapshots[FENCES_PENDING];
	uint64_t passed;           /* the last fence that has passed */
	_Atomic uint64_t placed;   /* the last fence that was placed */
	_Atomic uint64_t last;     /* the target of fence .placed */
	_Atomic uint32_t contexts; /* known contexts of the GPU that are not broken */
	struct cost_model cost_model;
	/* Stuck. */
	uint64_t watched, due_ns; /* a fence, and the time at which it should have passed */
	_Atomic uint32_t stuck; /* 0: no; 1: yes; 2: yes, and other work has progressed since */
	_Atomic uint64_t unseen; /* submissions in flight without an own fence */
	_Atomic bool blocked;    /* .stuck, and a stream is blocked at one of .waits */
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
	/* Each of the two adds one capture to the process's count, once and for good. */
	bool unknown_captures;          /* there are captures that no hook reports */
	bool full;                      /* there are more contexts than places */
	uint64_t risk_ns, risk_wait_ns; /* the next try of a fence; time between two tries */
};

enum fence_result {
	FENCE_OK,
	FENCE_LATER,       /* not now: a capture, a stuck fence, no free place, a shortage */
	FENCE_DRIVER_DOWN, /* the driver shuts down: do not call it again */
	FENCE_UNSUPPORTED, /* this driver has no cuCtxRecordEvent */
};

/* --- contexts. Thread: any --- */

/* Adds a context of the program, which exists. @early: make its events now. Where there is no place for it,
 * @captures is raised by 1 for good. Nothing happens if @context is NULL, or @gpu is no place of a page. */
void fences_add_context(struct fences *f, CUcontext context, unsigned int gpu,
	_Atomic uint32_t *captures, bool early);

/* Around a call of the driver that may destroy @context: fences_context_leaves() before it, then one of the
 * other two. Several threads may do so for one context. Until then no thread touches the context, and its
 * work counts as in flight. An unknown context, or NULL, is ignored. */
void fences_context_leaves(struct fences *f, CUcontext context);
/* The context has gone. Its work counts as done, and its place is free. Events that other tables have in it
 * are forgotten, too, also those of an unknown context. */
void fences_context_gone(struct fences *f, CUcontext context);
/* The driver has not destroyed the context. Takes one fences_context_leaves() back. */
void fences_context_stays(struct fences *f, CUcontext context);

/* The calling thread's context, or the primary context of its green one; NULL: none. */
CUcontext fences_current_context(void);

/* Adds the calling thread's context, if no context of @gpu is known: no hook saw it being made. While none is
 * known TURN_DOORBELL is set at the gate (container/gate/internal.h), so that submitting threads come here. */
void fences_add_current_context(struct fences *f, unsigned int gpu, _Atomic uint32_t *captures);

/* --- fences --- */

/*
 * Counts one capture more in @captures, before it begins: from then on no fence is recorded. What is in
 * flight gets its fence first. Thread: any.
 */
void fences_capture_begins(struct fences *f, _Atomic uint32_t *captures);

/* Polls the fences of @gpu. @p: the GPU's part of the page. *done: raised to the submissions that are known to
 * be done, at most .ended. @each_ns: estimate for one submission. Returns FENCE_OK, or FENCE_DRIVER_DOWN.
 * Precondition: the thread is in the relaxed capture mode. Thread: the gate thread. */
enum fence_result fences_poll(struct fences *f, unsigned int gpu, struct turn_gpu_page *p,
	uint64_t now, uint64_t each_ns, uint64_t *done);

/*
 * Places a fence behind the *ended submissions, unless *captures is not 0 (but see "Unknown captures").
 * *done is raised as by fences_poll(), if all contexts of the GPU have gone: the fence then passes at once.
 * Precondition: the thread is in the relaxed capture mode. Thread: the gate thread.
 */
enum fence_result fences_place(struct fences *f, unsigned int gpu, _Atomic uint64_t *ended,
	_Atomic uint32_t *captures, uint64_t *done);

/*
 * Places a fence like fences_place(), but only if @apart submissions or more are behind the last fence, and
 * if no other thread holds the lock. The gate thread alone would come too late for a program that submits
 * much at once: one fence behind all of it shows nothing until all is done. Thread: any, next to a
 * submission of its own.
 */
void fences_place_after_submit(struct fences *f, unsigned int gpu, _Atomic uint64_t *ended,
	_Atomic uint32_t *captures, uint32_t apart);

/* Submissions up to the first fence that has not passed, less @done; 0: there is none. */
uint64_t fences_count_ahead(struct fences *f, unsigned int gpu, uint64_t done);
/* Submissions, counted like .ended, that the last fence placed is behind; 0: none was placed. No lock. */
uint64_t fences_last_target(const struct fences *f, unsigned int gpu);
/* Estimated ns of work up to the first fence that has not passed, without work that is known to be done
 * (container/gate/cost-model.h); 0: there is none. */
uint64_t fences_front_ns(struct fences *f, unsigned int gpu);

/* Records an event behind what the calling thread has just submitted to @stream, unless @stream captures.
 * The thread counts .ended after this call. @stream is 0 also for what has no stream: it is in the order of
 * stream 0. @thread_stream: stream 0 is the calling thread's own (_ptsz). Without a free slot nothing is
 * recorded. Thread: any. */
void fences_record_own(struct fences *f, unsigned int gpu, CUstream stream, bool thread_stream);

/* --- blocked. Thread: any --- */

/*
 * Around the driver call that may make @stream wait for others: an event before it, and one behind. So a
 * stream that is blocked there differs from a stream in which a kernel takes long, in front of the wait
 * or behind it. Returns the place, for fences_wait_end(). 0: the wait is not noted: the stream captures, all
 * FENCE_WAITS places are in use, or the driver made or recorded no event.
 */
unsigned int fences_wait_begin(struct fences *f, unsigned int gpu, CUstream stream,
	bool thread_stream);
/* Ends what fences_wait_begin() began, on the same thread. @place: not 0. @given: the driver has accepted the
 * call; if not, the wait is forgotten. */
void fences_wait_end(struct fences *f, unsigned int place, CUstream stream, bool thread_stream,
	bool given);

/* Whether the first fence is stuck, and a stream of the GPU is blocked at a wait that fences_wait_begin()
 * noted. As of the gate thread's last poll. */
static inline bool fences_is_blocked(const struct fences *f, unsigned int gpu)
{
	return atomic_load_explicit(&f->rings[gpu].blocked, memory_order_relaxed);
}

/* --- stuck. Thread: any --- */

/* Whether the first fence is stuck: submissions should have own fences. */
static inline bool fences_is_stuck(const struct fences *f, unsigned int gpu)
{
	return atomic_load_explicit(&f->rings[gpu].stuck, memory_order_relaxed);
}

/* Whether the first fence is stuck, and submissions with an own fence are done since. */
static inline bool fences_others_progress(const struct fences *f, unsigned int gpu)
{
	return atomic_load_explicit(&f->rings[gpu].stuck, memory_order_relaxed) == 2;
}

/* How many submissions in flight have no known end until the stuck fence passes: an upper bound. They may be
 * done or not, so they count as in flight. But a window that is full of them shows nothing. 0: no fence is
 * stuck. */
static inline uint64_t fences_count_unseen(const struct fences *f, unsigned int gpu)
{
	return atomic_load_explicit(&f->rings[gpu].unseen, memory_order_relaxed);
}

/* Whether the last of @in_flight submissions passes in any case, to show whether other work progresses: one
 * submission beyond those of unknown end. */
static inline bool fences_may_probe(const struct fences *f, unsigned int gpu,
	uint64_t in_flight)
{
	return atomic_load_explicit(&f->rings[gpu].stuck, memory_order_relaxed) == 1 &&
	       in_flight <= fences_count_unseen(f, gpu) + 1;
}

/* For how many ns the first fence has been stuck; 0: it is not. Thread: the gate thread. */
static inline uint64_t fences_stuck_ns(const struct fences *f, unsigned int gpu, uint64_t now)
{
	return fences_is_stuck(f, gpu) ? now - f->rings[gpu].due_ns : 0;
}
