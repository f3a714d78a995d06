/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The idle times of a share between its work, and how long it pays to wait for its return. Pure. Thread: one. */
#include <stdint.h>

#define SCHED_GAP_BINS 26 /* up to 20 ms; the last has all longer ones */

/* Zeroed memory knows nothing. */
struct sched_gaps {
	uint32_t bins[SCHED_GAP_BINS];
	uint32_t n;
};

/* The share was idle for @ns. */
void sched_gaps_add(struct sched_gaps *gaps, uint64_t ns);

/* Returns the longest time, in ns from the beginning of an idle time, for which to wait, where a return within it saves
 * @worth_ns; 0: do not wait. */
uint64_t sched_gaps_best_wait(const struct sched_gaps *gaps, uint64_t worth_ns);
