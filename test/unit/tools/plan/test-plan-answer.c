/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "tools/plan/answer/answer.h"
#include "unit/tools/plan/plan-world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char prices[] =
	"version: gpuslice/prices/v1\n"
	"stamp: \"2026-07-20\"\n"
	"types:\n"
	"  p3.2xlarge: {gpu: V100-SXM2-16GB, gpus: 1, gpuMemoryMiB: 16384, vcpus: 8, memoryMiB: 62464,\n"
	"    pricePerHour: {r: 3.06}, spotPerHour: {r: [0.3644, 0.3764]}}\n"
	"  g4dn.xlarge: {gpu: T4, gpus: 1, gpuMemoryMiB: 16384, vcpus: 4, memoryMiB: 16384, pricePerHour: {r: 0.526}}\n"
	"  g6.xlarge: {gpu: L4, gpus: 1, gpuMemoryMiB: 22888, vcpus: 4, memoryMiB: 16384, pricePerHour: {r: 0.8048}}\n"
	"  g5.12xlarge: {gpu: A10G, gpus: 4, gpuMemoryMiB: 22888, vcpus: 48, memoryMiB: 196608, pricePerHour: {r: 5.672}}\n"
	"  g5g.xlarge: {gpu: T4G, gpus: 1, gpuMemoryMiB: 16384, vcpus: 4, memoryMiB: 8192, arch: arm64, pricePerHour: {r: 0.42}}\n"
	"  odd: {gpu: Nobody, gpus: 1, gpuMemoryMiB: 1000, pricePerHour: {r: 0.01}}\n";

static int init_answer_world(struct plan_world *w, const char *text, struct error *err)
{
	return plan_world_init(w, prices, text, err);
}

#define HEAD "version: gpuslice/plan/v1\npolicy: {regions: [r]}\n"
#define FOUR(more)                                                                                \
	HEAD "workloads: [{name: s, replicas: 4, kind: inference-open, gpu_ref: V100-SXM2-16GB, " \
	     "busy: 0.25, mem_peak_mib: 3000" more "}]\n"                                         \
	     "layout: {instance: p3.2xlarge, mode: time-slicing, slices: 4}\n"

static const struct answer_line *find_answer_line(const struct plan_answer *a, const char *type,
	enum plan_capacity capacity, uint32_t slices)
{
	for (size_t i = 0; i < a->n_lines; i++)
		if (!strcmp(a->lines[i].offer->type, type) &&
			a->lines[i].offer->capacity == capacity && a->lines[i].slices == slices)
			return &a->lines[i];
	fail_msg("no line for %s", type);
	return NULL;
}

