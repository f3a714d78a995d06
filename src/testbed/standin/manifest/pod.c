/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a pod spec: containers, their resources and variables, tolerations (internal.h). */
#include "testbed/standin/manifest/internal.h"

#include "lib/base/array.h"
#include "lib/base/parse.h"
#include "testbed/standin/manifest/manifest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PATH_MAX_ 192

/* Resources of core Kubernetes, which the stand-in does not count. */
static bool native_resource(const char *name)
{
	static const char *const names[] = { "cpu", "memory", "ephemeral-storage", "storage" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	return strncmp(name, "hugepages-", strlen("hugepages-")) == 0 ||
	       strstr(name, "kubernetes.io/") != NULL;
}

/* "3000m" is 3. */
static bool read_milli(const char *text, uint64_t *ret)
{
	size_t len = strlen(text);
	char digits[16];

	if (len < 2 || len > sizeof(digits) || text[len - 1] != 'm')
		return false;
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)(len - 1), text);
	if (!parse_u64(digits, ret) || *ret % 1000 != 0)
		return false;
	*ret /= 1000;
	return true;
}

/* A quantity of an extended resource: "1", 1, "2k"; whole and not negative. */
static int read_quantity(const struct manifest_reader *r, const struct yaml_node *value,
	const struct yaml_node *key, const char *path, uint32_t *ret)
{
	enum yaml_type type = node_yaml_type(value);
	const char *text = node_text(value);
	uint64_t n;
	double d;

	if (type != YAML_INT && type != YAML_FLOAT && type != YAML_STR)
		return invalid_at(r, key, "%s: expected quantity, found %s", path,
			yaml_type_name(type));
	if (text[0] == '-')
		return invalid_at(r, value,
			"%s: Invalid value: \"%.40s\": must be greater than or equal to 0",
			path, text);
	if (!parse_bytes(text, &n) && !read_milli(text, &n)) {
		if (parse_double(text, &d) && d < MANIFEST_QUANTITY_MAX) /* as "500m" */
			return invalid_at(r, value,
				"%s: Invalid value: \"%.0fm\": must be an integer", path,
				ceil(d * 1000));
		if (parse_double(text, &d) || (*text && text[strlen(text) - 1] == 'm'))
			return invalid_at(r, value,
				"%s: Invalid value: \"%.40s\": must be an integer", path, text);
		return invalid_at(r, value,
			"%s: Invalid value: \"%.40s\": quantities must match the "
			"regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
			path, text);
	}
	if (n > MANIFEST_QUANTITY_MAX)
		return invalid_at(r, value, "%s: %.40s is more than the stand-in's limit of %d",
			path, text, MANIFEST_QUANTITY_MAX);
	*ret = (uint32_t)n;
	return 0;
}

static int add_want(const struct manifest_reader *r, struct container *c, const char *resource,
	uint32_t n)
{
	char *name = strdup(resource);

	if (!name || !ARRAY_EXTEND(&c->requests, c->n_requests, 1, ARRAY_NO_LIMIT)) {
		free(name);
		return error_nomem(r->err);
	}
	c->requests[c->n_requests++] = (struct quantity){ .resource = name, .n = n };
	return 0;
}

static int read_resource_limits(const struct manifest_reader *r, const struct yaml_node *limits,
	const char *path, struct container *c)
{
	char at[2 * PATH_MAX_];
	uint32_t n = 0;

	for (size_t p = 0; p < node_pairs(limits); p++) {
		const struct yaml_node *k = limits->pairs[p].key, *v = limits->pairs[p].value;
		const char *name = node_text(k);

		if (native_resource(name))
			continue;
		(void)snprintf(at, sizeof(at), "%s.limits[%.80s]", path, name);
		if (!strchr(name, '/'))
			return invalid_at(r, k,
				"%s: Invalid value: \"%.80s\": must be a standard resource type or fully "
				"qualified",
				at, name);
		if (!extended_resource_valid(name))
			return invalid_at(r, k,
				"%s: Invalid value: \"%.80s\": doesn't follow extended "
				"resource name standard",
				at, name);
		if (c->n_requests == 64)
			return invalid_at(r, k, "%s: more than 64 extended resources", path);
		if (read_quantity(r, v, k, at, &n) < 0 || add_want(r, c, name, n) < 0)
			return -1;
	}
	return 0;
}

