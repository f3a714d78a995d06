/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the web threads (the agent's, and the thread of the process) yield the CPU to other threads.
 *
 * Niceness alone is not enough. A thread that shares a processor with a nice web thread waits for the end of
 * that thread's time slice, up to 3 ms. If the web thread is under SCHED_IDLE, the other thread runs at once.
 *
 * In a container, SCHED_IDLE ranks the thread among the threads of the container only. Without a CPU cgroup
 * around the process, it ranks the thread among all threads of the machine. On a busy machine the web thread
 * would then hardly run, so it leaves SCHED_IDLE for a while and is only nice.
 * Thread: any.
 */
#include <stdbool.h>
#include <stdint.h>

#define WEB_NICE           10
#define WEB_YIELD_CHECK_NS UINT64_C(1000000000)  /* between two checks */
#define WEB_STARVED_NS     UINT64_C(250000000)   /* of waiting, beyond 4 times the run time */
#define WEB_NICE_FOR_NS    UINT64_C(10000000000) /* then back to SCHED_IDLE */

struct web_yield {
	uint64_t checked_ns, run_ns, wait_ns; /* at the last check */
	uint64_t nice_until_ns;               /* 0: under SCHED_IDLE; UINT64_MAX: never */
};

/* CPU time of the calling thread so far. */
uint64_t web_thread_cpu_ns(void);

/* Makes the calling thread nice, and puts it under SCHED_IDLE if the kernel counts its waiting time. */
void web_yield_begin(struct web_yield *y, uint64_t now_ns);
/* Leaves SCHED_IDLE for WEB_NICE_FOR_NS: work is due soon. */
void web_yield_pause(struct web_yield *y, uint64_t now_ns);
/* Leaves SCHED_IDLE if the calling thread starves, and returns to it later. Call it once a round. */
void web_yield_update(struct web_yield *y, uint64_t now_ns);

/* Whether a thread that ran and waited for so long starves. */
bool web_is_starved(uint64_t run_ns, uint64_t wait_ns);
