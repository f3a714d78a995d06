/* SPDX-License-Identifier: Apache-2.0 */
/* Files: everything except the workloads. */
#include "abi/slice-limits.h"

#include "io/price/price.h"
#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "tools/plan/input/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- measured costs of sharing --- */

static const struct input_key calibration_keys[] = {
	{ "gpu", input_gpu, offsetof(struct plan_calibration, gpu), 0, 0, NULL, false },
	{ "time_slicing", input_real, offsetof(struct plan_calibration, sigma_time_slicing), 0,
		10, NULL, false },
	{ "slices", input_real, offsetof(struct plan_calibration, sigma_fair_share), 0, 10,
		NULL, false },
	{ "mps_bandwidth", input_real, offsetof(struct plan_calibration, kappa), 0, 10, NULL,
		false },
};

static int input_calibration(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	struct plan_input *in = r->in;

	(void)to;
	if (n->type != YAML_LIST || in->policy.n_calibrations + n->n > PLAN_CALIBRATIONS_MAX)
		return input_fail(r, n, key->key, "a list of up to 64 objects with gpu");
	for (size_t i = 0; i < n->n; i++) {
		struct plan_calibration one = { NULL, NAN, NAN, NAN };

		if (input_object(r, n->items[i], key->key, calibration_keys,
			    ARRAY_LEN(calibration_keys), &one) < 0)
			return -1;
		if (!one.gpu)
			return input_fail(r, n->items[i], key->key, "an object with gpu");
		if (!ARRAY_EXTEND(&in->calibrations, in->policy.n_calibrations, 1,
			    PLAN_CALIBRATIONS_MAX))
			return error_nomem(r->err);
		in->calibrations[in->policy.n_calibrations++] = one;
		in->policy.calibrations = in->calibrations;
	}
	return 0;
}

/* --- policies, layouts, nodes --- */

#define VERSION    "gpuslice/plan/v1"
#define VALUES_MAX 1000000 /* of one file */

/* The defaults for settings that no file has. */
static const struct plan_policy default_policy = {
	.modes = 1U << PLAN_EXCLUSIVE | 1U << PLAN_TIME_SLICING | 1U << PLAN_SLICES |
		 1U << PLAN_MPS | 1U << PLAN_MIG,
	.capacities = 1U << PLAN_ON_DEMAND,
	.headroom = 0.05,
	.rho_max = 0.8,
	.max_slowdown = 1.5,
	.pods_per_gpu = 16,
	.context_mib = CUDA_CONTEXT_MIB,
};

static const char *const mode_words[] = { "exclusive", "time-slicing", "slices", "mps", "mig",
	NULL };
static const char *const capacity_words[] = { "on-demand", "spot", "mixed", NULL };

static int read_capacity_types(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	unsigned at;

	if (input_word(r, n, key, &at) < 0)
		return -1;
	*(unsigned *)to = at == 2 ? 1U << PLAN_ON_DEMAND | 1U << PLAN_SPOT : 1U << at;
	return 0;
}

static int read_slowdown(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	if (n->type == YAML_STR && !strcmp(n->text, "any")) {
		*(double *)to = 0;
		return 0;
	}
	return input_real(r, n, key, to);
}

#define AT(field) offsetof(struct plan_input, field)

/* An amount per hour, read exactly. Times PLAN_REPLICAS_MAX nodes it stays below the limit of sums. */
static int read_amount(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	int64_t *nano = to;

	if (n->type == YAML_LIST || n->type == YAML_OBJECT || n->type == YAML_NULL ||
		!price_parse(n->text, nano) || (double)*nano > key->max * PRICE_NANO)
		return input_fail(r, n, key->key,
			"an amount an hour from 0 to 90, such as 0.10");
	return 0;
}

static const struct input_key extras_keys[] = {
	{ "cluster_per_hour", read_amount, offsetof(struct plan_extras, cluster_nano), 0, 90,
		NULL, false },
	{ "node_per_hour", read_amount, offsetof(struct plan_extras, node_nano), 0, 90, NULL,
		false },
	{ "on_demand_share", input_real, offsetof(struct plan_extras, on_demand_share), 0, 1,
		NULL, false },
};

