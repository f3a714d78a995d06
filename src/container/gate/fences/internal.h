/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What fences.c, own.c and wait.c share. The caller holds the lock, except for fence_answer(),
 * fence_make_event(), fence_record_event() and fences_lock_context(). */
#include "container/gate/fences/fences.h"

#define FENCE_EVENT_FLAGS 2U /* no timing */

enum fence_answer {
	FENCE_PASSED,
	FENCE_PENDING,
	FENCE_REFUSED, /* a stream captures */
	FENCE_UNKNOWN,
	FENCE_GONE,   /* no such context or event */
	FENCE_BROKEN, /* the context is, for good */
	FENCE_MISSING,
	FENCE_ANSWER_DRIVER_DOWN,
};

enum fence_answer fence_answer(CUresult r);

/* Makes an event of the current context, unless there is one. False: none can be made. */
bool fence_make_event(CUevent *event);
bool fence_record_event(CUevent event, CUstream stream, bool thread_stream);

/* Whether no thread may touch the context now. */
bool fences_is_context_leaving(struct fences *m, CUcontext context);
/* Takes the lock, so that the context does not go meanwhile, if the lock is free. False: it is not, or
 * the context is leaving. */
bool fences_lock_context(struct fences *m, CUcontext context);

/* Polls the events behind single submissions. *pending: there are some, or are about to be. */
enum fence_answer fences_poll_own(struct fences *m, unsigned int gpu, bool *pending);

/* The context has gone: its work is over, and its events are no more. */
void fences_drop_own(struct fences *m, CUcontext context);

/* Whether a stream of @gpu is blocked at a wait that others must end. */
bool fences_poll_blocked(struct fences *m, unsigned int gpu);
void fences_drop_waits(struct fences *m, CUcontext context);
