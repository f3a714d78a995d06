/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "tools/simulate/place/cutting-stock.h"
#include "tools/simulate/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The traces are those of test/data/openb. Their expected figures are published, or in its tables. */

static uint64_t random_state;

/* Below @below; the same in every run of the test. */
static uint32_t draw_place_random(uint32_t below)
{
	random_state =
		random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((random_state >> 33) % below);
}

static void load(struct place_trace *t, const char *nodes, const char *pods)
{
	struct error err = ERROR_INIT;
	char path[512];

	*t = (struct place_trace){ 0 };
	(void)snprintf(path, sizeof(path), "%s/%s", TEST_OPENB, nodes);
	if (place_trace_nodes(t, path, &err) < 0)
		fail_msg("%s", err.msg);
	(void)snprintf(path, sizeof(path), "%s/%s", TEST_OPENB, pods);
	if (place_trace_pods(t, path, &err) < 0)
		fail_msg("%s", err.msg);
}

static void load_default(struct place_trace *t)
{
	load(t, "openb_node_list_gpu_node.csv", "openb_pod_list_default.csv");
}

static void load_small(struct place_trace *t)
{
	load(t, "openb_small_nodes.csv", "openb_small_pods.csv");
}

static size_t make_demand_of_trace(const struct place_trace *t, struct cutting_demand **ret)
{
	size_t n = 0;

	*ret = calloc(t->n_pods + 1, sizeof(**ret));
	assert_non_null(*ret);
	for (size_t i = 0; i < t->n_pods; i++)
		if (t->pods[i].gpus == 1 && t->pods[i].gpu_milli < PLACE_WHOLE)
			(*ret)[n++] = (struct cutting_demand){ t->pods[i].gpu_milli, 1 };
	return n;
}

/* --- nodes --- */

static void node__accepts_pods_that_fit_and_no_more(void **state)
{
	struct place_node n = { 8000, 1000, 3, 2, { 1000, 400 } };
	struct place_pod part = { PLACE_ANY_MODEL, 1000, 100, 1, 400 };
	struct place_pod two = { PLACE_ANY_MODEL, 1000, 100, 2, 1000 };
	struct place_pod none = { PLACE_ANY_MODEL, 7001, 100, 0, 0 };

	(void)state;
	assert_true(place_fits(&n, &part));
	assert_int_equal(place_tightest(&n, &part), 1);
	part.gpu_milli = 401;
	assert_int_equal(place_tightest(&n, &part), 0);
	assert_false(place_fits(&n, &two));
	part.models = ~(UINT64_C(1) << 3);
	assert_false(place_fits(&n, &part));
	part.models = UINT64_C(1) << 3;
	place_allocate(&n, &part, 0);
	assert_int_equal(place_get_free(&n), 599 + 400);
	assert_int_equal(n.cpu_milli, 7000);
	assert_int_equal(n.memory_mib, 900);
	assert_false(place_fits(&n, &none));
	none.cpu_milli = 7000;
	assert_true(place_fits(&n, &none));
	n = (struct place_node){ 8000, 1000, 3, 3, { 1000, 400, 1000 } };
	assert_int_equal(place_tightest(&n, &two), PLACE_NO_GPU);
	place_allocate(&n, &two, PLACE_NO_GPU);
	assert_int_equal(place_get_free(&n), 400);
}

static void mix__adds_up_equal_pods(void **state)
{
	struct place_type types[] = { { { 1, 2, 3, 1, 500 }, 1 }, { { 1, 2, 3, 0, 0 }, 2 },
		{ { 1, 2, 3, 1, 500 }, 4 }, { { 3, 2, 3, 1, 500 }, 8 } };

	(void)state;
	assert_int_equal(place_types_merge(types, 4), 3);
	assert_true(types[0].weight == 2);
	assert_true(types[1].weight == 5);
	assert_true(types[2].weight == 8);
	assert_int_equal(place_types_merge(types, 0), 0);
}

