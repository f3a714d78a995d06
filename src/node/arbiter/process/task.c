/* SPDX-License-Identifier: Apache-2.0 */

/*
 * When a process is gone. What it had is free then, and no sooner, unless a child of it lives: NVML is asked,
 * where somebody reads it.
 */
#include "node/arbiter/internal.h"

#include "lib/base/fd.h"

/* A process that has memory: told when it is gone; in its task's .user. */
struct death {
	struct arbiter *arbiter;
	struct book_task *task;
	struct watch *watch;
};

static void on_death(void *arg)
{
	struct death *d = arg;
	struct arbiter *a = d->arbiter;

	log_debug("process is gone", LOG_UINT("pid", d->task->pid));
	d->watch = watch_stop(d->watch);
	if (readings_possible(a))
		book_task_dead(d->task);
	else
		book_task_gone(&a->book, d->task);
	/* What others have open of its memory stays, and is theirs from now on. */
	readings_soon(a);
}

void task_on_ended(void *arbiter, struct book_task *t)
{
	struct death *d = t->user;

	(void)arbiter;
	if (!d)
		return;
	d->watch = watch_stop(d->watch);
	free(d);
}

int task_watch(struct arbiter *a, struct book_task *t, int *pidfd, struct error *err)
{
	struct death *d;

	if (t->user)
		return 0;
	d = calloc(1, sizeof(*d));
	if (!d)
		return error_nomem(err);
	d->arbiter = a;
	d->task = t;
	if (watch_start(&d->watch, a->loop, steal_fd(pidfd), on_death, d, err) < 0) {
		free(d);
		return -1;
	}
	t->user = d;
	return 0;
}
