/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "io/config/config.h"
#include "lib/yaml/yaml.h"
#include "model/config/config.h"
#include "tools/plan/make/make.h"
#include "tools/plan/pools/internal.h"
#include "unit/tools/plan/plan-world.h"

#include <stdlib.h>
#include <string.h>

/* Pools, and the objects that the plan makes of them. */

static const char prices[] =
	"version: gpuslice/prices/v1\n"
	"stamp: \"2026-07-20\"\n"
	"types:\n"
	"  g6.xlarge: {gpu: L4, gpus: 1, gpuMemoryMiB: 22888, vcpus: 4, memoryMiB: 16384, pricePerHour: {r: 0.8}}\n"
	"  g6f.2xlarge: {gpu: L4, gpus: 1, gpuMemoryMiB: 5722, part: 0.25, vcpus: 8, memoryMiB: 32768,\n"
	"    pricePerHour: {r: 0.475}}\n"
	"  p3.8xlarge: {gpu: V100-SXM2-16GB, gpus: 4, gpuMemoryMiB: 16384, vcpus: 32, memoryMiB: 249856,\n"
	"    pricePerHour: {r: 12.24}}\n"
	"  p4d.24xlarge: {gpu: A100-SXM4-40GB, gpus: 8, gpuMemoryMiB: 40960, vcpus: 96, memoryMiB: 1179648,\n"
	"    pricePerHour: {r: 21.96}}\n";

struct world {
	struct plan_world plan;
	struct pools *pools;
	struct make_files files;
};

static void world_fini(struct world *w)
{
	make_files_fini(&w->files);
	pools_free(w->pools);
	plan_world_fini(&w->plan);
}

static void world_init(struct world *w, const char *text)
{
	struct error err = ERROR_INIT;

	*w = (struct world){ .pools = NULL };
	assert_ok(plan_world_init(&w->plan, prices, text, &err), &err);
	assert_int_equal(w->plan.a->plan.n_unplaced, 0);
	assert_ok(pools_new(&w->pools, w->plan.a, &err), &err);
	assert_ok(make_plan_files(&w->files, w->pools, &err), &err);
}

static const char *find_plan_file(const struct world *w, const char *path)
{
	for (size_t i = 0; i < w->files.n; i++)
		if (!strcmp(w->files.v[i].path, path))
			return buf_str(&w->files.v[i].text);
	return NULL;
}

static bool has_file_text(const struct world *w, const char *path, const char *text)
{
	return find_plan_file(w, path) && strstr(find_plan_file(w, path), text) != NULL;
}

static uint32_t count_offered(const struct plan_pool *p, const char *resource)
{
	for (size_t i = 0; i < p->n_resources; i++)
		if (!strcmp(p->resources[i].name, resource))
			return p->resources[i].count;
	return 0;
}

#define HEAD(modes, types)                                                 \
	"version: gpuslice/plan/v1\npolicy: {regions: [r], modes: [" modes \
	"], instances: [" types "]}\n"

static void pools__offer_slots_of_all_gpus(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w,
		HEAD("time-slicing",
			"p3.8xlarge") "workloads: [{name: a, replicas: 8, gpu_ref: V100-SXM2-16GB, busy: 0.1, t_solo: 0.05, rate: 2,\n"
				      "  mem_peak_mib: 3000, slo: {max_slowdown: 3}}]\n");
	assert_int_equal(w.pools->n, 1);
	assert_int_equal(count_offered(&w.pools->v[0], "nvidia.com/gpu.shared"),
		4 * w.pools->v[0].slots);
	assert_int_equal(w.pools->n_notes, 0);
	assert_true(has_file_text(&w, "10-device-plugin-config.yaml",
		"failRequestsGreaterThanOne: true"));
	assert_true(has_file_text(&w, "30-nodepools.yaml", "gpuslice.io/not-ready"));
	assert_true(has_file_text(&w, "patches/a.yaml", "nvidia.com/gpu.shared: \"1\""));
	assert_true(has_file_text(&w, "patches/a.yaml", "nvidia.com/gpu: null"));
}