/* --- cuts --- */

static void cutting_stock__values_the_remaining_capacity(void **state)
{
	/* Halves and thirds alone: a third is worth a third, and the half's rest takes one half or one third. */
	static const struct cutting_demand mix[] = { { 500, 10 }, { 330, 30 } };
	struct error err = ERROR_INIT;
	struct cutting_stock c;

	(void)state;
	assert_int_equal(cutting_stock_solve(&c, mix, 2, &err), 0);
	assert_true(fabs(c.value[500] - 0.5) < 1e-6);
	assert_true(fabs(c.value[330] - 1.0 / 3) < 1e-6);
	assert_true(fabs(c.value[660] - 2.0 / 3) < 1e-6);
	assert_true(fabs(c.value[329]) < 1e-9);
	assert_true(c.value[1000] == 1);
	assert_true(fabs(c.bound - 15) < 1e-6);
	/* The demand is empty: only a whole GPU has a value. */
	assert_int_equal(cutting_stock_solve(&c, NULL, 0, &err), 0);
	assert_true(c.value[999] == 0 && c.value[1000] == 1 && c.bound == 0);
}

/* No prices are worth more than any packing, for any demand. */
static void cutting_stock__is_a_bound_for_random_demand(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	random_state = 7;
	for (unsigned round = 0; round < 8; round++) {
		struct cutting_demand mix[300];
		size_t n = 1 + draw_place_random(ARRAY_LEN(mix));
		uint64_t l2, ffd, best;
		struct cutting_stock c;

		for (size_t i = 0; i < n; i++)
			mix[i] = (struct cutting_demand){ 1 + draw_place_random(
								      round % 2 ? 1000 : 400),
				1 + draw_place_random(20) };
		assert_int_equal(cutting_stock_solve(&c, mix, n, &err), 0);
		l2 = cutting_stock_l2(mix, n);
		assert_int_equal(cutting_stock_first_fit(&ffd, mix, n, &err), 0);
		assert_int_equal(cutting_stock_pack(&best, mix, n, &err), 0);
		assert_true(l2 <= best && best <= ffd);
		assert_true(c.bound <= (double)best + 1e-6);
		for (uint32_t level = 1; level <= PLACE_WHOLE; level++)
			assert_true(c.value[level] + 1e-9 >= c.value[level - 1] &&
				    c.value[level] <= 1);
	}
}

static void check_trace_packing(void (*get)(struct place_trace *), uint64_t parts, uint64_t l2,
	uint64_t ffd, uint64_t best)
{
	struct error err = ERROR_INIT;
	struct cutting_demand *demand;
	struct place_trace t;
	struct cutting_stock c;
	uint64_t got;
	size_t n;

	get(&t);
	n = make_demand_of_trace(&t, &demand);
	assert_int_equal(n, parts);
	assert_int_equal(cutting_stock_l2(demand, n), l2);
	assert_int_equal(cutting_stock_first_fit(&got, demand, n, &err), 0);
	assert_int_equal(got, ffd);
	assert_int_equal(cutting_stock_pack(&got, demand, n, &err), 0);
	assert_true(got <= best);
	assert_int_equal(cutting_stock_solve(&c, demand, n, &err), 0);
	assert_true(c.bound > (double)l2 && ceil(c.bound - 1e-6) <= (double)got);
	free(demand);
	place_trace_fini(&t);
}

/* B1 and B2 of the published figures; and how close to its bound a packing comes. */
static void shares__of_the_traces_are_packed(void **state)
{
	(void)state;
	check_trace_packing(load_default, 3078, 1922, 1975, 1968);
	check_trace_packing(load_small, 154, 102, 104, 104);
}

/* --- policies --- */

static double measure_allocated(const struct place_trace *t, const char *policy,
	enum replay_mix mix, uint64_t seed, struct replay_result *ret)
{
	struct replay_setting s = { .policy = policy, .seed = seed, .mix = mix, .load = 100 };
	struct error err = ERROR_INIT;
	struct replay_result r;

