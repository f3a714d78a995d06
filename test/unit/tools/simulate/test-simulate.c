/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "tools/simulate/simulate.h"

#include <math.h>
#include <string.h>

/* A trace of one node with two GPUs, and two kinds of pods: half a GPU, and 0.6 of one. */
static void load_halves(struct place_trace *t)
{
	static const char nodes[] = "cpu_milli,memory_mib,gpu,model\n64000,64000,2,T4\n";
	static const char pods[] =
		"cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,1000,1,500\n"
		"1000,1000,1,500\n1000,1000,1,600\n1000,1000,0,0\n1000,1000,1,1000\n";
	struct error err = ERROR_INIT;

	*t = (struct place_trace){ 0 };
	assert_ok(place_trace_parse_nodes(t, "n", nodes, strlen(nodes), &err), &err);
	assert_ok(place_trace_parse_pods(t, "p", pods, strlen(pods), &err), &err);
}

static void init_names(struct strv *names, const char *first, const char *second)
{
	struct error err = ERROR_INIT;

	*names = (struct strv){ 0 };
	assert_ok(strv_add(names, first, &err), &err);
	assert_ok(strv_add(names, second, &err), &err);
}

/* Mean, deviation and extremes are those of the replays, one by one. */
static void comparison__sums_up_the_replays(void **state)
{
	struct replay_setting one = { .policy = "best-fit" };
	struct simulate_setting s = { .seeds = 7, .first_seed = 3 };
	double sum = 0, least = 101, most = -1, squares = 0, all[7];
	struct error err = ERROR_INIT;
	struct simulate_result r;
	struct replay_result each;
	struct place_trace t;
	struct strv names;

	(void)state;
	load_halves(&t);
	init_names(&names, "random", "best-fit");
	s.policies = &names;
	assert_ok(simulate_compare_policies(&r, &t, &s, &err), &err);
	assert_int_equal(r.n_policies, 2);
	assert_string_equal(r.policies[1].name, "best-fit");
	assert_int_equal(r.policies[1].runs, 7);
	assert_int_equal(r.done, 14);
	assert_int_equal(r.runs, 14);
	for (size_t k = 0; k < 7; k++) {
		one.seed = 3 + k;
		assert_ok(place_replay(&each, &t, &one, &err), &err);
		all[k] = 100 * each.allocated[4];
		sum += all[k];
		least = fmin(least, all[k]);
		most = fmax(most, all[k]);
	}
	for (size_t k = 0; k < 7; k++)
		squares += (all[k] - sum / 7) * (all[k] - sum / 7);
	assert_true(most > least); /* else the test shows nothing */
	assert_true(fabs(simulate_get_mean(&r.policies[1], 4) - sum / 7) < 1e-9);
	assert_true(fabs(simulate_get_deviation(&r.policies[1], 4) - sqrt(squares / 6)) < 1e-6);
	assert_true(r.policies[1].least == least && r.policies[1].most == most);
	simulate_result_fini(&r);
	strv_fini(&names);
	place_trace_fini(&t);
}

static void comparison__without_names_has_all_policies(void **state)
{
	struct strv none = { 0 };
	struct simulate_setting s = { .policies = &none, .seeds = 1 };
	struct error err = ERROR_INIT;
	struct simulate_result r;
	struct place_trace t;

	(void)state;
	load_halves(&t);
	assert_ok(simulate_compare_policies(&r, &t, &s, &err), &err);
	assert_int_equal(r.n_policies, place_n_policies);
	for (size_t i = 0; i < place_n_policies; i++) {
		assert_string_equal(r.policies[i].name, place_policy_names[i]);
		assert_int_equal(r.policies[i].runs, 1);
		assert_true(simulate_get_deviation(&r.policies[i], 4) == 0);
	}
	/* Three pods request a fraction. The pod without a GPU and that with a whole one do not count. */
	assert_int_equal(r.packing.pods, 3);
	assert_true(fabs(r.packing.gpus - 1.6) < 1e-9);
	assert_int_equal(r.packing.packed, 2);
	assert_int_equal(r.packing.first_fit, 2);
	assert_true(r.packing.bound == 2);
	simulate_result_fini(&r);
	place_trace_fini(&t);
}

struct patience {
	uint64_t runs_max, asked, runs;
};

static bool has_patience(void *arg, uint64_t done, uint64_t runs)
{
	struct patience *p = arg;

	p->asked++;
	p->runs = runs;
	return done < p->runs_max;
}

/* The finished runs stay, as even as can be: three of the first policy and two of the second. */
static void comparison__that_is_stopped_keeps_the_finished_runs(void **state)
{
	struct patience p = { .runs_max = 5 };
	struct simulate_setting s = { .seeds = 100, .go_on = has_patience, .arg = &p };
	struct error err = ERROR_INIT;
	struct simulate_result r;
	struct place_trace t;
	struct strv names;

	(void)state;
	load_halves(&t);
	init_names(&names, "best-fit", "first-fit");
	s.policies = &names;
	assert_ok(simulate_compare_policies(&r, &t, &s, &err), &err);
	assert_int_equal(r.done, 5);
	assert_int_equal(r.runs, 200);
	assert_int_equal(p.runs, 200);
	assert_int_equal(p.asked, 6);
	assert_int_equal(r.policies[0].runs, 3);
	assert_int_equal(r.policies[1].runs, 2);
	assert_int_equal(r.packing.pods, 3);
	simulate_result_fini(&r);
	strv_fini(&names);
	place_trace_fini(&t);
}

static void comparison__refuses_an_unknown_policy(void **state)
{
	struct simulate_setting s = { .seeds = 1 };
	struct error err = ERROR_INIT;
	struct simulate_result r;
	struct place_trace t;
	struct strv names;

	(void)state;
	load_halves(&t);
	init_names(&names, "best-fit", "worst-fit");
	s.policies = &names;
	assert_error(simulate_compare_policies(&r, &t, &s, &err), &err,
		"no policy 'worst-fit'");
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_null(r.policies);
	strv_fini(&names);
	place_trace_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comparison__sums_up_the_replays),
		cmocka_unit_test(comparison__without_names_has_all_policies),
		cmocka_unit_test(comparison__that_is_stopped_keeps_the_finished_runs),
		cmocka_unit_test(comparison__refuses_an_unknown_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