/* The agent's own reader accepts every written config, without a warning. */
static void make_config__is_read_by_the_agent(void **state)
{
	static const char *const texts[] = {
		HEAD("time-slicing",
			"g6.xlarge") "workloads: [{name: a, replicas: 4, gpu_ref: L4, busy: 0.1, t_solo: 0.05, rate: 2, mem_peak_mib: 3000}]\n",
		HEAD("mps",
			"g6.xlarge") "workloads: [{name: a, replicas: 4, gpu_ref: L4, busy: 0.1, t_solo: 0.05, rate: 2, u: 0.3, dram: 0.1,\n"
				     "  mem_peak_mib: 3000, slo: {max_slowdown: 4}}]\n",
		HEAD("slices",
			"p3.8xlarge") "workloads: [{name: a, replicas: 5, gpu_ref: V100-SXM2-16GB, busy: 0.1, mem_peak_mib: 7000},\n"
				      "  {name: b, replicas: 6, gpu_ref: V100-SXM2-16GB, busy: 0.05, mem_peak_mib: 2000}]\n",
		HEAD("mig",
			"p4d.24xlarge") "workloads: [{name: a, replicas: 5, gpu_ref: A100-SXM4-40GB, busy: 0.05, u: 0.2, mem_peak_mib: 3500,\n"
					"  t_solo: 0.05, rate: 1, slo: {max_slowdown: 9}}]\n",
		HEAD("exclusive", "g6.xlarge") "workloads: [{name: a, gpu_ref: L4}]\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		CLEANUP(world_fini) struct world w;
		CLEANUP(yaml_freep) struct yaml *y = NULL;
		struct error err = ERROR_INIT;
		const struct yaml_node *data;
		struct yaml_source src = { .name = "config" };

		world_init(&w, texts[i]);
		src.text = find_plan_file(&w, "10-device-plugin-config.yaml");
		src.len = strlen(src.text);
		assert_ok(yaml_parse(&y, &src, &err), &err);
		data = yaml_get(y->docs[0], "data", false);
		assert_int_equal(data->n, w.pools->n);
		for (size_t k = 0; k < data->n; k++) {
			CLEANUP(config_freep) struct config *c = NULL;
			CLEANUP(strv_fini) struct strv warnings = { .v = NULL };
			const struct config_sources none = { 0 };
			const struct yaml_node *text = data->pairs[k].value;

			assert_string_equal(yaml_as_text(data->pairs[k].key),
				w.pools->v[k].name);
			assert_ok(config_parse(&c, "c", 0, text->text, text->len, &none,
					  &warnings, &err),
				&err);
			assert_int_equal(warnings.n, 0);
		}
	}
}

/* Kubernetes' scheduler may put the tight workload beside the busy workloads of another node. So they get
 * pools of their own. */
static void pools__are_split_where_arrangements_differ(void **state)
{
	CLEANUP(world_fini) struct world w;
	size_t with_tight = 0;

	(void)state;
	world_init(&w,
		HEAD("time-slicing",
			"g6.xlarge") "workloads:\n"
				     "- {name: tight, replicas: 2, gpu_ref: L4, busy: 0.2, t_solo: 0.05, rate: 4, mem_peak_mib: 2000,\n"
				     "  cpu: 1500m, slo: {max_slowdown: 2.5}}\n"
				     "- {name: busy, replicas: 2, gpu_ref: L4, busy: 0.35, t_solo: 0.05, rate: 7, mem_peak_mib: 2000,\n"
				     "  cpu: 1500m, slo: {max_slowdown: 9}}\n");
	assert_int_equal(w.plan.a->plan.n_nodes, 2);
	for (size_t i = 0; i < w.pools->n; i++)
		for (size_t k = 0; k < w.pools->v[i].n_tenants; k++)
			with_tight += !strcmp(
				w.plan.in->workloads[w.pools->v[i].tenants[k].workload].name,
				"tight");
	assert_int_equal(w.pools->n, 2);
	assert_int_equal(with_tight, 1);
	assert_string_not_equal(w.pools->v[0].name, w.pools->v[1].name);
	assert_int_equal(w.pools->n_notes, 0);
}

/* Nodes as a plan could have them, in place of the present ones: the workload's letter for each tenant, as
 * many slots. */
