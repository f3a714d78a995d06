/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/profile/steps.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STEP_SEARCH_MAX PROFILE_LAUNCHES_MAX
#define STEPS_MIN       4   /* of a period, for it to be one */
#define ALIKE_MIN       0.9 /* of the launches that find their like one period on */
#define PROBES          64
#define GROUP_MAX       128 /* periods of a step */
#define GROUP_SAMPLES   2048
#define DIFFER_MIN      0.05 /* that times vary, relatively: else all of them are alike */
#define SAMPLES_MIN     32
#define EXPLAINED_MIN   0.5 /* of the variance of their times, by the place in the step */
#define EXPLAINED_NEAR  0.9
#define PROBE_MISS      24 /* of the probes: no need to look at the rest */

/* Threads may write their entries in another order than they read the clock. */
static double compute_elapsed_seconds(uint64_t from, uint64_t to)
{
	return (double)(int64_t)(to - from) / 1e9;
}

/* How many launches do not find their like @period on. */
static size_t count_period_misses(const struct profile_launch *l, size_t n, size_t period)
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
		missed = count_period_misses(l, n, p);
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
		if (may_repeat(l, n, p) && count_period_misses(l, n, p) * n / (n - p) <=
						   best + best / 2 + n / 4096)
			return p;
	return best_at;
}

/*
 * Layers that are all there is between two waits repeat exactly, so what they launch does not say where a step begins; but
 * a program waits for the end of a step, and that takes longer than the launches within it. So of the times from one
 * repetition to the next it is asked which number of them explains most of how they differ: the share of the
 * variance that lies between places in a group of @k. Times are cut off, so that no single long one decides.
 */
static double compute_explained_variance(const double *took, size_t n, size_t k)
{
	double mean = 0, all = 0, between = 0;

	for (size_t i = 0; i < n; i++)
		mean += took[i] / (double)n;
	for (size_t i = 0; i < n; i++)
		all += (took[i] - mean) * (took[i] - mean);
	for (size_t p = 0; p < k; p++) {
		double sum = 0;
		size_t m = 0;

		for (size_t i = p; i < n; i += k, m++)
			sum += took[i];
		if (m)
			between +=
				(double)m * (sum / (double)m - mean) * (sum / (double)m - mean);
	}
	/* Groups of nothing explain something too: (k - 1) of (n - 1) parts. */
	return all > DIFFER_MIN * DIFFER_MIN * mean * mean * (double)n
		       ? 1 - (1 - between / all) * (double)(n - 1) / (double)(n - k)
		       : 0;
}

static int compare_step_times(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The number of periods in a step; 1: times say nothing else. */
static size_t find_periods_per_step(const struct profile_launch *l, size_t n, size_t period)
{
	double took[GROUP_SAMPLES], sorted[GROUP_SAMPLES], best = 0;
	size_t samples = (n - 1) / period, ret = 1;

	if (samples > GROUP_SAMPLES)
		samples = GROUP_SAMPLES;
	if (samples < SAMPLES_MIN)
		return 1;
	for (size_t i = 0; i < samples; i++)
		took[i] =
			compute_elapsed_seconds(l[i * period].at_ns, l[(i + 1) * period].at_ns);
	memcpy(sorted, took, samples * sizeof(*took));
	qsort(sorted, samples, sizeof(*sorted), compare_step_times);
	/* Steps are at least so many that a long one in each is below the cut. */
	for (size_t i = 0; i < samples; i++)
		took[i] = fmin(took[i], sorted[samples - samples / (2 * GROUP_MAX) - 1]);
	for (size_t k = 2; k <= GROUP_MAX && k <= samples / STEPS_MIN; k++)
		best = fmax(best, compute_explained_variance(took, samples, k));
	for (size_t k = 2; best >= EXPLAINED_MIN && k <= GROUP_MAX && k <= samples / STEPS_MIN;
		k++)
		if (compute_explained_variance(took, samples, k) >= EXPLAINED_NEAR * best) {
			ret = k;
			break;
		}
	return ret;
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
			sum += compute_elapsed_seconds(l[i - 1].at_ns, l[i].at_ns);
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
	size_t skip = n > STEP_SEARCH_MAX ? n - STEP_SEARCH_MAX : 0, period;
	struct profile_steps ret = { 0 };
	double sum = 0, squares = 0, spans = 0;

	l += skip;
	n -= skip;
	if (n < STEPS_MIN)
		return ret;
	period = find_period(l, n);
	if (!period)
		return ret;
	period *= find_periods_per_step(l, n, period);
	for (size_t i = find_begin(l, n, period); i + period < n; i += period) {
		double took = compute_elapsed_seconds(l[i].at_ns, l[i + period].at_ns);

		sum += took;
		squares += took * took;
		spans += compute_elapsed_seconds(l[i].at_ns, l[i + period - 1].at_ns);
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
