/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reports changes of the kubelet's device-plugin directory. A kubelet that starts deletes every socket there and
 * recreates its own. At boot the directory may not exist yet. If the directory is replaced, its inotify watch is
 * lost. So the agent also polls the directory every second.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <uv.h>

struct kubelet_watch;

/* Calls @on_change from the loop when @dir, which need not exist, may have changed. < 0: no memory, or @dir is too
 * long. */
int kubelet_watch_start(struct kubelet_watch **ret, uv_loop_t *loop, const char *dir,
	void (*on_change)(void *arg), void *arg, struct error *err) MUST_USE;
/* @on_change is not called any more. The handles close, and @w is freed, as the loop runs. NULL: nothing. Returns
 * NULL. */
struct kubelet_watch *kubelet_watch_stop(struct kubelet_watch *w);