static void set_nodes(struct world *w, const char *const *nodes, size_t n)
{
	struct pack_result *r = &w->plan.a->plan;
	const struct plan_offer *offer = r->nodes[0].offer;
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < r->n_nodes; i++)
		free(r->nodes[i].tenants);
	free(r->nodes);
	r->n_nodes = n;
	r->nodes = calloc(n, sizeof(*r->nodes));
	assert_non_null(r->nodes);
	for (size_t i = 0; i < n; i++) {
		struct plan_node *node = &r->nodes[i];

		*node = (struct plan_node){ .offer = offer,
			.mode = PLAN_TIME_SLICING,
			.n = (uint32_t)strlen(nodes[i]) };
		node->slots = node->n;
		node->tenants = calloc(node->n, sizeof(*node->tenants));
		assert_non_null(node->tenants);
		for (uint32_t k = 0; k < node->n; k++)
			while (w->plan.in->workloads[node->tenants[k].workload].name[0] !=
				nodes[i][k])
				node->tenants[k].workload++;
	}
	w->pools = pools_free(w->pools);
	assert_ok(pools_new(&w->pools, w->plan.a, &err), &err);
}

static size_t count_pool_notes(const struct pools *p, const char *code)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_notes; i++)
		n += !strcmp(p->notes[i].code, code);
	return n;
}

/*
 * The tight workload fits beside one busy workload and the small one. But the busy workloads may go to each pool
 * that has any of them, so that two of them may be beside it.
 */
static void pools__count_pods_that_may_come_from_other_pools(void **state)
{
	static const char *const apart[] = { "tsb", "bbb" };
	static const char *const alone[] = { "tss", "bbb" };
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w,
		HEAD("time-slicing",
			"g6.xlarge") "workloads:\n"
				     "- {name: t, replicas: 1, gpu_ref: L4, busy: 0.1, t_solo: 0.05, rate: 2, mem_peak_mib: 2000,\n"
				     "  slo: {max_slowdown: 1.9}}\n"
				     "- {name: s, replicas: 2, gpu_ref: L4, busy: 0.02, t_solo: 0.05, rate: 0.4, mem_peak_mib: 2000,\n"
				     "  slo: {max_slowdown: 9}}\n"
				     "- {name: b, replicas: 4, gpu_ref: L4, busy: 0.2, t_solo: 0.05, rate: 4, mem_peak_mib: 2000,\n"
				     "  slo: {max_slowdown: 9}}\n");
	set_nodes(&w, apart, 2);
	assert_int_equal(w.pools->n, 2);
	assert_int_equal(count_pool_notes(w.pools, "arrangement"), 1);
	assert_non_null(strstr(w.pools->notes[0].text, "'t' (slo) beside 'b' 'b'"));
	set_nodes(&w, alone, 2);
	assert_int_equal(w.pools->n, 2);
	assert_int_equal(w.pools->n_notes, 0);
}

/* Few of the nodes have the same content, and a split would make more pools than allowed. */
static void pools__are_not_split_beyond_their_limit(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1U << 20);
	CLEANUP(world_fini) struct world w;

	(void)state;
	buf_puts(&text, HEAD("time-slicing", "g6.xlarge") "workloads:\n");
	for (int i = 0; i < 1200; i++)
		buf_printf(&text,
			"- {name: w%d, gpu_ref: L4, busy: 0.%02d, t_solo: 0.05, rate: 2, mem_peak_mib: %d,\n"
			"  slo: {max_slowdown: %d}}\n",
			i, 5 + i * 7 % 25, 500 + i * 37 % 8500, 2 + i % 3 * 3);
	world_init(&w, buf_str(&text));
	assert_true(w.plan.a->plan.n_nodes > POOLS_MAX);
	assert_in_range(w.pools->n, 1, POOLS_MAX);
	assert_int_equal(count_pool_notes(w.pools, "many-pools"), 1);
	assert_in_range(count_pool_notes(w.pools, "arrangement"), 1, w.pools->n);
}

/* K1: EC2 reports no GPU for an instance with a fraction of a GPU. */
/* Two workloads that use all of the bandwidth for half of the time each, though others want more of the
 * GPU's time. */
