/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "tools/bench/isolation/internal.h"
#include "tools/bench/stats/hist.h"

#include <math.h>
#include <string.h>

#define GIB 1073741824.0

static const struct isolation_test_kind *const kinds[] = { &isolation_test_memory,
	&isolation_test_neighbor, &isolation_test_fault, &isolation_test_recovery };

static void expect_verdict(const struct verdict *v, bool passed, double value,
	const char *words)
{
	if (!v->known || v->passed != passed || !strstr(v->text, words))
		fail_msg("known %d, passed %d, '%s', expected '%s'", v->known, v->passed,
			v->text, words);
	if (isnan(value) ? !isnan(v->value) : !(fabs(v->value - value) < 0.01))
		fail_msg("%s: %g, expected %g", v->text, v->value, value);
}

static void memory__is_limited_with_the_context(void **state)
{
	static const struct {
		double limit, found, taken;
		int refusal;
		double neighbour;
		bool passed;
		double value;
		const char *words;
	} rows[] = {
		{ 20, 19.5, 19.4, 2, 19.5, true, 99.5,
			"a pod got 19.90 of its 20.00 GiB, 512 MiB" },
		/* Beyond the limit; too early; of another error; not at all; the neighbour has too little. */
		{ 20, 20, 20.4, 2, 20, false, 102, "20.40 of its 20.00" },
		{ 20, 20, 18.9, 2, 20, false, 94.5, "18.90 of its" },
		{ 20, 20, 19.9, 700, 20, false, 99.5, "then error 700 after 25 us" },
		{ 20, 20, 100, 0, 20, false, 500, "was not refused more" },
		{ 20, 20, 19.9, 2, 18, false, 99.5, "its neighbour then got 90.0% of its own" },
		{ 20, 20, 18.991, 2, 18.991, true, 95, "got 95.0% of its own" },
		/* The free memory may be a figure of the GPU, not of the slice. */
		{ 20, 79, 20, 2, 20, true, 100, "0 MiB of it its context" },
		{ 0, 79, 79.2, 2, 0, false, 99,
			"no limit: one pod got 79.2 GiB, 99% of the GPU" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct verdict_memory m = { .limit = rows[i].limit * GIB,
			.found = rows[i].found * GIB,
			.obtained = rows[i].taken * GIB,
			.gpu = 80 * GIB,
			.refusal = rows[i].refusal,
			.refusal_ns = 25000,
			.neighbor_limit = 20 * GIB,
			.neighbor_found = 20 * GIB,
			.neighbor_taken = rows[i].neighbour * GIB };
		struct verdict v;

		verdict_memory(&v, &m);
		expect_verdict(&v, rows[i].passed, rows[i].value, rows[i].words);
		assert_string_equal(v.unit, "%");
	}
}

static void doubt__is_reported_in_full_before_the_figures(void **state)
{
	struct doubt_facts f = { .waited = 0.44, .others = 2 };
	char doubt[DOUBT_TEXT_MAX];
	struct verdict v;

	(void)state;
	for (size_t i = 0; i < DOUBT_SLOWED; i++)
		f.slowed[i] = i < 3 ? 0.41 : 0;
	doubt_text(doubt, &f);
	assert_true(strlen(doubt) > 200);
	verdict_memory(&v, &(struct verdict_memory){ .limit = 20 * GIB,
				   .obtained = 20 * GIB,
				   .gpu = 80 * GIB,
				   .refusal = 2,
				   .neighbor_limit = 20 * GIB,
				   .neighbor_taken = 20 * GIB });
	verdict_add_doubt(&v, doubt);
	assert_false(v.known || v.passed);
	assert_ptr_equal(strstr(v.text, doubt), v.text);
	assert_non_null(
		strstr(v.text, "2 other processes used the GPU (measured: a pod got 20.00"));
	assert_int_equal(v.text[strlen(v.text) - 1], ')');
}

static const char *const hogs[] = { "these", "those" };

static void neighbor__counts_the_worse_of_both(void **state)
{
	static const struct {
		double alone, share, rates[2];
		bool passed;
		double value;
	} rows[] = {
		{ 1000, 0.5, { 600, 450 }, true, 10 },
		{ 1000, 0.5, { 440, 600 }, false, 12 },
		{ 1000, 0.5, { 600, 700 }, true, -20 },
		{ 1000, 1, { 980, 950 }, true, 5 },
		{ 1000, 0.5, { 500.1, 500.1 }, true, 0 },
		/* A figure that is displayed as the limit passes. */
		{ 1000, 0.5, { 449.8, 600 }, true, 10 },
		{ 1000, 0.5, { 449.6, 600 }, false, 10.1 },
	};
	struct verdict v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		verdict_loss(&v, &(struct verdict_loss){ rows[i].alone, rows[i].share, 2,
					 rows[i].rates, hogs });
		expect_verdict(&v, rows[i].passed, rows[i].value, "alone 1000 units/s");
	}
	verdict_loss(&v, &(struct verdict_loss){ 1000, 0.5, 2, rows[0].rates, hogs });
	expect_verdict(&v, true, 10, "600 beside these, 450 beside those; alone");
	verdict_loss(&v, &(struct verdict_loss){ NAN, 0.5, 2, rows[0].rates, hogs });
	assert_false(v.known);
	verdict_loss(&v, &(struct verdict_loss){ 1000, 0.5, 2, (double[]){ 500, NAN }, hogs });
	assert_false(v.known);
}

