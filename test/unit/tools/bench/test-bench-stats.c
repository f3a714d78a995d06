/* SPDX-License-Identifier: Apache-2.0 */
#include "bench-world.h"
#include "support/test.h"

#include <math.h>

#define CLOSE(a, b, within)                                                \
	do {                                                               \
		double a_ = (a), b_ = (b);                                 \
		if (!(fabs(a_ - b_) <= (within)))                          \
			fail_msg("%s is %.6f, expected %.6f", #a, a_, b_); \
	} while (0)

/* Each class begins where the one before it ends, and its middle is near to all that is in it. */
static void hist__classes_are_narrow(void **state)
{
	unsigned int last = 0;

	(void)state;
	for (uint64_t ns = 0; ns < 128; ns++)
		CLOSE(hist_middle(hist_class(ns)), (double)ns, 0);
	for (uint64_t ns = 1; ns < UINT64_C(1) << 43; ns += ns / 300 + 1) {
		unsigned int c = hist_class(ns);

		assert_true(c == last || c == last + 1);
		last = c;
		CLOSE(hist_middle(c), (double)ns, (double)ns * 0.004);
	}
	assert_int_equal(hist_class(UINT64_MAX), HIST_CLASSES - 1);
	assert_int_equal(hist_class(UINT64_C(1) << 60), HIST_CLASSES - 1);
}

static void hist__quantiles_and_mean(void **state)
{
	struct hist h = { 0 }, again = { 0 };
	struct hist_packed p;
	struct error err = ERROR_INIT;

	(void)state;
	CLOSE(hist_quantile(&h, 0.5), 0, 0);
	CLOSE(hist_mean(&h), 0, 0);
	for (uint64_t i = 1; i <= 1000; i++)
		hist_add(&h, i * 1000);
	CLOSE(hist_quantile(&h, 0), 1000, 4);
	CLOSE(hist_quantile(&h, 0.5), 500e3, 2e3);
	CLOSE(hist_quantile(&h, 0.99), 990e3, 4e3);
	CLOSE(hist_quantile(&h, 1), 1000e3, 4e3);
	CLOSE(hist_mean(&h), 500.5e3, 1e-6);
	assert_int_equal(hist_pack(&p, &h, &err), 0);
	hist_merge(&again, &p);
	hist_merge(&again, &p);
	hist_join(&again, &h);
	assert_int_equal(again.n, 3000);
	CLOSE(hist_quantile(&again, 0.99), hist_quantile(&h, 0.99), 0);
	hist_clear(&again);
	hist_add(&again, 5);
	CLOSE(hist_quantile(&again, 1), 5, 0);
	CLOSE(hist_mean(&again), 5, 0);
	hist_packed_fini(&p);
}

/* The figures are in any table of Student's t. */
static void t_quantile__agrees_with_the_tables(void **state)
{
	static const double rows[][2] = { { 1, 12.7062 }, { 2, 4.3027 }, { 3, 3.1824 },
		{ 4, 2.7764 }, { 5, 2.5706 }, { 10, 2.2281 }, { 30, 2.0423 }, { 1e6, 1.9600 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		CLOSE(estimate_t(rows[i][0]), rows[i][1], rows[i][1] * 0.002);
	assert_true(estimate_t(1.5) < 12 && estimate_t(1.5) > 4.4);
	assert_true(estimate_t(2.5) < 4.2 && estimate_t(2.5) > 3.3);
}

static void spread__of_shares(void **state)
{
	static const double equal[] = { 3, 3, 3, 3 }, one[] = { 8, 0, 0, 0 };

	(void)state;
	CLOSE(estimate_jain(equal, 4), 1, 1e-12);
	CLOSE(estimate_jain(one, 4), 0.25, 1e-12);
	CLOSE(estimate_jain(one, 0), 0, 0);
	CLOSE(estimate_cv(equal, 4), 0, 1e-12);
	CLOSE(estimate_cv(one, 4), 2, 1e-12);
}

/* How often an interval of 95 % contains the true value. */
static double measure_coverage(double within, double between, enum estimate_of what,
	double truth)
{
	enum { TRIALS = 120 };
	unsigned int hits = 0;

	for (unsigned int i = 0; i < TRIALS; i++) {
		struct noise n = { .state = 1000 + i,
			.mean_ns = 1e6,
			.within = within,
			.between = between,
			.runs = 3,
			.blocks = 10,
			.units = 20 };
		struct bench_result r = { .n_rows = 1, .rows = calloc(1, sizeof(*r.rows)) };
		struct error err = ERROR_INIT;
		struct estimate e;
		struct interval in;

		assert_non_null(r.rows);
		noise_row(r.rows, &n, BENCH_FAIR_SHARE, 1);
		assert_int_equal(bench_row_estimate(&e, r.rows, what, &err), 0);
		in = estimate_interval(&e);
		hits += in.low <= truth && truth <= in.high;
		bench_result_fini(&r);
	}
	return (double)hits / (double)TRIALS;
}

/* Noise in a repetition, from one to the next, and both. */
static void intervals__have_their_coverage(void **state)
{
	(void)state;
	assert_true(measure_coverage(0.10, 0, ESTIMATE_MEAN, 1e6) >= 0.88);
	assert_true(measure_coverage(0.05, 0.05, ESTIMATE_MEAN, 1e6) >= 0.88);
	assert_true(measure_coverage(0.01, 0.10, ESTIMATE_P50, 1e6) >= 0.88);
	assert_true(measure_coverage(0.10, 0, ESTIMATE_RATE, 1e3) >= 0.88);
}

/* Intervals are no wider than necessary. */
static void intervals__are_narrow_where_there_is_little_noise(void **state)
{
	struct noise n = { .state = 7,
		.mean_ns = 1e6,
		.within = 0.1,
		.runs = 3,
		.blocks = 20,
		.units = 100 };
	struct bench_result r = { .n_rows = 1, .rows = calloc(1, sizeof(*r.rows)) };
	struct error err = ERROR_INIT;
	struct estimate e;
	struct interval in;

	(void)state;
	assert_non_null(r.rows);
	noise_row(r.rows, &n, BENCH_FAIR_SHARE, 1);
	assert_int_equal(bench_row_estimate(&e, r.rows, ESTIMATE_MEAN, &err), 0);
	in = estimate_interval(&e);
	/* 0.1 / sqrt(6000) * 2 */
	assert_true(in.high - in.low < 1e6 * 0.01);
	CLOSE(e.value, 1e6, 1e6 * 0.005);
	bench_result_fini(&r);
}

/* One repetition proves nothing about others; few units give no certainty. */
static void intervals__have_no_bounds_without_repetitions(void **state)
{
	struct noise n = { .state = 7,
		.mean_ns = 1e6,
		.within = 0.1,
		.runs = 1,
		.blocks = 4,
		.units = 100 };
	struct bench_result r = { .n_rows = 2, .rows = calloc(2, sizeof(*r.rows)) };
	struct error err = ERROR_INIT;
	struct estimate e;

	(void)state;
	assert_non_null(r.rows);
	noise_row(&r.rows[0], &n, BENCH_FAIR_SHARE, 1);
	assert_int_equal(bench_row_estimate(&e, &r.rows[0], ESTIMATE_MEAN, &err), 0);
	assert_true(isinf(estimate_interval(&e).high));
	n.runs = 2;
	n.blocks = n.units = 1;
	noise_row(&r.rows[1], &n, BENCH_FAIR_SHARE, 1);
	assert_int_equal(bench_row_estimate(&e, &r.rows[1], ESTIMATE_P99, &err), 0);
	assert_true(isfinite(estimate_interval(&e).high));
	assert_true(estimate_interval(&e).high > 1.2 * e.value);
	bench_result_fini(&r);
}

/* Half of a repetition is twice as slow: units are many, but not independent. */
static void intervals__account_for_bursts(void **state)
{
	struct error err = ERROR_INIT;
	double width[2];

	(void)state;
	for (int slow = 0; slow < 2; slow++) {
		struct noise n = { .state = 3,
			.mean_ns = 1e6,
			.within = 0.3,
			.runs = 2,
			.blocks = 10,
			.units = 50 };
		struct bench_result r = { .n_rows = 1, .rows = calloc(1, sizeof(*r.rows)) };
		struct estimate e;

		assert_non_null(r.rows);
		noise_row(r.rows, &n, BENCH_FAIR_SHARE, 1);
		for (size_t k = 0; slow && k < 2; k++)
			for (size_t b = 0; b < 5; b++)
				r.rows->runs[k].blocks[b].times.sum_ns *= 2;
		assert_int_equal(bench_row_estimate(&e, r.rows, ESTIMATE_MEAN, &err), 0);
		width[slow] = e.error / e.value;
		bench_result_fini(&r);
	}
	assert_true(width[1] > 4 * width[0]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(hist__classes_are_narrow),
		cmocka_unit_test(hist__quantiles_and_mean),
		cmocka_unit_test(t_quantile__agrees_with_the_tables),
		cmocka_unit_test(spread__of_shares),
		cmocka_unit_test(intervals__have_their_coverage),
		cmocka_unit_test(intervals__are_narrow_where_there_is_little_noise),
		cmocka_unit_test(intervals__have_no_bounds_without_repetitions),
		cmocka_unit_test(intervals__account_for_bursts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