static void pool_is_feasible__checks_bandwidth(void **state)
{
	static struct pool_resource slots = { "nvidia.com/gpu.shared", 2 };
	struct pool_tenant who[] = { { 0, 1, 0, 1, 1 }, { 1, 2, 0, 1, 2 } };
	CLEANUP(buf_fini) struct buf say = BUF_INIT(4096);
	CLEANUP(plan_world_fini) struct plan_world w;
	struct error err = ERROR_INIT;
	struct plan_pool p = { .mode = PLAN_MPS,
		.slots = 2,
		.nodes = 2,
		.resources = &slots,
		.n_resources = 1,
		.tenants = who,
		.n_tenants = 2 };
	bool feasible;

	(void)state;
	assert_ok(
		plan_world_init(&w, prices,
			"version: gpuslice/plan/v1\npolicy: {regions: [r], modes: [exclusive], max_slowdown: any}\n"
			"workloads:\n"
			"- {name: busy, replicas: 2, kind: batch, gpu_ref: L4, busy: 0.6, u: 0.1, dram: 0.1, mem_peak_mib: 900}\n"
			"- {name: copies, replicas: 2, kind: batch, gpu_ref: L4, busy: 0.5, u: 0.1, dram: 1, mem_peak_mib: 900}\n",
			&err),
		&err);
	p.offer = &w.a->offers[0];
	while (strcmp(p.offer->type, "g6.xlarge") != 0)
		p.offer++;
	assert_ok(pool_check_feasible(w.a, &p, &feasible, &say, &err), &err);
	assert_false(feasible);
	assert_non_null(strstr(buf_str(&say), "'copies'"));
	who[1].reachable = 1;
	assert_ok(pool_check_feasible(w.a, &p, &feasible, &say, &err), &err);
	assert_true(feasible);
}

static void make_overlays__request_shares_of_gpus(void **state)
{
	CLEANUP(world_fini) struct world w;
	CLEANUP(world_fini) struct world whole;

	(void)state;
	world_init(&w,
		HEAD("exclusive",
			"g6f.2xlarge") "workloads: [{name: a, gpu_ref: L4, busy: 0.1, t_solo: 0.05, rate: 2, u: 0.1, mem_peak_mib: 3000,\n"
				       "  slo: {max_slowdown: 9}}]\n");
	assert_true(has_file_text(&w, "40-nodeoverlays.yaml", "nvidia.com/gpu: \"1\""));
	assert_true(has_file_text(&w, "40-nodeoverlays.yaml", "[\"g6f.2xlarge\"]"));
	assert_true(has_file_text(&w, "00-README.md", "NodeOverlay=true"));
	world_init(&whole,
		HEAD("exclusive", "g6.xlarge") "workloads: [{name: a, gpu_ref: L4}]\n");
	assert_null(find_plan_file(&whole, "40-nodeoverlays.yaml"));
	assert_false(has_file_text(&whole, "00-README.md", "NodeOverlay"));
}

static void make_mig__tells_gpus_apart(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w,
		HEAD("mig",
			"p4d.24xlarge") "workloads: [{name: a, replicas: 9, gpu_ref: A100-SXM4-40GB, busy: 0.05, u: 0.2, mem_peak_mib: 3500,\n"
					"  t_solo: 0.05, rate: 1, slo: {max_slowdown: 9}}]\n");
	assert_int_equal(count_offered(&w.pools->v[0], "nvidia.com/mig-1g.5gb"), 9);
	assert_int_equal(count_offered(&w.pools->v[0], "nvidia.com/gpu"), 6);
	assert_true(has_file_text(&w, "15-mig-config.yaml", "devices: [0]"));
	assert_true(has_file_text(&w, "15-mig-config.yaml", "\"1g.5gb\": 7"));
	assert_true(has_file_text(&w, "15-mig-config.yaml",
		"devices: [2, 3, 4, 5, 6, 7]\n        mig-enabled: false"));
}

static void make_quoted__escapes_special_characters(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(256);

	(void)state;
	make_quoted(&b, "a\"b\\c\nd: {e}");
	assert_string_equal(buf_str(&b), "\"a\\\"b\\\\c\\x0ad: {e}\"");
	buf_clear(&b);
	make_quoted(&b, "\xc2\x85"
			"\xc3\xa4\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xa7");
	assert_string_equal(buf_str(&b), "\"\\x85\xc3\xa4\\u2028\\u2029\xe2\x80\xa7\"");
}

