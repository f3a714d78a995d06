/* SPDX-License-Identifier: Apache-2.0 */

/* Events behind single submissions. */
#include "container/cuda/quiet.h"
#include "container/cuda/stream.h"
#include "container/gate/marks/internal.h"

#define TRIES 64 /* for a slot that somebody just looks at */

/* One that is to be put behind a submission. */
struct wish {
	unsigned int gpu;
	CUcontext context;
	uint64_t stream, after;
};

/* Its event went with its context. */
static void forget(struct marks_own *o)
{
	slot_set_context(&o->slot, NULL);
	o->event = NULL;
}

/* ---- looking ------------------------------------------------------------------------------------ */

/* What it was behind is done. One that came before the last marker that has passed is counted by that. */
static void count(struct marks *m, struct marks_own *o)
{
	struct marks_ring *r = &m->rings[slot_gpu(&o->slot)];
	uint64_t after = atomic_load_explicit(&o->after, memory_order_relaxed);

	if (after < r->passed)
		return;
	r->beyond[after % MARKS_PENDING] += o->n;
	if (atomic_load(&r->stuck))
		atomic_store(&r->stuck, 2);
}

/* A submission gives its slot back before it counts .ended. Who has read that sees it here, SET or claimed by
 * one who adds another submission; so what is counted there and is in flight is never overlooked. */
enum marks_answer marks_look_at_own(struct marks *m, unsigned int gpu, bool *pending)
{
	*pending = false;
	for (unsigned int i = 0; i < MARKS_OWN; i++) {
		struct marks_own *o = &m->own[i];
		enum slot_state state = slot_look(&o->slot);
		enum marks_answer a = PENDING;

		if (state == SLOT_CLAIMED)
			*pending = true;
		if (state != SLOT_SET || slot_gpu(&o->slot) != gpu)
			continue;
		if (!slot_take(&o->slot, SLOT_SET)) {
			*pending = true;
			continue;
		}
		if (!marks_is_leaving(m, slot_context(&o->slot)))
			a = marks_answer(REAL(cuEventQuery)(o->event));
		if (a == BROKEN || a == GONE)
			forget(o);
		if (a == BROKEN || a == GONE || a == PASSED) {
			count(m, o);
			slot_give(&o->slot, SLOT_FREE);
			continue;
		}
		slot_give(&o->slot, SLOT_SET);
		if (a == OVER)
			return OVER;
		*pending = true;
	}
	return PASSED;
}

void marks_drop_own(struct marks *m, CUcontext context)
{
	for (unsigned int i = 0; i < MARKS_OWN; i++) {
		struct marks_own *o = &m->own[i];
		enum slot_state was;

		if (!slot_take_gone(&o->slot, context, &was))
			continue;
		if (was == SLOT_SET)
			count(m, o);
		forget(o);
		slot_give(&o->slot, SLOT_FREE);
	}
}

/* ---- putting one behind ------------------------------------------------------------------------- */

/* Whether a slot that is free is the best there is: with an event of that context, with none, with any. */
static bool suits(const struct marks_own *o, CUcontext context, unsigned int pass)
{
	return pass == 2 || slot_context(&o->slot) == (pass ? NULL : context);
}

static struct marks_own *claim_free(struct marks *m, CUcontext context)
{
	for (unsigned int pass = 0; pass < 3; pass++)
		for (unsigned int i = 0; i < MARKS_OWN; i++) {
			struct marks_own *o = &m->own[i];

			if (slot_look(&o->slot) == SLOT_FREE && suits(o, context, pass) &&
				slot_take(&o->slot, SLOT_FREE))
				return o;
		}
	return NULL;
}

static bool fits(const struct marks_own *o, const struct wish *w)
{
	return w->stream && slot_context(&o->slot) == w->context &&
	       slot_gpu(&o->slot) == w->gpu &&
	       atomic_load_explicit(&o->stream, memory_order_relaxed) == w->stream &&
	       atomic_load_explicit(&o->after, memory_order_relaxed) == w->after;
}

