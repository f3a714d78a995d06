/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/array.h"
#include "lib/base/parse.h"
#include "model/mig/layout.h"
#include "model/mig/profile.h"
#include "model/offer/offer.h"
#include "tools/plan/gpus/gpus.h"
#include "tools/plan/input/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Objects that run pods: the number of pods, and the request of each. */

#define GPUMEM "nvidia.com/gpumem" /* HAMi: MiB of each GPU */

static const struct {
	const char *kind, *spec, *replicas, *word;
	enum plan_kind runs;
} kinds[] = {
	{ "Pod", "spec", "", "pod", PLAN_OPEN },
	{ "Job", "spec.template.spec", "spec.parallelism", "job", PLAN_BATCH },
	{ "CronJob", "spec.jobTemplate.spec.template.spec", "spec.jobTemplate.spec.parallelism",
		"cronjob", PLAN_BATCH },
	{ "StatefulSet", "spec.template.spec", "spec.replicas", "statefulset", PLAN_OPEN },
	{ "ReplicaSet", "spec.template.spec", "spec.replicas", "replicaset", PLAN_OPEN },
	{ "ReplicationController", "spec.template.spec", "spec.replicas",
		"replicationcontroller", PLAN_OPEN },
	{ "Deployment", "spec.template.spec", "spec.replicas", "deployment", PLAN_OPEN },
};
#define KIND_OTHER (ARRAY_LEN(kinds) - 1) /* handled as a Deployment */

/* --- requests --- */

/* A container's request for @key: its requests, else its limits, as Kubernetes fills them in. */
static const struct yaml_node *find_container_resource(const struct yaml_node *container,
	const char *key)
{
	static const char *const where[] = { "resources.requests", "resources.limits" };

	for (size_t i = 0; i < ARRAY_LEN(where); i++) {
		const struct yaml_node *list = object_at(container, where[i]), *value;

		value = list && list->type == YAML_OBJECT ? yaml_get(list, key, false) : NULL;
		if (value && value->type != YAML_NULL)
			return value;
	}
	return NULL;
}

struct workload_request {
	uint32_t cpu_milli, memory_mib;
};

static int read_container_request(const struct input_reader *r,
	const struct yaml_node *container, struct workload_request *ret)
{
	static const struct input_key cpu = { .key = "cpu", .max = 1e4 };
	static const struct input_key memory = { .key = "memory", .max = 1e8 };
	const struct yaml_node *n = find_container_resource(container, "cpu");

	*ret = (struct workload_request){ 0, 0 };
	if (n && input_cpu(r, n, &cpu, &ret->cpu_milli) < 0)
		return -1;
	n = find_container_resource(container, "memory");
	return n ? input_mib(r, n, &memory, &ret->memory_mib) : 0;
}

static uint32_t add_request_saturating(uint32_t a, uint32_t b)
{
	return a > UINT32_MAX - 1 - b ? UINT32_MAX - 1 : a + b;
}

static bool is_sidecar(const struct yaml_node *container)
{
	const char *policy = object_get_text(container, "restartPolicy");

	return policy && !strcmp(policy, "Always");
}

/* Containers run together; init containers run before, one by one. */
static int read_requests(const struct input_reader *r, const struct yaml_node *spec,
	struct plan_workload *w)
{
	static const char *const lists[] = { "containers", "initContainers" };
	struct workload_request sum = { 0, 0 }, most = { 0, 0 };

	for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
		struct yaml_node **items = NULL;
		size_t n = object_list(spec, lists[k], &items);

		for (size_t i = 0; i < n; i++) {
			struct workload_request one;

			if (read_container_request(r, items[i], &one) < 0)
				return -1;
			if (!k || is_sidecar(items[i])) {
				sum.cpu_milli =
					add_request_saturating(sum.cpu_milli, one.cpu_milli);
				sum.memory_mib =
					add_request_saturating(sum.memory_mib, one.memory_mib);
				continue;
			}
			if (one.cpu_milli > most.cpu_milli)
				most.cpu_milli = one.cpu_milli;
			if (one.memory_mib > most.memory_mib)
				most.memory_mib = one.memory_mib;
		}
	}
	w->cpu_milli = sum.cpu_milli > most.cpu_milli ? sum.cpu_milli : most.cpu_milli;
	w->memory_mib = sum.memory_mib > most.memory_mib ? sum.memory_mib : most.memory_mib;
	return 0;
}

