/* SPDX-License-Identifier: Apache-2.0 */

/* Streams that wait for others: an event before each such wait, and one behind it. */
#include "container/cuda/quiet.h"
#include "container/cuda/stream.h"
#include "container/gate/marks/internal.h"

static void forget(struct marks_wait *w)
{
	slot_set_context(&w->slot, NULL);
	w->before = w->behind = NULL;
}

/* Whether its stream is behind it. It is taken. */
static enum marks_answer look_behind(struct marks_wait *w)
{
	enum marks_answer a = marks_answer(REAL(cuEventQuery)(w->behind));

	if (a == GONE || a == BROKEN)
		forget(w);
	return a;
}

static bool is_over(struct marks_wait *w)
{
	enum marks_answer a = look_behind(w);

	return a == PASSED || a == GONE || a == BROKEN;
}

/* Of another context than the calling thread's. */
static bool is_over_elsewhere(struct marks *m, struct marks_wait *w)
{
	bool ret;

	if (!marks_hold(m, slot_context(&w->slot)))
		return false;
	ret = is_over(w);
	sys_unlock(&m->lock);
	return ret;
}

/* First those that have events of that context: one that is free, one that is over; then of any. */
enum { OF_CONTEXT, OVER_OF_CONTEXT, ANY, OVER_OF_ANY, PASSES };

/* Claims it, if it is one for that pass. */
static bool try(struct marks *m, struct marks_wait *w, CUcontext context, unsigned int pass)
{
	bool set = pass == OVER_OF_CONTEXT || pass == OVER_OF_ANY;
	enum slot_state state = set ? SLOT_SET : SLOT_FREE;
	bool its = pass == OF_CONTEXT || pass == OVER_OF_CONTEXT;

	if (slot_look(&w->slot) != state || (its && slot_context(&w->slot) != context) ||
		!slot_take(&w->slot, state))
		return false;
	if (!set || (slot_context(&w->slot) == context ? is_over(w)
						       : !its && is_over_elsewhere(m, w)))
		return true;
	slot_give(&w->slot, state);
	return false;
}

/* NULL: none. */
static struct marks_wait *claim(struct marks *m, CUcontext context)
{
	for (unsigned int pass = 0; pass < PASSES; pass++)
		for (unsigned int i = 0; i < MARKS_WAITS; i++)
			if (try(m, &m->waits[i], context, pass))
				return &m->waits[i];
	return NULL;
}

/* Both, of @context. */
static bool make(struct marks *m, struct marks_wait *w, CUcontext context)
{
	CUcontext was = slot_context(&w->slot);

	if (was && was != context) {
		if (!marks_hold(m, was))
			return false;
		if (w->before)
			(void)REAL(cuEventDestroy_v2)(w->before);
		if (w->behind)
			(void)REAL(cuEventDestroy_v2)(w->behind);
		sys_unlock(&m->lock);
		forget(w);
	}
	slot_set_context(&w->slot, context);
	return marks_make_event(&w->before) && marks_make_event(&w->behind);
}

unsigned int marks_wait_begins(struct marks *m, unsigned int gpu, CUstream stream,
	bool thread_stream)
{
	unsigned int mode = quiet_begin(), ret = 0;
	CUcontext context = marks_current();
	struct marks_wait *w = NULL;

	if (context && !stream_captures(stream, thread_stream))
		w = claim(m, context);
	if (w && make(m, w, context) && marks_record(w->before, stream, thread_stream)) {
		slot_set_gpu(&w->slot, gpu);
		ret = (unsigned int)(w - m->waits) + 1;
	} else if (w) {
		slot_give(&w->slot, SLOT_FREE);
	}
	quiet_end(mode);
	return ret;
}

void marks_wait_given(struct marks *m, unsigned int place, CUstream stream, bool thread_stream,
	bool given)
{
	struct marks_wait *w = &m->waits[place - 1];
	unsigned int mode = quiet_begin();

	given = given && marks_record(w->behind, stream, thread_stream);
	slot_give(&w->slot, given ? SLOT_SET : SLOT_FREE);
	quiet_end(mode);
}

/* Whether a stream stands at one now: all before it is over, and it is not. */
static bool blocks(struct marks_wait *w)
{
	return look_behind(w) == PENDING &&
	       marks_answer(REAL(cuEventQuery)(w->before)) == PASSED;
}

bool marks_waits_block(struct marks *m, unsigned int gpu)
{
	bool ret = false;

	for (unsigned int i = 0; i < MARKS_WAITS && !ret; i++) {
		struct marks_wait *w = &m->waits[i];

		if (slot_look(&w->slot) != SLOT_SET || slot_gpu(&w->slot) != gpu ||
			!slot_take(&w->slot, SLOT_SET))
			continue;
		ret = !marks_is_leaving(m, slot_context(&w->slot)) && blocks(w);
		slot_give(&w->slot, slot_context(&w->slot) ? SLOT_SET : SLOT_FREE);
	}
	return ret;
}

void marks_drop_waits(struct marks *m, CUcontext context)
{
	for (unsigned int i = 0; i < MARKS_WAITS; i++) {
		struct marks_wait *w = &m->waits[i];
		enum slot_state was;

		if (!slot_take_gone(&w->slot, context, &was))
			continue;
		forget(w);
		slot_give(&w->slot, SLOT_FREE);
	}
}
