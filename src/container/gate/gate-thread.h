/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The gate thread: this library's only thread in a process, there only if the slice has gates. It knows
 * when work that the process sent to a GPU is done, and reports that to the arbiter.
 *
 * Fences. A fence is an event recorded on a whole context (cuCtxRecordEvent: it waits for all streams and
 * orders nothing; measured: driver 580, 0.2 us). A fence that was recorded when .ended was n, and has
 * passed, means .done = n. While any stream of the process captures, such a call would spoil the capture.
 * The submitting threads then record an event behind each of their own submissions instead.
 *
 * Polls.
 *
 *	TURN_OPEN     seldom, as no slice waits: 50 us after the doorbell, then ever later, up to 2 ms.
 *	TURN_THROTTLED  so often that it sees an end 20 to 50 us after it; lets .window_ns of work through.
 *	TURN_CLOSED   as often as TURN_THROTTLED, until what was in flight is done, and reports that.
 *	nothing in flight for a while     reports that, sets TURN_DOORBELL, and sleeps until TURN_DOORBELL is taken away.
 *
 * pace.h has its decisions and the times of its polls, container/gate/fences/fences.h the fences,
 * internal.h the reports.
 *
 * No arbiter. The connection hangs up, or the arbiter has read none of its packets for two seconds. A
 * process of a slice with a cap then holds itself to its part of the cap, by a bucket of its own. All
 * other processes go on. The gate thread tries to register again, with the same page, and never waits for
 * an answer.
 *
 * Limits. The gate thread takes no signals and allocates nothing after its start. It calls the driver in
 * the relaxed capture mode and holds no lock while it sleeps. It ends when the driver shuts down or has
 * no cuCtxRecordEvent. A child of fork has no gate thread and registers again. Thread: any.
 */
#include "container/gate/gate.h"

/* Registers the process with the scheduler and starts the gate thread, once. Returns the page. NULL: the
 * slice has no gates, or registration failed (mostly after a warning), and work goes on unheld. */
struct turn_page *gate_thread_start(void);

/* Wakes the gate thread: work is in flight, or a thread waits. */
void gate_thread_wake(void);

/* Makes known a context that the program made or retained on the GPU at place @gpu of the page. A context
 * that is known and not broken stays as it is. */
void gate_thread_add_context(CUcontext ctx, unsigned int gpu);
/* Before a driver call that may destroy @ctx. Until one of the next two calls no thread touches the context,
 * and its work counts as in flight. An unknown context: nothing happens. */
void gate_thread_context_leaves(CUcontext ctx);
/* @ctx is destroyed: its work counts as done. */
void gate_thread_context_gone(CUcontext ctx);
/* The driver has not destroyed @ctx. */
void gate_thread_context_stays(CUcontext ctx);
