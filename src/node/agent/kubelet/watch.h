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

int kubelet_watch_start(struct kubelet_watch **ret, uv_loop_t *loop, const char *dir,
	void (*on_change)(void *arg), void *arg, struct error *err) MUST_USE;
struct kubelet_watch *kubelet_watch_stop(struct kubelet_watch *w);
