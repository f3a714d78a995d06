/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits the CPU time of the web server: of its process, and of the agent's thread for it.
 *
 * Niceness alone is not enough. In a container with a CPU limit, the time that these threads use up is missing
 * for the other threads, whatever the niceness of each.
 * Thread: any; pure.
 */
#include <stdint.h>

#define WEB_THROTTLE_BURST_NS UINT64_C(200000000) /* ns of CPU time, at once, after a rest */
#define WEB_SPIN_FREE         32                  /* rounds without an event, before pauses */
#define WEB_SPIN_MAX_MS       20

struct web_throttle {
	unsigned permille;
	uint64_t started_ns, cpu_ns; /* clocks at the last call */
	int64_t credit_ns;
};

/* Call it before the first round. */
void web_throttle_init(struct web_throttle *p, unsigned permille, uint64_t wall_ns,
	uint64_t cpu_ns);

/* Call it after a round of work, with both clocks. Returns the pause before the next round, in ns; 0: none. */
uint64_t web_throttle_get_pause_ns(struct web_throttle *p, uint64_t wall_ns, uint64_t cpu_ns);

/* How long to wait for an event, in ms, after @rounds in a row without one. libmicrohttpd 0.9.75 asks to run
 * again and again, without an event, while a TLS handshake is half done. */
int web_spin_wait_ms(unsigned rounds);