static void neighbor__may_make_answers_a_little_slower(void **state)
{
	struct verdict v;

	(void)state;
	verdict_latency(&v,
		&(struct verdict_latency){ 0.5e6, 2, (double[]){ 2.4e6, 1e6 }, hogs });
	expect_verdict(&v, true, 1.9, "2.40 beside these, 1.00 beside those; alone 0.50");
	verdict_latency(&v,
		&(struct verdict_latency){ 0.5e6, 2, (double[]){ 1e6, 2.6e6 }, hogs });
	expect_verdict(&v, false, 2.1, "alone 0.50");
	verdict_latency(&v, &(struct verdict_latency){ NAN, 2, (double[]){ 1e6, 2e6 }, hogs });
	assert_false(v.known);
}

/* @n blocks of 10 ms with @units units each. */
struct piece {
	size_t n;
	uint32_t units;
};

static struct verdict_blocks blocks_of(uint32_t *room, const struct piece *pieces, size_t n)
{
	struct verdict_blocks b = { 0, room, 10 };

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < pieces[i].n; k++)
			room[b.n++] = pieces[i].units;
	return b;
}

static void fault__affects_its_pod_alone(void **state)
{
	uint32_t room[100];
	struct verdict_fault f = { .fault = "cuEventSynchronize: (700)",
		.neighbor = "",
		.blocks = blocks_of(room, (struct piece[]){ { 10, 12 }, { 7, 0 }, { 20, 12 } },
			3),
		.at_ms = 95,
		.next = "",
		.next_ms = 300 };
	struct verdict v;

	(void)state;
	verdict_fault(&v, &f);
	expect_verdict(&v, true, 70,
		"went on, its longest pause about 70 ms; a new pod ran after 300 ms");
	f.next = "cuInit: (807)";
	verdict_fault(&v, &f);
	expect_verdict(&v, false, 70, "no new pod could begin: cuInit: (807)");
	f.next = "";
	f.blocks.n = 17;
	verdict_fault(&v, &f);
	expect_verdict(&v, false, 70, "did nothing any more");
	f.blocks.n = 10;
	f.at_ms = 50;
	verdict_fault(&v, &f);
	expect_verdict(&v, true, 0, "went on, no pause of 20 ms");
	f.neighbor = "cuLaunchKernel: (719)";
	verdict_fault(&v, &f);
	expect_verdict(&v, false, NAN, "its neighbour too (cuLaunchKernel: (719))");
	f.fault = "";
	verdict_fault(&v, &f);
	assert_false(v.known);
}

