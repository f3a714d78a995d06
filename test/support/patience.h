/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waiting on a loop, with a limit. Timers that are due run before a turn of the loop waits for
 * events: what was waited for may come so, or the limit itself, and nothing else need ever follow.
 * So the clock ticks on until it is stopped, and no turn is longer than a tick.
 */
#include "support/test.h"

#include <stdbool.h>
#include <uv.h>

#define PATIENCE_TICK_MS 5

struct patience {
	uv_timer_t tick;
	uint64_t end_ms; /* of the loop's clock */
	bool over;
};

static inline void patience_init(struct patience *p, uv_loop_t *loop)
{
	assert_int_equal(uv_timer_init(loop, &p->tick), 0);
	p->tick.data = p;
}

static inline void patience_on_tick(uv_timer_t *t)
{
	struct patience *p = t->data;

	p->over = uv_now(t->loop) >= p->end_ms;
}

/* The time counts from this call, not from the loop's cached time. */
static inline void patience_start(struct patience *p, uint64_t ms)
{
	uv_update_time(p->tick.loop);
	p->end_ms = uv_now(p->tick.loop) + ms;
	p->over = false;
	(void)uv_timer_start(&p->tick, patience_on_tick,
		ms < PATIENCE_TICK_MS ? ms : PATIENCE_TICK_MS, PATIENCE_TICK_MS);
}

/* Runs the loop once; false: the time is over. */
static inline bool patience_run_once(struct patience *p)
{
	(void)uv_run(p->tick.loop, UV_RUN_ONCE);
	return !p->over;
}

static inline void patience_stop(struct patience *p)
{
	(void)uv_timer_stop(&p->tick);
}

static inline void patience_run_for(struct patience *p, uint64_t ms)
{
	patience_start(p, ms);
	while (patience_run_once(p))
		;
	patience_stop(p);
}

/* Runs the loop until *@counter is @until; the test ends if that takes longer than @ms. */
static inline void patience_run(struct patience *p, const unsigned *counter, unsigned until,
	uint64_t ms)
{
	patience_start(p, ms);
	while (*counter < until && patience_run_once(p))
		;
	patience_stop(p);
	if (*counter < until)
		fail_msg("waited in vain for %u, have %u", until, *counter);
}

static inline void patience_close(struct patience *p)
{
	uv_close((uv_handle_t *)&p->tick, NULL);
}
