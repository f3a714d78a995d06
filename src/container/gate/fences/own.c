/* SPDX-License-Identifier: Apache-2.0 */

/* Events behind single submissions. */
#include "container/cuda/driver.h"
#include "container/cuda/stream.h"
#include "container/gate/fences/internal.h"

#define TRIES 64 /* for a slot that another thread has claimed briefly */

/* An event to record behind a submission. */
struct own_fence_request {
	unsigned int gpu;
	CUcontext context;
	uint64_t stream, after;
};

/* The event went with its context. */
static void clear_own_fence(struct own_fence *o)
{
	gate_slot_set_context(&o->slot, NULL);
	o->event = NULL;
}

/* --- polling --- */

/* The submissions that the event was behind are done. If a fence later than .after has passed, that fence
 * counts them, or the next one does. */
static void count_own_fence_done(struct fences *f, struct own_fence *o)
{
	struct fence_ring *r = &f->rings[gate_slot_gpu(&o->slot)];
	uint64_t after = atomic_load_explicit(&o->after, memory_order_relaxed);

	if (after < r->passed)
		return;
	r->done_beyond[after % FENCES_PENDING] += o->n;
	if (atomic_load(&r->stuck))
		atomic_store(&r->stuck, 2);
}

/* 1. A submitting thread releases its slot, then counts .ended.
 * 2. The polling thread loads .ended, then the slots.
 * 3. So each such submission that .ended counts and that is in flight has a slot that is SET, or claimed
 *    by a thread that adds another submission. None is overlooked. */
enum fence_answer fences_poll_own(struct fences *f, unsigned int gpu, bool *pending)
{
	*pending = false;
	for (unsigned int i = 0; i < OWN_FENCES; i++) {
		struct own_fence *o = &f->own_fences[i];
		enum gate_slot_state state = gate_slot_read_state(&o->slot);
		enum fence_answer a = FENCE_PENDING;

		if (state == GATE_SLOT_CLAIMED)
			*pending = true;
		if (state != GATE_SLOT_SET || gate_slot_gpu(&o->slot) != gpu)
			continue;
		if (!gate_slot_claim(&o->slot, GATE_SLOT_SET)) {
			*pending = true;
			continue;
		}
		if (!fences_is_context_leaving(f, gate_slot_context(&o->slot)))
			a = fence_answer(REAL(cuEventQuery)(o->event));
		if (a == FENCE_BROKEN || a == FENCE_GONE)
			clear_own_fence(o);
		if (a == FENCE_BROKEN || a == FENCE_GONE || a == FENCE_PASSED) {
			count_own_fence_done(f, o);
			gate_slot_release(&o->slot, GATE_SLOT_FREE);
			continue;
		}
		gate_slot_release(&o->slot, GATE_SLOT_SET);
		if (a == FENCE_ANSWER_DRIVER_DOWN)
			return FENCE_ANSWER_DRIVER_DOWN;
		*pending = true;
	}
	return FENCE_PASSED;
}

void fences_drop_own(struct fences *f, CUcontext context)
{
	for (unsigned int i = 0; i < OWN_FENCES; i++) {
		struct own_fence *o = &f->own_fences[i];
		enum gate_slot_state was;

		if (!gate_slot_claim_gone(&o->slot, context, &was))
			continue;
		if (was == GATE_SLOT_SET)
			count_own_fence_done(f, o);
		clear_own_fence(o);
		gate_slot_release(&o->slot, GATE_SLOT_FREE);
	}
}

/* --- recording --- */

/* Whether a free slot fits the pass: 0: it has an event of @context; 1: it has no event; 2: any slot. */
static bool is_own_slot_suitable(const struct own_fence *o, CUcontext context,
	unsigned int pass)
{
	return pass == 2 || gate_slot_context(&o->slot) == (pass ? NULL : context);
}

static struct own_fence *claim_free_own_fence(struct fences *f, CUcontext context)
{
	for (unsigned int pass = 0; pass < 3; pass++)
		for (unsigned int i = 0; i < OWN_FENCES; i++) {
			struct own_fence *o = &f->own_fences[i];

			if (gate_slot_read_state(&o->slot) == GATE_SLOT_FREE &&
				is_own_slot_suitable(o, context, pass) &&
				gate_slot_claim(&o->slot, GATE_SLOT_FREE))
				return o;
		}
	return NULL;
}