/* --- GPUs --- */

static int read_resource_count(const struct input_reader *r, const struct yaml_node *n,
	const char *key, uint32_t *ret)
{
	int64_t v;
	uint32_t from_text;

	if (yaml_integer(n, &v) && v >= 0 && v <= UINT32_MAX) {
		*ret = (uint32_t)v;
		return 0;
	}
	if (n->type == YAML_STR && parse_u32(n->text, &from_text)) {
		*ret = from_text;
		return 0;
	}
	return input_fail(r, n, key, "a whole number");
}

/* The memory of a MIG profile, on any GPU with it, even one that cannot be planned. 0: no GPU has it. */
static uint64_t profile_memory_mib(const struct mig_profile *profile)
{
	for (size_t g = 0; g < plan_n_gpus; g++) {
		const struct mig_layout *m = plan_gpus[g].mig;
		int at = m ? mig_layout_find(m, profile, NULL) : -1;

		if (at >= 0)
			return m->profiles[at].memory_mib;
	}
	for (size_t i = 0; i < plan_n_mig_profiles; i++)
		if (mig_profile_equal(&plan_mig_profiles[i].name, profile))
			return plan_mig_profiles[i].memory_mib;
	return 0;
}

/* The profile in a resource's name: "1g.10gb", or "1g.10gb.me", since names of resources have no "+". */
static bool profile_of_resource(const char *text, struct mig_profile *ret)
{
	struct error ignored = ERROR_INIT;
	char word[MIG_PROFILE_NAME_MAX];

	for (size_t i = 0; i < plan_n_mig_profiles; i++) {
		*ret = plan_mig_profiles[i].name;
		mig_profile_word(ret, word);
		if (!strcmp(word, text))
			return true;
	}
	return mig_profile_parse(ret, text, &ignored) == 0;
}

/* The workload needs the profile's memory without the headroom and without the memory of the CUDA context. */
static int read_mig_resource(const struct input_reader *r, const struct yaml_node *n,
	const char *key, struct plan_workload *w)
{
	const struct plan_policy *p = &r->in->policy;
	struct mig_profile profile;
	uint64_t memory_mib = 0;

	if (profile_of_resource(key + sizeof(OFFER_MIG) - 1, &profile))
		memory_mib = profile_memory_mib(&profile);
	if (memory_mib) {
		w->mem_peak_mib.v = (double)memory_mib * (1 - p->headroom) - p->context_mib;
		w->mem_peak_mib.known = w->mem_peak_mib.v > 0;
		w->mem_peak_mib.origin = PLAN_DERIVED;
		w->isolation = PLAN_HARDWARE;
		return 0;
	}
	return input_fail(r, n, key,
		"a MIG profile that some GPU has, such as nvidia.com/mig-1g.10gb");
}

/* The first resource that looks like a GPU or another accelerator; NULL: none. For pods without a counted
 * NVIDIA resource. */
static const char *foreign_gpu(const struct yaml_node *spec)
{
	static const char *const words[] = { "gpu", "neuron", "tpu", "habana", "npu" };
	struct yaml_node **items = NULL;
	size_t n = object_list(spec, "containers", &items);

	for (size_t i = 0; i < n; i++) {
		const struct yaml_node *limits = object_at(items[i], "resources.limits");

		for (size_t k = 0; limits && limits->type == YAML_OBJECT && k < limits->n;
			k++) {
			const char *key = yaml_as_text(limits->pairs[k].key);

			if (!strcmp(yaml_as_text(limits->pairs[k].value), "0"))
				continue;
			for (size_t w = 0; strchr(key, '/') && w < ARRAY_LEN(words); w++)
				if (strstr(key, words[w]))
					return key;
		}
	}
	return NULL;
}

