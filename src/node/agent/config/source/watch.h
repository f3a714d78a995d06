/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Notices that the config file has other content, however that came about: edited, replaced,
 * a symlink changed (as the kubelet does for ConfigMap volumes), removed and put back.
 *
 * inotify on the directory of the file and, where the file is a link, on the directory that it
 * leads to; a slow poll as a safety net for what inotify cannot see. Events only mean "look
 * again": content that is the same byte for byte is no change.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <uv.h>

struct config_watch;

struct config_watch_ops {
	/* The file's text has changed, or why it cannot be read. */
	void (*changed)(void *arg);
};

/* @text is the content that the caller has already loaded. */
int config_watch_start(struct config_watch **ret, uv_loop_t *loop, const char *path,
	const char *text, size_t len, const struct config_watch_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* Look now; with @force also when the content is the same (SIGHUP). */
void config_watch_check(struct config_watch *w, bool force);

/* The text as last reported, borrowed until the next look; < 0: why the file cannot be read. */
int config_watch_text(const struct config_watch *w, const char **ret_text, size_t *ret_len,
	struct error *err) MUST_USE;

struct config_watch *config_watch_stop(struct config_watch *w);
