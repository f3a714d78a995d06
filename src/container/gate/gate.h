/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The gate in front of all work that a program sends to a GPU (abi/turn-page.h). A hook does
 *
 *	struct turn_gpu_page *g = gate_begin(stream, 0);
 *	r = REAL(cuLaunchKernel)(...);
 *	gate_end(g);
 *
 * on the same thread, with no other such pair in between; what gate_begin() returns is for gate_end()
 * alone. In no slice that is a load and a branch; in a slice whose turn it is, or that is alone, two locked
 * additions and a load more. It may wait: as long as it is others' turn. It never holds a lock then, nor
 * has the driver been called, so nobody needs what the waiting thread has but its own program.
 *
 * Not counted and never held: what goes into a capture (it is no work), and everything while there is no
 * helper thread to say when work is done (gate-thread.h).
 * A launch that may overlap the one before it (programmatic, GATE_PROGRAMMATIC) is counted but not
 * held, as long as there is work in flight that it may overlap, and GATE_PROGRAMMATIC_MAX in a row.
 *
 * Forks: all state is in memory that a child sees as zero, and the page is not mapped there.
 * Thread: any.
 */
#include "abi/turn-page.h"
#include "container/cuda/driver.h"
#include "container/client/link.h"
#include "container/gate/launches.h"

#define GATE_SYNC_BYTES       (64u << 10) /* synchronous copies of no more are not held */
#define GATE_PROGRAMMATIC_MAX 8

enum gate_flags {
	GATE_OWN = 1, /* stream 0 is the calling thread's own (_ptsz) */
	GATE_PROGRAMMATIC =
		2,     /* launched with programmatic stream serialization or an event of it */
	GATE_PASS = 4, /* counted, never held */
	GATE_NO_STREAM = 8, /* of the current context; no stream, so no capture */
	GATE_SEVERAL = 16,  /* one of several before one call of the driver: it has no tags */
};

struct gate {
	_Atomic(struct turn_page *) page; /* NULL: no turns, or not registered yet */
	_Atomic uint32_t captures; /* streams of this process that may be capturing now */
	uint32_t gpu_count;        /* of .page, written before it; so is: */
	struct launch_log *log;    /* abi/launch-log.h; NULL: none */
};

/* NULL: nothing yet. What it points to reads as zero in a child. */
extern _Atomic(struct gate *) gate_root;

/* All that is not the plain case. NULL: not counted. */
struct turn_gpu_page *gate_begin_slow(struct gate *g, CUstream stream, unsigned int flags,
	uintptr_t kind);

/* In what gate_begin() returns, for gate_end(): somebody captures, so an event of its own is put behind
 * the submission; it is metered, so its work is counted (cost-model.h), and a marker may be due after it
 * (container/gate/fences/fences.h). */
#define GATE_OWN_FENCE ((uintptr_t)1)
#define GATE_WORK      ((uintptr_t)2)
#define GATE_FENCE     ((uintptr_t)4)
#define GATE_TAGS      (GATE_OWN_FENCE | GATE_WORK | GATE_FENCE)
void gate_end_tagged(struct turn_gpu_page *p);

/* @kind: anything that says what it takes of the GPU, as far as the caller can know (cost-model.h). */
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
	/* Not for what is held anyhow. */
	if (__builtin_expect((atomic_load_explicit(&p->gate, memory_order_relaxed) &
				     (TURN_STATE | TURN_BELL)) != TURN_OPEN,
		    0))
		return gate_begin_slow(g, stream, flags, kind);
	/* Counted first: who closes the gate, or sets the bell, and then looks at .begun sees this
	 * one, or this one sees the gate. Both are sequentially consistent. */
	(void)atomic_fetch_add(&p->begun, 1);
	if (__builtin_expect((atomic_load(&p->gate) & (TURN_STATE | TURN_BELL)) == TURN_OPEN,
		    1)) {
		if (__builtin_expect(g->log != NULL, 0))
			launches_add(g->log, kind);
		return p;
	}
	(void)atomic_fetch_sub(&p->begun, 1);
	return gate_begin_slow(g, stream, flags, kind);
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

/* The same for a copy or a fill of @bytes. */
static inline void gate_end_copy(struct turn_gpu_page *p, uint64_t bytes)
{
	struct turn_gpu_page *page = (struct turn_gpu_page *)((uintptr_t)p & ~GATE_TAGS);

	if (!page)
		return;
	(void)atomic_fetch_add_explicit(&page->copies, 1, memory_order_relaxed);
	(void)atomic_fetch_add_explicit(&page->bytes, bytes, memory_order_relaxed);
	gate_end(p);
}

/*
 * Around the call of what is no work but may make a stream wait for another thread, or for another process:
 *
 *	struct gate_block k = gate_block(stream, 0);
 *	r = REAL(cuStreamWaitValue32_v2)(...);
 *	gate_blocked(&k, r);
 *
 * What is in flight behind it may then wait for a thread that stands at the closed gate (container/gate/fences/fences.h: parked). It
 * is never held, and not counted; nor noted where it goes into a capture. @flags: GATE_OWN. In no slice that
 * is a load and a branch.
 */
struct gate_block {
	CUstream stream;
	unsigned int slot; /* container/gate/fences/fences.h; 0: nothing is to be noted */
	unsigned int gpu;
	bool own;
};

void gate_block_slow(struct gate_block *k, CUstream stream, unsigned int flags);
void gate_blocked_slow(const struct gate_block *k, bool given);

static inline struct gate_block gate_block(CUstream stream, unsigned int flags)
{
	struct gate_block k = { 0 };

	if (!atomic_load_explicit(&link_off, memory_order_relaxed))
		gate_block_slow(&k, stream, flags);
	return k;
}

static inline void gate_blocked(const struct gate_block *k, CUresult r)
{
	if (k->slot)
		gate_blocked_slow(k, !r);
}

/*
 * Around the call that begins a capture, and after one that ends it. Between the two no marker of a whole
 * context is recorded, which would spoil the capture; before the first it is waited for that none is
 * being recorded.
 */
void gate_capture_begins(void);
void gate_capture_failed(void); /* it did not begin after all */
void gate_capture_ended(void);
