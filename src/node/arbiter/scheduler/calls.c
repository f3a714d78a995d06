/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The two ways between the loop and the scheduler's thread.
 *
 * A call: (1) the loop stores it in .call and writes .wake; (2) the thread loads it in its next round and runs a step
 * of it in each round from then on; (3) after the last one the thread takes it out, and says so under the lock, where the
 * loop waits. So what a call reads and writes has one owner at a time: (1) and (3) order it. Without a call the thread
 * takes no lock.
 *
 * A registration that ends: (1) the thread puts it into .posted and rings .async; (2) the loop takes it out and calls
 * .ended(); (3) that calls scheduler_unregister(), after which the thread has nothing of it. The loop may call scheduler_unregister() of
 * itself before (2): that takes it out of .posted. Only the loop frees, so what it took out is there.
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

/* ---- what the loop is to close ---------------------------------------------------------------- */

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
