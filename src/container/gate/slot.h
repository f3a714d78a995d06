/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One slot of a table that many threads share without a lock.
 *
 *	FREE ─claim─▶ CLAIMED ─release─▶ SET ─claim─▶ CLAIMED ─release─▶ FREE or SET
 *
 * A thread that has claimed a slot is alone with its contents. No thread waits: a thread that finds a
 * slot claimed goes on to the next slot. So a thread claims a slot only to use it. Before the claim the
 * thread reads the slot's state and atomics. They may have changed by the time of the claim. A thread that
 * relies on their values reads them again after the claim.
 *
 * Memory order.
 * 1. Only gate_slot_release() writes FREE and SET, with release; or they are the zeros of the beginning.
 * 2. gate_slot_claim() succeeds on one of the two, with acquire. So it comes after all that every earlier
 *    claimer did with the slot.
 * 3. gate_slot_read_state() acquires, too. So the slot's atomics, then read relaxed, are no older than
 *    the state.
 *
 * A state does not order other memory. Where that matters, a counter of the caller does.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda-api.h"

enum gate_slot_state { GATE_SLOT_FREE, GATE_SLOT_CLAIMED, GATE_SLOT_SET };

/* Written by the thread that has claimed the slot: relaxed, as it then releases the slot. */
struct gate_slot {
	_Atomic uint32_t state;     /* enum gate_slot_state */
	_Atomic uint32_t gpu;       /* SET: the GPU of the slot's events */
	_Atomic(CUcontext) context; /* of the slot's events; NULL: it has none */
};

static inline enum gate_slot_state gate_slot_read_state(const struct gate_slot *s)
{
	return (enum gate_slot_state)atomic_load_explicit(&s->state, memory_order_acquire);
}

/* Claims the slot, if it is in @state. */
static inline bool gate_slot_claim(struct gate_slot *s, enum gate_slot_state state)
{
	uint32_t was = state;

	return atomic_compare_exchange_strong_explicit(&s->state, &was, GATE_SLOT_CLAIMED,
		memory_order_acquire, memory_order_relaxed);
}

/* The calling thread has claimed the slot. @state: FREE or SET. */
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

/* Claims a slot that has events of @context, which has gone. *was: its state before. A slot that another
 * thread has claimed is left: that thread uses a context that is being destroyed, or replaces it. */
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