/* C1, and what the answer must report: 12.24, 3.06, and that 1.11 is more than 1. */
static void answer__of_four_quarters_is_not_feasible(void **state)
{
	CLEANUP(plan_world_fini) struct plan_world w;
	struct error err = ERROR_INIT;

	(void)state;
	if (init_answer_world(&w, FOUR(""), &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(w.a->baseline.nano_per_hour, 12240000000);
	assert_int_equal(w.a->baseline.nodes, 4);
	assert_int_equal(w.a->layout.nano_per_hour, 3060000000);
	assert_int_equal(w.a->layout.nodes, 1);
	assert_int_equal(w.a->layout.reason, PLAN_RHO);
	assert_true(w.a->layout.rho > 1.1099 && w.a->layout.rho < 1.1101);
	assert_int_equal(find_answer_line(w.a, "p3.2xlarge", PLAN_SPOT, 1)->nano_per_hour,
		4 * 370400000LL);
	assert_int_equal(find_answer_line(w.a, "g4dn.xlarge", PLAN_ON_DEMAND, 1)->nano_per_hour,
		2104000000);
	assert_int_equal(find_answer_line(w.a, "g6.xlarge", PLAN_ON_DEMAND, 4)->nano_per_hour,
		804800000);
	assert_int_equal(find_answer_line(w.a, "p3.2xlarge", PLAN_SPOT, 4)->nano_per_hour,
		370400000);
	assert_int_equal(find_answer_line(w.a, "p3.2xlarge", PLAN_SPOT, 1)->reason,
		PLAN_PRICE_UNKNOWN);
	/* The plan uses no mode without data in the profile: without u no MPS. */
	for (size_t i = 0; i < w.a->plan.n_nodes; i++)
		assert_true(w.a->plan.nodes[i].mode != PLAN_MPS &&
			    w.a->plan.nodes[i].mode != PLAN_MIG);
	assert_true(w.a->plan.exact);
	assert_int_equal(w.a->plan.n_unplaced, 0);
	assert_true(w.a->plan.nano_per_hour <= w.a->unsliced.nano_per_hour);
}

static void answer__reports_a_feasible_layout(void **state)
{
	CLEANUP(plan_world_fini) struct plan_world w;
	struct error err = ERROR_INIT;

	(void)state;
	if (init_answer_world(&w,
		    HEAD
		    "workloads: [{name: s, replicas: 4, kind: inference-open, gpu_ref: V100-SXM2-16GB, "
		    "busy: 0.15, mem_peak_mib: 2000, spot_ok: true}]\n"
		    "layout: {instance: p3.2xlarge, slices: 4}\n",
		    &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(w.a->layout.reason, PLAN_FITS);
	assert_int_equal(find_answer_line(w.a, "p3.2xlarge", PLAN_SPOT, 4)->reason, PLAN_FITS);
}

/* C2: nine on nodes of four GPUs, four slices each. */
static void answer__counts_nodes(void **state)
{
	(void)state;
	assert_int_equal(answer_nodes(9, 1, 4), 3);
	assert_int_equal(answer_nodes(9, 4, 4), 1);
	assert_int_equal(answer_nodes(16, 4, 4), 1);
	assert_int_equal(answer_nodes(17, 4, 4), 2);
	assert_int_equal(answer_nodes(0, 4, 4), 0);
}

static void answer__errors_name_missing_input(void **state)
{
	static const struct {
		const char *text, *msg;
	} rows[] = {
		{ HEAD "workloads: [{name: s}]\nlayout: {instance: p9.large}\n",
			"layout: no price of the instance type 'p9.large' in the catalogue" },
		{ HEAD "workloads: [{name: s}]\nlayout: {instance: g5g.xlarge}\n",
			"layout: 'g5g.xlarge' has no GPU that is known, or is not for amd64" },
		{ "version: gpuslice/plan/v1\npolicy: {regions: [r], max_gpus_per_instance: 1, instances: "
		  "[g5.12xlarge]}\nworkloads: [{name: s}]\n",
			"the policy leaves no instance type" },
		{ "version: gpuslice/plan/v1\npolicy: {regions: [r], instances: [nope]}\nworkloads: [{name: s}]\n",
			"instances: no price of the instance type 'nope'" },
		{ HEAD "workloads: [{name: s}]\nnodes: [{instance: odd}]\n",
			"nodes: 'odd' has no GPU that is known" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(plan_world_fini) struct plan_world w;
		struct error err = ERROR_INIT;

		assert_int_equal(init_answer_world(&w, rows[i].text, &err), -1);
		if (!strstr(err.msg, rows[i].msg))
			fail_msg("%s", err.msg);
	}
}

/* Extra costs: once for the cluster, for each node, and a share of the price on demand, though the plan buys
 * spot. */
static void answer__sums_additional_costs(void **state)
{
	CLEANUP(plan_world_fini) struct plan_world w;
	struct error err = ERROR_INIT;
	struct extras e;

	(void)state;
	if (init_answer_world(&w,
		    "version: gpuslice/plan/v1\n"
		    "policy: {regions: [r], capacity: spot, modes: [exclusive], instances: [p3.2xlarge],\n"
		    "  extras: {cluster_per_hour: 0.10, node_per_hour: 0.01, on_demand_share: 0.12}}\n"
		    "workloads: [{name: s, replicas: 3, spot_ok: true}]\n",
		    &err) < 0)
		fail_msg("%s", err.msg);
	assert_true(extras_any(w.a));
	extras_of_plan(w.a, &w.a->plan, &e);
	assert_int_equal(e.nodes, 3);
	assert_int_equal(e.cluster, 100000000);
	assert_int_equal(e.each_node, 30000000);
	assert_int_equal(e.share, 3 * 367200000LL); /* 12 % of 3.06 each */
	assert_int_equal(e.all, 3 * 370400000LL + 100000000 + 30000000 + 3 * 367200000LL);
}

/* Where the policy allows only spot, a dedicated GPU per replica still has the price on demand. */
static void answer__compares_spot_with_on_demand(void **state)
{
	CLEANUP(plan_world_fini) struct plan_world w;
	struct error err = ERROR_INIT;

	(void)state;
	if (init_answer_world(&w,
		    "version: gpuslice/plan/v1\n"
		    "policy: {regions: [r], capacity: spot, modes: [exclusive]}\n"
		    "workloads: [{name: s, replicas: 2, spot_ok: true}]\n",
		    &err) < 0)
		fail_msg("%s", err.msg);
	assert_non_null(w.a->baseline.offer);
	assert_int_equal(w.a->baseline.offer->capacity, PLAN_ON_DEMAND);
	assert_true(w.a->plan.nano_per_hour < w.a->baseline.nano_per_hour);
}

static void answer__uses_existing_nodes(void **state)
{
	CLEANUP(plan_world_fini) struct plan_world w;
	struct error err = ERROR_INIT;

	(void)state;
	if (init_answer_world(&w,
		    "version: gpuslice/plan/v1\n"
		    "policy: {regions: [r], only_nodes: true, modes: [exclusive]}\n"
		    "workloads: [{name: s, replicas: 3}]\n"
		    "nodes: [{instance: g6.xlarge, count: 2}]\n",
		    &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(w.a->plan.n_nodes, 2);
	assert_int_equal(w.a->plan.nano_per_hour, 0);
	assert_int_equal(w.a->plan.n_unplaced, 1);
	assert_int_equal(w.a->plan.unplaced[0].replicas, 1);
	assert_int_equal(w.a->plan.unplaced[0].reason, PLAN_PRICE_UNKNOWN);
}

static enum plan_reason layout_reason(const char *text)
{
	CLEANUP(plan_world_fini) struct plan_world w;
	struct error err = ERROR_INIT;

	if (init_answer_world(&w, text, &err) < 0)
		fail_msg("%s", err.msg);
	return w.a->layout.reason;
}

#define W(fields)                                                                                   \
	HEAD "workloads: [{name: s, gpu_ref: V100-SXM2-16GB, busy: 0.1, mem_peak_mib: 900, " fields \
	     "}"
#define L4_OF(n) "]\nlayout: {instance: p3.2xlarge, slices: " n "}\n"

/* The host's processors, memory, whole GPUs, more replicas than the policy allows on a GPU, and the last GPU
 * of all. */
static void answer__checks_all_of_a_layout(void **state)
{
	(void)state;
	assert_int_equal(layout_reason(W("replicas: 4, cpu: 1") L4_OF("4")), PLAN_FITS);
	assert_int_equal(layout_reason(W("replicas: 4, cpu: 2") L4_OF("4")), PLAN_HOST_CPU);
	assert_int_equal(layout_reason(W("replicas: 4, memory: 20Gi") L4_OF("4")),
		PLAN_HOST_MEMORY);
	assert_int_equal(layout_reason(W("gpus: 4") L4_OF("1")), PLAN_MODEL_NOT_ALLOWED);
	assert_true(layout_reason(W("replicas: 20") L4_OF("20")) != PLAN_FITS);
	assert_int_equal(
		layout_reason(W(
			"replicas: 3") ", {name: t, gpu_ref: V100-SXM2-16GB, busy: 0.7, "
				       "mem_peak_mib: 900, replicas: 1}, {name: z, replicas: 0}" L4_OF(
					       "4")),
		PLAN_RHO);
}

/* Replicas of several GPUs are not spread over nodes. */
static void answer__counts_whole_gpus(void **state)
{
	CLEANUP(plan_world_fini) struct plan_world w;
	struct error err = ERROR_INIT;

	(void)state;
	if (init_answer_world(&w,
		    HEAD
		    "workloads: [{name: s, gpus: 3, replicas: 2}, {name: t, replicas: 5}]\nbaseline: g5.12xlarge\n",
		    &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(w.a->baseline.nodes, 4);
	assert_int_equal(w.a->plan.n_unplaced, 0);
}

static void answer__is_in_one_currency(void **state)
{
	static const char mixed[] =
		"version: gpuslice/prices/v1\ncurrency: EUR\n"
		"types: {mine: {gpu: L4, gpus: 1, gpuMemoryMiB: 22888, vcpus: 64, memoryMiB: 99999, pricePerHour: {r: 1}}}\n";
	CLEANUP(plan_world_fini) struct plan_world w = { 0 };
	struct answer_setting s = { .budget = 1000 };
	static const char text[] = HEAD "workloads: [{name: s}]\n";
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(
		price_catalogue_parse(&w.prices, "mine.yaml", mixed, strlen(mixed), &err), 0);
	assert_int_equal(plan_input_new(&w.in, &err), 0);
	assert_int_equal(plan_input_parse(w.in, "plan", text, strlen(text), &err), 0);
	assert_int_equal(plan_input_end(w.in, &err), 0);
	if (plan_answer_new(&w.a, w.in, w.prices, &s, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(w.a->currency, "EUR");
}

/* A workload pays for its share of a GPU, and idle capacity has no payer: together the price of the nodes,
 * to the last bit. */
static void outcome__splits_the_price_exactly(void **state)
{
	static const char *const texts[] = {
		"workloads: [{name: a, replicas: 7, gpu_ref: A10G, busy: 0.1, mem_peak_mib: 3000},\n"
		"  {name: b, replicas: 5, gpu_ref: A10G, busy: 0.05, mem_peak_mib: 1777}]\n",
		"workloads: [{name: a, replicas: 3, gpus: 2, gpu_ref: A10G},\n"
		"  {name: b, replicas: 5, gpu_ref: A10G, busy: 0.05, mem_peak_mib: 1777, spot_ok: true}]\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		CLEANUP(plan_world_fini) struct plan_world w;
		struct error err = ERROR_INIT;
		char text[1024];
		int64_t sum;

		(void)snprintf(text, sizeof(text), "%s%s",
			"version: gpuslice/plan/v1\npolicy: {regions: [r], capacity: mixed}\n",
			texts[i]);
		if (init_answer_world(&w, text, &err) < 0)
			fail_msg("%s", err.msg);
		sum = w.a->money.idle_nano;
		for (size_t k = 0; k < w.in->n_workloads; k++) {
			assert_int_equal(w.a->outcomes[k].replicas,
				w.in->workloads[k].replicas);
			assert_true(w.a->outcomes[k].nano_per_hour > 0);
			sum += w.a->outcomes[k].nano_per_hour;
		}
		assert_int_equal(sum, w.a->plan.nano_per_hour);
	}
}

/* Section 2, rule 1: usd_h / (3600 X) 1e6. Closed workloads that are always busy pay more for each request
 * when they share. */
static void outcome__reports_the_cost_of_a_million_requests(void **state)
{
	CLEANUP(plan_world_fini) struct plan_world w;
	struct error err = ERROR_INIT;
	const struct plan_outcome *o;

	(void)state;
	assert_int_equal(outcome_million(3060000000, 8.5), 100000000000);
	assert_int_equal(outcome_million(3060000000, 0), -1);
	assert_int_equal(outcome_million(INT64_C(1) << 60, 1e-9), -1);
	if (init_answer_world(&w,
		    HEAD
		    "workloads: [{name: s, replicas: 2, kind: inference-closed, gpu_ref: T4,\n"
		    "  t_solo: 0.1, busy: 1, mem_peak_mib: 3000, gpu_models_allowed: [T4],\n"
		    "  slo: {max_slowdown: 3}}]\n",
		    &err) < 0)
		fail_msg("%s", err.msg);
	o = &w.a->outcomes[0];
	assert_int_equal(w.a->plan.n_nodes, 1);
	assert_int_equal(o->nodes, 1);
	assert_true(o->before_rate > 19.99 && o->before_rate < 20.01);
	assert_int_equal(o->before_nano, 2 * 526000000);
	assert_true(o->rate < o->before_rate / 2);
	assert_true(outcome_million(w.a->plan.nano_per_hour, o->rate) >
		    outcome_million(w.a->baseline.nano_per_hour, o->before_rate));
	assert_true(w.a->money.rate == o->rate);
}

/* Section 2, rule 5. */
static void outcome__counts_interruptions(void **state)
{
	CLEANUP(plan_world_fini) struct plan_world w;
	struct error err = ERROR_INIT;

	(void)state;
	if (init_answer_world(&w,
		    "version: gpuslice/plan/v1\npolicy: {regions: [r], capacity: spot}\n"
		    "workloads: [{name: s, replicas: 4, gpu_ref: V100-SXM2-16GB, busy: 0.1,\n"
		    "  mem_peak_mib: 2800, spot_ok: true, t_restart: 100, t_warmup: 44},\n"
		    "  {name: t, replicas: 1, gpu_ref: V100-SXM2-16GB, busy: 0.1,\n"
		    "  mem_peak_mib: 900, spot_ok: true}]\n",
		    &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(w.a->money.spot_nodes, w.a->plan.n_nodes);
	assert_int_equal(w.a->money.spot_nano, w.a->plan.nano_per_hour);
	assert_int_equal(w.a->plan.n_nodes, 1);
	assert_int_equal(w.a->money.blast_replicas, 5);
	assert_int_equal(w.a->money.blast_workloads, 2);
	assert_true(w.a->outcomes[0].lost_high < 0); /* the interruption rate is unknown */
	for (size_t i = 0; i < w.a->n_offers; i++) {
		w.a->offers[i].interrupt_low_milli = 50;
		w.a->offers[i].interrupt_high_milli = 100;
	}
	assert_ok(outcome_make(w.a, w.a->outcomes, &w.a->money, &err), &err);
	/* 0.1 interruptions of 144 s in a month of 2,628,000 s */
	assert_true(fabs(w.a->outcomes[0].lost_low - 0.05 * 144 / 2628000) < 1e-12);
	assert_true(fabs(w.a->outcomes[0].lost_high - 0.1 * 144 / 2628000) < 1e-12);
	assert_true(w.a->outcomes[1].lost_high == 0);
}

/* Section 5: where a workload cannot run, with a reason of the closed list. */
static void reject__lists_each_gpu_and_mode(void **state)
{
	CLEANUP(plan_world_fini) struct plan_world w;
	struct error err = ERROR_INIT;
	struct rejection list[64];
	size_t n, mig = 0, memory = 0, isolation = 0;

	(void)state;
	if (init_answer_world(&w,
		    HEAD
		    "workloads: [{name: s, gpu_ref: A10G, busy: 0.1, mem_peak_mib: 18000,\n"
		    "  isolation: memory, slo: {max_slowdown: 50}}]\n",
		    &err) < 0)
		fail_msg("%s", err.msg);
	n = reject_list(w.a, list, ARRAY_LEN(list));
	assert_true(n > 0 && n < ARRAY_LEN(list));
	for (size_t i = 0; i < n; i++) {
		mig += list[i].reason == PLAN_MIG_UNSUPPORTED || list[i].mode == PLAN_MIG;
		memory += list[i].reason == PLAN_NO_MEMORY && list[i].mode == PLAN_EXCLUSIVE;
		isolation += list[i].reason == PLAN_NO_ISOLATION_IN_MODE;
	}
	assert_int_equal(mig, 4);    /* V100, T4, L4, A10G have none */
	assert_int_equal(memory, 2); /* 16 GiB of V100 and T4 */
	assert_true(isolation >= 2); /* time-slicing on those with more */
	assert_int_equal(reject_list(w.a, list, 1), n);
}

/* A pool of machines without GPUs, and a sharing config for a type without a price. */
static void answer__ignores_machines_of_manifests(void **state)
{
	CLEANUP(plan_world_fini) struct plan_world w;
	CLEANUP(plan_world_fini) struct plan_world asked;
	struct error err = ERROR_INIT;

	(void)state;
	if (init_answer_world(&w,
		    HEAD
		    "workloads: [{name: s, gpu_ref: T4}]\n---\n"
		    "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {template: {spec: "
		    "{requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m7i.large]}]}}}\n"
		    "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  p9.2xlarge: |\n"
		    "    version: v1\n    sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n",
		    &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(w.a->baseline.offer->type, "g4dn.xlarge");
	assert_null(w.a->layout.offer);
	/* A plan file that names the type itself gets an error. */
	assert_error(
		init_answer_world(&asked,
			HEAD
			"workloads: [{name: s, gpu_ref: T4}]\nlayout: {instance: p9.2xlarge, slices: 4}\n",
			&err),
		&err, "p9.2xlarge");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answer__of_four_quarters_is_not_feasible),
		cmocka_unit_test(answer__reports_a_feasible_layout),
		cmocka_unit_test(answer__counts_nodes),
		cmocka_unit_test(answer__errors_name_missing_input),
		cmocka_unit_test(answer__checks_all_of_a_layout),
		cmocka_unit_test(answer__counts_whole_gpus),
		cmocka_unit_test(answer__is_in_one_currency),
		cmocka_unit_test(answer__sums_additional_costs),
		cmocka_unit_test(answer__compares_spot_with_on_demand),
		cmocka_unit_test(answer__uses_existing_nodes),
		cmocka_unit_test(answer__ignores_machines_of_manifests),
		cmocka_unit_test(outcome__splits_the_price_exactly),
		cmocka_unit_test(outcome__reports_the_cost_of_a_million_requests),
		cmocka_unit_test(outcome__counts_interruptions),
		cmocka_unit_test(reject__lists_each_gpu_and_mode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
