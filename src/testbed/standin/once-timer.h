/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One call of a function after a delay, on a libuv loop. Does not keep the loop alive. Thread: loop.
 */
#include <stdint.h>
#include <uv.h>

struct once_timer;

/* NULL: no memory. The object is invalid once @fn runs. */
struct once_timer *once_timer_start(uv_loop_t *loop, uint64_t delay_ns, void (*fn)(void *arg),
	void *arg);

/* Prevents the call of @fn. Returns NULL; accepts NULL. */
struct once_timer *once_timer_cancel(struct once_timer *l);