/* The path of the pods in each kind of object. A name is nothing but a name to a shell. */
static void make_patch__depends_on_the_kind_of_object(void **state)
{
	static const struct {
		const char *object, *name, *command, *body;
	} rows[] = {
		{ "deployment", "a", "\n# kubectl patch deployment a --patch-file THIS_FILE\n",
			"\nspec:\n  template:\n    spec:\n      nodeSelector:\n" },
		{ "statefulset", "ns/a",
			"\n# kubectl patch statefulset --namespace ns a --patch-file THIS_FILE\n",
			"\nspec:\n  template:\n    spec:\n      nodeSelector:\n" },
		{ "cronjob", "a", "\n# kubectl patch cronjob a --patch-file THIS_FILE\n",
			"\nspec:\n  jobTemplate:\n    spec:\n      template:\n        spec:\n"
			"          nodeSelector:\n" },
		{ "job", "a", "\n# A job that is there cannot be changed so",
			"\nspec:\n  template:\n    spec:\n      nodeSelector:\n" },
		{ "pod", "a", "\n# kubectl patch --local -f MANIFEST",
			"\nspec:\n  nodeSelector:\n" },
		{ NULL, "a$(b)`c`", "\n# kubectl patch deployment NAME --patch-file",
			"\nspec:\n  template:\n" },
		{ NULL, "a\xe2\x80\xa8kind: x",
			"\n# kubectl patch deployment NAME --patch-file",
			"\nspec:\n  template:\n" },
		{ NULL, "--all", "\n# kubectl patch deployment NAME --patch-file",
			"\nspec:\n  template:\n" },
		{ NULL, "$x/a", "\n# kubectl patch deployment NAME --patch-file",
			"\nspec:\n  template:\n" },
	};
	CLEANUP(world_fini) struct world w;
	struct plan_workload *of;

	(void)state;
	world_init(&w, HEAD("exclusive", "g6.xlarge") "workloads: [{name: a, gpu_ref: L4}]\n");
	of = (struct plan_workload *)&w.plan.a->in->workloads[0];
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(1U << 16);

		of->object_kind = rows[i].object;
		of->name = rows[i].name;
		make_patch(&b, w.pools, 0, "nvidia.com/gpu", 0, 1);
		if (!strstr(buf_str(&b), rows[i].command) || !strstr(buf_str(&b), rows[i].body))
			fail_msg("row %zu:\n%s", i, buf_str(&b));
	}
}

/* The patch does not repeat what the manifest already has. */
static void make_patch__keeps_replicas_apart(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct plan_workload *of;

	(void)state;
	world_init(&w,
		HEAD("exclusive",
			"g6.xlarge") "workloads: [{name: a, gpu_ref: L4, anti_affinity: true}]\n");
	of = (struct plan_workload *)&w.plan.a->in->workloads[0];
	of->object_space = "team-x";
	for (int said = 0; said < 2; said++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(1U << 16);

		of->object_apart = said;
		make_patch(&b, w.pools, 0, "nvidia.com/gpu", 0, 1);
		assert_non_null(
			strstr(buf_str(&b), "kubectl patch deployment --namespace team-x a "));
		assert_int_equal(strstr(buf_str(&b), "podAntiAffinity:\n") != NULL, !said);
		assert_int_equal(strstr(buf_str(&b), "# Put a label") != NULL, !said);
	}
}

static void translation__writes_todays_objects(void **state)
{
	static const char old[] =
		"apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: p}\nspec:\n"
		"  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]\n"
		"  labels: {a: b, karpenter.sh/capacity-type: ON_DEMAND}\n"
		"  taints: [{key: nvidia.com/gpu, effect: NoSchedule}]\n"
		"  ttlSecondsAfterEmpty: 30\n  ttlSecondsUntilExpired: 2592000\n"
		"  limits: {resources: {cpu: 1000}}\n  weight: 10\n"
		"  provider: {instanceProfile: x, subnetSelector: {k: v}, tags: {karpenter.sh/x: y, Name: n}}\n";
	static const char *const want[] = { "kind: NodePool", "expireAfter: 2592000s",
		"consolidateAfter: 30s", "\"cpu\": \"1000\"", "weight: 10",
		"values: [\"spot\"]", "\"a\": \"b\"", "instanceProfile: \"x\"", "\"k\": \"v\"",
		"\"Name\": \"n\"", "- key: \"nvidia.com/gpu\"", "alias: al2023@latest" };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1U << 16);
	struct error err = ERROR_INIT;
	size_t n = 0;

	(void)state;
	assert_ok(make_translation(&b, "f", old, strlen(old), &n, &err), &err);
	assert_int_equal(n, 2);
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		if (!strstr(buf_str(&b), want[i]))
			fail_msg("no %s in\n%s", want[i], buf_str(&b));
	assert_null(strstr(buf_str(&b), "ON_DEMAND"));
	assert_null(strstr(buf_str(&b), "on-demand"));
	assert_null(strstr(buf_str(&b), "\"karpenter.sh/x\": "));
	assert_non_null(strstr(buf_str(&b),
		"# left out, as only Karpenter sets it: the tag \"karpenter.sh/x\""));
	assert_error(make_translation(&b, "f", "kind: Provisioner\n", 18, &n, &err), &err,
		"f:1:1: metadata.name: expected a name");
}

