/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the GPU waits for an idle share (sched.h, "Waiting for an idle holder").
 *
 * Let F be the distribution of the share's idle times, and R what a return within the wait saves. A wait of at most x
 * gains F(x) R, and costs the mean of min(idle time, x). The best x is the largest gain of all bounds of bins.
 * Source: Iyer and Druschel, Anticipatory scheduling, SOSP 2001. Without samples, x = R: that costs at most twice what
 * would be best (ski rental).
 */
#include "model/sched/gaps.h"

#include <stddef.h>

/* The upper bound of the first bin. Each next one is larger by a factor of sqrt(2). */
#define GAPS_FIRST_NS UINT64_C(5000)
#define GAPS_FEW      8  /* samples: with fewer nothing is known */
#define GAPS_MANY     64 /* samples: then all counts are halved, so that old ones fade */

/* The upper bound of bin @i. The last bin has none. */
static uint64_t get_bin_end(unsigned int i)
{
	uint64_t end = GAPS_FIRST_NS << (i / 2);

	return i % 2 ? end * 1414 / 1000 : end;
}

static unsigned int find_bin(uint64_t ns)
{
	unsigned int i = 0;

	while (i < SCHED_GAP_BINS - 1 && ns > get_bin_end(i))
		i++;
	return i;
}

void sched_gaps_add(struct sched_gaps *gaps, uint64_t ns)
{
	if (gaps->n >= GAPS_MANY) {
		gaps->n = 0;
		for (unsigned int i = 0; i < SCHED_GAP_BINS; i++)
			gaps->n += gaps->bins[i] /= 2;
	}
	gaps->bins[find_bin(ns)]++;
	gaps->n++;
}

uint64_t sched_gaps_best_wait(const struct sched_gaps *gaps, uint64_t worth_ns)
{
	uint64_t start = 0, cost = 0, left = gaps->n, best = 0;
	int64_t most = (int64_t)(worth_ns * gaps->n / 16);

	if (gaps->n < GAPS_FEW)
		return worth_ns;
	for (unsigned int i = 0; i < SCHED_GAP_BINS - 1; i++) {
		uint64_t end = get_bin_end(i), width = end - start;
		int64_t gain;

		cost += left * width - gaps->bins[i] * width / 2;
		left -= gaps->bins[i];
		gain = (int64_t)((gaps->n - left) * worth_ns) - (int64_t)cost;
		if (gain > most) {
			most = gain;
			best = end;
		}
		start = end;
	}
	return best;
}
