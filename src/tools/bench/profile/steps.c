/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the steps of a program in its launches: the period of the launches, and the periods of a step
 * (profile.h).
 */
#include "tools/bench/profile/profile.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STEP_SEARCH_MAX PROFILE_LAUNCHES_MAX
#define STEPS_MIN       4   /* minimum repetitions of a period */
#define ALIKE_MIN       0.9 /* minimum share of launches that match the launch one period later */
#define PROBES          64
#define GROUP_MAX       128 /* maximum number of periods in a step */
#define GROUP_SAMPLES   2048
#define DIFFER_MIN      0.05 /* minimum relative variation of times; below it, all are equal */
#define SAMPLES_MIN     32
#define EXPLAINED_MIN   0.5 /* minimum share of variance that the place in the step explains */
#define EXPLAINED_NEAR  0.9
#define PROBE_MISS      24 /* maximum misses among the probes; above it, the full count is skipped */

/* The difference can be negative: threads can write entries in another order than they read the clock. */
static double compute_elapsed_seconds(uint64_t from, uint64_t to)
{
	return (double)(int64_t)(to - from) / 1e9;
}

/* Number of launches that differ from the launch one @period later. */
static size_t count_period_misses(const struct profile_launch *l, size_t n, size_t period)
{
	size_t missed = 0;

	for (size_t i = 0; i + period < n; i++)
		missed += l[i].kind != l[i + period].kind;
	return missed;
}

/* Whether a sample of the launches justifies the full count. */
static bool may_repeat(const struct profile_launch *l, size_t n, size_t period)
{
	size_t missed = 0, far = (n - period) / PROBES + 1;

	for (size_t i = 0; i + period < n; i += far)
		missed += l[i].kind != l[i + period].kind;
	return missed <= PROBE_MISS;
}

/*
 * The layers of a model are similar, so the launches nearly repeat after one layer. Therefore the function finds
 * the best of all periods first. The step is the shortest of the periods that are about as good, as two steps fit
 * as well as one.
 */
static size_t find_period(const struct profile_launch *l, size_t n)
{
	size_t longest = n / STEPS_MIN, best = n, best_at = 0;

	for (size_t p = 1; p <= longest; p++) {
		size_t missed, scaled;

		if (!may_repeat(l, n, p))
			continue;
		missed = count_period_misses(l, n, p);
		/* Scaled to the same number of launches for all periods. */
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
 * If a step has only equal layers between two waits, its launches repeat exactly. Then the launches do not show
 * where a step begins. But a program waits for the end of a step, and that wait is longer than the gaps between
 * launches within a step.
 *
 * The function takes the times @took from one period to the next. It returns the share of their variance that lies
 * between the positions in a group of @k. The caller clips the times, so that no single long time decides.
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
	/* Random groups explain (k - 1) of (n - 1) parts of the variance. The formula removes these parts. */
	return all > DIFFER_MIN * DIFFER_MIN * mean * mean * (double)n
		       ? 1 - (1 - between / all) * (double)(n - 1) / (double)(n - k)
		       : 0;
}

static int compare_step_times(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Number of periods in a step. 1: the times show no longer step. */
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
	/*
	 * The cut affects samples / (2 * GROUP_MAX) times. There are at least twice as many steps, so the cut is
	 * itself a long time of a step.
	 */
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

/* A step begins at the position in the period with the longest mean gap before a launch. */
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
