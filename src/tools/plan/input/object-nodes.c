/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config/choice.h"
#include "tools/plan/input/internal.h"
#include "lib/base/array.h"

#include <stdlib.h>
#include <string.h>

/* Objects that create nodes: Karpenter's pools, eksctl's groups. Wrong or obsolete parts in them become
 * notes. */

#define AUTO_MODE_GROUP "eks.amazonaws.com"
#define INSTANCE_TYPE   "node.kubernetes.io/instance-type"

static int add_machine(const struct input_reader *r, const struct yaml_node *n,
	const char *instance, const char *sharing, enum plan_capacity capacity)
{
	struct plan_input *in = r->in;
	struct plan_machine m = { .line = n->line, .capacity = capacity };
	char clean[PLAN_NAME_MAX];

	if (in->n_machines == PLAN_FOUND_MAX)
		return yaml_fail(r->src, n->line, n->column, ERR_LIMIT, r->err,
			"expected at most %d instance types", PLAN_FOUND_MAX);
	m.instance = input_store_text(r, object_clean(instance, clean, sizeof(clean)));
	m.file = input_store_text(r, r->src->name);
	if (!m.instance || !m.file ||
		!ARRAY_GROW(&in->machines, in->n_machines, &in->room_machines, PLAN_FOUND_MAX))
		return error_nomem(r->err);
	if (sharing) {
		m.sharing = input_store_text(r, object_clean(sharing, clean, sizeof(clean)));
		if (!m.sharing)
			return -1;
	}
	in->machines[in->n_machines++] = m;
	return 0;
}

/* --- Karpenter --- */

/* Fields of a Provisioner that a NodePool lacks, or that never existed; .text has the replacement. Users
 * copy such fields into a NodePool, where an API server refuses them. */
static const struct {
	const char *path, *code, *text;
} gone[] = {
	{ "spec.constraints", "no-such-field",
		"spec.constraints was never a field: requirements is, in spec.template.spec of a NodePool" },
	{ "spec.requirements", "moved",
		"spec.requirements is spec.template.spec.requirements now" },
	{ "spec.labels", "moved", "spec.labels is spec.template.metadata.labels now" },
	{ "spec.annotations", "moved",
		"spec.annotations is spec.template.metadata.annotations now" },
	{ "spec.taints", "moved", "spec.taints is spec.template.spec.taints now" },
	{ "spec.startupTaints", "moved",
		"spec.startupTaints is spec.template.spec.startupTaints now" },
	{ "spec.limits.resources", "moved", "spec.limits.resources.X is spec.limits.X now" },
	{ "spec.provider", "moved",
		"spec.provider is an object of its own now, an EC2NodeClass" },
	{ "spec.providerRef", "moved",
		"spec.providerRef is spec.template.spec.nodeClassRef now" },
	{ "spec.ttlSecondsAfterEmpty", "moved",
		"ttlSecondsAfterEmpty is disruption.consolidationPolicy: WhenEmpty and consolidateAfter now" },
	{ "spec.ttlSecondsUntilExpired", "moved",
		"ttlSecondsUntilExpired is spec.template.spec.expireAfter now" },
	{ "spec.consolidation", "moved",
		"spec.consolidation is disruption.consolidationPolicy now" },
	{ "spec.kubeletConfiguration", "moved",
		"spec.kubeletConfiguration is spec.kubelet of the EC2NodeClass now" },
};

static int add_al2_note(const struct input_reader *r, const struct yaml_node *at)
{
	return input_add_note(r, at, "ended",
		"images of the family AL2 ended on 2025-11-26: amiSelectorTerms: [{alias: "
		"al2023@VERSION}]");
}

static int add_moved_notes(const struct input_reader *r, const struct yaml_node *o)
{
	for (size_t i = 0; i < ARRAY_LEN(gone); i++) {
		const struct yaml_node *at = object_at(o, gone[i].path);

		if (at && input_add_note(r, at, gone[i].code, "%s", gone[i].text) < 0)
			return -1;
	}
	return 0;
}

/* Nodes of EKS Auto Mode have a built-in device plugin, which cannot be turned off or configured. */
static int add_node_class_note(const struct input_reader *r, const struct yaml_node *o)
{
	const struct yaml_node *ref = object_at(o, "spec.template.spec.nodeClassRef");
	const char *group = object_get_text(ref, "group");

	if (ref && (!group || !object_get_text(ref, "kind") || !object_get_text(ref, "name")))
		return input_add_note(r, ref, "node-class",
			"nodeClassRef has a group, a kind and a name: group: karpenter.k8s.aws, "
			"kind: EC2NodeClass");
	if (!group || strcmp(group, AUTO_MODE_GROUP) != 0)
		return 0;
	return input_add_note(r, ref, "auto-mode",
		"nodes of EKS Auto Mode have NVIDIA's device plugin built in, which cannot be turned "
		"off and does not share GPUs: what the plan shares takes a node group, or a NodePool "
		"with an EC2NodeClass");
}

