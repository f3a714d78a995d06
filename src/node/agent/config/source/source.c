/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/config/source/internal.h"

#include "lib/base/fd.h"
#include "lib/base/unix-socket.h"
#include "io/config/config.h"

#include <libgen.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

int config_source_init(struct config_source *s, const struct config_source_kind *kind,
	const struct config_source_ops *ops, void *arg, const char *text, struct error *err)
{
	char *copy = strdup(text);

	if (!copy)
		return error_nomem(err);
	*s = (struct config_source){ .kind = kind, .ops = ops, .arg = arg, .text = copy };
	return 0;
}

void config_source_changed(struct config_source *s)
{
	s->ops->changed(s->arg);
}

struct config_source *config_source_stop(struct config_source *s)
{
	if (!s)
		return NULL;
	free(s->text);
	s->text = NULL;
	s->kind->stop(s);
	return NULL;
}

int config_source_names(struct config_source *s, struct strv *names, struct error *err)
{
	return s->kind->names(s, names, err);
}

int config_source_read(struct config_source *s, const char *name, struct buf *text,
	struct error *err)
{
	return s->kind->read(s, name, text, err);
}

void config_source_check(struct config_source *s)
{
	s->kind->check(s);
}

const struct error *config_source_error(const struct config_source *s)
{
	return s->kind->get_error ? s->kind->get_error(s) : NULL;
}

const char *config_source_text(const struct config_source *s)
{
	return s->text;
}

/* --- what one file has --- */

/*
 * Notices that the config file has other content, for whatever reason: an edit, a replacement, a removal and
 * return, or a changed symlink (as the kubelet does for ConfigMap volumes).
 *
 * inotify watches the directory of the file. If the file is a link, inotify also watches the directory that the
 * link leads to. A slow poll finds what inotify cannot see. An event only makes the agent check again: content
 * that is the same byte for byte is no change.
 */

#define SETTLE_MS 20 /* editors and the kubelet cause several events with one change */
/*
 * After a write in place, the agent reads the file when no event came for this long. The first half of a config
 * may be valid, and remove replicas.
 */
#define WRITTEN_MS 200
#define POLL_MS    10000
#define MISSING_MS 1000 /* no directory to watch: it may appear at any moment */

enum { DIR_OF_NAME, DIR_OF_TARGET, N_DIRS };

struct config_watch_ops {
	/* The file's text has changed, or the reason why it cannot be read. */
	void (*changed)(void *arg);
};

struct config_watch {
	const struct config_watch_ops *ops;
	void *arg;
	char *path;
	char *text; /* content as last reported */
	size_t len;
	struct error unreadable; /* last reason reported; ERR_NONE while readable */
	uv_fs_event_t dirs[N_DIRS];
	char watched[N_DIRS][PATH_MAX];  /* "": not watching */
	struct file_id id[N_DIRS];       /* of the directory that had this name then */
	char file[N_DIRS][NAME_MAX + 1]; /* the config file's name in the directory */
	uv_timer_t settle, poll;
	int closing;
};

static void on_config_watch_event(uv_fs_event_t *h, const char *name, int events, int status);

/*
 * Watches @dir in the given slot, unless the slot watches this directory already. A watch stays with its
 * directory, even if another directory has the name now. Each poll retries a directory that does not exist.
 */
static void watch_dir(struct config_watch *w, int slot, const char *dir)
{
	struct file_id id = { 0 };
	char self[PATH_MAX];
	bool there =
		path_join(self, sizeof(self), dir, ".", NULL) == 0 && file_id_get(self, &id);

	if (there && !strcmp(w->watched[slot], dir) && file_id_equal(&id, &w->id[slot]))
		return;
	w->id[slot] = id;
	(void)uv_fs_event_stop(&w->dirs[slot]);
	w->watched[slot][0] = '\0';
	if (strlen(dir) < sizeof(w->watched[slot]) &&
		uv_fs_event_start(&w->dirs[slot], on_config_watch_event, dir, 0) == 0)
		memcpy(w->watched[slot], dir, strlen(dir) + 1);
}

static void watch_dir_of(struct config_watch *w, int slot, char *path)
{
	const char *slash = strrchr(path, '/');

	(void)snprintf(w->file[slot], sizeof(w->file[slot]), "%.*s", NAME_MAX,
		slash ? slash + 1 : path);
	watch_dir(w, slot, dirname(path));
}

static void set_poll(struct config_watch *w, uint64_t ms)
{
	if (uv_timer_get_repeat(&w->poll) == ms)
		return;
	uv_timer_set_repeat(&w->poll, ms);
	(void)uv_timer_again(&w->poll);
}

static void watch_config_dirs(struct config_watch *w)
{
	char name[PATH_MAX], target[PATH_MAX];

	if (strlen(w->path) >= sizeof(name))
		return;
	memcpy(name, w->path, strlen(w->path) + 1);
	watch_dir_of(w, DIR_OF_NAME, name);
	set_poll(w, *w->watched[DIR_OF_NAME] ? POLL_MS : MISSING_MS);
	if (realpath(w->path, target))
		watch_dir_of(w, DIR_OF_TARGET, target);
}

static int save_watched_text(struct config_watch *w, const char *text, size_t len)
{
	char *copy = malloc(len + 1);

	if (!copy)
		return -1;
	memcpy(copy, text, len);
	copy[len] = '\0';
	free(w->text);
	w->text = copy;
	w->len = len;
	return 0;
}

