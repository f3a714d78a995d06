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
 * Orders. FREE and SET are written by gate_slot_release() alone, which releases; or they are the zeros of the
 * beginning. gate_slot_claim() succeeds on one of these two, and acquires: so it comes after all that was done
 * with the slot by who had it last, and by all before. gate_slot_read_state() acquires too: the atomics in the slot,
 * read relaxed, are no older than the state that was seen. A state says nothing of other memory: where that
 * matters a counter of the user's is the order.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda-api.h"

enum gate_slot_state { GATE_SLOT_FREE, GATE_SLOT_CLAIMED, GATE_SLOT_SET };

/* Written by who has it claimed: relaxed, as it is given back with release. */
struct gate_slot {
	_Atomic uint32_t state;
	_Atomic uint32_t gpu;       /* SET: what it is about */
	_Atomic(CUcontext) context; /* of the events in it; NULL: none are */
};

static inline enum gate_slot_state gate_slot_read_state(const struct gate_slot *s)
{
	return (enum gate_slot_state)atomic_load_explicit(&s->state, memory_order_acquire);
}

/* Claims it, if it is in @state. */
static inline bool gate_slot_claim(struct gate_slot *s, enum gate_slot_state state)
{
	uint32_t was = state;

	return atomic_compare_exchange_strong_explicit(&s->state, &was, GATE_SLOT_CLAIMED,
		memory_order_acquire, memory_order_relaxed);
}

/* It is claimed by the calling thread. @state: FREE or SET. */
static inline void gate_slot_release(struct gate_slot *s, enum gate_slot_state state)
{
	atomic_store_explicit(&s->state, state, memory_order_release);
}

static inline uint32_t gate_slot_gpu(const struct gate_slot *s)
{
	return atomic_load_explicit(&s->gpu, memory_order_relaxed);
}

static inline CUcontext gate_slot_context(const struct gate_slot *s)
{
	return atomic_load_explicit(&s->context, memory_order_relaxed);
}

static inline void gate_slot_set_gpu(struct gate_slot *s, unsigned int gpu)
{
	atomic_store_explicit(&s->gpu, gpu, memory_order_relaxed);
}

static inline void gate_slot_set_context(struct gate_slot *s, CUcontext context)
{
	atomic_store_explicit(&s->context, context, memory_order_relaxed);
}

/* Claims one that has events of @context, which has gone. *was: its state before. Who has it claimed already
 * uses a context that is being destroyed, or puts another one in its place. */
static inline bool gate_slot_claim_gone(struct gate_slot *s, CUcontext context,
	enum gate_slot_state *was)
{
	*was = gate_slot_read_state(s);
	if (*was == GATE_SLOT_CLAIMED || gate_slot_context(s) != context ||
		!gate_slot_claim(s, *was))
		return false;
	if (gate_slot_context(s) == context)
		return true;
	gate_slot_release(s, *was);
	return false;
}