static int read_extras(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	return input_object(r, n, key->key, extras_keys, ARRAY_LEN(extras_keys), to);
}

static const struct input_key policy_keys[] = {
	{ "regions", input_texts, AT(regions), 0, 0, NULL, false },
	{ "capacity", read_capacity_types, AT(policy.capacities), 0, 0, capacity_words, false },
	{ "modes", input_words, AT(policy.modes), 0, 0, mode_words, false },
	{ "headroom", input_real, AT(policy.headroom), 0, 0.9, NULL, false },
	{ "rho_max", input_real, AT(policy.rho_max), 0, 0.99, NULL, true },
	{ "max_slowdown", read_slowdown, AT(policy.max_slowdown), 1, 1e6, NULL, false },
	{ "max_pods_per_gpu", input_count, AT(policy.pods_per_gpu), 1, PLAN_PODS_MAX, NULL,
		false },
	{ "max_gpus_per_instance", input_count, AT(gpus_per_instance), 1, PLAN_NODE_GPUS_MAX,
		NULL, false },
	{ "context_mib", input_count, AT(policy.context_mib), 0, 1e6, NULL, false },
	{ "instances", input_texts, AT(instances), 0, 0, NULL, false },
	{ "extras", read_extras, AT(extras), 0, 0, NULL, false },
	{ "only_nodes", input_bool, AT(only_have), 0, 0, NULL, false },
};

static int read_policy(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	(void)to;
	return input_object(r, n, key->key, policy_keys, ARRAY_LEN(policy_keys), r->in);
}

static const struct input_key layout_keys[] = {
	{ "instance", input_text, offsetof(struct plan_layout, instance), 0, 0, NULL, false },
	{ "capacity", input_word, offsetof(struct plan_layout, capacity), 0, 0,
		(const char *const[]){ "on-demand", "spot", NULL }, false },
	{ "mode", input_word, offsetof(struct plan_layout, mode), 0, 0, mode_words, false },
	{ "slices", input_count, offsetof(struct plan_layout, slices), 1, PLAN_PODS_MAX, NULL,
		false },
};

static int read_layout(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	struct plan_layout *l = to;

	*l = (struct plan_layout){ .mode = PLAN_TIME_SLICING, .slices = 1 };
	if (input_object(r, n, key->key, layout_keys, ARRAY_LEN(layout_keys), l) < 0)
		return -1;
	if (!l->instance)
		return input_fail(r, n, key->key, "an object with instance");
	return 0;
}

static const struct input_key node_keys[] = {
	{ "instance", input_text, offsetof(struct plan_have, instance), 0, 0, NULL, false },
	{ "count", input_count, offsetof(struct plan_have, count), 0, 100000, NULL, false },
};

static int read_nodes(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	struct plan_input *in = r->in;

	(void)to;
	if (n->type != YAML_LIST)
		return input_fail(r, n, key->key, "a list of objects with instance and count");
	for (size_t i = 0; i < n->n; i++) {
		struct plan_have have = { .count = 1 };

		if (input_object(r, n->items[i], key->key, node_keys, ARRAY_LEN(node_keys),
			    &have) < 0)
			return -1;
		if (!have.instance)
			return input_fail(r, n->items[i], key->key, "an object with instance");
		if (!ARRAY_GROW(&in->have, in->n_have, &in->room_have, ARRAY_NO_LIMIT))
			return error_nomem(r->err);
		in->have[in->n_have++] = have;
	}
	return 0;
}

static const struct input_key file_keys[] = {
	{ "version", NULL, 0, 0, 0, NULL, false },
	{ "workloads", input_workloads, 0, 0, 0, NULL, false },
	{ "policy", read_policy, 0, 0, 0, NULL, false },
	{ "layout", read_layout, AT(layout), 0, 0, NULL, false },
	{ "baseline", input_text, AT(baseline), 0, 0, NULL, false },
	{ "nodes", read_nodes, 0, 0, 0, NULL, false },
	{ "calibration", input_calibration, 0, 0, 0, NULL, false },
};

int plan_input_parse(struct plan_input *in, const char *name, const char *text, size_t len,
	struct error *err)
{
	const struct yaml_source src = { .name = name,
		.text = text,
		.len = len,
		.values_max = VALUES_MAX };
	const struct input_reader r = { in, &src, err };
	CLEANUP(yaml_freep) struct yaml *y = NULL;