static uint64_t order_of(const struct marks_own *o)
{
	return atomic_load_explicit(&o->order, memory_order_relaxed);
}

/* The last one that is set behind the same stream: what was submitted before has an end of its own. */
static struct marks_own *claim_set(struct marks *m, const struct wish *w)
{
	struct marks_own *ret = NULL;

	for (unsigned int i = 0; i < MARKS_OWN; i++) {
		struct marks_own *o = &m->own[i];

		if (slot_look(&o->slot) == SLOT_SET && fits(o, w) &&
			(!ret || order_of(o) > order_of(ret)))
			ret = o;
	}
	if (!ret || !slot_take(&ret->slot, SLOT_SET))
		return NULL;
	if (fits(ret, w))
		return ret;
	slot_give(&ret->slot, SLOT_SET);
	return NULL;
}

static unsigned int count_free(struct marks *m)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < MARKS_OWN; i++)
		n += slot_look(&m->own[i].slot) == SLOT_FREE;
	return n;
}

/* *shared: it is behind others already. */
static struct marks_own *claim(struct marks *m, const struct wish *w, bool *shared)
{
	struct marks_own *o = NULL;

	for (unsigned int i = 0; !o && i < TRIES; i++) {
		*shared = true;
		if (count_free(m) < MARKS_OWN_FEW)
			o = claim_set(m, w);
		if (o)
			break;
		*shared = false;
		o = claim_free(m, w->context);
	}
	return o;
}

/* One of @w->context in a slot that was free. */
static bool make(struct marks *m, struct marks_own *o, const struct wish *w)
{
	CUcontext was = slot_context(&o->slot);

	if (o->event && was != w->context) {
		if (!marks_hold(m, was))
			return false;
		(void)REAL(cuEventDestroy_v2)(o->event);
		sys_unlock(&m->lock);
		o->event = NULL;
	}
	slot_set_context(&o->slot, w->context);
	return marks_make_event(&o->event);
}

static uint64_t number_of(CUstream stream, bool thread_stream)
{
	unsigned long long ret = 0;

	if (thread_stream ? REAL(cuStreamGetId_ptsz)(stream, &ret)
			  : REAL(cuStreamGetId)(stream, &ret))
		return 0;
	return ret + 1;
}

static void put(struct marks *m, const struct wish *w, CUstream stream, bool thread_stream)
{
	struct marks_own *o;
	bool shared;

	o = claim(m, w, &shared);
	if (!o)
		return;
	if (!shared && !make(m, o, w)) {
		slot_give(&o->slot, SLOT_FREE);
	} else if (!marks_record(o->event, stream, thread_stream)) {
		slot_give(&o->slot, shared ? SLOT_SET : SLOT_FREE);
	} else {
		o->n = shared ? o->n + 1 : 1;
		slot_set_gpu(&o->slot, w->gpu);
		atomic_store_explicit(&o->stream, w->stream, memory_order_relaxed);
		atomic_store_explicit(&o->after, w->after, memory_order_relaxed);
		atomic_store_explicit(&o->order,
			atomic_fetch_add_explicit(&m->order, 1, memory_order_relaxed) + 1,
			memory_order_relaxed);
		slot_give(&o->slot, SLOT_SET);
	}
}

void marks_behind(struct marks *m, unsigned int gpu, CUstream stream, bool thread_stream)
{
	unsigned int mode = quiet_begin();
	struct wish w = { .gpu = gpu };

	/* It is read before .ended counts the submission: markers up to this one do not count it. */
	w.after = atomic_load(&m->rings[gpu].placed);
	w.context = marks_current();
	if (w.context && !stream_captures(stream, thread_stream)) {
		w.stream = number_of(stream, thread_stream);
		put(m, &w, stream, thread_stream);
	}
	quiet_end(mode);
}