/* Checks now. @force: reports also the same content (SIGHUP). */
static void config_watch_check(struct config_watch *w, bool force)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(CONFIG_FILE_MAX);
	struct error err = ERROR_INIT;
	bool was_unreadable = w->unreadable.code != ERR_NONE;

	watch_config_dirs(w);
	if (file_read(w->path, &b, &err) < 0) {
		if (strcmp(w->unreadable.msg, err.msg) != 0) {
			w->unreadable = err;
			w->ops->changed(w->arg);
		}
		return;
	}
	error_clear(&w->unreadable);
	if (!force && !was_unreadable && b.len == w->len &&
		!memcmp(buf_str(&b), w->text, b.len))
		return;
	if (save_watched_text(w, buf_str(&b), b.len) == 0)
		w->ops->changed(w->arg);
}

/* The text as last reported, borrowed until the next check. < 0: why the file cannot be read. */
static int config_watch_text(const struct config_watch *w, const char **ret_text,
	size_t *ret_len, struct error *err)
{
	if (w->unreadable.code != ERR_NONE) {
		error_copy(err, &w->unreadable);
		return -1;
	}
	*ret_text = w->text;
	*ret_len = w->len;
	return 0;
}

static void on_config_watch_settled(uv_timer_t *t)
{
	config_watch_check(t->data, false);
}

static void on_config_watch_event(uv_fs_event_t *h, const char *name, int events, int status)
{
	struct config_watch *w = h->data;
	ptrdiff_t slot = h - w->dirs;
	bool written = name && (events & UV_CHANGE) && !strcmp(name, w->file[slot]);
	uint64_t wait_ms = written ? WRITTEN_MS : SETTLE_MS;

	/* The directory itself may be gone. The next check watches it again. */
	if (status < 0)
		w->watched[slot][0] = '\0';
	if (!uv_is_active((uv_handle_t *)&w->settle) ||
		uv_timer_get_due_in(&w->settle) < wait_ms)
		(void)uv_timer_start(&w->settle, on_config_watch_settled, wait_ms, 0);
}

static void on_config_watch_poll(uv_timer_t *t)
{
	struct config_watch *w = t->data;

	/*
	 * A replaced directory leaves a dead watch behind, which reports no events. So each poll restarts the
	 * watches.
	 */
	for (int i = 0; i < N_DIRS; i++)
		w->watched[i][0] = '\0';
	config_watch_check(w, false);
}

/* @text is the content that the caller has already loaded. */
static int config_watch_start(struct config_watch **ret, uv_loop_t *loop, const char *path,
	const char *text, size_t len, const struct config_watch_ops *ops, void *arg,
	struct error *err)
{
	struct config_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return error_nomem(err);
	w->ops = ops;
	w->arg = arg;
	w->path = strdup(path);
	if (!w->path || save_watched_text(w, text, len) < 0) {
		free(w->path);
		free(w);
		return error_nomem(err);
	}
	for (int i = 0; i < N_DIRS; i++) {
		(void)uv_fs_event_init(loop, &w->dirs[i]);
		w->dirs[i].data = w;
	}
	(void)uv_timer_init(loop, &w->settle);
	(void)uv_timer_init(loop, &w->poll);
	w->settle.data = w->poll.data = w;
	(void)uv_timer_start(&w->poll, on_config_watch_poll, POLL_MS, POLL_MS);
	watch_config_dirs(w);
	*ret = w;
	/* The file may have changed after the caller read it and before the watch began. */
	(void)uv_timer_start(&w->settle, on_config_watch_settled, 0, 0);
	return 0;
}

static void on_config_watch_closed(uv_handle_t *h)
{
	struct config_watch *w = h->data;

	if (--w->closing > 0)
		return;
	free(w->path);
	free(w->text);
	free(w);
}

static struct config_watch *config_watch_stop(struct config_watch *w)
{
	if (!w)
		return NULL;
	w->closing = N_DIRS + 2;
	for (int i = 0; i < N_DIRS; i++)
		uv_close((uv_handle_t *)&w->dirs[i], on_config_watch_closed);
	uv_close((uv_handle_t *)&w->settle, on_config_watch_closed);
	uv_close((uv_handle_t *)&w->poll, on_config_watch_closed);
	return NULL;
}

/* --- one file --- */

struct file_source {
	struct config_source source;
	struct config_watch *watch;
};

static int file_names(struct config_source *s, struct strv *names, struct error *err)
{
	(void)s;
	(void)names;
	(void)err;
	return 0;
}

static int file_text(struct config_source *s, const char *name, struct buf *text,
	struct error *err)
{
	const struct file_source *f = (struct file_source *)s;
	const char *data;
	size_t len;

	(void)name;
	if (config_watch_text(f->watch, &data, &len, err) < 0)
		return -1;
	buf_add(text, data, len);
	return 0;
}

static void check_config_source_file(struct config_source *s)
{
	config_watch_check(((struct file_source *)s)->watch, /* force= */ true);
}

static void file_stop(struct config_source *s)
{
	struct file_source *f = (struct file_source *)s;

	f->watch = config_watch_stop(f->watch);
	free(f);
}

static void on_config_file_changed(void *arg)
{
	config_source_changed(arg);
}

static const struct config_source_kind file_kind = {
	.names = file_names,
	.read = file_text,
	.check = check_config_source_file,
	.stop = file_stop,
};

static const struct config_watch_ops file_ops = { .changed = on_config_file_changed };

int config_source_file(struct config_source **ret, uv_loop_t *loop, const char *path,
	const struct buf *text, const struct config_source_ops *ops, void *arg,
	struct error *err)
{
	CLEANUP(freep) struct file_source *f = calloc(1, sizeof(*f));

	if (!f)
		return error_nomem(err);
	if (config_source_init(&f->source, &file_kind, ops, arg, path, err) < 0)
		return -1;
	if (config_watch_start(&f->watch, loop, path, buf_str(text), text->len, &file_ops, f,
		    err) < 0) {
		free(f->source.text);
		return -1;
	}
	*ret = &STEAL_PTR(f)->source;
	return 0;
}
