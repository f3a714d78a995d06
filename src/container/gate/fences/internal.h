/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What fences.c, own.c and wait.c share. The caller holds the lock, except for fence_answer(),
 * fence_make_event(), fence_record_event() and fences_lock_context(). Thread: any. */
#include "container/gate/fences/fences.h"

#define FENCE_EVENT_FLAGS 2U /* no timing */

/* What the driver's answer to a call about a context or an event means for a fence. */
enum fence_answer {
	FENCE_PASSED,             /* success: the event has passed, or the call was done */
	FENCE_PENDING,            /* the event has not passed */
	FENCE_REFUSED,            /* a stream captures */
	FENCE_UNKNOWN,            /* any other error: it shows nothing */
	FENCE_GONE,               /* no such context or event */
	FENCE_BROKEN,             /* the context has an error that stays */
	FENCE_MISSING,            /* the driver lacks the function */
	FENCE_ANSWER_DRIVER_DOWN, /* the driver shuts down */
};

/* The meaning of @r, the driver's answer. */
enum fence_answer fence_answer(CUresult r);

/* Makes an event of the current context, unless *event is one. False: none can be made; *event is NULL. */
bool fence_make_event(CUevent *event);
/* Records @event in @stream, which does not capture. @thread_stream: stream 0 is the calling thread's own
 * (_ptsz). False: the driver refused it. */
bool fence_record_event(CUevent event, CUstream stream, bool thread_stream);

/* Whether no thread may touch the context now. */
bool fences_is_context_leaving(struct fences *f, CUcontext context);
/* Takes the lock, so that the context does not go meanwhile, if the lock is free. False: the lock is not
 * free, or the context is leaving; the lock is not taken. */
bool fences_lock_context(struct fences *f, CUcontext context);

/* Polls the own fences of @gpu. *pending: some have not passed, or are about to be recorded. Returns
 * FENCE_PASSED, or FENCE_ANSWER_DRIVER_DOWN. */
enum fence_answer fences_poll_own(struct fences *f, unsigned int gpu, bool *pending);

/* The context has gone: its own fences count as passed, and their slots are free. */
void fences_drop_own(struct fences *f, CUcontext context);

/* Whether a stream of @gpu is blocked at a wait that others must end. */
bool fences_poll_blocked(struct fences *f, unsigned int gpu);
/* The context has gone: the slots of its waits are free. */
void fences_drop_waits(struct fences *f, CUcontext context);
