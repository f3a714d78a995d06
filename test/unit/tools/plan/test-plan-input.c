/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/buf.h"
#include "tools/plan/input/input.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int parse_plan(struct plan_input **ret, const char *text, struct error *err)
{
	assert_int_equal(plan_input_new(ret, err), 0);
	if (plan_input_parse(*ret, "p.yaml", text, strlen(text), err) < 0)
		return -1;
	return plan_input_end(*ret, err);
}

/* The text as gpuslice profile writes it, with two disturbances. */
#define SHAKEN                                                                                              \
	"host too busy: a thread waited for a CPU for 44 % of the time (limit 5 %); the GPU was below its " \
	"base clocks (if it is simulated: host too busy) for 41 % of the time (limit 10 %)"

static void input__reads_every_key(void **state)
{
	static const char text[] =
		"version: gpuslice/plan/v1\n"
		"workloads:\n"
		"- {name: ranker, replicas: 4, kind: inference-open, gpu_ref: V100-SXM2-16GB, origin: derived,\n"
		"   t_solo: 50ms, busy: {value: 0.25, origin: measured}, sm_active: 0.2, sm_occ: 0.3, dram: 0.4,\n"
		"   u: 0.5, u_bw: 0.1, mem_peak_mib: 3000, rate: 5, cv_arrival: 1.5, burst: 2, power_w: 90,\n"
		"   cpu: 500m, memory: 2Gi, slo: {p99_ms: 200, max_slowdown: 2, min_rate: 4}, isolation: memory,\n"
		"   checkpointable: true, spot_ok: true, anti_affinity: true, t_restart: 30, t_warmup: 1m,\n"
		"   gpu_models_allowed: [L4, NVIDIA-A10G]}\n"
		"- name: train\n"
		"  kind: train\n"
		"  gpus: 4\n"
		"- name: shaken\n"
		"  disturbed: \"" SHAKEN "\"\n"
		"  busy: 0.5\n"
		"  u: {value: 0.5, origin: default}\n"
		"policy: {regions: [eu-west-1, us-east-1], capacity: mixed, modes: [mig, slices], headroom: 0.1,\n"
		"  rho_max: 0.7, max_slowdown: any, max_pods_per_gpu: 8, max_gpus_per_instance: 4, context_mib: 500,\n"
		"  instances: [g5.xlarge], only_nodes: true}\n"
		"layout: {instance: p3.2xlarge, capacity: spot, mode: mps, slices: 4}\n"
		"nodes: [{instance: g5.xlarge, count: 3}, {instance: p4d.24xlarge}]\n";
	CLEANUP(plan_input_freep) struct plan_input *in = NULL;
	const struct plan_workload *w;
	struct error err = ERROR_INIT;

	(void)state;
	if (parse_plan(&in, text, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(in->n_workloads, 3);
	w = &in->workloads[0];
	assert_string_equal(w->name, "ranker");
	assert_string_equal(w->file, "p.yaml");
	assert_int_equal(w->line, 3);
	assert_int_equal(w->replicas, 4);
	assert_int_equal(w->kind, PLAN_OPEN);
	assert_null(w->disturbed);
	assert_string_equal(w[2].disturbed, SHAKEN);
	assert_int_equal(w[2].busy.origin, PLAN_DERIVED);
	assert_int_equal(w[2].u.origin, PLAN_DEFAULT);
	assert_string_equal(w->ref->name, "V100-SXM2-16GB");
	assert_true(w->solo_s.known && w->solo_s.v == 0.05 && w->solo_s.origin == PLAN_DERIVED);
	assert_true(w->busy.v == 0.25 && w->busy.origin == PLAN_MEASURED);
	assert_true(w->sm_active.v == 0.2 && w->sm_occupancy.v == 0.3 && w->dram.v == 0.4);
	assert_true(w->u.v == 0.5 && w->u_bw.v == 0.1 && w->mem_peak_mib.v == 3000 &&
		    w->rate.v == 5);
	assert_true(w->arrival_cv.v == 1.5 && w->burst.v == 2 && w->power_w.v == 90);
	assert_int_equal(w->cpu_milli, 500);
	assert_int_equal(w->memory_mib, 2048);
	assert_true(w->slo.p99_s == 0.2 && w->slo.max_slowdown == 2 && w->slo.min_rate == 4 &&
		    w->slo.p50_s == 0);
	assert_int_equal(w->isolation, PLAN_MEMORY);
	assert_true(w->checkpointable && w->spot_ok && w->anti_affinity);
	assert_true(w->restart_s == 30 && w->warmup_s == 60);
	assert_int_equal(__builtin_popcountll(w->gpus_allowed), 2);
	w = &in->workloads[1];
	assert_int_equal(w->kind, PLAN_TRAIN);
	assert_int_equal(w->gpus, 4);
	assert_int_equal(w->replicas, 1);
	assert_false(w->busy.known);
	assert_null(w->ref);
	assert_true(w->gpus_allowed == UINT64_MAX);
	assert_int_equal(in->regions.n, 2);
	assert_int_equal(in->policy.capacities, 3);
	assert_int_equal(in->policy.modes, 1 << PLAN_MIG | 1 << PLAN_SLICES);
	assert_true(in->policy.headroom == 0.1 && in->policy.rho_max == 0.7 &&
		    in->policy.max_slowdown == 0);
	assert_int_equal(in->policy.pods_per_gpu, 8);
	assert_int_equal(in->policy.context_mib, 500);
	assert_int_equal(in->gpus_per_instance, 4);
	assert_string_equal(in->instances.v[0], "g5.xlarge");
	assert_true(in->only_have);
	assert_string_equal(in->layout.instance, "p3.2xlarge");
	assert_int_equal(in->layout.capacity, PLAN_SPOT);
	assert_int_equal(in->layout.mode, PLAN_MPS);
	assert_int_equal(in->layout.slices, 4);
	assert_string_equal(in->baseline, "p3.2xlarge");
	assert_int_equal(in->n_have, 2);
	assert_int_equal(in->have[0].count, 3);
	assert_int_equal(in->have[1].count, 1);
}

static void input__has_defaults(void **state)
{
	CLEANUP(plan_input_freep) struct plan_input *in = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(
		parse_plan(&in, "version: gpuslice/plan/v1\nworkloads: [{name: a}]\n", &err),
		0);
	assert_int_equal(in->regions.n, 1);
	assert_string_equal(in->regions.v[0], "us-east-1");
	assert_int_equal(in->policy.modes, (1 << PLAN_MODES) - 1);
	assert_int_equal(in->policy.capacities, 1 << PLAN_ON_DEMAND);
	assert_true(in->policy.max_slowdown == 1.5);
	assert_null(in->baseline);
}

/* Files add up. */
static void input__accepts_several_files(void **state)
{
	static const char first[] = "version: gpuslice/plan/v1\nworkloads: [{name: a}]\n";
	static const char second[] = "version: gpuslice/plan/v1\nworkloads: [{name: a}]\n";
	CLEANUP(plan_input_freep) struct plan_input *in = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(plan_input_new(&in, &err), 0);
	assert_int_equal(plan_input_parse(in, "1", first, strlen(first), &err), 0);
	assert_int_equal(plan_input_parse(in, "2", second, strlen(second), &err), -1);
	assert_string_equal(err.msg, "2:2:13: workload 'a': given already, in 1:2");
}

#define W(fields) "version: gpuslice/plan/v1\nworkloads:\n- {name: a, " fields "}\n"

static void input__errors_name_place_and_what_was_expected(void **state)
{
	static const struct {
		const char *text, *msg;
	} rows[] = {
		{ "", "p.yaml:1:1: expected version: gpuslice/plan/v1, found nothing" },
		{ "workloads: []\n",
			"p.yaml:1:1: version: expected gpuslice/plan/v1, found {\"workloads\":[]}" },
		{ "version: gpuslice/plan/v1\nworkload: []\n",
			"p.yaml:2:1: file: unknown key 'workload'; expected one of version, workloads, policy, "
			"layout, baseline, nodes, calibration" },
		{ "version: gpuslice/plan/v1\nworkloads: []\n",
			"no workloads: expected workloads with a name each" },
		{ "version: gpuslice/plan/v1\nworkloads: [{replicas: 1}]\n",
			"p.yaml:2:13: workloads: expected a name, found {\"replicas\":1}" },
		{ "version: gpuslice/plan/v1\nworkloads: [{name: \"a\\e[31m\"}]\n",
			"p.yaml:2:20: name: expected 1 to 127 characters without control characters, found "
			"\"a [31m\"" },
		{ W("busy: 1.5"),
			"p.yaml:3:19: busy: expected a number from 0 to 1, found 1.5" },
		{ W("busy: {origin: measured}"),
			"p.yaml:3:19: busy: expected a value beside the origin, found {\"origin\":\"measured\"}" },
		{ W("busy: {value: .nan}"),
			"p.yaml:3:27: busy: expected a number from 0 to 1, found \".nan\"" },
		{ W("busy: {value: 1, from: x}"),
			"p.yaml:3:30: busy: unknown key 'from'; expected one of value, origin" },
		{ W("t_solo: 0"),
			"p.yaml:3:21: t_solo: expected seconds, or a time such as 50ms, above 0 to 1000000, found 0" },
		{ W("t_solo: soon"),
			"p.yaml:3:21: t_solo: expected seconds, or a time such as 50ms, above 0 to "
			"1000000, found \"soon\"" },
		{ W("kind: serving"),
			"p.yaml:3:19: kind: expected inference-open, inference-closed, batch or train, found "
			"\"serving\"" },
		{ W("gpu_ref: H1000"),
			"p.yaml:3:22: gpu_ref: expected a GPU of the catalogue, such as "
			"L4 or A100-SXM4-80GB, found \"H1000\"" },
		{ W("u: 0.7, u_bw: 0.4"),
			"p.yaml:3:3: workload 'a': expected u and u_bw to be 1 at most together, found 1.1" },
		{ W("cpu: lots"),
			"p.yaml:3:18: cpu: expected processors, such as 2, 0.5 or 500m, found \"lots\"" },
		{ W("memory: -1"),
			"p.yaml:3:21: memory: expected an amount of memory, such as 4Gi or 512Mi, found -1" },
		{ W("slo: {p99: 3}"),
			"p.yaml:3:19: slo: unknown key 'p99'; expected one of p50_ms, p95_ms, "
			"p99_ms, min_rate, max_slowdown" },
		{ W("replicas: 200000"),
			"p.yaml:3:23: replicas: expected a whole number from 0 to 100000, found 200000" },
		{ "version: gpuslice/plan/v1\nlayout: {mode: mps}\n",
			"p.yaml:2:9: layout: expected an object with instance, found {\"mode\":\"mps\"}" },
		{ "version: gpuslice/plan/v1\npolicy: {modes: [mig, dra]}\n",
			"p.yaml:2:23: modes: expected exclusive, time-slicing, slices, mps or mig, found \"dra\"" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(plan_input_freep) struct plan_input *in = NULL;
		struct error err = ERROR_INIT;

		assert_int_equal(parse_plan(&in, rows[i].text, &err), -1);
		assert_string_equal(err.msg, rows[i].msg);
	}
}

static void input__accepts_ten_thousand_workloads(void **state)
{
	CLEANUP(plan_input_freep) struct plan_input *in = NULL;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(PLAN_FILE_MAX);
	struct error err = ERROR_INIT;

	(void)state;
	buf_puts(&b, "version: gpuslice/plan/v1\nworkloads:\n");
	for (unsigned i = 0; i < 10000; i++)
		buf_printf(&b,
			"- {name: w%u, busy: 0.1, t_solo: 0.1, rate: 1, u: 0.3, mem_peak_mib: 900}\n",
			i);
	assert_int_equal(parse_plan(&in, buf_str(&b), &err), 0);
	assert_int_equal(in->n_workloads, 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(input__reads_every_key),
		cmocka_unit_test(input__has_defaults),
		cmocka_unit_test(input__accepts_several_files),
		cmocka_unit_test(input__errors_name_place_and_what_was_expected),
		cmocka_unit_test(input__accepts_ten_thousand_workloads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
