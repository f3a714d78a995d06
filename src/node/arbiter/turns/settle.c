/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What follows a change of turns: gates are set as the scheduler says; turn_settled() then stores what was charged
 * where a gate was set, and arms the timer for what is next.
 */
#include "node/arbiter/turns/internal.h"

#include "lib/base/time.h"

#include <sys/timerfd.h>

/* ---- the scheduler's callbacks ---------------------------------------------------------------- */

/* The scheduler changes a gate. What is charged to its slice is stored in the same event. */
void turn_on_gate(void *arg, struct turns_seat *s)
{
	struct turn *t = arg;
	struct turn_seat *seat = s->user;
	struct turn_slice *slice = seat->conn->slice;

	if (!t->frozen)
		turn_set_gate(seat, s->gate, &s->meter);
	if (slice->touched)
		return;
	slice->touched = true;
	slice->next_touched = t->touched;
	t->touched = slice;
}

/* How far its process says it is. Decides no more than whether there are turns (abi/turn-page.h). */
uint64_t turn_on_done(void *arg, const struct turns_seat *s)
{
	const struct turn_seat *seat = s->user;

	(void)arg;
	return atomic_load_explicit(&seat->conn->page->gpus[seat->gpu].done,
		memory_order_relaxed);
}

/* ---- time ------------------------------------------------------------------------------------- */

static void arm(struct turn *t)
{
	uint64_t next = turns_next(t->turns);
	struct itimerspec at = { .it_value = { 0 } };

	if (next == t->armed)
		return;
	t->armed = next;
	/* Zero would be never. */
	next = next ? next : 1;
	if (next != UINT64_MAX) {
		at.it_value.tv_sec = (time_t)(next / NS_PER_SEC);
		at.it_value.tv_nsec = (long)(next % NS_PER_SEC);
	}
	(void)timerfd_settime(t->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

void turn_settled(struct turn *t, uint64_t now)
{
	while (t->touched) {
		struct turn_slice *s = t->touched;

		t->touched = s->next_touched;
		s->touched = false;
		turn_count_slice(t, s, now);
	}
	arm(t);
}

uint64_t turn_now(struct turn *t)
{
	uint64_t now = time_mono_ns();

	if (turns_next(t->turns) <= now) {
		turns_time(t->turns, now);
		turn_settled(t, now);
	}
	return now;
}
