/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much of a processor the web server may take, its process and the agent's thread for it. Nice alone
 * does not do: in a container with a limit of CPU, what they use up is missing to the others, however
 * they are nice.
 * Thread: any; pure.
 */
#include <stdint.h>

#define WEB_THROTTLE_BURST_NS UINT64_C(200000000) /* of processor time, at once, after a rest */
#define WEB_SPIN_FREE         32                  /* rounds without any event, before pauses */
#define WEB_SPIN_MAX_MS       20

struct web_throttle {
	unsigned permille;
	uint64_t started_ns, cpu_ns; /* when last looked at */
	int64_t credit_ns;
};

/* Before the first round. */
void web_throttle_init(struct web_throttle *p, unsigned permille, uint64_t wall_ns,
	uint64_t cpu_ns);

/* After a round of work, with both clocks: for how long to rest before the next; 0: not at all. */
uint64_t web_throttle_get_pause_ns(struct web_throttle *p, uint64_t wall_ns, uint64_t cpu_ns);

/*
 * libmicrohttpd 0.9.75 asks to be run again and again, without any event, while a TLS handshake is
 * half done. How long to wait for an event after so many rounds in a row that had none.
 */
int web_spin_wait_ms(unsigned rounds);