	if (place_replay(&r, t, &s, &err) < 0)
		fail_msg("%s", err.msg);
	if (ret)
		*ret = r;
	return 100 * r.allocated[4];
}

/* Below half the cluster everything has a place. After that some policies waste less than others. */
static void policies__differ_as_published(void **state)
{
	struct replay_result r;
	struct place_trace t;

	(void)state;
	load_default(&t);
	assert_int_equal(t.n_nodes, 1213);
	assert_int_equal(t.gpus, 6212);
	assert_int_equal(t.n_pods, 8152);
	assert_in_range((uint64_t)(100 * measure_allocated(&t, "random", REPLAY_KNOWN, 1, &r)),
		8570, 8690);
	assert_true(fabs(r.allocated[0] - 0.5) < 0.002);
	assert_true(isnan(r.allocated[5]));
	assert_in_range(
		(uint64_t)(100 * measure_allocated(&t, "best-fit", REPLAY_KNOWN, 1, NULL)),
		9256, 9336);
	assert_in_range(
		(uint64_t)(100 * measure_allocated(&t, "first-fit", REPLAY_KNOWN, 1, NULL)),
		9360, 9480);
	assert_in_range((uint64_t)(100 * measure_allocated(&t, "value", REPLAY_KNOWN, 1, NULL)),
		9550, 9700);
	place_trace_fini(&t);
}

static void policies__are_deterministic(void **state)
{
	struct place_trace t;

	(void)state;
	load_small(&t);
	for (size_t i = 0; i < place_n_policies; i++) {
		const char *name = place_policy_names[i];
		double once = measure_allocated(&t, name, REPLAY_KNOWN, 3, NULL);

		assert_true(once > 75 && once <= 100);
		assert_true(once == measure_allocated(&t, name, REPLAY_KNOWN, 3, NULL));
		(void)measure_allocated(&t, name, REPLAY_LEARNED, 4, NULL);
	}
	assert_true(measure_allocated(&t, "value", REPLAY_KNOWN, 3, NULL) >
		    measure_allocated(&t, "random", REPLAY_KNOWN, 3, NULL));
	place_trace_fini(&t);
}

/* Every chosen node has free capacity. No policy refuses a pod while a node has free capacity. */
static void policies__choose_nodes_that_fit(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	random_state = 11;
	for (unsigned round = 0; round < 40; round++) {
		struct place_type types[30];
		struct place_node nodes[20];
		size_t n_types = draw_place_random(ARRAY_LEN(types));
		struct place_setting s = { nodes, ARRAY_LEN(nodes), types, 0, round };
		struct place_policy *p;

		for (size_t i = 0; i < n_types; i++) {
			uint32_t gpus = draw_place_random(4);

			types[i] = (struct place_type){
				{ draw_place_random(3) ? PLACE_ANY_MODEL : draw_place_random(4),
					draw_place_random(9000), draw_place_random(90), gpus,
					gpus == 1 ? 1 + draw_place_random(1000)
					: gpus    ? 1000
						  : 0 },
				1 + draw_place_random(5)
			};
		}
		s.n_types = place_types_merge(types, n_types);
		for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
			nodes[i] = (struct place_node){ draw_place_random(64000),
				draw_place_random(900), (uint16_t)draw_place_random(2),
				(uint16_t)draw_place_random(5), { 0 } };
			for (uint32_t g = 0; g < nodes[i].gpus; g++)
				nodes[i].free_milli[g] = 1000;
		}
		assert_int_equal(place_policy_new(&p,
					 place_policy_names[round % place_n_policies], &s,
					 &err),
			0);
		for (unsigned k = 0; k < 300 && s.n_types; k++) {
			const struct place_pod *pod =
				&types[draw_place_random((uint32_t)s.n_types)].pod;
			bool fits = false;
			struct place_choice c;

			for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
				fits = fits || place_fits(&nodes[i], pod);
			assert_int_equal(place_decide(p, pod, &c), fits);
			if (!fits)
				continue;
			assert_true(place_fits(&nodes[c.node], pod));
			if (pod->gpus == 1 && pod->gpu_milli < 1000)
				assert_true(nodes[c.node].free_milli[c.gpu] >= pod->gpu_milli);
			else
				assert_int_equal(c.gpu, PLACE_NO_GPU);
			place_allocate(&nodes[c.node], pod, c.gpu);
			place_notify_change(p, c.node);
		}
		place_policy_free(p);
	}
}

