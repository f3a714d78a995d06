/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the web threads, that of the agent and that of its process, make way. Nice alone has the other
 * threads wait for the end of a slice, up to 3 ms, where they share a processor; under SCHED_IDLE they
 * run at once. In a container that is
 * among the threads of the container only. But where there is no group for the CPU around the
 * process, it is among all processes of the machine, and on a busy one the thread would hardly run:
 * then it is merely nice for a while.
 * Thread: any.
 */
#include <stdbool.h>
#include <stdint.h>

#define WEB_NICE           10
#define WEB_YIELD_CHECK_NS UINT64_C(1000000000) /* between looks at how it goes */
#define WEB_STARVED_NS     UINT64_C(250000000) /* of waiting for a processor, beside its share */
#define WEB_NICE_FOR_NS    UINT64_C(10000000000) /* then back to SCHED_IDLE */

struct web_yield {
	uint64_t checked_ns, run_ns, wait_ns; /* when last looked at */
	uint64_t nice_until_ns;               /* 0: under SCHED_IDLE */
};

/* Processor time so far of the calling thread. */
uint64_t web_thread_cpu_ns(void);

/* For the calling thread. */
void web_yield_begin(struct web_yield *y, uint64_t now_ns);
/* Not under SCHED_IDLE for a while: work is due soon. */
void web_yield_pause(struct web_yield *y, uint64_t now_ns);
/* Call it now and then. */
void web_yield_update(struct web_yield *y, uint64_t now_ns);

/* Has a thread that ran and waited for so long been kept from running? */
bool web_is_starved(uint64_t run_ns, uint64_t wait_ns);
