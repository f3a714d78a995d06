/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The gate in front of all work that a program submits to a GPU (abi/turn-page.h). A hook does
 *
 *	struct turn_gpu_page *g = gate_begin(stream, 0);
 *	r = REAL(cuLaunchKernel)(...);
 *	gate_end(g);
 *
 * on one thread, with no other such pair in between. The result of gate_begin() is for gate_end() alone.
 *
 * Cost. In no slice the pair is a load and a branch. While the slice has its quantum, or has the GPU
 * alone, it is two locked additions and a load more.
 *
 * Blocking. gate_begin() may block, as long as other slices have their quanta. The thread then holds no
 * lock and is not in the driver. So only the program itself can depend on that thread.
 *
 * Exceptions.
 * - A submission into a capture is not counted and never held: it is no work.
 * - Nothing is counted or held while there is no gate thread to report when work is done (gate-thread.h).
 * - A programmatic launch (GATE_PROGRAMMATIC) may overlap the launch before it. It is counted but not
 *   held, as long as there is work in flight to overlap, and GATE_PROGRAMMATIC_MAX in a row.
 *
 * Forks: all state is in memory that a child sees as zero, and the page is not mapped there. Thread: any.
 */
#include "abi/turn-page.h"
#include "container/cuda/driver.h"
#include "container/client/link.h"
#include "container/gate/launches.h"

#define GATE_SYNC_BYTES       (64u << 10) /* synchronous copies of at most this are not held */
#define GATE_PROGRAMMATIC_MAX 8

enum gate_flags {
	GATE_OWN = 1, /* stream 0 is the calling thread's own (_ptsz) */
	GATE_PROGRAMMATIC =
		2,     /* launched with programmatic stream serialization or an event of it */
	GATE_PASS = 4, /* counted, never held */
	GATE_NO_STREAM = 8, /* for the current context; no stream, so no capture */
	GATE_SEVERAL = 16,  /* one of several submissions by one driver call: no tags */
};

struct gate {
	_Atomic(struct turn_page *) page; /* NULL unless GATE_MODE_UP */
	_Atomic uint32_t captures;        /* streams of this process that may capture now */
	/* Written before .page. */
	uint32_t gpu_count;     /* of .page */
	struct launch_log *log; /* abi/launch-log.h; NULL: none */
};

/* NULL: nothing yet. The memory that it points to reads as zero in a child. */
extern _Atomic(struct gate *) gate_root;

/* Every case but the plain one. NULL: the submission is not counted. */
struct turn_gpu_page *gate_begin_slow(struct gate *g, CUstream stream, unsigned int flags,
	uintptr_t kind);

/* Tags in the result of gate_begin(), for gate_end().
 * - OWN_FENCE: the submission gets an event of its own, as a stream captures or a fence is stuck.
 * - WORK: the gate is TURN_THROTTLED, so the submission's work is counted (cost-model.h).
 * - FENCE: a fence may be due behind the submission (container/gate/fences/fences.h). */
#define GATE_OWN_FENCE ((uintptr_t)1)
#define GATE_WORK      ((uintptr_t)2)
#define GATE_FENCE     ((uintptr_t)4)
#define GATE_TAGS      (GATE_OWN_FENCE | GATE_WORK | GATE_FENCE)
/* gate_end() of a result with tags: records the own fence, counts the work and .ended, and places a fence
 * if one is due. @p has at least one of GATE_TAGS. Keeps errno. */
void gate_end_tagged(struct turn_gpu_page *p);

/* --- around a submission --- */

/*
 * Counts a submission at an open gate. False: the gate is not open, or the doorbell is set, and nothing is counted.
 *
 * Memory order, both sequentially consistent: this thread counts .begun, then loads the gate. A thread that sees the
 * gate closed, or sets TURN_DOORBELL, loads .begun after that. So that thread sees this submission, or this thread
 * sees the gate (internal.h).
 */
static inline bool gate_pass_open(struct turn_gpu_page *p)
{
	/* Do not count .begun where the slow path counts it anyway. */
	if (__builtin_expect((atomic_load_explicit(&p->gate, memory_order_relaxed) &
				     (TURN_STATE | TURN_DOORBELL)) != TURN_OPEN,
		    0))
		return false;
	(void)atomic_fetch_add(&p->begun, 1);
	if (__builtin_expect(
		    (atomic_load(&p->gate) & (TURN_STATE | TURN_DOORBELL)) == TURN_OPEN, 1))
		return true;
	(void)atomic_fetch_sub(&p->begun, 1);
	return false;
}