/* Quanta of 30 ms until the other pod ends at 100 ms; then the GPU has no work for a while. */
static void recovery__ends_when_the_whole_gpu_is_free(void **state)
{
	static const struct piece turns[] = { { 2, 24 }, { 3, 0 }, { 3, 24 }, { 2, 0 },
		{ 4, 0 }, { 20, 23 } };
	uint32_t room[100];
	struct verdict_recovery r = { .neighbor = "",
		.blocks = blocks_of(room, turns, 6),
		.at_ms = 97,
		.whole = 2400,
		.next = "",
		.next_ms = 80,
		.found = 40 * GIB,
		.next_found = 40 * GIB };
	struct verdict v;

	(void)state;
	verdict_recovery(&v, &r);
	expect_verdict(&v, true, 43,
		"was back at 90% of 2400 units/s after 43 ms; a new pod ran after 80 ms");
	r.next_found = 41 * GIB;
	verdict_recovery(&v, &r);
	expect_verdict(&v, true, 43,
		"a new pod ran after 80 ms, and found all of 41.0 GiB free");
	r.next_found = 30 * GIB;
	verdict_recovery(&v, &r);
	expect_verdict(&v, false, 43, "found 30.0 of 40.0 GiB free: less than there was");
	r.next_found = 40 * GIB;
	r.next = "cuMemAlloc: (2)";
	verdict_recovery(&v, &r);
	expect_verdict(&v, false, 43, "no new pod could begin: cuMemAlloc: (2)");
	r.next = "";
	r.whole = 2600; /* which it never does */
	verdict_recovery(&v, &r);
	expect_verdict(&v, false, NAN, "in 0.2 s its neighbour was not back");
	r.neighbor = "ended by signal 11";
	verdict_recovery(&v, &r);
	expect_verdict(&v, false, NAN, "ended too (ended by signal 11)");
	r.neighbor = "";
	r.whole = NAN;
	verdict_recovery(&v, &r);
	assert_false(v.known);
}

/* The reported time is the end of a block with the full rate. The block of the kill itself does not count. */
static void recovery__is_never_before_the_kill(void **state)
{
	uint32_t room[20];
	struct verdict_blocks b = blocks_of(room, (struct piece[]){ { 20, 24 } }, 1);

	(void)state;
	assert_true(fabs(verdict_recovered_ms(&b, 97, 2400) - 3) < 1e-9);
	assert_true(fabs(verdict_recovered_ms(&b, 100, 2400) - 10) < 1e-9);
	assert_true(isnan(verdict_recovered_ms(&b, 151, 2400))); /* not known for long enough */
	assert_true(isnan(verdict_recovered_ms(&b, 1e6, 2400)));
}

static void recovery__after_more_than_a_second_fails(void **state)
{
	uint32_t room[200];
	struct verdict_recovery r = { .neighbor = "",
		.blocks = blocks_of(room, (struct piece[]){ { 120, 12 }, { 30, 24 } }, 2),
		.at_ms = 100,
		.whole = 2400,
		.next = "" };
	struct verdict v;

	(void)state;
	verdict_recovery(&v, &r);
	expect_verdict(&v, false, 1090, "after 1090 ms");
}

