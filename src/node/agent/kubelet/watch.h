/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Says when something happened in the kubelet's device-plugin directory: a kubelet that starts
 * deletes every socket there and makes its own anew; at boot the directory may not exist yet; and
 * a directory that is replaced takes its inotify watch with it, hence a slow poll besides.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <uv.h>

struct kubelet_watch;

int kubelet_watch_start(struct kubelet_watch **ret, uv_loop_t *loop, const char *dir,
	void (*look)(void *arg), void *arg, struct error *err) MUST_USE;
struct kubelet_watch *kubelet_watch_stop(struct kubelet_watch *w);