/* @kind: any key for what the submission takes of the GPU, as far as the caller can know (cost-model.h). */
static inline struct turn_gpu_page *gate_begin_kind(CUstream stream, unsigned int flags,
	uintptr_t kind)
{
	struct turn_gpu_page *p;
	struct turn_page *page;
	struct gate *g;

	if (atomic_load_explicit(&link_off, memory_order_relaxed))
		return NULL;
	g = atomic_load_explicit(&gate_root, memory_order_acquire);
	page = g ? atomic_load_explicit(&g->page, memory_order_acquire) : NULL;
	if (__builtin_expect(!page || g->gpu_count != 1 ||
				     atomic_load_explicit(&g->captures, memory_order_relaxed),
		    0))
		return gate_begin_slow(g, stream, flags, kind);
	p = &page->gpus[0];
	if (__builtin_expect(!gate_pass_open(p), 0))
		return gate_begin_slow(g, stream, flags, kind);
	if (__builtin_expect(g->log != NULL, 0))
		gate_launches_add(g->log, kind);
	return p;
}

static inline struct turn_gpu_page *gate_begin(CUstream stream, unsigned int flags)
{
	return gate_begin_kind(stream, flags, 0);
}

static inline void gate_end(struct turn_gpu_page *p)
{
	if (!p)
		return;
	if (__builtin_expect(((uintptr_t)p & GATE_TAGS) != 0, 0))
		gate_end_tagged(p);
	else
		(void)atomic_fetch_add(&p->ended, 1);
}

/* gate_end() for a copy or a fill of @bytes. */
static inline void gate_end_copy(struct turn_gpu_page *p, uint64_t bytes)
{
	struct turn_gpu_page *page = (struct turn_gpu_page *)((uintptr_t)p & ~GATE_TAGS);

	if (!page)
		return;
	(void)atomic_fetch_add_explicit(&page->copies, 1, memory_order_relaxed);
	(void)atomic_fetch_add_explicit(&page->bytes, bytes, memory_order_relaxed);
	gate_end(p);
}

/* --- around other calls --- */

/* A stream or a context is about to be destroyed: another one may get its handle. */
void gate_handle_leaves(void);

/*
 * Around a call that is no work, but may make a stream wait for another thread or for another process:
 *
 *	struct gate_stream_wait wait = gate_stream_wait_begin(stream, 0);
 *	r = REAL(cuStreamWaitValue32_v2)(...);
 *	gate_stream_wait_end(&wait, r);
 *
 * Work behind that wait may then depend on a thread that waits at the closed gate
 * (container/gate/fences/fences.h: blocked). The call itself is never held and not counted. Where it goes
 * into a capture it is not noted. @flags: GATE_OWN. In no slice that is a load and a branch.
 */
struct gate_stream_wait {
	CUstream stream;
	unsigned int slot; /* container/gate/fences/fences.h; 0: nothing is noted */
	unsigned int gpu;
	bool own;
};

/* gate_stream_wait_begin() in a slice. Fills in @wait, which is zeroed, if the wait is noted. Keeps errno. */
void gate_stream_wait_begin_slow(struct gate_stream_wait *wait, CUstream stream,
	unsigned int flags);
/* gate_stream_wait_end() of a wait that is noted: @wait->slot is not 0. @given: the driver has accepted the
 * call. Keeps errno. */
void gate_stream_wait_end_slow(const struct gate_stream_wait *wait, bool given);

static inline struct gate_stream_wait gate_stream_wait_begin(CUstream stream,
	unsigned int flags)
{
	struct gate_stream_wait wait = { 0 };

	if (!atomic_load_explicit(&link_off, memory_order_relaxed))
		gate_stream_wait_begin_slow(&wait, stream, flags);
	return wait;
}

static inline void gate_stream_wait_end(const struct gate_stream_wait *wait, CUresult r)
{
	if (wait->slot)
		gate_stream_wait_end_slow(wait, !r);
}

/*
 * Around the call that begins a capture, and after a call that ends one.
 * 1. gate_capture_begins() waits until no thread records a fence, and counts the capture.
 * 2. Until gate_capture_ended() no thread records a fence of a whole context, which would spoil the
 *    capture.
 */
void gate_capture_begins(void);
/*
 * The capture has ended, or the driver did not begin it: uncounts it and wakes the gate thread. Nothing happens if
 * none is counted.
 */
void gate_capture_ended(void);
