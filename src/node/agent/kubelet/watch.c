/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/kubelet/watch.h"

#include "lib/base/fd.h"
#include "lib/base/unix-socket.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define POLL_MS 1000

struct kubelet_watch {
	char dir[PATH_MAX], self[PATH_MAX]; /* .self ends in "/." */
	void (*on_change)(void *arg);
	void *arg;
	uv_fs_event_t event;
	uv_timer_t poll;
	bool watching;
	struct file_id id; /* of the watched directory */
	int closing;
};

static void on_kubelet_dir_event(uv_fs_event_t *h, const char *name, int events, int status)
{
	struct kubelet_watch *w = h->data;

	(void)name;
	(void)events;
	(void)status;
	w->on_change(w->arg);
}

/* Watches the directory that has the name now. True: another one than before. */
static bool restart_kubelet_watch(struct kubelet_watch *w)
{
	struct file_id id;

	if (!file_id_get(w->self, &id)) {
		if (w->watching)
			(void)uv_fs_event_stop(&w->event);
		w->watching = false;
		return false;
	}
	if (w->watching && file_id_equal(&id, &w->id))
		return false;
	(void)uv_fs_event_stop(&w->event);
	w->watching = uv_fs_event_start(&w->event, on_kubelet_dir_event, w->dir, 0) == 0;
	w->id = id;
	return true;
}

static void on_kubelet_dir_poll(uv_timer_t *t)
{
	struct kubelet_watch *w = t->data;

	if (restart_kubelet_watch(w))
		w->on_change(w->arg);
}

int kubelet_watch_start(struct kubelet_watch **ret, uv_loop_t *loop, const char *dir,
	void (*on_change)(void *arg), void *arg, struct error *err)
{
	struct kubelet_watch *w;

	w = calloc(1, sizeof(*w));
	if (!w)
		return error_nomem(err);
	if (path_join(w->self, sizeof(w->self), dir, ".", err) < 0) {
		free(w);
		return -1;
	}
	memcpy(w->dir, dir, strlen(dir) + 1);
	w->on_change = on_change;
	w->arg = arg;
	(void)uv_fs_event_init(loop, &w->event);
	(void)uv_timer_init(loop, &w->poll);
	w->event.data = w->poll.data = w;
	(void)restart_kubelet_watch(w);
	(void)uv_timer_start(&w->poll, on_kubelet_dir_poll, POLL_MS, POLL_MS);
	*ret = w;
	return 0;
}

static void on_kubelet_watch_closed(uv_handle_t *h)
{
	struct kubelet_watch *w = h->data;

	if (--w->closing == 0)
		free(w);
}

struct kubelet_watch *kubelet_watch_stop(struct kubelet_watch *w)
{
	if (!w)
		return NULL;
	w->closing = 2;
	uv_close((uv_handle_t *)&w->event, on_kubelet_watch_closed);
	uv_close((uv_handle_t *)&w->poll, on_kubelet_watch_closed);
	return NULL;
}
