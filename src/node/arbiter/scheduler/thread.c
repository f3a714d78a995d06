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

/* --- registrations that the loop must close --- */

static void on_posted(uv_async_t *h)
{
	struct scheduler *scheduler = h->data;
	const struct scheduler_registration *reg;

	while ((reg = scheduler_next_posted(scheduler)))
		scheduler->options.ended(reg->user);
}

/* --- start, halt, stop --- */

static void *run_sched_thread(void *arg)
{
	struct scheduler *scheduler = arg;

	while (!scheduler->is_halting)
		scheduler_round(scheduler, true);
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

static int open_usage_accounts(struct scheduler *scheduler, struct error *err)
{
	char path[PATH_MAX], boot[40];

	if (path_join(path, sizeof(path), scheduler->options.run_dir, USAGE_ACCOUNTS_FILE,
		    err) < 0)
		return -1;
	procfs_boot_id(scheduler->options.procfs, boot, sizeof(boot));
	return usage_accounts_open(&scheduler->accounts, path, boot, err);
}

/* The new thread blocks all signals: they are for the loop. */
static int start_sched_thread(struct scheduler *scheduler, struct error *err)
{
	sigset_t all, before;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&scheduler->thread, NULL, run_sched_thread, scheduler);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	scheduler->is_running = r == 0;
	return r == 0 ? 0 : error_sys(err, r, "start the scheduler's thread");
}

static void close_scheduler(struct scheduler *scheduler)
{
	scheduler_events_close(scheduler);
	usage_accounts_close(&scheduler->accounts);
	scheduler->sched = sched_free(scheduler->sched);
}

static void free_scheduler(struct scheduler *scheduler)
{
	(void)pthread_cond_destroy(&scheduler->answered);
	(void)pthread_mutex_destroy(&scheduler->lock);
	free(scheduler);
}

static void on_sched_handle_closed(uv_handle_t *h)
{
	free_scheduler(h->data);
}

int scheduler_start(struct scheduler **ret, const struct scheduler_options *o,
	struct error *err)
{
	struct scheduler *scheduler = calloc(1, sizeof(*scheduler));
	int r;

	if (!scheduler)
		return error_nomem(err);
	scheduler->options = *o;
	scheduler->epoll = scheduler->timer = scheduler->count_timer = scheduler->wake = -1;
	scheduler->armed = UINT64_MAX;
	(void)pthread_mutex_init(&scheduler->lock, NULL);
	(void)pthread_cond_init(&scheduler->answered, NULL);
	scheduler->sched = sched_new(scheduler_on_gate, scheduler_on_done, scheduler);
	if (!scheduler->sched)
		(void)error_nomem(err);
	if (!scheduler->sched || open_usage_accounts(scheduler, err) < 0 ||
		scheduler_events_open(scheduler, err) < 0) {
		close_scheduler(scheduler);
		free_scheduler(scheduler);
		return -1;
	}
	r = uv_async_init(o->loop, &scheduler->async, on_posted);
	if (r < 0) {
		close_scheduler(scheduler);
		free_scheduler(scheduler);
		return error_sys(err, -r, "make an event of the loop");
	}
	scheduler->async.data = scheduler;
	raise_priority();
	if (start_sched_thread(scheduler, err) < 0) {
		close_scheduler(scheduler);
		uv_close((uv_handle_t *)&scheduler->async, on_sched_handle_closed);
		return -1;
	}
	*ret = scheduler;
	return 0;
}

static bool end_thread(struct scheduler *scheduler, void *arg)
{
	(void)arg;
	scheduler->is_halting = true;
	return true;
}

void scheduler_halt(struct scheduler *scheduler)
{
	if (!scheduler->is_running)
		return;
	scheduler_call(scheduler, end_thread, NULL);
	(void)pthread_join(scheduler->thread, NULL);
	scheduler->is_running = false;
}

void scheduler_freeze(struct scheduler *scheduler)
{
	scheduler_halt(scheduler);
	scheduler->frozen = true;
}

struct scheduler *scheduler_stop(struct scheduler *scheduler)
{
	if (!scheduler)
		return NULL;
	scheduler_halt(scheduler);
	close_scheduler(scheduler);
	uv_close((uv_handle_t *)&scheduler->async, on_sched_handle_closed);
	return NULL;
}