	if (yaml_parse(&y, &src, err) < 0)
		return -1;
	if (!y->n)
		return error_set(err, ERR_INVALID,
			"%s:1:1: expected version: " VERSION ", found nothing", name);
	for (size_t i = 0; i < y->n; i++) {
		const struct yaml_node *version = yaml_get(y->docs[i], "version", false);

		if (yaml_get(y->docs[i], "kind", false) ||
			yaml_get(y->docs[i], "apiVersion", false)) {
			if (objects_read(&r, y->docs[i]) < 0)
				return -1;
			continue;
		}
		if (y->n == 1 && sharing_is_file(y->docs[i]))
			return sharing_read_file(&r, y->docs[i]);
		if (!version || version->type != YAML_STR ||
			strcmp(version->text, VERSION) != 0)
			return input_fail(&r, version ? version : y->docs[i], "version",
				VERSION);
		if (input_object(&r, y->docs[i], "file", file_keys, ARRAY_LEN(file_keys), in) <
			0)
			return -1;
	}
	return 0;
}

int plan_input_text(const char *path, struct buf *b, const char **name, struct error *err)
{
	bool standard_input = !strcmp(path, "-");

	*name = standard_input ? "standard input" : path;
	return standard_input ? fd_read_all(STDIN_FILENO, *name, b, err)
			      : file_read(path, b, err);
}

int plan_input_read(struct plan_input *in, const char *path, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(PLAN_FILE_MAX);
	const char *name;

	if (plan_input_text(path, &b, &name, err) < 0)
		return -1;
	return plan_input_parse(in, name, buf_str(&b), b.len, err);
}

int plan_input_new(struct plan_input **ret, struct error *err)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return error_nomem(err);
	(*ret)->policy = default_policy;
	return 0;
}

/* For manifests, the first note explains why an object was omitted. */
static int no_workloads(const struct plan_input *in, struct error *err)
{
	const struct plan_note *first = NULL;
	size_t n = 0;

	for (size_t i = 0; i < in->n_notes; i++) {
		if (strcmp(in->notes[i].code, "no-gpu") != 0)
			continue;
		first = first ? first : &in->notes[i];
		n++;
	}
	if (!first)
		return error_set(err, ERR_INVALID,
			"no workloads: expected workloads with a name each");
	return error_set(err, ERR_INVALID,
		"%s:%u: no workloads: %s%s; expected a limit of nvidia.com/gpu, nvidia.com/gpumem or "
		"a MIG profile such as nvidia.com/mig-1g.10gb",
		first->file, (unsigned)first->line, first->text,
		n > 1 ? ", as are others" : "");
}

int plan_input_end(struct plan_input *in, struct error *err)
{
	uint64_t replicas = 0;

	if (objects_end(in, err) < 0)
		return -1;
	if (!in->n_workloads)
		return no_workloads(in, err);
	for (size_t i = 0; i < in->n_workloads; i++)
		replicas += in->workloads[i].replicas;
	if (replicas > PLAN_REPLICAS_MAX)
		return error_set(err, ERR_LIMIT, "%llu replicas of all workloads; at most %d",
			(unsigned long long)replicas, PLAN_REPLICAS_MAX);
	if (!in->regions.n && strv_add(&in->regions, PRICE_USUAL_REGION, err) < 0)
		return -1;
	if (in->regions.n > PLAN_REGIONS_MAX)
		return error_set(err, ERR_LIMIT, "%zu regions; at most %d", in->regions.n,
			PLAN_REGIONS_MAX);
	if (!in->baseline) {
		in->baseline = in->layout.instance;
		in->baseline_found = in->layout_found;
	}
	return 0;
}

struct plan_input *plan_input_free(struct plan_input *in)
{
	if (!in)
		return NULL;
	strv_fini(&in->pool);
	strv_fini(&in->regions);
	strv_fini(&in->instances);
	free(in->workloads);
	free(in->calibrations);
	free(in->have);
	free(in->notes);
	free(in->objects);
	free(in->sharings);
	free(in->machines);
	free(in);
	return NULL;
}