/* Requests of an extended resource are optional; if given, they equal the limit. */
static int check_requests(const struct manifest_reader *r, const struct yaml_node *requests,
	const char *path, const struct container *c)
{
	char at[2 * PATH_MAX_];
	uint32_t n = 0;

	for (size_t p = 0; p < node_pairs(requests); p++) {
		const struct yaml_node *k = requests->pairs[p].key,
				       *v = requests->pairs[p].value;
		const char *name = node_text(k);
		const struct quantity *limit = NULL;

		if (native_resource(name))
			continue;
		(void)snprintf(at, sizeof(at), "%s.requests[%.80s]", path, name);
		if (read_quantity(r, v, k, at, &n) < 0)
			return -1;
		for (size_t i = 0; i < c->n_requests && !limit; i++) {
			if (strcmp(c->requests[i].resource, name) == 0)
				limit = &c->requests[i];
		}
		if (!limit)
			return invalid_at(r, k,
				"%s.limits: Required value: Limit must be set for non overcommitable "
				"resources (%.80s)",
				path, name);
		if (limit->n != n)
			return invalid_at(r, v,
				"%s.requests: Invalid value: \"%u\": must be equal to "
				"%.80s limit of %u",
				path, n, name, limit->n);
	}
	return 0;
}

/* Variables with a value; ignores those with valueFrom. */
static int read_container_env(const struct manifest_reader *r, const struct yaml_node *node,
	const char *path, struct str_map *ret)
{
	const struct yaml_node *list = node_get(node, "env");
	char at[PATH_MAX_ + 32];

	(void)snprintf(at, sizeof(at), "%s.env", path);
	if (expect_type(r, list, node_key(node, "env"), YAML_LIST, at) < 0)
		return -1;
	if (node_items(list) > MANIFEST_ENV_MAX)
		return invalid_at(r, list, "%s: more than %d", at, MANIFEST_ENV_MAX);
	for (size_t i = 0; i < node_items(list); i++) {
		const struct yaml_node *item = list->items[i];
		CLEANUP(freep) char *name = NULL;
		CLEANUP(freep) char *value = NULL;

		(void)snprintf(at, sizeof(at), "%s.env[%zu]", path, i);
		if (expect_type(r, item, NULL, YAML_OBJECT, at) < 0)
			return -1;
		(void)snprintf(at, sizeof(at), "%s.env[%zu].name", path, i);
		if (read_str(r, item, "name", at, &name) < 0)
			return -1;
		if (!name || !*name)
			return invalid_at(r, item, "%s: Required value", at);
		(void)snprintf(at, sizeof(at), "%s.env[%zu].value", path, i);
		if (read_str(r, item, "value", at, &value) < 0)
			return -1;
		if (!node_get(item, "valueFrom") &&
			str_map_set(ret, name, value ? value : "", r->err) < 0)
			return -1;
	}
	return 0;
}

