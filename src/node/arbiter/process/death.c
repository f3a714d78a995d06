/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The end of a process. Its memory is free from then on, unless a child of it lives. So the arbiter asks for
 * NVML's figures, if a subscriber reads them.
 */
#include "node/arbiter/process/death.h"

#include "node/arbiter/control/readings.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/watch.h"
#include "lib/base/fd.h"

/* The watch of a process with memory; in its task's .user. */
struct task_death {
	struct arbiter *arbiter;
	struct grants_task *task;
	struct fd_watch *watch;
};

static void on_death(void *arg)
{
	struct task_death *d = arg;
	struct arbiter *a = d->arbiter;

	log_debug("process is gone", LOG_UINT("pid", d->task->pid));
	d->watch = fd_watch_stop(d->watch);
	if (readings_possible(a))
		grants_task_abandon(d->task);
	else
		grants_task_remove(&a->grants, d->task);
	/* Memory that other processes have open by IPC stays. NVML counts it for them from now on. */
	readings_request_soon(a);
}

void arbiter_death_unwatch(void *arbiter, struct grants_task *t)
{
	struct task_death *d = t->user;

	(void)arbiter;
	if (!d)
		return;
	d->watch = fd_watch_stop(d->watch);
	free(d);
}

int arbiter_death_watch(struct arbiter *a, struct grants_task *t, int *pidfd, struct error *err)
{
	struct task_death *d;

	if (t->user)
		return 0;
	d = calloc(1, sizeof(*d));
	if (!d)
		return error_nomem(err);
	d->arbiter = a;
	d->task = t;
	if (fd_watch_start(&d->watch, a->loop, *pidfd, on_death, d, err) < 0) {
		free(d);
		return -1;
	}
	(void)steal_fd(pidfd);
	t->user = d;
	return 0;
}
