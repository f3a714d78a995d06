/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a part of the agent asks of the loop: a reconcile, or the end of the program.
 *
 * A wake calls a function once per iteration of the loop, however many wake_up() ask for it. An event that may
 * change the offer calls wake_up(). So one reconcile handles all events of an iteration. It runs from the loop,
 * never from inside the code that reports an event.
 *
 * A failure is an error that ends the program: failure_set() stops the loop, and main() reports the error.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <uv.h>

/* --- wake --- */

struct wake {
	uv_idle_t idle; /* while active, the loop does not block */
	void (*fn)(void *arg);
	void *arg;
};

/* Calls @fn with @arg, once for all wake_up() before it. */
void wake_init(struct wake *w, uv_loop_t *loop, void (*fn)(void *arg), void *arg);

/* Requests a call in the next iteration of the loop. No effect after wake_close(). */
void wake_up(struct wake *w);

/* No call comes after this. The loop must run until the handle is closed. */
void wake_close(struct wake *w);

/* --- the end --- */

struct failure {
	uv_loop_t *loop;
	struct error why; /* ERR_NONE: none */
};

/* Only the first error counts. */
void failure_set(struct failure *f, const struct error *why);
