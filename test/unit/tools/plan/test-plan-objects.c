/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "io/config/mig/mig.h"
#include "tools/plan/gpus/gpus.h"
#include "tools/plan/input/input.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- Kubernetes manifests as input --- */

static void input_fini(struct plan_input **in)
{
	plan_input_free(*in);
}

static int read_texts(struct plan_input **in, struct error *err, const char *a, const char *b)
{
	assert_int_equal(plan_input_new(in, err), 0);
	if (plan_input_parse(*in, "a.yaml", a, strlen(a), err) < 0 ||
		(b && plan_input_parse(*in, "b.yaml", b, strlen(b), err) < 0))
		return -1;
	return plan_input_end(*in, err);
}

static bool has_note(const struct plan_input *in, const char *code)
{
	for (size_t i = 0; i < in->n_notes; i++)
		if (!strcmp(in->notes[i].code, code))
			return true;
	return false;
}

#define DEPLOYMENT(name, resources)                                                         \
	"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " name "}\n"               \
	"spec:\n  replicas: 3\n  selector: {}\n  template:\n    spec:\n      containers:\n" \
	"      - name: main\n        resources: " resources "\n"

static void objects__have_replicas_and_requests(void **state)
{
	static const struct {
		const char *text;
		uint32_t replicas, cpu_milli, memory_mib, gpus;
		enum plan_kind kind;
		const char *object;
	} rows[] = {
		{ DEPLOYMENT("w", "{limits: {nvidia.com/gpu: 1, cpu: 500m, memory: 1Gi}}"), 3,
			500, 1024, 1, PLAN_OPEN, "deployment" },
		/* Requests have precedence over limits; GPUs have only limits. */
		{ DEPLOYMENT("w",
			  "{limits: {nvidia.com/gpu: \"2\", cpu: 4}, requests: {cpu: 1}}"),
			3, 1000, 0, 2, PLAN_OPEN, "deployment" },
		{ "apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec:\n  containers:\n"
		  "  - {name: a, resources: {limits: {nvidia.com/gpu: 1, cpu: 1}}}\n"
		  "  - {name: b, resources: {requests: {cpu: \"0.25\"}}}\n"
		  "  initContainers:\n"
		  "  - {name: c, resources: {requests: {cpu: \"3\", memory: 2Gi}}}\n"
		  "  - {name: d, restartPolicy: Always, resources: {requests: {cpu: 100m}}}\n",
			1, 3000, 2048, 1, PLAN_OPEN, "pod" },
		{ "apiVersion: batch/v1\nkind: Job\nmetadata: {name: w}\nspec:\n"
		  "  parallelism: 4\n  template: {spec: {containers: [{name: a, resources: "
		  "{limits: {nvidia.com/gpu: 1}}}]}}\n",
			4, 0, 0, 1, PLAN_BATCH, "job" },
		{ "apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: StatefulSet\n"
		  "  metadata: {name: w}\n  spec: {selector: {}, template: {spec: {containers: "
		  "[{name: a, resources: {limits: {nvidia.com/gpu.shared: 2}}}]}}}\n",
			1, 0, 0, 1, PLAN_OPEN, "statefulset" },
		/* An unknown kind, which has pods all the same. */
		{ "apiVersion: x/v1\nkind: Odd\nmetadata: {name: w}\nspec: {selector: {}, replicas: 2, "
		  "template: {spec: {containers: [{name: a, resources: {limits: "
		  "{nvidia.com/gpu: 1}}}]}}}\n",
			2, 0, 0, 1, PLAN_OPEN, "deployment" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(input_fini) struct plan_input *in = NULL;
		struct error err = ERROR_INIT;
		const struct plan_workload *w;

		if (read_texts(&in, &err, rows[i].text, NULL) < 0)
			fail_msg("%zu: %s", i, err.msg);
		assert_int_equal(in->n_workloads, 1);
		w = &in->workloads[0];
		assert_string_equal(w->name, "w");
		assert_int_equal(w->replicas, rows[i].replicas);
		assert_int_equal(w->cpu_milli, rows[i].cpu_milli);
		assert_int_equal(w->memory_mib, rows[i].memory_mib);
		assert_int_equal(w->gpus, rows[i].gpus);
		assert_int_equal(w->kind, rows[i].kind);
		assert_string_equal(w->object_kind, rows[i].object);
		assert_false(w->mem_peak_mib.known);
		/* A part of a GPU without a profile. */
		assert_int_equal(in->n_notes,
			strcmp(w->object_resource, "nvidia.com/gpu") != 0);
	}
}

/* The profiles come in any order. The plan file has precedence. */
static void objects__join_profiles(void **state)
{
	static const char manifest[] =
		DEPLOYMENT("w", "{limits: {nvidia.com/gpu: 1, cpu: 500m}}");
	static const char profile[] =
		"version: gpuslice/plan/v1\nworkloads:\n"
		"- {name: w, cpu: 2, gpu_ref: L4, busy: 0.2, mem_peak_mib: 3000}\n";

	(void)state;
	for (int turn = 0; turn < 2; turn++) {
		CLEANUP(input_fini) struct plan_input *in = NULL;
		struct error err = ERROR_INIT;
		const struct plan_workload *w;

		assert_ok(read_texts(&in, &err, turn ? manifest : profile,
				  turn ? profile : manifest),
			&err);
		assert_int_equal(in->n_workloads, 1);
		w = &in->workloads[0];
		assert_int_equal(w->replicas, 3);
		assert_int_equal(w->cpu_milli, 2000);
		assert_int_equal(w->gpus, 1);
		assert_true(w->mem_peak_mib.v == 3000 && w->busy.v == 0.2);
		assert_string_equal(w->object_container, "main");
		assert_string_equal(w->object_resource, "nvidia.com/gpu");
	}
}

static void objects__accept_other_resources(void **state)
{
	CLEANUP(input_fini) struct plan_input *in = NULL;
	CLEANUP(input_fini) struct plan_input *none = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(read_texts(&in, &err,
			  DEPLOYMENT("mig", "{limits: {nvidia.com/mig-1g.5gb: 1}}"),
			  DEPLOYMENT("hami",
				  "{limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}}")),
		&err);
	assert_int_equal(in->n_workloads, 2);
	/* 4,864 MiB of an A100's smallest one, less 5 % and 400 MiB */
	assert_true(in->workloads[0].mem_peak_mib.v > 4000 &&
		    in->workloads[0].mem_peak_mib.v < 4500);
	assert_int_equal(in->workloads[0].mem_peak_mib.origin, PLAN_DERIVED);
	assert_int_equal(in->workloads[0].isolation, PLAN_HARDWARE);
	assert_true(in->workloads[1].mem_peak_mib.v == 3000);
	assert_int_equal(in->workloads[1].isolation, PLAN_MEMORY);
	assert_error(read_texts(&none, &err,
			     DEPLOYMENT("w", "{limits: {nvidia.com/mig-9g.999gb: 1}}"), NULL),
		&err, "a MIG profile that some GPU has");
}

/* shared/fixtures: the user's own. */
static void objects__report_problems_of_the_intended_layout(void **state)
{
	static const char app[] = DEPLOYMENT("gpu-app",
		"{limits: {nvidia.com/gpu: 1}}") "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  shared_gpu: |\n"
						 "    version: v1\n    sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}\n"
						 "  notes.txt: nothing\n";
	static const char pool[] =
		"apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: gpu-shared}\nspec:\n"
		"  requirements:\n  - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge]}\n"
		"  labels: {nvidia.com/device-plugin.config: shared_gpu, karpenter.sh/capacity-type: ON_DEMAND}\n"
		"  limits: {resources: {nvidia.com/gpu: 10}}\n";
	static const char *const codes[] = { "gone", "moved", "no-rename", "more-than-one",
		"label-forbidden", "capacity-type" };
	CLEANUP(input_fini) struct plan_input *in = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(read_texts(&in, &err, app, pool), &err);
	assert_string_equal(in->layout.instance, "g4dn.xlarge");
	assert_int_equal(in->layout.mode, PLAN_TIME_SLICING);
	assert_int_equal(in->layout.slices, 10);
	assert_string_equal(in->baseline, "g4dn.xlarge");
	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		assert_true(has_note(in, codes[i]));
}

/* A key that is an instance type needs no pool. A second such key is a note, and so is a label without a
 * config. */
static void objects__find_layouts_by_instance_type(void **state)
{
	CLEANUP(input_fini) struct plan_input *in = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(
		read_texts(&in, &err,
			DEPLOYMENT("w",
				"{limits: {nvidia.com/gpu: 1}}") "---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\ndata:\n"
								 "  p3.2xlarge: |\n    version: v1\n    sharing: {timeSlicing: {resources: "
								 "[{name: nvidia.com/gpu, replicas: 4}]}}\n"
								 "  p3.8xlarge: |\n    version: v1\n    sharing: {mps: {resources: "
								 "[{name: nvidia.com/gpu, replicas: 8}]}}\n",
			"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {template: "
			"{metadata: {labels: {nvidia.com/device-plugin.config: other}}, spec: {requirements: "
			"[{key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge]}]}}}\n"),
		&err);
	assert_string_equal(in->layout.instance, "p3.2xlarge");
	assert_int_equal(in->layout.slices, 4);
	assert_true(has_note(in, "other-layout"));
	assert_true(has_note(in, "no-such-config"));
	assert_false(has_note(in, "gone"));
}

/* A NodePool of today with fields of yesterday, and one of EKS Auto Mode. */
static void objects__report_errors_of_a_node_pool(void **state)
{
	static const struct {
		const char *spec, *code, *text; /* code NULL: no note */
	} rows[] = {
		{ "{template: {spec: {nodeClassRef: {group: "
		  "karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}, requirements: [{key: "
		  "node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge]}]}}}",
			NULL, NULL },
		{ "{limits: {nvidia.com/gpu: 8, cpu: 100}}", "limit",
			"the limits of this pool (nvidia.com/gpu, cpu) are not read" },
		{ "{template: {spec: {requirements: [{key: nvidia.com/gpu.product, operator: In, values: "
		  "[Tesla-T4]}]}}}",
			"requirement", "nvidia.com/gpu.product is not read" },
		{ "{template: {spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: "
		  "NotIn, values: [g4dn.xlarge]}]}}}",
			"requirement", "node.kubernetes.io/instance-type is not read" },
		{ "{limits: {resources: {nvidia.com/gpu: 8}}}", "moved",
			"spec.limits.resources.X is spec.limits.X now" },
		{ "{requirements: []}", "moved", "spec.template.spec.requirements" },
		{ "{template: {spec: {nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, "
		  "name: default}}}}",
			"auto-mode", "does not share GPUs" },
		{ "{template: {spec: {nodeClassRef: {name: default}}}}", "node-class",
			"group: karpenter.k8s.aws" },
		{ "{template: {spec: {requirements: [{key: karpenter.k8s.aws/instance-family, "
		  "operator: In, values: [g4dn]}]}}}",
			"requirement", "karpenter.k8s.aws/instance-family is not read" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(input_fini) struct plan_input *in = NULL;
		struct error err = ERROR_INIT;
		char pool[1024];

		(void)snprintf(pool, sizeof(pool),
			"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: %s\n",
			rows[i].spec);
		assert_ok(read_texts(&in, &err,
				  DEPLOYMENT("w", "{limits: {nvidia.com/gpu: 1}}"), pool),
			&err);
		for (size_t k = 0; k < in->n_notes; k++)
			if (!rows[i].code || strcmp(in->notes[k].code, rows[i].code) != 0 ||
				!strstr(in->notes[k].text, rows[i].text) ||
				in->notes[k].line != 4)
				fail_msg("row %zu: %s: %s", i, in->notes[k].code,
					in->notes[k].text);
		assert_int_equal(in->n_notes, rows[i].code ? 1 : 0);
	}
}

static void objects__errors_and_notes_name_the_place(void **state)
{
	static const struct {
		const char *text, *error;
	} rows[] = {
		{ "kind: Deployment\nmetadata: {}\n",
			"a.yaml:1:1: metadata: expected an object with a name" },
		{ DEPLOYMENT("w", "{limits: {nvidia.com/gpu: many}}"),
			"a.yaml:11:46: nvidia.com/gpu: expected a whole number, found \"many\"" },
		{ DEPLOYMENT("w", "{limits: {nvidia.com/gpu: 99}}"), "at most 16 for a pod" },
		{ DEPLOYMENT("w", "{requests: {cpu: -1}, limits: {nvidia.com/gpu: 1}}"),
			"cpu: expected" },
		{ DEPLOYMENT("w", "{limits: {nvidia.com/gpu: 1}}") "---\n" DEPLOYMENT("w",
			  "{limits: {nvidia.com/gpu: 1}}") "---\n" DEPLOYMENT("w",
			  "{limits: {nvidia.com/gpu: 1}}"),
			"another object here has that name" },
		{ "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w}\nspec: 7\n",
			"the spec of a pod" },
	};
	CLEANUP(input_fini) struct plan_input *in = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(input_fini) struct plan_input *bad = NULL;

		assert_error(read_texts(&bad, &err, rows[i].text, NULL), &err, rows[i].error);
	}
	assert_ok(
		read_texts(&in, &err,
			"kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, resources: {limits: "
			"{nvidia.com/gpu: 1}}}]}\n---\n"
			"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\n---\n"
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: idle}\nspec: {template: {spec: "
			"{containers: [{name: c}]}}}\n---\n"
			"apiVersion: v1\nkind: \"Se\\erv\\x9b\"\n",
			NULL),
		&err);
	assert_true(has_note(in, "no-api-version"));
	assert_true(has_note(in, "daemon-set"));
	assert_true(has_note(in, "no-gpu"));
	assert_true(has_note(in, "not-read"));
	for (size_t i = 0; i < in->n_notes; i++)
		assert_true(!strchr(in->notes[i].text, '\033') &&
			    !strstr(in->notes[i].text, "\xc2\x9b"));
}

#define ASKS(name, limits)                                                                              \
	"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " name                                 \
	"}\nspec: {selector: {}, template: {spec: {containers: [{name: c, resources: {limits: {" limits \
	"}}}]}}}\n"

static void objects__without_a_gpu_request_are_reported(void **state)
{
	static const struct {
		const char *text, *error;
	} rows[] = {
		{ ASKS("web", "cpu: 1"),
			"a.yaml:1: no workloads: 'web' asks for no GPU: left out; expected a limit of nvidia.com/gpu, "
			"nvidia.com/gpumem or a MIG profile such as nvidia.com/mig-1g.10gb" },
		{ ASKS("web", "cpu: 1") "---\n" ASKS("db", "memory: 1Gi"),
			"'web' asks for no GPU: left out, as are others; expected" },
		{ ASKS("none", "nvidia.com/gpu: 0"),
			"'none' asks for no GPU: left out; expected" },
		{ ASKS("rocm", "amd.com/gpu: 1"),
			"'rocm' asks for amd.com/gpu, which is no GPU that is known here: left out" },
		{ ASKS("inf", "aws.amazon.com/neuroncore: 2"),
			"'inf' asks for aws.amazon.com/neuroncore, which is no GPU" },
		{ ASKS("mig", "nvidia.com/mig-9g.99gb: 1"),
			"nvidia.com/mig-9g.99gb: expected a MIG profile that some GPU has" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(input_fini) struct plan_input *in = NULL;
		struct error err = ERROR_INIT;

		assert_int_not_equal(read_texts(&in, &err, rows[i].text, NULL), 0);
		if (!strstr(err.msg, rows[i].error))
			fail_msg("'%s' does not say '%s'", err.msg, rows[i].error);
	}
}

/* The profiles include those of GPUs that no instance type has, such as 1g.12gb of an H100 NVL. */
static void objects__may_request_each_mig_profile(void **state)
{
	static const struct {
		const char *text;
		double mib; /* of the profile */
	} rows[] = {
		{ ASKS("a", "nvidia.com/mig-1g.12gb: 1"), 10880 },
		{ ASKS("a", "nvidia.com/mig-1g.12gb.me: 1"), 10880 },
		{ ASKS("a", "nvidia.com/mig-7g.94gb: 1"), 94848 },
		{ ASKS("a", "nvidia.com/mig-1g.5gb: 1"), 4864 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(input_fini) struct plan_input *in = NULL;
		struct error err = ERROR_INIT;
		const struct plan_policy *p;

		assert_ok(read_texts(&in, &err, rows[i].text, NULL), &err);
		assert_int_equal(in->n_workloads, 1);
		p = &in->policy;
		assert_true(fabs(in->workloads[0].mem_peak_mib.v -
				    (rows[i].mib * (1 - p->headroom) - p->context_mib)) < 1);
		assert_int_equal(in->workloads[0].isolation, PLAN_HARDWARE);
	}
}

static void check_mig_request(const struct mig_profile *p)
{
	CLEANUP(input_fini) struct plan_input *in = NULL;
	char text[512], word[MIG_PROFILE_NAME_MAX];
	struct error err = ERROR_INIT;

	mig_profile_word(p, word);
	(void)snprintf(text, sizeof(text), ASKS("a", "nvidia.com/mig-%s: 1"), word);
	assert_ok(read_texts(&in, &err, text, NULL), &err);
	assert_true(in->workloads[0].mem_peak_mib.known);
}

/* The profiles are all that mig-parted's default map has. */
static void objects__may_request_each_profile_of_the_default_map(void **state)
{
	CLEANUP(mig_configs_freep) struct mig_configs *c = NULL;
	struct error err = ERROR_INIT;
	size_t n = 0;

	(void)state;
	assert_ok(mig_default_configs(&c, &err), &err);
	for (size_t i = 0; i < c->n; i++)
		for (size_t e = 0; e < c->configs[i].n; e++)
			for (size_t k = 0; k < c->configs[i].entries[e].n_rows; k++, n++)
				check_mig_request(&c->configs[i].entries[e].rows[k].profile);
	assert_true(n > 50);
}

/* A share of a GPU is as large as its profile defines. Without a profile it is a whole GPU, with a note. */
static void objects__that_request_a_share_without_a_profile_are_reported(void **state)
{
	static const struct {
		const char *resource, *profile;
		bool noted;
	} rows[] = {
		{ ASKS("a", "nvidia.com/gpux: 1"), NULL, true },
		{ ASKS("a", "nvidia.com/gpu.shared: 1"), NULL, true },
		{ ASKS("a", "nvidia.com/gpu.shared: 1"),
			"version: gpuslice/plan/v1\nworkloads: [{name: a, mem_peak_mib: 100}]\n",
			false },
		{ ASKS("a", "nvidia.com/gpu: 1"), NULL, false },
		{ ASKS("a", "nvidia.com/mig-1g.5gb: 1"), NULL, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(input_fini) struct plan_input *in = NULL;
		struct error err = ERROR_INIT;

		assert_ok(read_texts(&in, &err, rows[i].resource, rows[i].profile), &err);
		if (has_note(in, "no-profile") != rows[i].noted)
			fail_msg("row %zu", i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects__have_replicas_and_requests),
		cmocka_unit_test(objects__join_profiles),
		cmocka_unit_test(objects__accept_other_resources),
		cmocka_unit_test(objects__report_problems_of_the_intended_layout),
		cmocka_unit_test(objects__find_layouts_by_instance_type),
		cmocka_unit_test(objects__report_errors_of_a_node_pool),
		cmocka_unit_test(objects__errors_and_notes_name_the_place),
		cmocka_unit_test(objects__without_a_gpu_request_are_reported),
		cmocka_unit_test(objects__may_request_each_mig_profile),
		cmocka_unit_test(objects__may_request_each_profile_of_the_default_map),
		cmocka_unit_test(objects__that_request_a_share_without_a_profile_are_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
