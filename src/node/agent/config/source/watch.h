/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Notices that the config file has other content, for whatever reason: an edit, a replacement, a removal and
 * return, or a changed symlink (as the kubelet does for ConfigMap volumes).
 *
 * inotify watches the directory of the file. If the file is a link, inotify also watches the directory that the
 * link leads to. A slow poll finds what inotify cannot see. An event only makes the agent check again: content
 * that is the same byte for byte is no change.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <uv.h>

struct config_watch;

struct config_watch_ops {
	/* The file's text has changed, or the reason why it cannot be read. */
	void (*changed)(void *arg);
};

/* @text is the content that the caller has already loaded. */
int config_watch_start(struct config_watch **ret, uv_loop_t *loop, const char *path,
	const char *text, size_t len, const struct config_watch_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* Checks now. @force: reports also the same content (SIGHUP). */
void config_watch_check(struct config_watch *w, bool force);

/* The text as last reported, borrowed until the next check. < 0: why the file cannot be read. */
int config_watch_text(const struct config_watch *w, const char **ret_text, size_t *ret_len,
	struct error *err) MUST_USE;

struct config_watch *config_watch_stop(struct config_watch *w);
