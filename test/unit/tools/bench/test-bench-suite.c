/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "tools/bench/run/load-io.h"

#include <math.h>
#include <string.h>

static void add_suite_text(struct suite *s, const char *text)
{
	struct error err = ERROR_INIT;

	if (suite_add(s, text, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
}

static void scenarios__have_one_name(void **state)
{
	static const char *const rows[][2] = { { "4 burn", "4 burn" }, { "burn", "1 burn" },
		{ "latency + 3 burn", "latency + 3 burn" },
		{ " 1  latency+3 burn ", "latency + 3 burn" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct suite s;

		suite_defaults(&s);
		s.n_scenarios = 0;
		add_suite_text(&s, rows[i][0]);
		assert_string_equal(s.scenarios[0].name, rows[i][1]);
	}
}

static void scenarios__are_checked(void **state)
{
	static const char *const rows[][2] = {
		{ "", "scenario '': no workload ''; there are: burn, small, " },
		{ "3 bern", "scenario '3 bern': no workload 'bern'" },
		{ "0 burn", "scenario '0 burn': expected a number of pods, 1 to 128" },
		{ "x burn", "scenario 'x burn': expected a number of pods" },
		{ "129 burn", "scenario '129 burn': expected a number of pods" },
		{ "100 burn + 29 small",
			"scenario '100 burn + 29 small': expected at most 8 kinds" },
		{ "burn + 2 burn", "scenario 'burn + 2 burn': 'burn' is named twice" },
		{ "burn +", "scenario 'burn +': no workload ''" },
	};
	char text[300];
	struct error err = ERROR_INIT;
	struct suite s;

	(void)state;
	suite_defaults(&s);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t n = s.n_scenarios;

		assert_int_equal(suite_add(&s, rows[i][0], &err), -1);
		if (strncmp(err.msg, rows[i][1], strlen(rows[i][1])) != 0)
			fail_msg("%s: %s", rows[i][0], err.msg);
		assert_int_equal(s.n_scenarios, n);
	}
	memset(text, 'b', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(suite_add(&s, text, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	while (s.n_scenarios < SUITE_SCENARIOS_MAX)
		add_suite_text(&s, "2 burn");
	assert_int_equal(suite_add(&s, "2 burn", &err), -1);
}

/* Everything once in each repetition, modes together, repetitions that begin differently. */
static void steps__are_all_there_in_mixed_order(void **state)
{
	struct suite s;
	struct suite_step *steps, *again;
	struct error err = ERROR_INIT;
	size_t n, m, changes = 0, each;
	bool same = true;

	(void)state;
	suite_defaults(&s);
	assert_int_equal(suite_steps(&steps, &n, &s, &err), 0);
	assert_int_equal(n % s.repetitions, 0);
	each = n / s.repetitions;
	for (size_t i = 0; i < n; i++) {
		size_t copies = 0;

		assert_int_equal(steps[i].repetition, i / each);
		for (size_t k = 0; k < n; k++)
			copies += steps[k].mode == steps[i].mode &&
				  steps[k].scenario == steps[i].scenario;
		assert_int_equal(copies, s.repetitions);
		if (i)
			changes += steps[i].mode != steps[i - 1].mode;
	}
	/* The mode changes as often as there are modes, but for the last of one repetition and the first of
	 * the next. */
	assert_true(changes <= 7 * s.repetitions);
	for (size_t i = 0; i < each; i++)
		same = same && steps[i].mode == steps[each + i].mode &&
		       steps[i].scenario == steps[each + i].scenario;
	assert_false(same);
	assert_int_equal(suite_steps(&again, &m, &s, &err), 0);
	assert_true(n == m && !memcmp(steps, again, n * sizeof(*steps)));
	free(steps);
	free(again);
}

static void steps__omit_redundant_ones(void **state)
{
	struct suite s;

	(void)state;
	suite_defaults(&s);
	s.n_scenarios = 0;
	add_suite_text(&s, "4 burn");
	add_suite_text(&s, "latency + 3 burn");
	add_suite_text(&s, "burn");
	assert_true(suite_has(&s, &s.scenarios[0], BENCH_FAIR_SHARE_WEIGHTED));
	assert_false(suite_has(&s, &s.scenarios[0], BENCH_FAIR_SHARE_LATENCY));
	assert_false(suite_has(&s, &s.scenarios[1], BENCH_FAIR_SHARE_WEIGHTED));
	assert_true(suite_has(&s, &s.scenarios[1], BENCH_FAIR_SHARE_LATENCY));
	assert_false(suite_has(&s, &s.scenarios[2], BENCH_TIME_SLICING));
	/* If MIG devices are made for .mig_pods pods, only scenarios of that many pods have the mode. */
	assert_true(suite_has(&s, &s.scenarios[0], BENCH_MIG));
	s.mig_pods = 2;
	assert_false(suite_has(&s, &s.scenarios[0], BENCH_MIG));
	assert_true(suite_has(&s, &s.scenarios[0], BENCH_FAIR_SHARE_WEIGHTED));
	s.mig_pods = 4;
	assert_true(suite_has(&s, &s.scenarios[0], BENCH_MIG));
}

static void args__are_of_one_size_in_all_modes(void **state)
{
	const struct args_size size = { 12345, 132 };
	struct strv a = STRV_INIT;
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(args_run(&a, "load", &suite_builtin[0], &size, 7, &err), 0);
	assert_true(strv_has(&a, "1056") && strv_has(&a, "12345") && strv_has(&a, "--depth"));
	strv_fini(&a);
}

/* Two pods of one row and one of another; the second of the first row failed. */
static void collect__joins_pods(void **state)
{
	struct suite s;
	struct suite_step step = { BENCH_FAIR_SHARE, 1, 0 };
	struct hist *blocks = calloc(4, sizeof(*blocks));
	struct collect_pod pods[3] = { { 0, NAN, 2, blocks, NULL },
		{ 0, NAN, 2, NULL, "cuInit: no device" }, { 1, NAN, 2, blocks + 2, NULL } };
	struct collect_step c = { &s, &step, 2, NAN, 1024, { NAN, NAN, NAN, NAN, NAN, NAN }, 3,
		pods, NULL };
	struct bench_result r = { .n_rows = 0 };
	struct error err = ERROR_INIT;
	const char *line = "{\"blocks\": [{\"sum_ns\": 30, \"times\": [10, 3]}, "
			   "{\"sum_ns\": 5, \"times\": [5, 1]}]}";

	(void)state;
	assert_non_null(blocks);
	suite_defaults(&s);
	s.n_scenarios = 0;
	add_suite_text(&s, "2 burn + small");
	assert_int_equal(collect_read(blocks, 2, line, strlen(line), &err), 0);
	assert_int_equal(collect_read(blocks + 2, 2, line, strlen(line), &err), 0);
	assert_int_equal(collect_add(&r, &c, &err), 0);
	assert_int_equal(collect_add(&r, &c, &err), 0);
	assert_int_equal(r.n_rows, 2);
	assert_int_equal(r.rows[0].n, 2);
	assert_string_equal(r.rows[0].workload, "burn");
	assert_int_equal(r.rows[0].replicas, 2);
	assert_int_equal(r.rows[0].runs[1].errors, 1);
	assert_string_equal(r.rows[0].runs[1].error, "cuInit: no device");
	assert_int_equal(r.rows[0].runs[0].n_pods, 2);
	assert_int_equal(r.rows[0].runs[0].blocks[0].times.n, 3);
	assert_true(fabs(r.rows[0].runs[0].blocks[0].times.sum_ns - 30) < 1e-9);
	assert_true(fabs(bench_pod_rate(&r.rows[0].runs[0], 0) - 2) < 1e-9);
	assert_true(bench_pod_rate(&r.rows[0].runs[0], 1) < 1e-9);
	assert_int_equal(r.rows[1].runs[0].errors, 0);
	bench_result_fini(&r);
	free(blocks);
}

static void collect__refuses_other_input(void **state)
{
	static const char *const bad[] = { "", "{}", "[]", "{\"blocks\": []}",
		"{\"blocks\": [{}, {}, {}]}", "{\"blocks\": [{\"times\": [1]}, {}]}",
		"{\"blocks\": [{\"sum_ns\": 1, \"times\": [4864, 1]}, {}]}",
		"{\"blocks\": [{\"sum_ns\": 1, \"times\": [1, 0]}, {}]}",
		"{\"blocks\": [{\"sum_ns\": -1, \"times\": [1, 1]}, {}]}" };
	struct hist *blocks = calloc(2, sizeof(*blocks));
	struct error err = ERROR_INIT;
	const char *error = "{\"error\": \"cuInit: CUDA_ERROR_NO_DEVICE (100)\"}";

	(void)state;
	assert_non_null(blocks);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(collect_read(blocks, 2, bad[i], strlen(bad[i]), &err), -1);
	assert_int_equal(collect_read(blocks, 2, error, strlen(error), &err), -1);
	assert_string_equal(err.msg, "cuInit: CUDA_ERROR_NO_DEVICE (100)");
	free(blocks);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(scenarios__have_one_name),
		cmocka_unit_test(scenarios__are_checked),
		cmocka_unit_test(steps__are_all_there_in_mixed_order),
		cmocka_unit_test(steps__omit_redundant_ones),
		cmocka_unit_test(args__are_of_one_size_in_all_modes),
		cmocka_unit_test(collect__joins_pods),
		cmocka_unit_test(collect__refuses_other_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
