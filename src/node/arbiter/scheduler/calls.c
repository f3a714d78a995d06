/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The two ways between the loop and the scheduler thread.
 *
 * A call:
 *
 * 1. The loop stores the call in .call, then writes .wake, then waits under the lock.
 * 2. The thread loads .call in its next round. It runs one step of the call in each round.
 * 3. After the last step the thread clears .call. Then it sets .answer under the lock and wakes the loop.
 *
 * Steps 1 and 3 order all accesses: what a call reads and writes has one owner at a time. For calls the thread
 * takes the lock in step 3 only.
 *
 * A registration that ends:
 *
 * 1. The thread puts the registration into .posted, under the lock, and signals .async.
 * 2. The loop takes the registration out, under the lock, and calls .ended().
 * 3. .ended() calls scheduler_unregister(). From then on the thread has no reference to the registration.
 *
 * The loop may call scheduler_unregister() on its own before step 2, which takes the registration out of
 * .posted. Only the loop frees registrations, so one that the loop took out still exists.
 */
#include "node/arbiter/scheduler/internal.h"

#include <sys/eventfd.h>

/* --- calls --- */

static void run_sched_step_here(struct scheduler *scheduler, scheduler_step *step, void *arg)
{
	while (!step(scheduler, arg))
		;
}

void scheduler_call(struct scheduler *scheduler, scheduler_step *step, void *arg)
{
	struct scheduler_call call = { .step = step, .arg = arg };

	if (!scheduler->is_running) {
		run_sched_step_here(scheduler, step, arg);
		return;
	}
	atomic_store(&scheduler->call, &call);
	(void)eventfd_write(scheduler->wake, 1);
	(void)pthread_mutex_lock(&scheduler->lock);
	while (!scheduler->answer)
		(void)pthread_cond_wait(&scheduler->answered, &scheduler->lock);
	scheduler->answer = false;
	(void)pthread_mutex_unlock(&scheduler->lock);
}

bool scheduler_step_call(struct scheduler *scheduler)
{
	const struct scheduler_call *call = atomic_load(&scheduler->call);

	if (!call)
		return false;
	if (!call->step(scheduler, call->arg))
		return true;
	atomic_store(&scheduler->call, NULL);
	(void)pthread_mutex_lock(&scheduler->lock);
	scheduler->answer = true;
	(void)pthread_cond_signal(&scheduler->answered);
	(void)pthread_mutex_unlock(&scheduler->lock);
	return false;
}

/* --- registrations that the loop must close --- */

void scheduler_post_ended(struct scheduler_registration *reg)
{
	struct scheduler *scheduler = reg->scheduler;

	(void)pthread_mutex_lock(&scheduler->lock);
	reg->posted = true;
	reg->next_post = scheduler->posted;
	scheduler->posted = reg;
	(void)pthread_mutex_unlock(&scheduler->lock);
	(void)uv_async_send(&scheduler->async);
}

void scheduler_unpost_ended(struct scheduler_registration *reg)
{
	struct scheduler *scheduler = reg->scheduler;
	struct scheduler_registration **at = &scheduler->posted;

	(void)pthread_mutex_lock(&scheduler->lock);
	while (reg->posted && *at != reg)
		at = &(*at)->next_post;
	if (reg->posted)
		*at = reg->next_post;
	reg->posted = false;
	(void)pthread_mutex_unlock(&scheduler->lock);
}

struct scheduler_registration *scheduler_next_posted(struct scheduler *scheduler)
{
	struct scheduler_registration *reg;

	(void)pthread_mutex_lock(&scheduler->lock);
	reg = scheduler->posted;
	if (reg) {
		scheduler->posted = reg->next_post;
		reg->posted = false;
	}
	(void)pthread_mutex_unlock(&scheduler->lock);
	return reg;
}
