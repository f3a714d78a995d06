/* SPDX-License-Identifier: Apache-2.0 */

/* The scheduler thread: its start and its end. */
#include "node/arbiter/scheduler/internal.h"

#include "lib/base/fd.h"
#include "lib/base/procfs.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- registrations that the loop must close --------------------------------------------------- */

static void on_posted(uv_async_t *h)
{
	struct scheduler *t = h->data;
	const struct scheduler_registration *c;

	while ((c = scheduler_next_posted(t)))
		t->options.ended(c->user);
}

/* ---- start, halt, stop ------------------------------------------------------------------------ */

static void *run_sched_thread(void *arg)
{
	struct scheduler *t = arg;

	while (!t->is_halting)
		scheduler_round(t, true);
	return NULL;
}

/* A process that waits for a quantum or for a grant waits for this program. The scheduler thread inherits this
 * priority, so both threads have it. Without the permission the arbiter runs on with its old priority. */
static void raise_priority(void)
{
	int now;

	errno = 0;
	now = getpriority(PRIO_PROCESS, 0);
	if ((now > SCHEDULER_NICE && !errno) &&
		setpriority(PRIO_PROCESS, 0, SCHEDULER_NICE) < 0)
		log_debug("the arbiter's priority stays as it is",
			LOG_STR("reason", strerror(errno)));
}

static int open_usage_accounts(struct scheduler *t, struct error *err)
{
	char path[PATH_MAX], boot[40];

	if (path_join(path, sizeof(path), t->options.run_dir, USAGE_ACCOUNTS_FILE, err) < 0)
		return -1;
	procfs_boot_id(t->options.procfs, boot, sizeof(boot));
	return usage_accounts_open(&t->accounts, path, boot, err);
}

/* The new thread blocks all signals: they are for the loop. */
static int start_sched_thread(struct scheduler *t, struct error *err)
{
	sigset_t all, before;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&t->thread, NULL, run_sched_thread, t);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	t->is_running = r == 0;
	return r == 0 ? 0 : error_sys(err, r, "start the scheduler's thread");
}

static void close_scheduler(struct scheduler *t)
{
	scheduler_events_close(t);
	usage_accounts_close(&t->accounts);
	t->sched = sched_free(t->sched);
}

static void free_scheduler(struct scheduler *t)
{
	(void)pthread_cond_destroy(&t->answered);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

static void on_sched_handle_closed(uv_handle_t *h)
{
	free_scheduler(h->data);
}

int scheduler_start(struct scheduler **ret, const struct scheduler_options *o,
	struct error *err)
{
	struct scheduler *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return error_nomem(err);
	t->options = *o;
	t->epoll = t->timer = t->count_timer = t->wake = -1;
	t->armed = UINT64_MAX;
	(void)pthread_mutex_init(&t->lock, NULL);
	(void)pthread_cond_init(&t->answered, NULL);
	t->sched = sched_new(scheduler_on_gate, scheduler_on_done, t);
	if (!t->sched)
		(void)error_nomem(err);
	if (!t->sched || open_usage_accounts(t, err) < 0 || scheduler_events_open(t, err) < 0) {
		close_scheduler(t);
		free_scheduler(t);
		return -1;
	}
	r = uv_async_init(o->loop, &t->async, on_posted);
	if (r < 0) {
		close_scheduler(t);
		free_scheduler(t);
		return error_sys(err, -r, "make an event of the loop");
	}
	t->async.data = t;
	raise_priority();
	if (start_sched_thread(t, err) < 0) {
		close_scheduler(t);
		uv_close((uv_handle_t *)&t->async, on_sched_handle_closed);
		return -1;
	}
	*ret = t;
	return 0;
}

static bool end_thread(struct scheduler *t, void *arg)
{
	(void)arg;
	t->is_halting = true;
	return true;
}

void scheduler_halt(struct scheduler *t)
{
	if (!t->is_running)
		return;
	scheduler_call(t, end_thread, NULL);
	(void)pthread_join(t->thread, NULL);
	t->is_running = false;
}

void scheduler_freeze(struct scheduler *t)
{
	scheduler_halt(t);
	t->frozen = true;
}

struct scheduler *scheduler_stop(struct scheduler *t)
{
	if (!t)
		return NULL;
	scheduler_halt(t);
	close_scheduler(t);
	uv_close((uv_handle_t *)&t->async, on_sched_handle_closed);
	return NULL;
}
