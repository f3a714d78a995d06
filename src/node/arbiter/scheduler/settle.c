/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What follows a change of the scheduler:
 *
 * 1. The scheduler sets gates by callback, which marks the slices of these gates.
 * 2. scheduler_settle() stores the charges of these slices, then arms the timer for the next deadline.
 */
#include "node/arbiter/scheduler/internal.h"

#include "lib/base/time.h"

#include <sys/timerfd.h>

/* ---- the scheduler's callbacks ---------------------------------------------------------------- */

/* The scheduler changed a gate. The charges of its slice are stored in the same event. */
void scheduler_on_gate(void *arg, struct sched_client *s)
{
	struct scheduler *t = arg;
	struct scheduler_client *client = s->user;
	struct scheduler_slice *slice = client->registration->slice;

	if (!t->frozen)
		scheduler_set_gate(client, s->gate, &s->throttle);
	if (slice->touched)
		return;
	slice->touched = true;
	slice->next_touched = t->touched;
	t->touched = slice;
}

/* The progress that the process reports in its page. It decides only whether shares run concurrently, and
 * when a share gets a boost (abi/turn-page.h). */
uint64_t scheduler_on_done(void *arg, const struct sched_client *s)
{
	const struct scheduler_client *client = s->user;

	(void)arg;
	return atomic_load_explicit(&client->registration->page->gpus[client->gpu].done,
		memory_order_relaxed);
}

/* ---- time ------------------------------------------------------------------------------------- */

static void arm_sched_timer(struct scheduler *t)
{
	uint64_t next = sched_next_deadline(t->sched);
	struct itimerspec at = { .it_value = { 0 } };

	if (next == t->armed)
		return;
	t->armed = next;
	/* Zero would disarm the timer. */
	next = next ? next : 1;
	if (next != UINT64_MAX) {
		at.it_value.tv_sec = (time_t)(next / NS_PER_SEC);
		at.it_value.tv_nsec = (long)(next % NS_PER_SEC);
	}
	(void)timerfd_settime(t->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

void scheduler_settle(struct scheduler *t, uint64_t now)
{
	while (t->touched) {
		struct scheduler_slice *s = t->touched;

		t->touched = s->next_touched;
		s->touched = false;
		scheduler_count_slice(t, s, now);
	}
	arm_sched_timer(t);
}

uint64_t scheduler_now(struct scheduler *t)
{
	uint64_t now = time_mono_ns();

	if (sched_next_deadline(t->sched) <= now) {
		sched_advance_time(t->sched, now);
		scheduler_settle(t, now);
	}
	return now;
}