static void names__are_those_of_one_list(void **state)
{
	static const struct {
		const char *words;
		int result;
		unsigned int set;
	} rows[] = {
		{ "none", 0, 0 },
		{ "fault", 0, 1U << ISOLATION_TEST_FAULT },
		{ "memory,neighbour,fault,recovery", 0, ISOLATION_TESTS_ALL },
		{ "none,fault", -1, 0 },
		{ "memroy", -1, 0 },
		{ "", -1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(strv_fini) struct strv words = STRV_INIT;
		struct error err = ERROR_INIT;
		unsigned int set = 0;

		assert_int_equal(strv_split(&words, rows[i].words, ',', &err), 0);
		assert_int_equal(isolation_tests_parse(&set, &words, &err), rows[i].result);
		assert_int_equal(set, rows[i].set);
	}
}

static void check_plan(const struct isolation_case *c, const struct trial_plan *p)
{
	assert_int_equal(p->mode, c->mode);
	assert_in_range(p->n, 1, TRIAL_PODS_MAX);
	assert_in_range(p->n_places, 1, TRIAL_PLACES_MAX);
	for (size_t i = 0; i < p->n; i++) {
		const struct trial_pod *pod = &p->pods[i];
		uint32_t ms = pod->to_ms - pod->from_ms;

		assert_non_null(pod->workload);
		assert_true(pod->place < p->n_places);
		assert_true(pod->begin_ms <= pod->from_ms && pod->from_ms < pod->to_ms);
		if (pod->block_ms) {
			assert_int_equal(ms % pod->block_ms, 0);
			assert_in_range(ms / pod->block_ms, 1, COUNT_BLOCKS_MAX);
			assert_true(ms / pod->block_ms <= CASE_BLOCKS_MAX);
		}
		assert_true(!pod->after || i);
		assert_true(!pod->late || i == p->n - 1);
	}
}

/* gpuslice-load accepts the requests of the plans in all modes, for the shortest and the longest time. */
static void plans__are_possible(void **state)
{
	static const uint32_t times[] = { 400, 700, 1100, 1500 };
	const struct environment_options environment = { .memory = UINT64_C(80) << 30 };
	struct case_alone alone = { 1, 1, "" };
	size_t n = 0;

	(void)state;
	for (unsigned int m = 0; m < BENCH_MODES; m++)
		for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
			for (size_t t = 0; t < ARRAY_LEN(times); t++) {
				struct isolation_case c = { .kind = kinds[k],
					.mode = (enum bench_mode)m,
					.environment = &environment,
					.ms = times[t],
					.alone = &alone };

				if (!kinds[k]->is_for(c.mode))
					continue;
				for (size_t i = 0; i < kinds[k]->trials(c.mode); i++, n++) {
					struct trial_plan p;

					kinds[k]->plan(&c, i, &p);
					check_plan(&c, &p);
				}
			}
	assert_int_equal(n, ARRAY_LEN(times) * (5 + 2 * 6 + 5 + 5));
}

/* A pod that could not be started, a pod that hangs, a pod that ended too early. */
static void pods__that_do_not_answer_give_no_result(void **state)
{
	struct isolation_case c = { .mode = BENCH_FAIR_SHARE };
	struct isolation_pod_facts f = { .ready = false };
	json_auto_t *answer = json_pack("{s:[i,i]}", "counts", 30, 50);
	const struct trial_pod pod = { .from_ms = 100, .to_ms = 300, .block_ms = 100 };
	struct verdict_blocks b;

	(void)state;
	(void)error_set(&f.error, ERR_UNAVAILABLE, "cuInit: no device");
	assert_false(case_expect(&c, &f, "the pod"));
	assert_string_equal(c.unknown, "the pod could not begin: cuInit: no device");
	f.ready = f.hung = true;
	assert_false(case_expect_ready(&c, &f, "the pod"));
	assert_string_equal(c.unknown, "the pod did not answer in time, and was ended");
	f.hung = false;
	assert_true(case_expect_ready(&c, &f, "the pod"));
	assert_false(case_expect(&c, &f, "the pod"));
	assert_true(isnan(case_rate(&pod, &f)) && isnan(case_p99(&f)));
	f.answer = answer;
	assert_true(case_expect(&c, &f, "the pod"));
	assert_true(fabs(case_rate(&pod, &f) - 400) < 1e-9);
	case_blocks(&c, &pod, &f, &b);
	assert_true(b.n == 2 && b.units[1] == 50);
	assert_true(isnan(case_p99(&f)));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory__is_limited_with_the_context),
		cmocka_unit_test(doubt__is_reported_in_full_before_the_figures),
		cmocka_unit_test(neighbor__counts_the_worse_of_both),
		cmocka_unit_test(neighbor__may_make_answers_a_little_slower),
		cmocka_unit_test(fault__affects_its_pod_alone),
		cmocka_unit_test(recovery__ends_when_the_whole_gpu_is_free),
		cmocka_unit_test(recovery__is_never_before_the_kill),
		cmocka_unit_test(recovery__after_more_than_a_second_fails),
		cmocka_unit_test(names__are_those_of_one_list),
		cmocka_unit_test(plans__are_possible),
		cmocka_unit_test(pods__that_do_not_answer_give_no_result),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