static void policy__that_is_unknown_is_named(void **state)
{
	struct place_setting s = { 0 };
	struct error err = ERROR_INIT;
	struct place_policy *p;

	(void)state;
	assert_int_equal(place_policy_new(&p, "worst-fit", &s, &err), -1);
	assert_string_equal(err.msg,
		"no policy 'worst-fit'; there are value, fgd, best-fit, first-fit, random");
}

/* --- traces --- */

static void trace__errors_name_line_and_column(void **state)
{
	static const struct {
		const char *nodes, *pods, *msg;
	} rows[] = {
		{ "sn,cpu_milli,memory_mib,gpu\n", NULL,
			"n:1: no column 'model' in the first line" },
		{ "sn,cpu_milli,memory_mib,gpu,model\na,1,1,1,T4\na,x,1,1,T4\n", NULL,
			"n:3: cpu_milli: expected a whole number from 0 to 10000000, found 'x'" },
		{ "sn,cpu_milli,memory_mib,gpu,model\na,1,1,17,T4\n", NULL,
			"n:2: gpu: expected a whole number from 0 to 16, found '17'" },
		{ "cpu_milli,memory_mib,gpu,model\n1,1,1,T4\n",
			"cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,2,500\n",
			"p:2: gpu_milli: expected a whole number from 1000 to 1000, found '500'" },
		{ "cpu_milli,memory_mib,gpu,model\n1,1,1,T4\n",
			"cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,1,0\n",
			"p:2: gpu_milli: expected a whole number from 1 to 1000, found '0'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct place_trace t = { 0 };
		struct error err = ERROR_INIT;
		int got = place_trace_parse_nodes(&t, "n", rows[i].nodes, strlen(rows[i].nodes),
			&err);

		if (rows[i].pods) {
			assert_int_equal(got, 0);
			got = place_trace_parse_pods(&t, "p", rows[i].pods,
				strlen(rows[i].pods), &err);
		}
		assert_int_equal(got, -1);
		assert_string_equal(err.msg, rows[i].msg);
		place_trace_fini(&t);
	}
}

static void trace__without_demand_is_refused(void **state)
{
	static const char nodes[] = "cpu_milli,memory_mib,gpu,model\n1,1,0,\n";
	struct replay_setting s = { .policy = "value" };
	struct place_trace t = { 0 };
	struct error err = ERROR_INIT;
	struct replay_result r;

	(void)state;
	assert_int_equal(place_trace_parse_nodes(&t, "n", nodes, strlen(nodes), &err), 0);
	assert_int_equal(t.models.n, 0);
	assert_int_equal(place_replay(&r, &t, &s, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	place_trace_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(node__accepts_pods_that_fit_and_no_more),
		cmocka_unit_test(mix__adds_up_equal_pods),
		cmocka_unit_test(cutting_stock__values_the_remaining_capacity),
		cmocka_unit_test(cutting_stock__is_a_bound_for_random_demand),
		cmocka_unit_test(shares__of_the_traces_are_packed),
		cmocka_unit_test(policies__differ_as_published),
		cmocka_unit_test(policies__are_deterministic),
		cmocka_unit_test(policies__choose_nodes_that_fit),
		cmocka_unit_test(policy__that_is_unknown_is_named),
		cmocka_unit_test(trace__errors_name_line_and_column),
		cmocka_unit_test(trace__without_demand_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