/* Whether a requirement excludes instances that the plan may choose nevertheless. */
static bool is_not_read(const struct yaml_node *requirement)
{
	static const char *const prefixes[] = { "karpenter.k8s.aws/instance-",
		AUTO_MODE_GROUP "/instance-", "nvidia.com/", "topology.kubernetes.io/" };
	const char *key = object_get_text(requirement, "key"),
		   *operator= object_get_text(requirement, "operator");

	for (size_t k = 0; key && k < ARRAY_LEN(prefixes); k++)
		if (!strncmp(key, prefixes[k], strlen(prefixes[k])))
			return true;
	return key && operator&& !strcmp(key, INSTANCE_TYPE) && strcmp(operator, "In") != 0;
}

/* The reader knows only instance types: the plan may choose others than the remaining requirements allow. */
static int add_requirement_notes(const struct input_reader *r,
	const struct yaml_node *requirements)
{
	char clean[PLAN_NAME_MAX];

	for (size_t i = 0;
		requirements && requirements->type == YAML_LIST && i < requirements->n; i++) {
		const struct yaml_node *q = requirements->items[i];

		if (is_not_read(q) &&
			input_add_note(r, q, "requirement",
				"%s is not read, so the plan may have other instances: list them in "
				"policy.instances, or as " INSTANCE_TYPE " (In) here",
				object_clean(object_get_text(q, "key"), clean, sizeof(clean))) <
				0)
			return -1;
	}
	return 0;
}

/* Karpenter obeys these limits; the plan does not. */
static int add_limits_note(const struct input_reader *r, const struct yaml_node *o)
{
	const struct yaml_node *limits = object_at(o, "spec.limits");
	CLEANUP(buf_fini) struct buf keys = BUF_INIT(PLAN_NAME_MAX);

	for (size_t i = 0; limits && limits->type == YAML_OBJECT && i < limits->n; i++) {
		const char *key = yaml_as_text(limits->pairs[i].key);

		if (strcmp(key, "resources") != 0) /* the old form: moved */
			buf_printf(&keys, "%s%s", keys.len ? ", " : "", key);
	}
	if (!keys.len)
		return 0;
	return input_add_note(r, limits, "limit",
		"the limits of this pool (%s) are not read: the plan may have more than Karpenter starts "
		"nodes for",
		buf_ok(&keys) ? buf_str(&keys) : "many");
}

static int add_provisioner_note(const struct input_reader *r, const struct yaml_node *o)
{
	const char *version = object_get_text(o, "apiVersion");
	const char *family = object_get_text(o, "spec.provider.amiFamily");

	if (version && !strcmp(version, "karpenter.sh/v1alpha5")) {
		if (input_add_note(r, o, "gone",
			    "Provisioner karpenter.sh/v1alpha5 is gone: NodePool karpenter.sh/v1 is in its place") <
			0)
			return -1;
	} else if (
		input_add_note(r, o, "never-was",
			"Provisioner never had this apiVersion; it was karpenter.sh/v1alpha5, and NodePool "
			"karpenter.sh/v1 is in its place") < 0) {
		return -1;
	}
	return family && !strcmp(family, "AL2")
		       ? add_al2_note(r, object_at(o, "spec.provider.amiFamily"))
		       : 0;
}

struct karpenter_pool {
	const struct yaml_node *labels, *requirements;
	enum plan_capacity capacity;
	const char *sharing;
};

static int read_pool_capacity(const struct input_reader *r, const struct yaml_node *n,
	struct karpenter_pool *p)
{
	char clean[64];

	if (!strcmp(n->text, "spot"))
		p->capacity = PLAN_SPOT;
	else if (strcmp(n->text, "on-demand") != 0 && strcmp(n->text, "reserved") != 0)
		return input_add_note(r, n, "capacity-type",
			"karpenter.sh/capacity-type is spot, on-demand or reserved, not '%s'",
			object_clean(n->text, clean, sizeof(clean)));
	return 0;
}

/* The sharing config that nodes with these labels select; NULL: none. */
static const char *label_text(const struct yaml_node *labels)
{
	const struct yaml_node *n = labels && labels->type == YAML_OBJECT
					    ? yaml_get(labels, CONFIG_NODE_LABEL, false)
					    : NULL;

	return n && n->type == YAML_STR ? n->text : NULL;
}

