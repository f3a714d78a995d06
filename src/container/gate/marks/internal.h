/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What marks.c, own.c and wait.c share. The lock is held, but where an event is all that is
 * asked about. */
#include "container/gate/marks/marks.h"

#define MARKS_EVENT_FLAGS 2U /* no timing */

enum marks_answer {
	PASSED,
	PENDING,
	REFUSED, /* a stream captures */
	UNKNOWN,
	GONE,   /* there is no such thing */
	BROKEN, /* the context is, for good */
	MISSING,
	OVER,
};

enum marks_answer marks_answer(CUresult r);

/* Of the current context, unless there is one. False: none is to be had. */
bool marks_make_event(CUevent *event);
bool marks_record(CUevent event, CUstream stream, bool thread_stream);

struct marks_context *marks_find(struct marks *m, CUcontext context);
/* Whether it is not to be touched now. */
bool marks_is_leaving(struct marks *m, CUcontext context);
/* Takes the lock, so that it does not go meanwhile, where that can be had at once. False: it is not, or the
 * context is leaving. */
bool marks_hold(struct marks *m, CUcontext context);

/* Looks at the events behind single submissions. *pending: there are some, or are about to be. */
enum marks_answer marks_look_at_own(struct marks *m, unsigned int gpu, bool *pending);

/* What was in it is over, and its events are no more. */
void marks_drop_own(struct marks *m, CUcontext context);

/* Whether a stream of @gpu stands at a wait that others must end. */
bool marks_waits_block(struct marks *m, unsigned int gpu);
void marks_drop_waits(struct marks *m, CUcontext context);
