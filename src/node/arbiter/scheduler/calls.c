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

/* ---- calls ------------------------------------------------------------------------------------ */

static void run_sched_step_here(struct scheduler *t, scheduler_step *step, void *arg)
{
	while (!step(t, arg))
		;
}

void scheduler_call(struct scheduler *t, scheduler_step *step, void *arg)
{
	struct scheduler_call call = { .step = step, .arg = arg };

	if (!t->is_running) {
		run_sched_step_here(t, step, arg);
		return;
	}
	atomic_store(&t->call, &call);
	(void)eventfd_write(t->wake, 1);
	(void)pthread_mutex_lock(&t->lock);
	while (!t->answer)
		(void)pthread_cond_wait(&t->answered, &t->lock);
	t->answer = false;
	(void)pthread_mutex_unlock(&t->lock);
}

bool scheduler_step_call(struct scheduler *t)
{
	const struct scheduler_call *call = atomic_load(&t->call);

	if (!call)
		return false;
	if (!call->step(t, call->arg))
		return true;
	atomic_store(&t->call, NULL);
	(void)pthread_mutex_lock(&t->lock);
	t->answer = true;
	(void)pthread_cond_signal(&t->answered);
	(void)pthread_mutex_unlock(&t->lock);
	return false;
}

/* ---- registrations that the loop must close --------------------------------------------------- */

void scheduler_post_ended(struct scheduler_registration *c)
{
	struct scheduler *t = c->scheduler;

	(void)pthread_mutex_lock(&t->lock);
	c->posted = true;
	c->next_post = t->posted;
	t->posted = c;
	(void)pthread_mutex_unlock(&t->lock);
	(void)uv_async_send(&t->async);
}

void scheduler_unpost_ended(struct scheduler_registration *c)
{
	struct scheduler *t = c->scheduler;
	struct scheduler_registration **at = &t->posted;

	(void)pthread_mutex_lock(&t->lock);
	while (c->posted && *at != c)
		at = &(*at)->next_post;
	if (c->posted)
		*at = c->next_post;
	c->posted = false;
	(void)pthread_mutex_unlock(&t->lock);
}

struct scheduler_registration *scheduler_next_posted(struct scheduler *t)
{
	struct scheduler_registration *c;

	(void)pthread_mutex_lock(&t->lock);
	c = t->posted;
	if (c) {
		t->posted = c->next_post;
		c->posted = false;
	}
	(void)pthread_mutex_unlock(&t->lock);
	return c;
}
