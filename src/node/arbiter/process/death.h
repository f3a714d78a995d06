/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The end of a process with memory. Thread: loop. */
#include "node/arbiter/grants/grants.h"
#include "lib/base/error.h"

struct arbiter;

/*
 * Watches the end of the task's process. On success the task owns *pidfd, which becomes -1; a task that is
 * watched already leaves it to the caller. When the process ends: grants_task_abandon(), or
 * grants_task_remove() if no subscriber reads NVML. Errors: ERR_NOMEM; libuv's. The caller still owns *pidfd in
 * that case.
 */
int arbiter_death_watch(struct arbiter *a, struct grants_task *t, int *pidfd,
	struct error *err);

/* The .ended of struct grants_table: ends the watch of the task, which may have none. */
void arbiter_death_unwatch(void *arbiter, struct grants_task *t);
