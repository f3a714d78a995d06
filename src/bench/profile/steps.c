/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/profile/steps.h"

#include <math.h>
#include <stdbool.h>

#define LOOK_MAX   32768 /* launches: what is looked at takes its square */
#define STEPS_MIN  4     /* of a period, for it to be one */
#define ALIKE_MIN  0.9   /* of the launches that find their like one period on */
#define PROBES     64
#define PROBE_MISS 24 /* of the probes: no need to look at the rest */

/* Threads may write their entries in another order than they read the clock. */
static double seconds(uint64_t from, uint64_t to)
{
	return (double)(int64_t)(to - from) / 1e9;
}

/* How many launches do not find their like @period on. */
static size_t misses(const struct profile_launch *l, size_t n, size_t period)
{
	size_t missed = 0;

	for (size_t i = 0; i + period < n; i++)
		missed += l[i].kind != l[i + period].kind;
	return missed;
}

/* Whether it is worth to look at all of them. */
static bool may_repeat(const struct profile_launch *l, size_t n, size_t period)
{
	size_t missed = 0, far = (n - period) / PROBES + 1;

	for (size_t i = 0; i + period < n; i += far)
		missed += l[i].kind != l[i + period].kind;
	return missed <= PROBE_MISS;
}

/*
 * The layers of a model are alike, so a step is nearly the same a layer on. Therefore the best of all periods is
 * found first, and of those that are about as good the shortest is the step: twice a step is as good as one.
 */
static size_t find_period(const struct profile_launch *l, size_t n)
{
	size_t longest = n / STEPS_MIN, best = n, best_at = 0;

	for (size_t p = 1; p <= longest; p++) {
		size_t missed, scaled;

		if (!may_repeat(l, n, p))
			continue;
		missed = misses(l, n, p);
		/* As if all periods had been looked for in as many launches. */
		scaled = missed * n / (n - p);
		if (scaled < best) {
			best = scaled;
			best_at = p;
		}
	}
	if (!best_at || (double)best > (1 - ALIKE_MIN) * (double)n)
		return 0;
	for (size_t p = 1; p < best_at; p++)
		if (may_repeat(l, n, p) &&
			misses(l, n, p) * n / (n - p) <= best + best / 2 + n / 4096)
			return p;
	return best_at;
}

/* Where in the period the gap before a launch is longest: there a step begins. */
static size_t find_begin(const struct profile_launch *l, size_t n, size_t period)
{
	double longest = -1;
	size_t at = 0;

	for (size_t p = 0; p < period; p++) {
		double sum = 0;
		size_t k = 0;

		for (size_t i = p; i < n; i += period) {
			if (!i)
				continue;
			sum += seconds(l[i - 1].at_ns, l[i].at_ns);
			k++;
		}
		if (k && sum / (double)k > longest) {
			longest = sum / (double)k;
			at = p;
		}
	}
	return at;
}

struct profile_steps profile_steps_find(const struct profile_launch *l, size_t n)
{
	size_t skip = n > LOOK_MAX ? n - LOOK_MAX : 0, period;
	struct profile_steps ret = { 0 };
	double sum = 0, squares = 0, spans = 0;

	l += skip;
	n -= skip;
	if (n < STEPS_MIN)
		return ret;
	period = find_period(l, n);
	if (!period)
		return ret;
	for (size_t i = find_begin(l, n, period); i + period < n; i += period) {
		double took = seconds(l[i].at_ns, l[i + period].at_ns);

		sum += took;
		squares += took * took;
		spans += seconds(l[i].at_ns, l[i + period - 1].at_ns);
		ret.n++;
	}
	if (!ret.n)
		return ret;
	ret.launches = period;
	ret.mean_s = sum / (double)ret.n;
	ret.span_s = spans / (double)ret.n;
	ret.cv = ret.mean_s > 0
			 ? sqrt(fmax(0, squares / (double)ret.n - ret.mean_s * ret.mean_s)) /
				   ret.mean_s
			 : 0;
	return ret;
}