static int read_pool_labels(const struct input_reader *r, struct karpenter_pool *p)
{
	const struct yaml_node *capacity;

	if (!p->labels || p->labels->type != YAML_OBJECT)
		return 0;
	p->sharing = label_text(p->labels);
	capacity = yaml_get(p->labels, "karpenter.sh/capacity-type", false);
	if (!capacity || capacity->type != YAML_STR)
		return 0;
	if (input_add_note(r, capacity, "label-forbidden",
		    "karpenter.sh/capacity-type is Karpenter's own label: make it a requirement") <
		0)
		return -1;
	return read_pool_capacity(r, capacity, p);
}

/* The values that a requirement on @key allows. */
static size_t values_of(const struct karpenter_pool *p, const char *key,
	struct yaml_node ***values)
{
	for (size_t i = 0;
		p->requirements && p->requirements->type == YAML_LIST && i < p->requirements->n;
		i++) {
		const struct yaml_node *q = p->requirements->items[i];
		const char *is = object_get_text(q, "key"),
			   *operator= object_get_text(q, "operator");

		if (is && operator&& !strcmp(is, key) && !strcmp(operator, "In"))
			return object_list(q, "values", values);
	}
	return 0;
}

int object_node_pool(const struct input_reader *r, const struct yaml_node *o, const char *kind)
{
	bool old = !strcmp(kind, "Provisioner");
	struct karpenter_pool p = {
		.labels = object_at(o, old ? "spec.labels" : "spec.template.metadata.labels"),
		.requirements = object_at(o,
			old ? "spec.requirements" : "spec.template.spec.requirements"),
		.capacity = PLAN_ON_DEMAND,
	};
	struct yaml_node **values = NULL;
	size_t n;

	if ((old ? add_provisioner_note(r, o) : add_node_class_note(r, o)) < 0 ||
		add_moved_notes(r, o) < 0)
		return -1;
	if (old && !p.requirements)
		p.requirements = object_at(o, "spec.constraints");
	if (read_pool_labels(r, &p) < 0 || add_requirement_notes(r, p.requirements) < 0 ||
		add_limits_note(r, o) < 0)
		return -1;
	n = values_of(&p, "karpenter.sh/capacity-type", &values);
	if (n == 1 && values[0]->type == YAML_STR && read_pool_capacity(r, values[0], &p) < 0)
		return -1;
	n = values_of(&p, INSTANCE_TYPE, &values);
	for (size_t i = 0; i < n; i++)
		if (values[i]->type == YAML_STR &&
			add_machine(r, values[i], values[i]->text, p.sharing, p.capacity) < 0)
			return -1;
	return 0;
}

int object_node_template(const struct input_reader *r, const struct yaml_node *o,
	const char *kind)
{
	const char *family = object_get_text(o, "spec.amiFamily");

	(void)kind;
	if (input_add_note(r, o, "gone",
		    "AWSNodeTemplate is gone: EC2NodeClass karpenter.k8s.aws/v1 is in its place") <
		0)
		return -1;
	return family && !strcmp(family, "AL2")
		       ? add_al2_note(r, object_at(o, "spec.amiFamily"))
		       : 0;
}

/* --- eksctl --- */

int object_eksctl(const struct input_reader *r, const struct yaml_node *o, const char *kind)
{
	static const char *const lists[] = { "managedNodeGroups", "nodeGroups" };
	const char *region = object_get_text(o, "metadata.region");
	char clean[PLAN_NAME_MAX];

	(void)kind;
	if (region && !r->in->regions.n &&
		strv_add(&r->in->regions, object_clean(region, clean, sizeof(clean)), r->err) <
			0)
		return -1;
	for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
		struct yaml_node **groups = NULL, **types = NULL;
		size_t n = object_list(o, lists[k], &groups);

		for (size_t i = 0; i < n; i++) {
			const struct yaml_node *spot = object_at(groups[i], "spot");
			enum plan_capacity capacity = spot && spot->type == YAML_BOOL && spot->b
							      ? PLAN_SPOT
							      : PLAN_ON_DEMAND;
			const char *one = object_get_text(groups[i], "instanceType");
			const char *sharing = label_text(object_at(groups[i], "labels"));
			size_t n_types = object_list(groups[i], "instanceTypes", &types);

			if (one && add_machine(r, groups[i], one, sharing, capacity) < 0)
				return -1;
			for (size_t t = 0; t < n_types; t++)
				if (types[t]->type == YAML_STR &&
					add_machine(r, types[t], types[t]->text, sharing,
						capacity) < 0)
					return -1;
		}
	}
	return 0;
}