static int read_pod_container(const struct manifest_reader *r, const struct yaml_node *node,
	const char *path, bool init, struct container *ret)
{
	const struct yaml_node *resources, *limits, *requests;
	char at[PATH_MAX_ + 32];

	ret->init = init;
	(void)snprintf(at, sizeof(at), "%s.name", path);
	if (expect_type(r, node, NULL, YAML_OBJECT, path) < 0 ||
		read_str(r, node, "name", at, &ret->name) < 0)
		return -1;
	if (!ret->name)
		return invalid_at(r, node, "%s: Required value", at);
	if (!dns_name_valid(ret->name, /* dots= */ false))
		return invalid_at(r, node_get(node, "name"),
			"%s: Invalid value: \"%.80s\": a lowercase RFC 1123 label must consist of lower "
			"case alphanumeric characters or '-'",
			at, ret->name);
	(void)snprintf(at, sizeof(at), "%s.image", path);
	if (read_str(r, node, "image", at, &ret->image) < 0)
		return -1;
	if (!ret->image || !*ret->image)
		return invalid_at(r, node, "%s: Required value", at);
	ret->sidecar =
		init && strcmp(node_text(node_get(node, "restartPolicy")), "Always") == 0;

	(void)snprintf(at, sizeof(at), "%s.resources", path);
	resources = node_get(node, "resources");
	limits = node_get(resources, "limits");
	requests = node_get(resources, "requests");
	if (expect_type(r, resources, node_key(node, "resources"), YAML_OBJECT, at) < 0 ||
		expect_type(r, limits, node_key(resources, "limits"), YAML_OBJECT, at) < 0 ||
		expect_type(r, requests, node_key(resources, "requests"), YAML_OBJECT, at) <
			0 ||
		read_resource_limits(r, limits, at, ret) < 0 ||
		check_requests(r, requests, at, ret) < 0)
		return -1;
	return read_container_env(r, node, path, &ret->env);
}

static int read_containers(const struct manifest_reader *r, const struct yaml_node *spec,
	const char *key, const char *path, bool init, struct pod_spec *s)
{
	const struct yaml_node *list = node_get(spec, key);
	char at[PATH_MAX_];
	size_t n;

	(void)snprintf(at, sizeof(at), "%s.%s", path, key);
	if (expect_type(r, list, node_key(spec, key), YAML_LIST, at) < 0)
		return -1;
	n = node_items(list);
	if (n == 0)
		return init ? 0 : invalid_at(r, node_key(spec, key), "%s: Required value", at);
	if (n > MANIFEST_CONTAINERS_MAX)
		return invalid_at(r, list, "%s: more than %d", at, MANIFEST_CONTAINERS_MAX);
	if (!ARRAY_EXTEND(&s->containers, s->n_containers, n, ARRAY_NO_LIMIT))
		return error_nomem(r->err);
	for (size_t i = 0; i < n; i++) {
		const struct yaml_node *item = list->items[i];
		struct container *c = &s->containers[s->n_containers++];

		*c = (struct container){ 0 };
		(void)snprintf(at, sizeof(at), "%s.%s[%zu]", path, key, i);
		if (read_pod_container(r, item, at, init, c) < 0)
			return -1;
		for (size_t k = 0; k + 1 < s->n_containers; k++) {
			if (strcmp(s->containers[k].name, c->name) == 0)
				return invalid_at(r, node_get(item, "name"),
					"%s.name: Duplicate value: \"%s\"", at, c->name);
		}
	}
	return 0;
}

static int read_toleration(const struct manifest_reader *r, const struct yaml_node *node,
	const char *path, struct toleration *t)
{
	CLEANUP(freep) char *op = NULL;
	char at[PATH_MAX_ + 16];

	if (expect_type(r, node, NULL, YAML_OBJECT, path) < 0)
		return -1;
	(void)snprintf(at, sizeof(at), "%s.key", path);
	if (read_str(r, node, "key", at, &t->key) < 0)
		return -1;
	(void)snprintf(at, sizeof(at), "%s.value", path);
	if (read_str(r, node, "value", at, &t->value) < 0)
		return -1;
	(void)snprintf(at, sizeof(at), "%s.effect", path);
	if (read_str(r, node, "effect", at, &t->effect) < 0)
		return -1;
	if (t->effect && strcmp(t->effect, "NoSchedule") != 0 &&
		strcmp(t->effect, "PreferNoSchedule") != 0 &&
		strcmp(t->effect, "NoExecute") != 0)
		return invalid_at(r, node_get(node, "effect"),
			"%s: Unsupported value: \"%.60s\": supported values: \"NoSchedule\", "
			"\"PreferNoSchedule\", \"NoExecute\"",
			at, t->effect);
	(void)snprintf(at, sizeof(at), "%s.operator", path);
	if (read_str(r, node, "operator", at, &op) < 0)
		return -1;
	t->exists = op && strcmp(op, "Exists") == 0;
	if (op && !t->exists && strcmp(op, "Equal") != 0)
		return invalid_at(r, node_get(node, "operator"),
			"%s: Unsupported value: \"%.60s\": supported values: \"Equal\", \"Exists\"",
			at, op);
	if (!t->key && !t->exists)
		return invalid_at(r, node,
			"%s: Invalid value: \"\": operator must be Exists when "
			"`key` is empty, which means \"match all values and all keys\"",
			at);
	return 0;
}

