/* SPDX-License-Identifier: Apache-2.0 */
#include "bench-world.h"
#include "support/test.h"

#include "tools/bench/compare/compare.h"

#include <math.h>
#include <string.h>

static const enum bench_mode modes[] = { BENCH_EXCLUSIVE, BENCH_TIME_SLICING,
	BENCH_FAIR_SHARE };

/* A benchmark on a quiet machine: 2 % from one unit to the next, 0.5 % between repetitions. */
static struct noise make_quiet_noise(uint64_t seed)
{
	return (struct noise){ .state = seed,
		.mean_ns = 4e6,
		.within = 0.02,
		.between = 0.005,
		.runs = 3,
		.blocks = 10,
		.units = 20 };
}

static enum compare_verdict compare_noise(struct noise before, struct noise after,
	const struct compare_options *o)
{
	struct bench_result a, b;
	struct error err = ERROR_INIT;
	struct compare c;
	enum compare_verdict r;

	noise_result(&a, &before, modes, ARRAY_LEN(modes));
	noise_result(&b, &after, modes, ARRAY_LEN(modes));
	if (compare_make(&c, &a, &b, o, &err) < 0)
		fail_msg("%s", err.msg);
	r = c.verdict;
	compare_fini(&c);
	bench_result_fini(&a);
	bench_result_fini(&b);
	return r;
}

static void compare__finds_true_differences_and_no_noise(void **state)
{
	const struct compare_options o = { .mode_a = BENCH_MODES, .mode_b = BENCH_MODES };

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct noise before = make_quiet_noise(seed),
			     after = make_quiet_noise(seed + 1000);

		assert_int_equal(compare_noise(before, after, &o), COMPARE_PASS);
		after.mean_ns *= 1.10;
		assert_int_equal(compare_noise(before, after, &o), COMPARE_FAIL);
		after = make_quiet_noise(seed + 1000);
		after.mean_ns *= 0.8; /* better */
		assert_int_equal(compare_noise(before, after, &o), COMPARE_PASS);
	}
}

/* The noise is as large as the difference. */
static void compare__does_not_guess(void **state)
{
	const struct compare_options o = { .mode_a = BENCH_MODES, .mode_b = BENCH_MODES };
	unsigned int open = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct noise before = make_quiet_noise(seed),
			     after = make_quiet_noise(seed + 1000);

		before.between = after.between = 0.05;
		after.mean_ns *= 1.06;
		open += compare_noise(before, after, &o) == COMPARE_INCONCLUSIVE;
		before.runs = after.runs = 1;
		assert_int_equal(compare_noise(before, after, &o), COMPARE_INCONCLUSIVE);
	}
	assert_true(open >= 15);
}

