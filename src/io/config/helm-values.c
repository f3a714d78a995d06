/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/helm-values.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define PATH_KEYS_MAX 3

/* The place of the configs in each chart, and of the name of a ConfigMap that replaces them. */
static const struct chart_config_path {
	const char *configs[PATH_KEYS_MAX], *name[PATH_KEYS_MAX]; /* keys from the top level */
} places[] = {
	{ { "config", "map" }, { "config", "name" } },
	{ { "devicePlugin", "config", "data" }, { "devicePlugin", "config", "name" } },
};

/* Top-level keys that only values files have. Flag names are not in the list: a config with `migStrategy`
 * at the top level must give the error that the key belongs below `flags`. */
static const char *const chart_keys[] = { "affinity", "allowDefaultNamespace",
	"compatWithCPUManager", "config", "devicePlugin", "fullnameOverride", "image",
	"imagePullSecrets", "legacyDaemonsetAPI", "migManager", "nameOverride",
	"namespaceOverride", "nfd", "nodeSelector", "operator", "priorityClassName",
	"runtimeClassName", "tolerations", "toolkit", "updateStrategy" };

/* Top-level keys that only configs have. `resources` is a key of both. */
static const char *const config_keys[] = { "version", "flags", "sharing", "imex", "health" };

/* The first key of @n that is in @keys; NULL: none. */
static const struct yaml_node *find_any_key(const struct yaml_node *n, const char *const *keys,
	size_t n_keys)
{
	for (size_t i = 0; i < n->n; i++)
		for (size_t k = 0; k < n_keys; k++)
			if (!strcmp(n->pairs[i].key->text, keys[k]))
				return n->pairs[i].key;
	return NULL;
}

static const struct yaml_node *value_at(const struct yaml_node *n,
	const char *const path[PATH_KEYS_MAX])
{
	for (size_t i = 0; i < PATH_KEYS_MAX && path[i] && n; i++)
		n = n->type == YAML_OBJECT ? yaml_get(n, path[i], false) : NULL;
	return n;
}

/* @above: the key of a subchart, or NULL. */
static const struct yaml_node *configs_of(const struct yaml_node *n, const char *above,
	char ret_path[HELM_PATH_MAX])
{
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		const char *const *path = places[i].configs;
		const struct yaml_node *found = value_at(n, path);

		if (!found || found->type != YAML_OBJECT || !found->n)
			continue;
		(void)snprintf(ret_path, HELM_PATH_MAX, "%.60s%s%s.%s%s%s", above ? above : "",
			above ? "." : "", path[0], path[1], path[2] ? "." : "",
			path[2] ? path[2] : "");
		return found;
	}
	return NULL;
}

bool helm_values(const struct yaml_node *n, const struct yaml_node **ret_configs,
	char ret_path[HELM_PATH_MAX])
{
	*ret_configs = NULL;
	ret_path[0] = '\0';
	if (n->type != YAML_OBJECT || find_any_key(n, config_keys, ARRAY_LEN(config_keys)))
		return false;
	*ret_configs = configs_of(n, NULL, ret_path);
	for (size_t i = 0; i < n->n && !*ret_configs; i++)
		*ret_configs = configs_of(n->pairs[i].value, n->pairs[i].key->text, ret_path);
	return *ret_configs || find_any_key(n, chart_keys, ARRAY_LEN(chart_keys));
}

int helm_values_empty(const struct yaml_node *n, const struct yaml_source *src,
	struct error *err)
{
	const struct yaml_node *key = find_any_key(n, chart_keys, ARRAY_LEN(chart_keys));

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		const struct yaml_node *name = value_at(n, places[i].name);

		if (name && name->type == YAML_STR && *name->text)
			return yaml_fail(src, name->line, name->column, ERR_INVALID, err,
				"this is a values file of a Helm chart, which names a ConfigMap and "
				"holds no config; check that one: kubectl get configmap %.80s -o yaml "
				"| gpuslice config check -",
				name->text);
	}
	assert(key); /* helm_values() found a chart key */
	return yaml_fail(src, key->line, key->column, ERR_INVALID, err,
		"'%.60s' is a key of the values file of a Helm chart, which has its configs below "
		"config.map (the GPU operator: devicePlugin.config.data); found no config there",
		key->text);
}