static bool is_own_fence_match(const struct own_fence *o,
	const struct own_fence_request *request)
{
	return request->stream && gate_slot_context(&o->slot) == request->context &&
	       gate_slot_gpu(&o->slot) == request->gpu &&
	       atomic_load_explicit(&o->stream, memory_order_relaxed) == request->stream &&
	       atomic_load_explicit(&o->after, memory_order_relaxed) == request->after;
}

static uint64_t get_own_fence_order(const struct own_fence *o)
{
	return atomic_load_explicit(&o->order, memory_order_relaxed);
}

/* The last slot that is set behind the same stream: earlier submissions keep an end of their own. */
static struct own_fence *claim_set_own_fence(struct fences *f,
	const struct own_fence_request *request)
{
	struct own_fence *ret = NULL;

	for (unsigned int i = 0; i < OWN_FENCES; i++) {
		struct own_fence *o = &f->own_fences[i];

		if (gate_slot_read_state(&o->slot) == GATE_SLOT_SET &&
			is_own_fence_match(o, request) &&
			(!ret || get_own_fence_order(o) > get_own_fence_order(ret)))
			ret = o;
	}
	if (!ret || !gate_slot_claim(&ret->slot, GATE_SLOT_SET))
		return NULL;
	if (is_own_fence_match(ret, request))
		return ret;
	gate_slot_release(&ret->slot, GATE_SLOT_SET);
	return NULL;
}

static unsigned int count_free(struct fences *f)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < OWN_FENCES; i++)
		n += gate_slot_read_state(&f->own_fences[i].slot) == GATE_SLOT_FREE;
	return n;
}

/* *shared: the event is behind other submissions already. */
static struct own_fence *claim_own_fence(struct fences *f,
	const struct own_fence_request *request, bool *shared)
{
	struct own_fence *o = NULL;

	for (unsigned int i = 0; !o && i < TRIES; i++) {
		*shared = true;
		if (count_free(f) < OWN_FENCES_FEW)
			o = claim_set_own_fence(f, request);
		if (o)
			break;
		*shared = false;
		o = claim_free_own_fence(f, request->context);
	}
	return o;
}

/* Makes an event of @request->context in a slot that was free. */
static bool make_own_fence_event(struct fences *f, struct own_fence *o,
	const struct own_fence_request *request)
{
	CUcontext was = gate_slot_context(&o->slot);

	if (o->event && was != request->context) {
		if (!fences_lock_context(f, was))
			return false;
		(void)REAL(cuEventDestroy_v2)(o->event);
		sys_unlock(&f->lock);
		o->event = NULL;
	}
	gate_slot_set_context(&o->slot, request->context);
	return fence_make_event(&o->event);
}

static uint64_t get_stream_number(CUstream stream, bool thread_stream)
{
	unsigned long long ret = 0;

	if (thread_stream ? REAL(cuStreamGetId_ptsz)(stream, &ret)
			  : REAL(cuStreamGetId)(stream, &ret))
		return 0;
	return ret + 1;
}

static void record_own_fence(struct fences *f, const struct own_fence_request *request,
	CUstream stream, bool thread_stream)
{
	struct own_fence *o;
	bool shared;

	o = claim_own_fence(f, request, &shared);
	if (!o)
		return;
	if (!shared && !make_own_fence_event(f, o, request)) {
		gate_slot_release(&o->slot, GATE_SLOT_FREE);
	} else if (!fence_record_event(o->event, stream, thread_stream)) {
		gate_slot_release(&o->slot, shared ? GATE_SLOT_SET : GATE_SLOT_FREE);
	} else {
		o->n = shared ? o->n + 1 : 1;
		gate_slot_set_gpu(&o->slot, request->gpu);
		atomic_store_explicit(&o->stream, request->stream, memory_order_relaxed);
		atomic_store_explicit(&o->after, request->after, memory_order_relaxed);
		atomic_store_explicit(&o->order,
			atomic_fetch_add_explicit(&f->order, 1, memory_order_relaxed) + 1,
			memory_order_relaxed);
		gate_slot_release(&o->slot, GATE_SLOT_SET);
	}
}

void fences_record_own(struct fences *f, unsigned int gpu, CUstream stream, bool thread_stream)
{
	unsigned int mode = quiet_begin();
	struct own_fence_request request = { .gpu = gpu };

	/* Read before .ended counts the submission: fences up to that number do not count it. */
	request.after = atomic_load(&f->rings[gpu].placed);
	request.context = fences_current_context();
	if (request.context && !stream_captures(stream, thread_stream)) {
		request.stream = get_stream_number(stream, thread_stream);
		record_own_fence(f, &request, stream, thread_stream);
	}
	quiet_end(mode);
}
