/* SPDX-License-Identifier: Apache-2.0 */

/* Streams that wait for others: an event before each such wait, and one behind it. */
#include "container/cuda/driver.h"
#include "container/cuda/stream.h"
#include "container/gate/fences/internal.h"

static void clear_fence_wait(struct fence_wait *w)
{
	gate_slot_set_context(&w->slot, NULL);
	w->before = w->behind = NULL;
}

/* FENCE_PASSED: the stream has passed the wait. The slot is claimed. */
static enum fence_answer query_wait_end(struct fence_wait *w)
{
	enum fence_answer a = fence_answer(REAL(cuEventQuery)(w->behind));

	if (a == FENCE_GONE || a == FENCE_BROKEN)
		clear_fence_wait(w);
	return a;
}

static bool is_fence_wait_over(struct fence_wait *w)
{
	enum fence_answer a = query_wait_end(w);

	return a == FENCE_PASSED || a == FENCE_GONE || a == FENCE_BROKEN;
}

/* For a wait of another context than the calling thread's. */
static bool is_over_elsewhere(struct fences *f, struct fence_wait *w)
{
	bool ret;

	if (!fences_lock_context(f, gate_slot_context(&w->slot)))
		return false;
	ret = is_fence_wait_over(w);
	sys_unlock(&f->lock);
	return ret;
}

/* The order in which slots are tried: with events of the context, free, then with a wait that is over; then
 * slots of any context in the same order. */
enum { OF_CONTEXT, OVER_OF_CONTEXT, ANY, OVER_OF_ANY, PASSES };

/* Claims the slot, if it fits the pass. */
static bool try_claim_fence_wait(struct fences *f, struct fence_wait *w, CUcontext context,
	unsigned int pass)
{
	bool set = pass == OVER_OF_CONTEXT || pass == OVER_OF_ANY;
	enum gate_slot_state state = set ? GATE_SLOT_SET : GATE_SLOT_FREE;
	bool its = pass == OF_CONTEXT || pass == OVER_OF_CONTEXT;

	if (gate_slot_read_state(&w->slot) != state ||
		(its && gate_slot_context(&w->slot) != context) ||
		!gate_slot_claim(&w->slot, state))
		return false;
	if (!set || (gate_slot_context(&w->slot) == context ? is_fence_wait_over(w)
							    : !its && is_over_elsewhere(f, w)))
		return true;
	gate_slot_release(&w->slot, state);
	return false;
}

/* NULL: none. */
static struct fence_wait *claim_fence_wait(struct fences *f, CUcontext context)
{
	for (unsigned int pass = 0; pass < PASSES; pass++)
		for (unsigned int i = 0; i < FENCE_WAITS; i++)
			if (try_claim_fence_wait(f, &f->waits[i], context, pass))
				return &f->waits[i];
	return NULL;
}

/* Makes both events, in @context. */
static bool make_fence_wait_events(struct fences *f, struct fence_wait *w, CUcontext context)
{
	CUcontext was = gate_slot_context(&w->slot);

	if (was && was != context) {
		if (!fences_lock_context(f, was))
			return false;
		if (w->before)
			(void)REAL(cuEventDestroy_v2)(w->before);
		if (w->behind)
			(void)REAL(cuEventDestroy_v2)(w->behind);
		sys_unlock(&f->lock);
		clear_fence_wait(w);
	}
	gate_slot_set_context(&w->slot, context);
	return fence_make_event(&w->before) && fence_make_event(&w->behind);
}

unsigned int fences_wait_begin(struct fences *f, unsigned int gpu, CUstream stream,
	bool thread_stream)
{
	unsigned int mode = quiet_begin(), ret = 0;
	CUcontext context = fences_current_context();
	struct fence_wait *w = NULL;

	if (context && !stream_captures(stream, thread_stream))
		w = claim_fence_wait(f, context);
	if (w && make_fence_wait_events(f, w, context) &&
		fence_record_event(w->before, stream, thread_stream)) {
		gate_slot_set_gpu(&w->slot, gpu);
		ret = (unsigned int)(w - f->waits) + 1;
	} else if (w) {
		gate_slot_release(&w->slot, GATE_SLOT_FREE);
	}
	quiet_end(mode);
	return ret;
}

void fences_wait_end(struct fences *f, unsigned int place, CUstream stream, bool thread_stream,
	bool given)
{
	struct fence_wait *w = &f->waits[place - 1];
	unsigned int mode = quiet_begin();

	given = given && fence_record_event(w->behind, stream, thread_stream);
	gate_slot_release(&w->slot, given ? GATE_SLOT_SET : GATE_SLOT_FREE);
	quiet_end(mode);
}

/* Whether a stream is blocked at the wait now: all before it is over, and the wait is not. */
static bool is_fence_wait_blocking(struct fence_wait *w)
{
	return query_wait_end(w) == FENCE_PENDING &&
	       fence_answer(REAL(cuEventQuery)(w->before)) == FENCE_PASSED;
}

bool fences_poll_blocked(struct fences *f, unsigned int gpu)
{
	bool ret = false;

	for (unsigned int i = 0; i < FENCE_WAITS && !ret; i++) {
		struct fence_wait *w = &f->waits[i];

		if (gate_slot_read_state(&w->slot) != GATE_SLOT_SET ||
			gate_slot_gpu(&w->slot) != gpu ||
			!gate_slot_claim(&w->slot, GATE_SLOT_SET))
			continue;
		ret = !fences_is_context_leaving(f, gate_slot_context(&w->slot)) &&
		      is_fence_wait_blocking(w);
		gate_slot_release(&w->slot,
			gate_slot_context(&w->slot) ? GATE_SLOT_SET : GATE_SLOT_FREE);
	}
	return ret;
}

void fences_drop_waits(struct fences *f, CUcontext context)
{
	for (unsigned int i = 0; i < FENCE_WAITS; i++) {
		struct fence_wait *w = &f->waits[i];
		enum gate_slot_state was;

		if (!gate_slot_claim_gone(&w->slot, context, &was))
			continue;
		clear_fence_wait(w);
		gate_slot_release(&w->slot, GATE_SLOT_FREE);
	}
}
