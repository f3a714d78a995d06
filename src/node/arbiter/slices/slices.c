/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The directory of slices: which slices there are, and when they are synced. An event only marks one slice or all
 * slices for a sync. slice.c has the sync.
 */
#include "node/arbiter/slices/slices.h"

#include "abi/slice-dir.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/process/proc.h"
#include "node/arbiter/scheduler/scheduler.h"
#include "node/arbiter/watch.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#define RESCAN_MS       10000
#define RESCAN_BLIND_MS 1000 /* without events of the kernel: inotify's limits */
#define SETTLE_MS       10   /* several events of one change */
/* Pause of a socket from which accept fails. The socket would keep waking the loop. */
#define PAUSE_MS 200

/* --- the slices --- */

static struct arbiter_slice **get_slice_bucket(struct arbiter *a, const char *id)
{
	uint32_t hash = 0;

	for (const char *c = id + 24; *c; c++)
		hash = hash * 31 + (unsigned char)*c;
	return &a->buckets[hash % SLICE_BUCKETS];
}

struct arbiter_slice *arbiter_slices_find(struct arbiter *a, const char *id)
{
	struct arbiter_slice *s = *get_slice_bucket(a, id);

	while (s && strcmp(s->id, id) != 0)
		s = s->next_in_bucket;
	return s;
}

/* The slice with this directory: a process that has the directory mounted is in this slice. NULL: no slice has
 * it. */
static struct arbiter_slice *slices_find_dir(struct arbiter *a, const struct proc_file_id *dir)
{
	struct arbiter_slice *s = a->slices;

	while (s && !proc_file_id_equal(&s->dir, dir))
		s = s->next;
	return s;
}

static void *find_dir(void *arg, const struct proc_file_id *dir)
{
	return slices_find_dir(arg, dir);
}

struct arbiter_slice *arbiter_slices_find_by_pid(struct arbiter *a, uint32_t pid)
{
	return proc_nearest(a->o.procfs, pid, find_dir, a);
}

/* False: a limit is reached, or no memory. */
static bool add_found_slice(struct arbiter *a, const char *id)
{
	struct arbiter_slice *s = arbiter_slices_find(a, id);

	if (!s) {
		if (a->n_slices >= SLICES_MAX) {
			if (log_limit_pass(&a->log_limit, time_mono_ns(), NS_PER_SEC * 60, 1))
				log_warn("too many slices", LOG_UINT("limit", SLICES_MAX));
			return false;
		}
		s = calloc(1, sizeof(*s));
		if (!s)
			return false;
		s->arbiter = a;
		memcpy(s->id, id, strlen(id) + 1);
		s->next = a->slices;
		a->slices = s;
		s->next_in_bucket = *get_slice_bucket(a, id);
		*get_slice_bucket(a, id) = s;
		a->n_slices++;
	}
	s->found = true;
	arbiter_slice_sync_dir(s);
	return true;
}

static void remove_from_slice_bucket(struct arbiter *a, const struct arbiter_slice *s)
{
	struct arbiter_slice **at = get_slice_bucket(a, s->id);

	while (*at && *at != s)
		at = &(*at)->next_in_bucket;
	*at = s->next_in_bucket;
}

static void retry_slices_compute(struct arbiter *a)
{
	for (struct arbiter_slice *s = a->slices; s; s = s->next)
		arbiter_slice_retry_compute(s);
}

/* Removes slices without a directory once they have no connection and no grants. */
static void remove_gone_slices(struct arbiter *a)
{
	struct arbiter_slice **at = &a->slices;
	unsigned int before = a->n_slices;

	while (*at) {
		struct arbiter_slice *s = *at;

		if (!s->found)
			arbiter_slice_stop_serving(s);
		if (s->found || s->n_conns || s->n_closing || s->grants) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		remove_from_slice_bucket(a, s);
		a->n_slices--;
		(void)arbiter_slice_free(s);
	}
	/* Other slices may use the shares that these slices had. */
	if (a->n_slices < before)
		retry_slices_compute(a);
}

static void watch_slices_dir(struct arbiter *a)
{
	struct stat st;

	if (stat(a->slices_dir, &st) < 0) {
		a->slices_events = arbiter_slices_events_stop(a->slices_events);
		return;
	}
	if (a->slices_events && st.st_ino == a->slices_ino && st.st_dev == a->slices_dev)
		return;
	(void)arbiter_slices_events_stop(a->slices_events);
	a->slices_events = arbiter_slices_events_start(a, a->slices_dir, NULL);
	a->slices_ino = st.st_ino;
	a->slices_dev = st.st_dev;
}

bool arbiter_slices_scan(struct arbiter *a)
{
	const struct dirent *e;
	bool all = true, added = true;
	DIR *dir;

	watch_slices_dir(a);
	dir = opendir(a->slices_dir);
	/* A directory that cannot be read does not show which slices are gone. */
	if (!dir && errno != ENOENT)
		return false;
	for (struct arbiter_slice *s = a->slices; s; s = s->next)
		s->found = false;
	while (dir && (errno = 0, e = readdir(dir))) {
		if (slice_id_valid(e->d_name))
			added &= add_found_slice(a, e->d_name);
	}
	if (dir) {
		all = errno == 0;
		(void)closedir(dir);
	}
	if (all)
		remove_gone_slices(a);
	return all && added;
}

