/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One slot of a table that many threads share without a lock.
 *
 *	FREE ── take ──▶ CLAIMED ── give ──▶ SET ── take ──▶ CLAIMED ── give ──▶ FREE or SET
 *
 * Who has it claimed is alone with what lies in it. Nobody waits: who finds one claimed goes on to the next.
 * So nobody claims one but to use it: one looks at it first, at its state and at what in it is atomic. That
 * may have changed when it is claimed; who relies on it looks again then.
 *
 * Orders. FREE and SET are written by slot_give() alone, which releases; or they are the zeros of the
 * beginning. slot_take() succeeds on one of these two, and acquires: so it comes after all that was done
 * with the slot by who had it last, and by all before. slot_look() acquires too: the atomics in the slot,
 * read relaxed, are no older than the state that was seen. A state says nothing of other memory: where that
 * matters a counter of the user's is the order.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda-api.h"

enum slot_state { SLOT_FREE, SLOT_CLAIMED, SLOT_SET };

/* Written by who has it claimed: relaxed, as it is given back with release. */
struct slot {
	_Atomic uint32_t state;
	_Atomic uint32_t gpu;       /* SET: what it is about */
	_Atomic(CUcontext) context; /* of the events in it; NULL: none are */
};

static inline enum slot_state slot_look(const struct slot *s)
{
	return (enum slot_state)atomic_load_explicit(&s->state, memory_order_acquire);
}

/* Claims it, if it is in @state. */
static inline bool slot_take(struct slot *s, enum slot_state state)
{
	uint32_t was = state;

	return atomic_compare_exchange_strong_explicit(&s->state, &was, SLOT_CLAIMED,
		memory_order_acquire, memory_order_relaxed);
}

/* It is claimed by the calling thread. @state: FREE or SET. */
static inline void slot_give(struct slot *s, enum slot_state state)
{
	atomic_store_explicit(&s->state, state, memory_order_release);
}

static inline uint32_t slot_gpu(const struct slot *s)
{
	return atomic_load_explicit(&s->gpu, memory_order_relaxed);
}

static inline CUcontext slot_context(const struct slot *s)
{
	return atomic_load_explicit(&s->context, memory_order_relaxed);
}

static inline void slot_set_gpu(struct slot *s, unsigned int gpu)
{
	atomic_store_explicit(&s->gpu, gpu, memory_order_relaxed);
}

static inline void slot_set_context(struct slot *s, CUcontext context)
{
	atomic_store_explicit(&s->context, context, memory_order_relaxed);
}

/* Claims one that has events of @context, which has gone. *was: its state before. Who has it claimed already
 * uses a context that is being destroyed, or puts another one in its place. */
static inline bool slot_take_gone(struct slot *s, CUcontext context, enum slot_state *was)
{
	*was = slot_look(s);
	if (*was == SLOT_CLAIMED || slot_context(s) != context || !slot_take(s, *was))
		return false;
	if (slot_context(s) == context)
		return true;
	slot_give(s, *was);
	return false;
}
