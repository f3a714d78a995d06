/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One call per turn of the loop, however often it is asked for. Whatever happens to the agent marks that there is
 * something to reconcile, and the one reconcile of that turn sees all of it at once, from the loop and never from
 * inside the code that something happened to.
 * Thread: loop.
 */
#include <stdbool.h>
#include <uv.h>

struct wake {
	uv_idle_t idle; /* while it is active the loop does not block */
	void (*fn)(void *arg);
	void *arg;
};

/* Calls @fn with @arg, once for all wake_up() before it. */
void wake_init(struct wake *w, uv_loop_t *loop, void (*fn)(void *arg), void *arg);

/* Asks for a call in the next turn of the loop. After wake_close() it does nothing. */
void wake_up(struct wake *w);

/* No call comes after this. The loop has to run until the handle is closed. */
void wake_close(struct wake *w);