static int read_tolerations(const struct manifest_reader *r, const struct yaml_node *spec,
	const char *path, struct pod_spec *s)
{
	const struct yaml_node *list = node_get(spec, "tolerations");
	char at[PATH_MAX_];
	size_t n;

	(void)snprintf(at, sizeof(at), "%s.tolerations", path);
	if (expect_type(r, list, node_key(spec, "tolerations"), YAML_LIST, at) < 0)
		return -1;
	n = node_items(list);
	if (n == 0)
		return 0;
	s->tolerations = calloc(n, sizeof(*s->tolerations));
	if (!s->tolerations)
		return error_nomem(r->err);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(at, sizeof(at), "%s.tolerations[%zu]", path, i);
		s->n_tolerations++;
		if (read_toleration(r, list->items[i], at, &s->tolerations[i]) < 0)
			return -1;
	}
	return 0;
}

static int read_restart_policy(const struct manifest_reader *r, const struct yaml_node *spec,
	const char *path, bool template, struct pod_spec *s)
{
	CLEANUP(freep) char *policy = NULL;
	char at[PATH_MAX_];

	(void)snprintf(at, sizeof(at), "%s.restartPolicy", path);
	if (read_str(r, spec, "restartPolicy", at, &policy) < 0)
		return -1;
	if (!policy || strcmp(policy, "Always") == 0)
		return 0;
	if (template)
		return invalid_at(r, node_get(spec, "restartPolicy"),
			"%s: Unsupported value: \"%.60s\": supported values: \"Always\"", at,
			policy);
	s->restart_never = strcmp(policy, "Never") == 0;
	if (!s->restart_never && strcmp(policy, "OnFailure") != 0)
		return invalid_at(r, node_get(spec, "restartPolicy"),
			"%s: Unsupported value: \"%.60s\": supported values: \"Always\", \"OnFailure\", "
			"\"Never\"",
			at, policy);
	return 0;
}

int read_pod_spec(const struct manifest_reader *r, const struct yaml_node *parent,
	const char *path, struct str_map *labels, bool template, struct pod_spec **ret)
{
	CLEANUP(pod_spec_unrefp) struct pod_spec *s = calloc(1, sizeof(*s));
	const struct yaml_node *spec = node_get(parent, "spec");
	char at[PATH_MAX_];

	if (!s) {
		str_map_fini(labels);
		return error_nomem(r->err);
	}
	s->refs = 1;
	s->labels = *labels;
	*labels = (struct str_map){ 0 };
	if (expect_type(r, spec, node_key(parent, "spec"), YAML_OBJECT, path) < 0 ||
		read_containers(r, spec, "initContainers", path, /* init= */ true, s) < 0 ||
		read_containers(r, spec, "containers", path, /* init= */ false, s) < 0)
		return -1;
	(void)snprintf(at, sizeof(at), "%s.nodeSelector", path);
	if (read_str_map(r, spec, "nodeSelector", at, /* labels= */ true, &s->node_selector) <
			0 ||
		read_tolerations(r, spec, path, s) < 0 ||
		read_restart_policy(r, spec, path, template, s) < 0)
		return -1;
	(void)snprintf(at, sizeof(at), "%s.nodeName", path);
	if (read_str(r, spec, "nodeName", at, &s->node_name) < 0)
		return -1;
	*ret = STEAL_PTR(s);
	return 0;
}
