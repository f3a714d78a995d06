/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What fences.c, own.c and wait.c share. The lock is held, but where an event is all that is
 * asked about. */
#include "container/gate/fences/fences.h"

#define FENCE_EVENT_FLAGS 2U /* no timing */

enum fence_answer {
	FENCE_PASSED,
	FENCE_PENDING,
	FENCE_REFUSED, /* a stream captures */
	FENCE_UNKNOWN,
	FENCE_GONE,   /* there is no such thing */
	FENCE_BROKEN, /* the context is, for good */
	FENCE_MISSING,
	FENCE_ANSWER_DRIVER_DOWN,
};

enum fence_answer fence_answer(CUresult r);

/* Of the current context, unless there is one. False: none is to be had. */
bool fence_make_event(CUevent *event);
bool fence_record_event(CUevent event, CUstream stream, bool thread_stream);

struct fence_context *fences_find_context(struct fences *m, CUcontext context);
/* Whether it is not to be touched now. */
bool fences_is_context_leaving(struct fences *m, CUcontext context);
/* Takes the lock, so that it does not go meanwhile, where that can be had at once. False: it is not, or the
 * context is leaving. */
bool fences_lock_context(struct fences *m, CUcontext context);

/* Looks at the events behind single submissions. *pending: there are some, or are about to be. */
enum fence_answer fences_poll_own(struct fences *m, unsigned int gpu, bool *pending);

/* What was in it is over, and its events are no more. */
void fences_drop_own(struct fences *m, CUcontext context);

/* Whether a stream of @gpu stands at a wait that others must end. */
bool fences_poll_blocked(struct fences *m, unsigned int gpu);
void fences_drop_waits(struct fences *m, CUcontext context);
