/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the host keeps up: how long threads of this process's descendants (pods, the arbiter, MPS) wait for a
 * CPU. The source is the kernel's /proc/PID/task/TID/schedstat. Thread: any; reads files.
 */
#include <stddef.h>
#include <stdint.h>

#define HOST_THREADS_MAX 1024 /* further threads are ignored */

struct host_thread {
	int32_t tid;
	uint64_t waited_ns; /* for a CPU, since the thread's start */
};

struct host_watch {
	uint64_t since_ns; /* monotonic clock; 0: not begun */
	size_t n;
	struct host_thread threads[HOST_THREADS_MAX];
};

/* Begins, or begins again. */
void host_watch_begin(struct host_watch *w);

/*
 * The share of the time since the beginning, 0 to 1, that the longest-waiting thread waited for a CPU. Threads
 * that have ended do not count. NaN: the kernel does not report it, or the watch has not begun.
 */
double host_watch_waited(const struct host_watch *w);