static void limits__are_read_from_a_plan(void **state)
{
	static const struct {
		const char *text;
		struct compare_limit limit;
	} good[] = { { "p99_ms=20", { COMPARE_P99, false, 20e6 } },
		{ "p50_ms=0.25", { COMPARE_P50, false, 0.25e6 } },
		{ "min_rate=100", { COMPARE_RATE, false, 100 } },
		{ "max_slowdown=1.3", { COMPARE_SLOWDOWN, false, 1.3 } },
		{ "rate=5%", { COMPARE_RATE, true, 0.05 } },
		{ "p99=0%", { COMPARE_P99, true, 0 } } };
	static const char *const bad[] = { "", "p99", "p99=", "=5%", "p99=5", "p99_ms=5%",
		"p99_ms=0", "p99_ms=-1", "rate=%", "p98_ms=3", "p99_ms=1e999",
		"p99_ms=00000000000000000000000000000000000000000001" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct compare_limit l;
		struct error err = ERROR_INIT;

		if (compare_limit_parse(&l, good[i].text, &err) < 0)
			fail_msg("%s", err.msg);
		assert_int_equal(l.measure, good[i].limit.measure);
		assert_int_equal(l.relative, good[i].limit.relative);
		assert_true(fabs(l.value - good[i].limit.value) < 1e-6);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct compare_limit l;
		struct error err = ERROR_INIT;

		assert_int_equal(compare_limit_parse(&l, bad[i], &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
	}
}

/* Limits that the rows of four pods at 4 ms keep, break, and come near to. */
static void limits__are_met_or_missed(void **state)
{
	static const struct {
		const char *text;
		enum compare_verdict verdict;
	} rows[] = { { "p99_ms=5", COMPARE_PASS }, { "p99_ms=3", COMPARE_FAIL },
		{ "mean_ms=4.0", COMPARE_INCONCLUSIVE }, { "min_rate=240", COMPARE_PASS },
		{ "min_rate=1500", COMPARE_FAIL }, { "max_slowdown=1.5", COMPARE_PASS },
		{ "max_slowdown=0.5", COMPARE_FAIL } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct compare_limit l;
		struct compare_options o = { .limits = &l,
			.n_limits = 1,
			.mode_a = BENCH_MODES,
			.mode_b = BENCH_MODES };
		struct error err = ERROR_INIT;
		enum compare_verdict v;

		assert_int_equal(compare_limit_parse(&l, rows[i].text, &err), 0);
		v = compare_noise(make_quiet_noise(5), make_quiet_noise(6), &o);
		if (v != rows[i].verdict)
			fail_msg("%s: %s", rows[i].text, compare_verdict_names[v]);
	}
}

/* The modes of one result with each other; a slowdown without a measurement alone; errors. */
static void compare__handles_modes_and_failures(void **state)
{
	static const enum bench_mode two[] = { BENCH_TIME_SLICING, BENCH_FAIR_SHARE };
	struct noise n = make_quiet_noise(9);
	struct compare_limit slow = { COMPARE_SLOWDOWN, false, 1.3 };
	struct compare_options o = { .mode_a = BENCH_TIME_SLICING, .mode_b = BENCH_FAIR_SHARE };
	struct bench_result r;
	struct error err = ERROR_INIT;
	struct compare c;

	(void)state;
	noise_result(&r, &n, two, 2);
	assert_int_equal(compare_make(&c, &r, &r, &o, &err), 0);
	assert_int_equal(c.n, 2);
	assert_ptr_equal(c.lines[0].a, &r.rows[0]);
	assert_ptr_equal(c.lines[0].b, &r.rows[1]);
	assert_int_equal(c.only_a + c.only_b, 0);
	assert_int_equal(c.verdict, COMPARE_PASS);
	compare_fini(&c);
	o = (struct compare_options){ &slow, 1, BENCH_MODES, BENCH_MODES };
	assert_int_equal(compare_make(&c, &r, &r, &o, &err), 0);
	assert_int_equal(c.verdict, COMPARE_INCONCLUSIVE);
	compare_fini(&c);
	o = (struct compare_options){ .mode_a = BENCH_TIME_SLICING,
		.mode_b = BENCH_FAIR_SHARE };
	r.rows[1].runs[2].errors = 1;
	assert_int_equal(compare_make(&c, &r, &r, &o, &err), 0);
	assert_int_equal(c.failed_rows, 1);
	assert_int_equal(c.verdict, COMPARE_FAIL);
	compare_fini(&c);
	o.mode_b = BENCH_MPS;
	assert_int_equal(compare_make(&c, &r, &r, &o, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	bench_result_fini(&r);
}

/* A test that passed and fails now is a failure. A result that is unknown now, or is missing, is
 * inconclusive. */
static void compare__of_isolation(void **state)
{
	static const enum bench_mode one[] = { BENCH_FAIR_SHARE };
	static const struct {
		const char *mode;
		bool passed, known;
		size_t failed, lost;
		enum compare_verdict verdict;
	} rows[] = { { "turns", true, true, 0, 0, COMPARE_PASS },
		{ "turns", false, true, 1, 0, COMPARE_FAIL },
		{ "turns", false, false, 0, 1, COMPARE_INCONCLUSIVE },
		{ "mps", false, true, 0, 1, COMPARE_INCONCLUSIVE } };
	struct bench_isolation before = { "memory", "turns", "", true, true, 99, "%" };
	struct compare_options o = { .mode_a = BENCH_MODES, .mode_b = BENCH_MODES };
	struct noise n = make_quiet_noise(9);
	struct error err = ERROR_INIT;
	struct bench_result a, b;
	struct compare c;

	(void)state;
	noise_result(&a, &n, one, 1);
	b = a;
	a.checks = &before;
	a.n_checks = b.n_checks = 1;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bench_isolation after = { "memory", rows[i].mode, "", rows[i].passed,
			rows[i].known, 99, "%" };

		b.checks = &after;
		assert_int_equal(compare_make(&c, &a, &b, &o, &err), 0);
		assert_int_equal(c.failed_checks, rows[i].failed);
		assert_int_equal(c.lost_checks, rows[i].lost);
		assert_int_equal(c.verdict, rows[i].verdict);
		compare_fini(&c);
	}
	/* An earlier unknown result is no loss. An earlier failure that is unknown now is no pass. */
	before.known = false;
	b.n_checks = 0;
	assert_int_equal(compare_make(&c, &a, &b, &o, &err), 0);
	assert_int_equal(c.verdict, COMPARE_PASS);
	compare_fini(&c);
	before = (struct bench_isolation){ "memory", "turns", "", false, true, 99, "%" };
	assert_int_equal(compare_make(&c, &a, &b, &o, &err), 0);
	assert_int_equal(c.verdict, COMPARE_INCONCLUSIVE);
	compare_fini(&c);
	a.checks = NULL;
	a.n_checks = 0;
	bench_result_fini(&a);
}

/* A row that is not measured any more, or only in name, is inconclusive; a new row is not. */
static void compare__of_lost_rows(void **state)
{
	static const enum bench_mode two[] = { BENCH_TIME_SLICING, BENCH_FAIR_SHARE };
	struct compare_options o = { .mode_a = BENCH_MODES, .mode_b = BENCH_MODES };
	struct noise n = make_quiet_noise(9);
	struct error err = ERROR_INIT;
	struct bench_result all, less;
	struct compare c;

	(void)state;
	noise_result(&all, &n, two, 2);
	less = all;
	less.n_rows = 1;
	assert_int_equal(compare_make(&c, &all, &less, &o, &err), 0);
	assert_int_equal(c.only_a, 1);
	assert_int_equal(c.verdict, COMPARE_INCONCLUSIVE);
	assert_ptr_equal(compare_find_lost_row(&all, &less, NULL), &all.rows[1]);
	assert_null(compare_find_lost_row(&all, &less, &all.rows[2]));
	compare_fini(&c);
	assert_int_equal(compare_make(&c, &less, &all, &o, &err), 0);
	assert_int_equal(c.only_b, 1);
	assert_int_equal(c.verdict, COMPARE_PASS);
	compare_fini(&c);
	bench_result_fini(&all);
}

static void assert_same_rows(const struct bench_result *a, const struct bench_result *b)
{
	assert_int_equal(a->n_rows, b->n_rows);
	for (size_t i = 0; i < a->n_rows; i++)
		for (unsigned int m = 0; m < ESTIMATES; m++) {
			struct error err = ERROR_INIT;
			struct estimate x, y;

			assert_int_equal(
				bench_row_estimate(&x, &a->rows[i], (enum estimate_of)m, &err),
				0);
			assert_int_equal(
				bench_row_estimate(&y, &b->rows[i], (enum estimate_of)m, &err),
				0);
			assert_true(fabs(x.value - y.value) <= 1e-9 * x.value);
			assert_true(fabs(x.error - y.error) <= 1e-6 * x.value);
		}
}

static void result__reads_back_from_its_file(void **state)
{
	struct noise n = make_quiet_noise(9);
	struct bench_isolation check = { "memory-limit", "turns", "8 MiB short of 20 GiB", true,
		true, 0, "bytes" };
	const char *note = "clocks were not fixed";
	struct error err = ERROR_INIT;
	struct bench_result r, again;
	json_t *o;
	char *text;

	(void)state;
	noise_result(&r, &n, modes, ARRAY_LEN(modes));
	r.checks = calloc(1, sizeof(*r.checks));
	r.notes = calloc(1, sizeof(*r.notes));
	r.sizes = calloc(1, sizeof(*r.sizes));
	assert_true(r.checks && r.notes && r.sizes);
	r.sizes[0] = (struct bench_size){ "burn", 12345, 132 };
	r.n_sizes = 1;
	r.checks[0] = check;
	r.notes[0] = note;
	r.n_checks = r.n_notes = 1;
	assert_int_equal(bench_result_write(&o, &r, &err), 0);
	text = json_dumps(o, JSON_COMPACT);
	assert_non_null(text);
	if (bench_result_read(&again, text, strlen(text), "b.json", &err) < 0)
		fail_msg("%s", err.msg);
	assert_same_rows(&r, &again);
	assert_true(bench_pod_rate(&r.rows[1].runs[2], 3) > 100);
	assert_true(fabs(bench_pod_rate(&r.rows[1].runs[2], 3) -
			    bench_pod_rate(&again.rows[1].runs[2], 3)) < 1e-6);
	assert_true(again.head.simulated && isnan(again.head.usd_per_hour));
	assert_string_equal(again.head.gpu, "NVIDIA H100 80GB HBM3");
	assert_string_equal(again.checks[0].what, check.what);
	assert_string_equal(again.notes[0], note);
	assert_int_equal(bench_size_of(&again, "burn")->rounds, 12345);
	assert_int_equal(bench_size_of(&again, "burn")->multiprocessors, 132);
	assert_null(bench_size_of(&again, "small"));
	assert_true(isnan(again.rows[0].runs[0].gpu.sm_active));
	bench_result_fini(&again);
	bench_result_fini(&r);
	free(text);
	json_decref(o);
}

static void result__reports_errors_with_their_place(void **state)
{
#define ROW           "\"scenario\":\"s\",\"workload\":\"w\",\"mode\":\"turns\",\"pods\":1,\"replicas\":1"
#define FILE_OF(rows) "{\"format\":\"gpuslice/bench/v1\",\"rows\":[" rows "]}"
#define RUN_OF(text)  FILE_OF("{" ROW ",\"runs\":[{" text "}]}")
	static const char *const rows[][2] = {
		{ "{", "b.json:1:1: " },
		{ "[]", "b.json: format: expected 'gpuslice/bench/v1', found 'nothing'" },
		{ "{\"format\":\"x\"}",
			"b.json: format: expected 'gpuslice/bench/v1', found 'x'" },
		{ "{\"format\":\"gpuslice/bench/v1\",\"sizes\":[{\"workload\":\"w\",\"rounds\":0}]}",
			"b.json: sizes[0]: expected workload, rounds and multiprocessors" },
		{ FILE_OF("7"), "b.json: rows[0]: expected an object, found an integer" },
		{ FILE_OF("{\"mode\":\"turn\"}"),
			"b.json: rows[0].mode: expected exclusive, " },
		{ FILE_OF("{" ROW ",\"runs\":7}"),
			"b.json: rows[0].runs: expected a list, found an integer" },
		{ RUN_OF("\"seconds\":0"),
			"b.json: rows[0].runs[0].seconds: expected a number above 0" },
		{ RUN_OF("\"seconds\":1,\"pods\":[[-1]]"),
			"b.json: rows[0].runs[0].pods[0]: expected a list of units for each of 0 blocks" },
		{ RUN_OF("\"seconds\":1,\"blocks\":[{\"seconds\":1,\"sum_ns\":1}],\"pods\":[[-1]]"),
			"b.json: rows[0].runs[0].pods[0][0]: expected an integer of at least 0" },
		{ RUN_OF("\"seconds\":1,\"blocks\":[{\"seconds\":1}]"),
			"b.json: rows[0].runs[0].blocks[0].sum_ns: expected a number" },
		{ RUN_OF("\"seconds\":1,\"blocks\":[{\"seconds\":1,\"sum_ns\":1,\"times\":[5,1,5,1]}]"),
			"b.json: rows[0].runs[0].blocks[0]: expected classes in order, 6 to 4863" },
		{ RUN_OF("\"seconds\":1,\"blocks\":[{\"seconds\":1,\"sum_ns\":1,\"times\":[4864,1]}]"),
			"b.json: rows[0].runs[0].blocks[0]: expected classes in order, 0 to 4863" },
		{ RUN_OF("\"seconds\":1,\"blocks\":[{\"seconds\":1,\"sum_ns\":1,\"times\":[5,0]}]"),
			"b.json: rows[0].runs[0].blocks[0]: expected a count" },
		{ RUN_OF("\"seconds\":1,\"blocks\":[{\"seconds\":1,\"sum_ns\":1,\"times\":[5]}]"),
			"b.json: rows[0].runs[0].blocks[0]: expected times: a count" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct error err = ERROR_INIT;
		struct bench_result r;

		assert_int_equal(
			bench_result_read(&r, rows[i][0], strlen(rows[i][0]), "b.json", &err),
			-1);
		if (strncmp(err.msg, rows[i][1], strlen(rows[i][1])) != 0)
			fail_msg("%s: %s", rows[i][0], err.msg);
		assert_null(r.document);
	}
}

/* Even the clearest difference is inconclusive where a run was disturbed. */
static void compare__is_inconclusive_where_a_run_was_disturbed(void **state)
{
	const struct compare_options o = { .mode_a = BENCH_MODES, .mode_b = BENCH_MODES };
	struct noise before = make_quiet_noise(1), after = make_quiet_noise(1001);
	struct bench_result r[2];
	struct error err = ERROR_INIT;
	struct compare c;

	(void)state;
	after.mean_ns *= 1.5;
	noise_result(&r[0], &before, modes, ARRAY_LEN(modes));
	noise_result(&r[1], &after, modes, ARRAY_LEN(modes));
	for (size_t side = 0; side < ARRAY_LEN(r); side++) {
		for (size_t i = 0; i < r[side].n_rows; i++)
			r[side].rows[i].runs[1].doubt = "host too busy";
		r[side].rows[0].runs[0].errors = side;
		assert_int_equal(compare_make(&c, &r[0], &r[1], &o, &err), 0);
		assert_int_equal(c.verdict, COMPARE_INCONCLUSIVE);
		assert_int_equal(c.failed_rows, 0);
		assert_int_equal(c.doubtful_rows, ARRAY_LEN(modes));
		assert_string_equal(c.lines[0].doubt, "host too busy");
		compare_fini(&c);
		for (size_t i = 0; i < r[side].n_rows; i++)
			r[side].rows[i].runs[1].doubt = "";
		r[side].rows[0].runs[0].errors = 0;
	}
	assert_int_equal(compare_make(&c, &r[0], &r[1], &o, &err), 0);
	assert_int_equal(c.verdict, COMPARE_FAIL);
	assert_int_equal(c.doubtful_rows, 0);
	compare_fini(&c);
	bench_result_fini(&r[0]);
	bench_result_fini(&r[1]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(compare__finds_true_differences_and_no_noise),
		cmocka_unit_test(compare__does_not_guess),
		cmocka_unit_test(limits__are_read_from_a_plan),
		cmocka_unit_test(limits__are_met_or_missed),
		cmocka_unit_test(compare__handles_modes_and_failures),
		cmocka_unit_test(compare__of_isolation),
		cmocka_unit_test(compare__of_lost_rows),
		cmocka_unit_test(result__reads_back_from_its_file),
		cmocka_unit_test(result__reports_errors_with_their_place),
		cmocka_unit_test(compare__is_inconclusive_where_a_run_was_disturbed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
