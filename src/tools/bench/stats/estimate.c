/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/stats/estimate.h"

#include <math.h>
#include <stdlib.h>

#define REPLICATES 400
/*
 * Maximum number of groups of a repetition. With more groups, effects at the groups' borders count more often. For
 * example, a quantum of a slice can be as long as a block.
 */
#define GROUPS      5
#define GROUP_UNITS 16 /* minimum units of a group */
#define SEED        UINT64_C(0x5eed0f6b1e5)

/* The input of a statistic. */
struct sum {
	double seconds;
	struct hist times;
};

/* Consecutive blocks that the bootstrap draws as one. */
struct block_group {
	size_t first, end;
};

struct estimate_groups {
	const struct estimate_run *run;
	size_t n;
	struct block_group *groups;
};

static uint64_t draw_random_bits(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static size_t draw_below(uint64_t *state, size_t n)
{
	return (size_t)(((unsigned __int128)draw_random_bits(state) * n) >> 64);
}

static void add_group_to_sum(struct sum *s, const struct estimate_groups *p, size_t group)
{
	for (size_t i = p->groups[group].first; i < p->groups[group].end; i++) {
		s->seconds += p->run->blocks[i].seconds;
		hist_merge(&s->times, &p->run->blocks[i].times);
	}
}

static void sum_join(struct sum *to, const struct sum *s)
{
	to->seconds += s->seconds;
	hist_join(&to->times, &s->times);
}

static void sum_clear(struct sum *s)
{
	s->seconds = 0;
	hist_clear(&s->times);
}

static double compute_statistic(enum estimate_of what, const struct sum *s)
{
	switch (what) {
	case ESTIMATE_RATE:
		return s->seconds > 0 ? (double)s->times.n / s->seconds : 0;
	case ESTIMATE_P50:
		return hist_quantile(&s->times, 0.50);
	case ESTIMATE_P95:
		return hist_quantile(&s->times, 0.95);
	case ESTIMATE_P99:
		return hist_quantile(&s->times, 0.99);
	case ESTIMATE_MEAN:
	case ESTIMATES:
		break;
	}
	return hist_mean(&s->times);
}

/* Joins blocks into groups. The blocks left over at the end join the last group. */
static void make_groups(struct estimate_groups *p)
{
	size_t first = 0, min = (p->run->n + GROUPS - 1) / GROUPS;
	uint64_t units = 0;

	for (size_t i = 0; i < p->run->n; i++) {
		units += p->run->blocks[i].times.n;
		if (units < GROUP_UNITS || i + 1 - first < min)
			continue;
		p->groups[p->n++] = (struct block_group){ first, i + 1 };
		first = i + 1;
		units = 0;
	}
	if (!p->n && p->run->n)
		p->groups[p->n++] = (struct block_group){ 0, p->run->n };
	else if (p->n)
		p->groups[p->n - 1].end = p->run->n;
}

/* Running sums for a mean and a variance. */
struct moments {
	double n, mean, squares;
};

static void moments_add(struct moments *m, double v)
{
	double d = v - m->mean;

	m->n++;
	m->mean += d / m->n;
	m->squares += d * (v - m->mean);
}

static double moments_variance(const struct moments *m)
{
	return m->n > 1 ? m->squares / (m->n - 1) : 0;
}

/* Variances by bootstrap: of all repetitions together, and the mean of the variances of each repetition. */
struct repetition_variances {
	double all, each;
};

struct estimate_state {
	enum estimate_of what;
	size_t n;
	struct estimate_groups *parts;
	struct moments *moments; /* of each repetition */
	struct sum one, all;     /* of one replicate */
};

static void add_bootstrap_replicate(struct estimate_state *w, uint64_t *seed,
	struct moments *all)
{
	sum_clear(&w->all);
	for (size_t r = 0; r < w->n; r++) {
		const struct estimate_groups *p = &w->parts[r];

		sum_clear(&w->one);
		for (size_t i = 0; i < p->n; i++)
			add_group_to_sum(&w->one, p, draw_below(seed, p->n));
		moments_add(&w->moments[r], compute_statistic(w->what, &w->one));
		sum_join(&w->all, &w->one);
	}
	moments_add(all, compute_statistic(w->what, &w->all));
}

static struct repetition_variances compute_bootstrap_variance(struct estimate_state *w)
{
	struct moments all = { 0 };
	struct repetition_variances ret = { 0 };
	uint64_t seed = SEED;

	for (unsigned int i = 0; i < REPLICATES; i++)
		add_bootstrap_replicate(w, &seed, &all);
	ret.all = moments_variance(&all);
	for (size_t r = 0; r < w->n; r++)
		ret.each += moments_variance(&w->moments[r]) / (double)w->n;
	return ret;
}

/* Returns the value. Adds each repetition's value to @between. */
static double compute_measured_value(struct estimate_state *w, struct moments *between)
{
	sum_clear(&w->all);
	for (size_t r = 0; r < w->n; r++) {
		sum_clear(&w->one);
		for (size_t i = 0; i < w->parts[r].n; i++)
			add_group_to_sum(&w->one, &w->parts[r], i);
		moments_add(between, compute_statistic(w->what, &w->one));
		sum_join(&w->all, &w->one);
	}
	return compute_statistic(w->what, &w->all);
}

static void compute_estimate(struct estimate *ret, struct estimate_state *w)
{
	struct moments between = { 0 };
	double freedom = 0, n = (double)w->n, extra;
	struct repetition_variances in;

	ret->value = compute_measured_value(w, &between);
	in = compute_bootstrap_variance(w);
	for (size_t r = 0; r < w->n; r++)
		freedom += w->parts[r].n ? (double)w->parts[r].n - 1 : 0;
	/*
	 * Too few groups show no error within repetitions. In this case the variance between repetitions contains
	 * the whole error.
	 */
	if (freedom < n)
		in = (struct repetition_variances){ 0 };
	extra = moments_variance(&between) - in.each;
	extra = extra > 0 ? extra / n : 0;
	ret->error = sqrt(in.all + extra);
	ret->freedom = 0;
	if (w->n < 2)
		return;
	if (!(ret->error > 0)) {
		ret->freedom = n - 1;
		return;
	}
	ret->freedom = extra * extra / (n - 1);
	if (in.all > 0)
		ret->freedom += in.all * in.all / freedom;
	ret->freedom = (in.all + extra) * (in.all + extra) / ret->freedom;
}

int estimate_make(struct estimate *ret, enum estimate_of what, const struct estimate_run *runs,
	size_t n, struct error *err)
{
	CLEANUP(freep) struct estimate_state *w = calloc(1, sizeof(*w));
	CLEANUP(freep) struct estimate_groups *parts = calloc(n, sizeof(*parts));
	CLEANUP(freep) struct moments *moments = calloc(n, sizeof(*moments));
	CLEANUP(freep) struct block_group *groups = NULL;
	size_t blocks = 0, at = 0;

	*ret = (struct estimate){ 0 };
	for (size_t r = 0; r < n; r++)
		blocks += runs[r].n;
	groups = calloc(blocks + 1, sizeof(*groups));
	if (!w || !parts || !moments || !groups)
		return error_nomem(err);
	for (size_t r = 0; r < n; r++) {
		parts[r] = (struct estimate_groups){ .run = &runs[r], .groups = groups + at };
		make_groups(&parts[r]);
		at += runs[r].n;
	}
	w->what = what;
	w->n = n;
	w->parts = parts;
	w->moments = moments;
	compute_estimate(ret, w);
	return 0;
}

/* Below 3, where the series is inaccurate, it interpolates between whole numbers by 1 / freedom. */
double estimate_t(double freedom)
{
	static const double few[] = { 12.7062, 4.30265, 3.18245 };
	const double x = 1.959964, x3 = x * x * x, x5 = x3 * x * x, x7 = x5 * x * x,
		     x9 = x7 * x * x;
	double i = 1 / freedom;

	for (size_t k = 0; k < 2; k++)
		if (freedom < (double)(k + 2)) {
			double a = 1 / (double)(k + 1), b = 1 / (double)(k + 2);

			return exp(log(few[k]) * (i - b) / (a - b) +
				   log(few[k + 1]) * (a - i) / (a - b));
		}
	return x + i * ((x3 + x) / 4 +
			       i * ((5 * x5 + 16 * x3 + 3 * x) / 96 +
					   i * ((3 * x7 + 19 * x5 + 17 * x3 - 15 * x) / 384 +
						       i *
							       (79 * x9 + 776 * x7 + 1482 * x5 -
								       1920 * x3 - 945 * x) /
							       92160)));
}

static struct interval make_t_interval(double value, double error, double freedom)
{
	double half = freedom >= 1 ? error * estimate_t(freedom) : INFINITY;

	return (struct interval){ value - half, value + half };
}

struct interval estimate_interval(const struct estimate *e)
{
	return make_t_interval(e->value, e->error, e->freedom);
}

/* Degrees of freedom of the sum of two variances. */
static double joint_freedom(double va, double fa, double vb, double fb)
{
	double both = va + vb, d;

	if (!(fa > 0) || !(fb > 0))
		return 0;
	d = va * va / fa + vb * vb / fb;
	return d > 0 ? both * both / d : fa < fb ? fa : fb;
}

static double relative_variance(const struct estimate *e)
{
	double r = e->value > 0 ? e->error / e->value : 0;

	return r * r;
}

struct estimate estimate_ratio(const struct estimate *a, const struct estimate *b)
{
	double va = relative_variance(a), vb = relative_variance(b), r = b->value / a->value;

	return (struct estimate){ .value = r,
		.error = r * sqrt(va + vb),
		.freedom = joint_freedom(va, a->freedom, vb, b->freedom) };
}

struct interval estimate_ratio_interval(const struct estimate *a, const struct estimate *b)
{
	struct estimate r = estimate_ratio(a, b);
	struct interval of_log;

	if (!(r.value > 0))
		return (struct interval){ 0, r.freedom > 0 ? 0 : INFINITY };
	of_log = make_t_interval(log(r.value), r.error / r.value, r.freedom);
	return (struct interval){ exp(of_log.low), exp(of_log.high) };
}

double estimate_jain(const double *v, size_t n)
{
	double sum = 0, squares = 0;

	for (size_t i = 0; i < n; i++) {
		sum += v[i];
		squares += v[i] * v[i];
	}
	return squares > 0 ? sum * sum / ((double)n * squares) : 0;
}

double estimate_cv(const double *v, size_t n)
{
	struct moments m = { 0 };

	for (size_t i = 0; i < n; i++)
		moments_add(&m, v[i]);
	return m.mean > 0 ? sqrt(moments_variance(&m)) / m.mean : 0;
}
