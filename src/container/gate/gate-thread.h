/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The one thread of ours in a process, there only if its slice takes turns: it knows when work that was
 * sent to a GPU is done, and tells the arbiter.
 *
 * A marker is an event recorded on a whole context (cuCtxRecordEvent: it waits for all streams and
 * orders nothing; measured: driver 580, 0.2 us). One that was recorded when .ended was n and has passed
 * says .done = n. While any stream of the process captures, which such a call would spoil, the
 * submitting threads record an event behind each of their own submissions instead.
 *
 *	OPEN       looks seldom, as nobody waits: 50 us after the bell, then ever later, up to 2 ms
 *	METERED    looks so often that it sees an end 20 to 50 us after it; lets .window_ns of work through
 *	CLOSED     the same, until what was in flight is done, and says so
 *	nothing in flight for a while     says so, sets BELL, and sleeps until that is taken away
 *
 * What it decides and when it looks is in pace.h; markers are in container/gate/fences/fences.h, what is said in process.h.
 *
 * The arbiter gone (its connection hangs up), or it has read nothing for two seconds of what it was told: a
 * process of a slice with a cap holds itself to its part of that by a bucket of its own, all others go on;
 * the keeper tries to register again, with the same page, and never waits for an answer.
 *
 * It takes no signals, allocates nothing after its start, makes its calls of the driver in the relaxed
 * capture mode, holds no lock across a wait, and ends when the driver says that it shuts down. It is not
 * there in a child of fork; that begins anew. Thread: any.
 */
#include "container/gate/gate.h"

/* Registers this process's turns and starts the thread, once. The page, or NULL: this slice takes no
 * turns, or it cannot be done (a warning said so) and work goes on unheld. */
struct turn_page *gate_thread_start(void);

/* Wakes it: there is work in flight, or somebody waits. */
void gate_thread_wake(void);

/* A context of the GPU at place @gpu of the page, made or retained by the program. */
void gate_thread_add_context(CUcontext ctx, unsigned int gpu);
/* Before it may go; until one of the two that follow nobody touches it, and what is in it counts as in
 * flight. Of one that is not known: nothing. */
void gate_thread_context_leaves(CUcontext ctx);
void gate_thread_context_gone(CUcontext ctx);
void gate_thread_context_stays(CUcontext ctx);