static int read_resource(const struct input_reader *r, const struct yaml_node *key_node,
	const struct yaml_node *value, struct plan_workload *w)
{
	const char *key = yaml_as_text(key_node);
	uint32_t count = 0;

	if (strncmp(key, "nvidia.com/", sizeof("nvidia.com/") - 1) != 0)
		return 0;
	if (value->type == YAML_NULL || read_resource_count(r, value, key, &count) < 0)
		return value->type == YAML_NULL ? 0 : -1;
	if (!strcmp(key, GPUMEM)) {
		w->mem_peak_mib = (struct plan_number){ count, PLAN_DERIVED, true };
		if (w->isolation < PLAN_MEMORY)
			w->isolation = PLAN_MEMORY;
		return 0;
	}
	if (!count)
		return 0;
	if (!w->object_resource) {
		w->object_resource = input_store_text(r, key);
		if (!w->object_resource)
			return -1;
	}
	if (!strncmp(key, OFFER_MIG, sizeof(OFFER_MIG) - 1))
		return read_mig_resource(r, value, key, w);
	/* Slots do not add up: two of them are not two GPUs. */
	if (!strcmp(key, OFFER_GPU))
		w->gpus = add_request_saturating(w->gpus, count);
	return 0;
}

static int read_gpu_resources(const struct input_reader *r, const struct yaml_node *spec,
	struct plan_workload *w)
{
	struct yaml_node **items = NULL;
	size_t n = object_list(spec, "containers", &items);

	w->gpus = 0;
	for (size_t i = 0; i < n; i++) {
		const struct yaml_node *limits = object_at(items[i], "resources.limits");
		const char *name = object_get_text(items[i], "name");
		bool had = w->object_resource != NULL;

		if (!limits || limits->type != YAML_OBJECT)
			limits = object_at(items[i], "resources.requests");
		if (!limits || limits->type != YAML_OBJECT)
			continue;
		for (size_t k = 0; k < limits->n; k++)
			if (read_resource(r, limits->pairs[k].key, limits->pairs[k].value, w) <
				0)
				return -1;
		if (had || !w->object_resource || !name)
			continue;
		w->object_container = input_store_text(r, name);
		if (!w->object_container)
			return -1;
	}
	if (w->gpus > PLAN_NODE_GPUS_MAX)
		return input_fail(r, spec, OFFER_GPU, "at most 16 for a pod");
	if (!w->gpus)
		w->gpus = 1;
	return 0;
}

/* --- placement --- */

static int read_node_placement(const struct input_reader *r, const struct yaml_node *spec,
	struct plan_workload *w)
{
	const struct yaml_node *selector = object_at(spec, "nodeSelector");
	const struct yaml_node *product, *type;
	struct yaml_node **terms = NULL;
	const struct plan_gpu *g;

	if (object_list(spec,
		    "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
		    &terms))
		w->anti_affinity = w->object_apart = true;
	if (!selector || selector->type != YAML_OBJECT)
		return 0;
	product = yaml_get(selector, "nvidia.com/gpu.product", false);
	type = yaml_get(selector, "node.kubernetes.io/instance-type", false);
	if (product && product->type == YAML_STR) {
		g = plan_gpu_find(product->text);
		if (g)
			w->gpus_allowed = UINT64_C(1) << (g - plan_gpus);
		else if (input_add_note(r, product, "unknown-gpu",
				 "'%.60s' is no GPU that is known here: any is taken",
				 product->text) < 0)
			return -1;
	}
	if (type && type->type == YAML_STR)
		return input_add_note(r, type, "tied-to-type",
			"it may only be on %.60s: the plan looks further, so take that away or say "
			"policy.instances",
			type->text);
	return 0;
}

/* --- the object --- */

static bool is_object_name_taken(const struct plan_input *in, const char *name)
{
	for (size_t i = 0; i < in->n_objects; i++)
		if (!strcmp(in->objects[i].name, name))
			return true;
	return false;
}