void arbiter_slices_save_refusals(struct arbiter *a)
{
	for (struct arbiter_slice *s = a->slices; s; s = s->next)
		arbiter_slice_save_refusals(s);
}

/* --- events --- */

static void on_slices_settle_timer(uv_timer_t *t)
{
	struct arbiter *a = t->data;

	if (a->scan_needed) {
		a->scan_needed = false;
		(void)arbiter_slices_scan(a); /* is repeated */
	}
	for (struct arbiter_slice *s = a->slices; s; s = s->next) {
		if (s->paused && s->listener) {
			s->paused = false;
			fd_watch_pause(s->listener, false);
		}
		if (s->dirty)
			arbiter_slice_sync_dir(s);
	}
}

void arbiter_slices_pause(struct arbiter_slice *s)
{
	struct arbiter *a = s->arbiter;

	if (log_limit_pass(&a->log_limit, time_mono_ns(), NS_PER_SEC * 10, 1))
		log_error("connections cannot be accepted, trying again",
			LOG_STR("slice", s->id), LOG_STR("reason", strerror(errno)));
	s->paused = true;
	fd_watch_pause(s->listener, true);
	if (!uv_is_active((uv_handle_t *)&a->settle))
		(void)uv_timer_start(&a->settle, on_slices_settle_timer, PAUSE_MS, 0);
}

static void on_slices_fs_event(uv_fs_event_t *h, const char *name, int events, int status)
{
	struct arbiter_slice *s = h->data;
	struct arbiter *a = h->loop->data;

	(void)name;
	(void)events;
	/* After an error of the watch, all slices are scanned. */
	if (s && status == 0)
		s->dirty = true;
	else
		a->scan_needed = true;
	if (!uv_is_active((uv_handle_t *)&a->settle))
		(void)uv_timer_start(&a->settle, on_slices_settle_timer, SETTLE_MS, 0);
}

static void free_handle(uv_handle_t *h)
{
	free(h);
}

uv_fs_event_t *arbiter_slices_events_start(struct arbiter *a, const char *dir,
	struct arbiter_slice *s)
{
	uv_fs_event_t *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	(void)uv_fs_event_init(a->loop, h);
	h->data = s;
	if (uv_fs_event_start(h, on_slices_fs_event, dir, 0) < 0) {
		uv_close((uv_handle_t *)h, free_handle);
		return NULL;
	}
	return h;
}

uv_fs_event_t *arbiter_slices_events_stop(uv_fs_event_t *h)
{
	if (h) {
		h->data = NULL;
		uv_close((uv_handle_t *)h, free_handle);
	}
	return NULL;
}

/* --- start, stop, periodic scan --- */

/* Whether a change could be missed until the next scan. */
static bool has_unwatched_slice(const struct arbiter *a)
{
	bool blind = !a->slices_events;

	for (const struct arbiter_slice *s = a->slices; s && !blind; s = s->next)
		blind = !s->events && s->listener;
	return blind;
}

static bool is_slice(void *arg, const char *id)
{
	return arbiter_slices_find(arg, id) != NULL;
}

static void on_rescan(uv_timer_t *t)
{
	struct arbiter *a = t->data;
	bool all;

	/* The next arbiter makes a new grants file, and two arbiters would grant the same memory twice. */
	if (journal_is_replaced(&a->journal)) {
		log_error(
			"the run directory was taken away, ending for an arbiter with a new one",
			LOG_STR("run", a->o.run_dir));
		uv_stop(a->loop);
		return;
	}
	all = arbiter_slices_scan(a);
	retry_slices_compute(a);
	if (all)
		scheduler_sweep(a->sched, is_slice, a);
	a->slices_ops->expire(a, time_mono_ns());
	(void)uv_timer_start(t, on_rescan, has_unwatched_slice(a) ? RESCAN_BLIND_MS : RESCAN_MS,
		0);
}

int arbiter_slices_start(struct arbiter *a, const struct arbiter_slices_ops *ops,
	struct error *err)
{
	a->slices_ops = ops;
	/* First, because arbiter_slices_stop() closes them. */
	(void)uv_timer_init(a->loop, &a->rescan);
	(void)uv_timer_init(a->loop, &a->settle);
	a->rescan.data = a->settle.data = a;
	a->loop->data = a;
	if (path_join(a->slices_dir, sizeof(a->slices_dir), a->o.state_dir, SLICES_DIR, err) <
			0 ||
		dir_make(a->o.state_dir, 0755, err) < 0 ||
		dir_make_exact(a->slices_dir, SLICES_DIR_MODE, err) < 0)
		return -1;
	(void)arbiter_slices_scan(a); /* is repeated */
	(void)uv_timer_start(&a->rescan, on_rescan,
		has_unwatched_slice(a) ? RESCAN_BLIND_MS : RESCAN_MS, 0);
	return 0;
}

void arbiter_slices_stop(struct arbiter *a)
{
	a->slices_events = arbiter_slices_events_stop(a->slices_events);
	uv_close((uv_handle_t *)&a->rescan, NULL);
	uv_close((uv_handle_t *)&a->settle, NULL);
	while (a->slices) {
		struct arbiter_slice *s = a->slices;

		a->slices = s->next;
		(void)arbiter_slice_free(s);
	}
}
