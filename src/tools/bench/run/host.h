/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the host keeps up: how long threads of this process's descendants (pods, the arbiter, MPS) wait for a CPU,
 * by the kernel's own account (/proc/PID/task/TID/schedstat). Thread: any; reads files.
 */
#include <stddef.h>
#include <stdint.h>

#define HOST_THREADS_MAX 1024 /* further ones are not looked at */

struct host_thread {
	int32_t tid;
	uint64_t waited_ns; /* for a CPU, since it began */
};

struct host_watch {
	uint64_t since_ns; /* monotonic clock; 0: it has not begun */
	size_t n;
	struct host_thread threads[HOST_THREADS_MAX];
};

/* Begins anew. */
void host_watch_begin(struct host_watch *w);

/*
 * Of the thread that has waited longest since the beginning: which share of that time it has waited, 0 to 1. A thread
 * that has ended is not seen. NaN: the kernel does not say, or it has not begun.
 */
double host_watch_waited(const struct host_watch *w);
