/* SPDX-License-Identifier: Apache-2.0 */

/* The scheduler's thread: its start and its end. */
#include "node/arbiter/turns/internal.h"

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

/* ---- what the loop is to close ---------------------------------------------------------------- */

static void on_posted(uv_async_t *h)
{
	struct turn *t = h->data;
	const struct turn_conn *c;

	while ((c = turn_next_posted(t)))
		t->o.ended(c->user);
}

/* ---- start, halt, stop ------------------------------------------------------------------------ */

static void *run(void *arg)
{
	struct turn *t = arg;

	while (!t->halts)
		turn_round(t, true);
	return NULL;
}

/* Who waits for a turn or a grant waits for this program: for both of its threads, as this one's priority is the
 * scheduler's too. Where it may not, it does as well as it can. */
static void raise_priority(void)
{
	int now;

	errno = 0;
	now = getpriority(PRIO_PROCESS, 0);
	if ((now > TURN_NICE && !errno) && setpriority(PRIO_PROCESS, 0, TURN_NICE) < 0)
		log_debug("the arbiter's priority stays as it is",
			LOG_STR("reason", strerror(errno)));
}

static int open_tally(struct turn *t, struct error *err)
{
	char path[PATH_MAX], boot[40];

	if (path_join(path, sizeof(path), t->o.run_dir, TALLY_FILE, err) < 0)
		return -1;
	procfs_boot_id(t->o.procfs, boot, sizeof(boot));
	return tally_open(&t->tally, path, boot, err);
}

/* Signals are for the loop. */
static int start_thread(struct turn *t, struct error *err)
{
	sigset_t all, before;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&t->thread, NULL, run, t);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	t->runs = r == 0;
	return r == 0 ? 0 : error_sys(err, r, "start the scheduler's thread");
}

static void close_turn(struct turn *t)
{
	turn_events_close(t);
	tally_close(&t->tally);
	t->turns = turns_free(t->turns);
}

static void free_turn(struct turn *t)
{
	(void)pthread_cond_destroy(&t->answered);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

static void on_closed(uv_handle_t *h)
{
	free_turn(h->data);
}

int turn_start(struct turn **ret, const struct turn_options *o, struct error *err)
{
	struct turn *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return error_nomem(err);
	t->o = *o;
	t->epoll = t->timer = t->count_timer = t->wake = -1;
	t->armed = UINT64_MAX;
	(void)pthread_mutex_init(&t->lock, NULL);
	(void)pthread_cond_init(&t->answered, NULL);
	t->turns = turns_new(turn_on_gate, turn_on_done, t);
	if (!t->turns)
		(void)error_nomem(err);
	if (!t->turns || open_tally(t, err) < 0 || turn_events_open(t, err) < 0) {
		close_turn(t);
		free_turn(t);
		return -1;
	}
	r = uv_async_init(o->loop, &t->async, on_posted);
	if (r < 0) {
		close_turn(t);
		free_turn(t);
		return error_sys(err, -r, "make an event of the loop");
	}
	t->async.data = t;
	raise_priority();
	if (start_thread(t, err) < 0) {
		close_turn(t);
		uv_close((uv_handle_t *)&t->async, on_closed);
		return -1;
	}
	*ret = t;
	return 0;
}

static bool end_thread(struct turn *t, void *arg)
{
	(void)arg;
	t->halts = true;
	return true;
}

void turn_halt(struct turn *t)
{
	if (!t->runs)
		return;
	turn_call(t, end_thread, NULL);
	(void)pthread_join(t->thread, NULL);
	t->runs = false;
}

void turn_freeze(struct turn *t)
{
	turn_halt(t);
	t->frozen = true;
}

struct turn *turn_stop(struct turn *t)
{
	if (!t)
		return NULL;
	turn_halt(t);
	close_turn(t);
	uv_close((uv_handle_t *)&t->async, on_closed);
	return NULL;
}