/* The object's name, with the namespace if another object has the same name. */
static int read_object_name(const struct input_reader *r, const struct yaml_node *o,
	const char **ret)
{
	static const struct input_key key = { .key = "metadata.name" };
	const struct yaml_node *name = object_at(o, "metadata.name");
	const char *space = object_get_text(o, "metadata.namespace");
	char both[PLAN_NAME_MAX], clean[PLAN_NAME_MAX];

	if (!name)
		return input_fail(r, o, "metadata", "an object with a name");
	if (input_text(r, name, &key, ret) < 0)
		return -1;
	if (!is_object_name_taken(r->in, *ret))
		return 0;
	if ((size_t)snprintf(both, sizeof(both), "%s/%s",
		    object_clean(space ? space : "default", clean, sizeof(clean)),
		    *ret) >= sizeof(both) ||
		is_object_name_taken(r->in, both))
		return yaml_fail(r->src, name->line, name->column, ERR_INVALID, r->err,
			"'%s': another object here has that name and namespace", *ret);
	*ret = input_store_text(r, both);
	return *ret ? 0 : -1;
}

static int read_space(const struct input_reader *r, const struct yaml_node *o, const char **ret)
{
	const char *space = object_get_text(o, "metadata.namespace");
	char clean[PLAN_NAME_MAX];

	*ret = space ? input_store_text(r, object_clean(space, clean, sizeof(clean))) : NULL;
	return space && !*ret ? -1 : 0;
}

static int add_workload_object(const struct input_reader *r, const struct yaml_node *o,
	struct plan_workload *w)
{
	w->line = o->line;
	w->file = input_store_text(r, r->src->name);
	if (!w->file)
		return -1;
	if (r->in->n_objects == PLAN_WORKLOADS_MAX)
		return yaml_fail(r->src, o->line, o->column, ERR_LIMIT, r->err,
			"expected at most %d workloads", PLAN_WORKLOADS_MAX);
	if (!ARRAY_GROW(&r->in->objects, r->in->n_objects, &r->in->room_objects,
		    PLAN_WORKLOADS_MAX))
		return error_nomem(r->err);
	r->in->objects[r->in->n_objects++] = *w;
	return 0;
}

static int add_no_gpu_note(const struct input_reader *r, const struct yaml_node *o,
	const struct yaml_node *spec, const char *name)
{
	const char *foreign = foreign_gpu(spec);

	if (foreign)
		return input_add_note(r, o, "no-gpu",
			"'%s' asks for %.80s, which is no GPU that is known here: left out",
			name, foreign);
	return input_add_note(r, o, "no-gpu", "'%s' asks for no GPU: left out", name);
}

int object_workload(const struct input_reader *r, const struct yaml_node *o, const char *kind)
{
	static const struct input_key replicas = { .key = "replicas",
		.max = PLAN_REPLICAS_MAX };
	struct plan_workload w = { .replicas = 1, .gpus_allowed = UINT64_MAX };
	const struct yaml_node *spec, *count;
	size_t k = 0;

	while (k < KIND_OTHER && strcmp(kinds[k].kind, kind) != 0)
		k++;
	w.kind = kinds[k].runs;
	w.object_kind = kinds[k].word;
	if (read_object_name(r, o, &w.name) < 0 || read_space(r, o, &w.object_space) < 0)
		return -1;
	if (!strcmp(kind, "DaemonSet"))
		return input_add_note(r, o, "daemon-set",
			"'%s' is on each node, so how many there are is not known: left out",
			w.name);
	spec = object_at(o, kinds[k].spec);
	if (!spec || spec->type != YAML_OBJECT)
		return input_fail(r, o, kinds[k].spec, "the spec of a pod");
	count = *kinds[k].replicas ? object_at(o, kinds[k].replicas) : NULL;
	if (count && count->type != YAML_NULL &&
		input_count(r, count, &replicas, &w.replicas) < 0)
		return -1;
	if (read_requests(r, spec, &w) < 0 || read_gpu_resources(r, spec, &w) < 0 ||
		read_node_placement(r, spec, &w) < 0)
		return -1;
	if (!w.object_resource && !w.mem_peak_mib.known)
		return add_no_gpu_note(r, o, spec, w.name);
	if ((k == KIND_OTHER || !strcmp(kind, "ReplicaSet") || !strcmp(kind, "StatefulSet")) &&
		!object_at(o, "spec.selector") &&
		input_add_note(r, o, "no-selector",
			"'%s' has no spec.selector: every API server refuses it ('spec.selector: Required "
			"value')",
			w.name) < 0)
		return -1;
	return add_workload_object(r, o, &w);
}