/* The translation keeps what the user had beside the Provisioner, and reports what was true by default. */
static void translation__keeps_machines_and_kubelet(void **state)
{
	static const char old[] =
		"apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: p}\nspec:\n"
		"  providerRef: {name: t}\n  consolidation: {enabled: true}\n  annotations: {note: m}\n"
		"  kubeletConfiguration: {maxPods: 110, containerRuntime: dockerd,\n"
		"    evictionHard: {memory.available: 5%}, clusterDNS: [10.0.1.100]}\n---\n"
		"apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: t}\n"
		"spec:\n  subnetSelector: {aws-ids: 'subnet-1, subnet-2'}\n  amiFamily: Bottlerocket\n"
		"  securityGroupSelector: {aws-ids: sg-1, team: x}\n  userData: |\n    [settings]\n"
		"  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 100Gi, encrypted: true}}]\n"
		"---\nkind: List\napiVersion: v1\nitems:\n"
		"- {apiVersion: karpenter.sh/v1alpha5, kind: Provisioner, metadata: {name: q},\n"
		"   spec: {provider: {amiSelector: {aws-ids: ami-1}, userData: '#!/bin/sh'}}}\n";
	static const char *const want[] = { "\n        name: \"t\"\n",
		"consolidationPolicy: WhenEmptyOrUnderutilized\n    consolidateAfter: 0s",
		"      annotations:\n        \"note\": \"m\"",
		"subnetSelectorTerms:\n  - id: \"subnet-1\"\n  - id: \"subnet-2\"\n  securityGroup",
		"  - id: \"sg-1\"\n  - tags:\n      \"team\": \"x\"\n",
		"alias: bottlerocket@latest", "  userData: \"[settings]\\x0a\"\n",
		"  - {\"deviceName\": \"/dev/xvda\", \"ebs\": {\"volumeSize\": \"100Gi\", \"encrypted\": true}}",
		("  kubelet:\n    maxPods: 110\n    evictionHard: {\"memory.available\": \"5%\"}\n"
		 "    clusterDNS:\n    - \"10.0.1.100\"\n"),
		"  amiFamily: AL2023\n  amiSelectorTerms:\n  - id: \"ami-1\"\n  # userData is left out",
		("      expireAfter: Never\n  disruption:\n    consolidationPolicy: WhenEmpty\n"
		 "    consolidateAfter: Never\n") };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1U << 16);
	struct error err = ERROR_INIT;
	size_t n = 0;

	(void)state;
	assert_ok(make_translation(&b, "f", old, strlen(old), &n, &err), &err);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		if (!strstr(buf_str(&b), want[i]))
			fail_msg("no %s in\n%s", want[i], buf_str(&b));
	assert_null(strstr(buf_str(&b), "dockerd"));
	assert_null(strstr(buf_str(&b), "#!/bin/sh"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pools__offer_slots_of_all_gpus),
		cmocka_unit_test(make_config__is_read_by_the_agent),
		cmocka_unit_test(pools__are_split_where_arrangements_differ),
		cmocka_unit_test(pools__count_pods_that_may_come_from_other_pools),
		cmocka_unit_test(pools__are_not_split_beyond_their_limit),
		cmocka_unit_test(pool_is_feasible__checks_bandwidth),
		cmocka_unit_test(make_overlays__request_shares_of_gpus),
		cmocka_unit_test(make_mig__tells_gpus_apart),
		cmocka_unit_test(make_quoted__escapes_special_characters),
		cmocka_unit_test(make_patch__depends_on_the_kind_of_object),
		cmocka_unit_test(make_patch__keeps_replicas_apart),
		cmocka_unit_test(translation__writes_todays_objects),
		cmocka_unit_test(translation__keeps_machines_and_kubelet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
