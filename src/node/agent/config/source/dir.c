/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/config/source/internal.h"

#include "lib/base/fd.h"
#include "model/config/choice.h"
#include "lib/base/unix-socket.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

/*
 * A directory of configs. The kubelet swaps the link "..data" in it, which inotify reports as a rename here. A
 * person edits the files themselves. A slow poll finds changes behind links that lead elsewhere, and a directory
 * that was replaced or does not exist yet.
 */

#define SETTLE_MS 20 /* the kubelet causes several events with one change */
/*
 * After a write in place, the agent reads the file when no event came for this long. The first half of a config
 * may be valid, and remove replicas.
 */
#define WRITTEN_MS 200
/* A file that is written without end is still read, at the latest this long after the first event. */
#define SETTLED_MS 2000
#define POLL_MS    10000
#define MISSING_MS 1000 /* the same while there is no directory to watch */

struct dir_source {
	struct config_source source;
	char *path, *self; /* .self ends in "/." */
	uv_fs_event_t event;
	uv_timer_t settle, poll;
	bool watching;
	uint64_t unsettled_ms; /* since when .settle runs (the loop's clock) */
	struct file_id id;     /* of the watched directory */
	int closing;
};

static bool is_config_dir_entry(const char *dir, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	return path_join(path, sizeof(path), dir, name, NULL) == 0 && stat(path, &st) == 0 &&
	       !S_ISDIR(st.st_mode);
}

static int list_config_dir(const struct dir_source *d, DIR *dir, struct strv *names,
	struct error *err)
{
	const struct dirent *e;

	while ((e = readdir(dir))) {
		if (!config_entry_name_ok(e->d_name) ||
			!is_config_dir_entry(d->path, e->d_name))
			continue;
		if (names->n >= CONFIG_ENTRIES_MAX)
			return error_set(err, ERR_LIMIT,
				"config directory '%s': more than %d entries", d->path,
				CONFIG_ENTRIES_MAX);
		if (strv_add(names, e->d_name, err) < 0)
			return -1;
	}
	strv_sort(names);
	return 0;
}

static int dir_names(struct config_source *s, struct strv *names, struct error *err)
{
	struct dir_source *d = (struct dir_source *)s;
	DIR *dir;
	int r;

	if (uv_is_active((uv_handle_t *)&d->settle)) {
		(void)error_set(err, ERR_UNAVAILABLE, "config directory '%s' is being written",
			d->path);
		return CONFIG_SOURCE_WAIT;
	}
	dir = opendir(d->path);
	if (!dir)
		return error_sys(err, errno,
			"error getting list of configuration files: open '%s'", d->path);
	r = list_config_dir(d, dir, names, err);
	(void)closedir(dir);
	return r;
}

static int dir_read(struct config_source *s, const char *name, struct buf *text,
	struct error *err)
{
	const struct dir_source *d = (struct dir_source *)s;
	char path[PATH_MAX];

	if (path_join(path, sizeof(path), d->path, name, err) < 0)
		return -1;
	return file_read(path, text, err);
}

/* --- noticing changes --- */

static void on_config_dir_settled(uv_timer_t *t)
{
	config_source_changed(t->data);
}

/* Reports the change no earlier than in @ms, but at the latest SETTLED_MS after the first event. */
static void arm_config_dir_settle(struct dir_source *d, uint64_t ms)
{
	bool active = uv_is_active((uv_handle_t *)&d->settle);
	uint64_t now = uv_now(d->settle.loop), left;

	if (!active)
		d->unsettled_ms = now;
	left = d->unsettled_ms + SETTLED_MS > now ? d->unsettled_ms + SETTLED_MS - now : 0;
	if (active && uv_timer_get_due_in(&d->settle) >= ms)
		return;
	(void)uv_timer_start(&d->settle, on_config_dir_settled, ms < left ? ms : left, 0);
}

static void on_config_dir_event(uv_fs_event_t *h, const char *name, int events, int status)
{
	bool written = name && (events & UV_CHANGE) && config_entry_name_ok(name);

	(void)status; /* the poll watches a vanished directory again */
	arm_config_dir_settle(h->data, written ? WRITTEN_MS : SETTLE_MS);
}

/* Watches the directory that has the name now. */
static void restart_config_dir_watch(struct dir_source *d)
{
	struct file_id id = { 0 };
	bool there = file_id_get(d->self, &id);

	if (there && d->watching && file_id_equal(&id, &d->id))
		return;
	(void)uv_fs_event_stop(&d->event);
	d->watching =
		there && uv_fs_event_start(&d->event, on_config_dir_event, d->path, 0) == 0;
	d->id = id;
	uv_timer_set_repeat(&d->poll, d->watching ? POLL_MS : MISSING_MS);
}

static void check_config_dir(struct config_source *s)
{
	restart_config_dir_watch((struct dir_source *)s);
	config_source_changed(s);
}

/* A change that the poll finds may be half written, too. */
static void on_config_dir_poll(uv_timer_t *t)
{
	restart_config_dir_watch(t->data);
	arm_config_dir_settle(t->data, SETTLE_MS);
}

static void dir_release(struct dir_source *d)
{
	free(d->path);
	free(d->self);
	free(d);
}

static void on_config_dir_closed(uv_handle_t *h)
{
	struct dir_source *d = h->data;

	if (--d->closing == 0)
		dir_release(d);
}

static void dir_stop(struct config_source *s)
{
	struct dir_source *d = (struct dir_source *)s;

	d->closing = 3;
	uv_close((uv_handle_t *)&d->event, on_config_dir_closed);
	uv_close((uv_handle_t *)&d->settle, on_config_dir_closed);
	uv_close((uv_handle_t *)&d->poll, on_config_dir_closed);
}

static const struct config_source_kind dir_kind = {
	.names = dir_names,
	.read = dir_read,
	.check = check_config_dir,
	.stop = dir_stop,
};

int config_source_dir(struct config_source **ret, uv_loop_t *loop, const char *path,
	const struct config_source_ops *ops, void *arg, struct error *err)
{
	struct dir_source *d = calloc(1, sizeof(*d));
	char self[PATH_MAX];

	if (!d)
		return error_nomem(err);
	if (path_join(self, sizeof(self), path, ".", err) < 0) {
		free(d);
		return -1;
	}
	d->self = strdup(self);
	self[strlen(self) - 2] = '\0'; /* without a trailing slash of @path */
	d->path = strdup(self);
	if (config_source_init(&d->source, &dir_kind, ops, arg, self, err) < 0) {
		dir_release(d);
		return -1;
	}
	if (!d->path || !d->self) {
		free(d->source.text);
		dir_release(d);
		return error_nomem(err);
	}
	(void)uv_fs_event_init(loop, &d->event);
	(void)uv_timer_init(loop, &d->settle);
	(void)uv_timer_init(loop, &d->poll);
	d->event.data = d->settle.data = d->poll.data = d;
	(void)uv_timer_start(&d->poll, on_config_dir_poll, MISSING_MS, POLL_MS);
	restart_config_dir_watch(d);
	*ret = &d->source;
	return 0;
}
