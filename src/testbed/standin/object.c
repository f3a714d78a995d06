/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/standin/object.h"

#include "lib/base/array.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void str_map_fini(struct str_map *m)
{
	for (size_t i = 0; i < m->n; i++) {
		free(m->v[i].key);
		free(m->v[i].value);
	}
	free(m->v);
	*m = (struct str_map){ 0 };
}

int str_map_set(struct str_map *m, const char *key, const char *value, struct error *err)
{
	CLEANUP(freep) char *k = NULL;
	CLEANUP(freep) char *v = strdup(value);

	if (!v)
		return error_nomem(err);
	for (size_t i = 0; i < m->n; i++) {
		if (strcmp(m->v[i].key, key) == 0) {
			free(m->v[i].value);
			m->v[i].value = STEAL_PTR(v);
			return 0;
		}
	}
	k = strdup(key);
	if (!k || !ARRAY_EXTEND(&m->v, m->n, 1, ARRAY_NO_LIMIT))
		return error_nomem(err);
	m->v[m->n++] = (struct str_pair){ .key = STEAL_PTR(k), .value = STEAL_PTR(v) };
	return 0;
}

void str_map_remove(struct str_map *m, const char *key)
{
	for (size_t i = 0; i < m->n; i++) {
		if (strcmp(m->v[i].key, key) != 0)
			continue;
		free(m->v[i].key);
		free(m->v[i].value);
		memmove(&m->v[i], &m->v[i + 1], (m->n - i - 1) * sizeof(*m->v));
		m->n--;
		return;
	}
}

const char *str_map_get(const struct str_map *m, const char *key)
{
	for (size_t i = 0; i < m->n; i++) {
		if (strcmp(m->v[i].key, key) == 0)
			return m->v[i].value;
	}
	return NULL;
}

bool str_map_covers(const struct str_map *have, const struct str_map *desired)
{
	for (size_t i = 0; i < desired->n; i++) {
		const char *value = str_map_get(have, desired->v[i].key);

		if (!value || strcmp(value, desired->v[i].value) != 0)
			return false;
	}
	return true;
}

bool taint_tolerated(const struct taint *t, const struct toleration *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (v[i].effect && strcmp(v[i].effect, t->effect) != 0)
			continue;
		if (v[i].key && strcmp(v[i].key, t->key) != 0)
			continue;
		if (v[i].exists || strcmp(v[i].value ? v[i].value : "", t->value) == 0)
			return true;
	}
	return false;
}

static void container_fini(struct container *c)
{
	free(c->name);
	free(c->image);
	for (size_t i = 0; i < c->n_requests; i++)
		free(c->requests[i].resource);
	free(c->requests);
	str_map_fini(&c->env);
}

struct pod_spec *pod_spec_ref(struct pod_spec *s)
{
	s->refs++;
	return s;
}

struct pod_spec *pod_spec_unref(struct pod_spec *s)
{
	if (!s || --s->refs > 0)
		return NULL;
	str_map_fini(&s->labels);
	str_map_fini(&s->node_selector);
	for (size_t i = 0; i < s->n_tolerations; i++) {
		free(s->tolerations[i].key);
		free(s->tolerations[i].value);
		free(s->tolerations[i].effect);
	}
	free(s->tolerations);
	for (size_t i = 0; i < s->n_containers; i++)
		container_fini(&s->containers[i]);
	free(s->containers);
	free(s->node_name);
	free(s);
	return NULL;
}

static uint64_t get_container_request(const struct container *c, const char *resource)
{
	for (size_t i = 0; i < c->n_requests; i++) {
		if (strcmp(c->requests[i].resource, resource) == 0)
			return c->requests[i].n;
	}
	return 0;
}

uint64_t pod_spec_request(const struct pod_spec *s, const char *resource)
{
	uint64_t app = 0, sidecars = 0, init_max = 0;

	for (size_t i = 0; i < s->n_containers; i++) {
		const struct container *c = &s->containers[i];
		uint64_t n = get_container_request(c, resource);

		if (c->sidecar)
			sidecars += n;
		else if (!c->init)
			app += n;
		if (c->init && !c->sidecar && sidecars + n > init_max)
			init_max = sidecars + n;
	}
	return app + sidecars > init_max ? app + sidecars : init_max;
}

int pod_spec_resources(const struct pod_spec *s, struct strv *ret, struct error *err)
{
	for (size_t i = 0; i < s->n_containers; i++) {
		for (size_t k = 0; k < s->containers[i].n_requests; k++) {
			const struct quantity *q = &s->containers[i].requests[k];

			if (q->n > 0 && !strv_has(ret, q->resource) &&
				strv_add(ret, q->resource, err) < 0)
				return -1;
		}
	}
	strv_sort(ret);
	return 0;
}

static bool map_equal(const struct str_map *a, const struct str_map *b)
{
	return a->n == b->n && str_map_covers(a, b);
}

static bool is_spec_text_equal(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool container_equal(const struct container *a, const struct container *b)
{
	if (!is_spec_text_equal(a->name, b->name) || !is_spec_text_equal(a->image, b->image) ||
		a->init != b->init || a->sidecar != b->sidecar ||
		a->n_requests != b->n_requests || !map_equal(&a->env, &b->env))
		return false;
	for (size_t i = 0; i < a->n_requests; i++) {
		if (get_container_request(b, a->requests[i].resource) != a->requests[i].n)
			return false;
	}
	return true;
}

bool pod_spec_equal(const struct pod_spec *a, const struct pod_spec *b)
{
	if (!map_equal(&a->labels, &b->labels) ||
		!map_equal(&a->node_selector, &b->node_selector) ||
		a->n_tolerations != b->n_tolerations || a->n_containers != b->n_containers ||
		a->restart_never != b->restart_never ||
		!is_spec_text_equal(a->node_name, b->node_name))
		return false;
	for (size_t i = 0; i < a->n_tolerations; i++) {
		const struct toleration *x = &a->tolerations[i], *y = &b->tolerations[i];

		if (!is_spec_text_equal(x->key, y->key) ||
			!is_spec_text_equal(x->value, y->value) ||
			!is_spec_text_equal(x->effect, y->effect) || x->exists != y->exists)
			return false;
	}
	for (size_t i = 0; i < a->n_containers; i++) {
		if (!container_equal(&a->containers[i], &b->containers[i]))
			return false;
	}
	return true;
}

void object_fini(struct object *o)
{
	free(o->name);
	free(o->namespace_);
	str_map_fini(&o->labels);
	str_map_fini(&o->selector);
	str_map_fini(&o->data);
	o->spec = pod_spec_unref(o->spec);
	*o = (struct object){ 0 };
}

static const struct kind_row {
	const char *arg;
	const char *forms[6]; /* forms on kubectl's command line */
} kinds[] = {
	[OBJECT_POD] = { "pod", { "pod", "pods", "po" } },
	[OBJECT_DEPLOYMENT] = { "deployment.apps",
		{ "deployment", "deployments", "deploy", "deployment.apps",
			"deployments.apps" } },
	[OBJECT_CONFIG_MAP] = { "configmap", { "configmap", "configmaps", "cm" } },
	[OBJECT_NAMESPACE] = { "namespace", { "namespace", "namespaces", "ns" } },
};

const char *object_kind_arg(enum object_kind kind)
{
	return kinds[kind].arg;
}

bool object_kind_parse(const char *text, enum object_kind *ret)
{
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		for (size_t i = 0; i < ARRAY_LEN(kinds[k].forms); i++) {
			if (kinds[k].forms[i] && strcasecmp(kinds[k].forms[i], text) == 0) {
				*ret = (enum object_kind)k;
				return true;
			}
		}
	}
	return false;
}

bool dns_name_valid(const char *name, bool dots)
{
	size_t len = strlen(name), start = 0;

	if (len == 0 || len > (dots ? OBJECT_NAME_MAX : OBJECT_LABEL_MAX))
		return false;
	for (size_t i = 0; i <= len; i++) {
		bool end = i == len || (dots && name[i] == '.');

		if (!end) {
			if (!islower((unsigned char)name[i]) &&
				!isdigit((unsigned char)name[i]) && name[i] != '-')
				return false;
			continue;
		}
		if (i == start || name[start] == '-' || name[i - 1] == '-')
			return false;
		start = i + 1;
	}
	return true;
}

/* ([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9], at most 63 */
static bool name_part_valid(const char *text, size_t len)
{
	if (len == 0 || len > OBJECT_LABEL_MAX || !isalnum((unsigned char)text[0]) ||
		!isalnum((unsigned char)text[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)text[i]) && !strchr("-_.", text[i]))
			return false;
	}
	return true;
}

bool label_key_valid(const char *key)
{
	char prefix[OBJECT_NAME_MAX + 1];
	const char *slash = strchr(key, '/');

	if (!slash)
		return name_part_valid(key, strlen(key));
	if ((size_t)(slash - key) >= sizeof(prefix))
		return false;
	memcpy(prefix, key, (size_t)(slash - key));
	prefix[slash - key] = '\0';
	return dns_name_valid(prefix, /* dots= */ true) &&
	       name_part_valid(slash + 1, strlen(slash + 1));
}

bool label_value_valid(const char *value)
{
	return !*value || name_part_valid(value, strlen(value));
}

bool extended_resource_valid(const char *name)
{
	char quota[OBJECT_NAME_MAX + OBJECT_LABEL_MAX + 16];
	int len;

	/* IsExtendedResourceName() of k8s.io/kubernetes/pkg/apis/core/v1/helper, 1.37 */
	if (!strchr(name, '/') || strstr(name, "kubernetes.io/") ||
		strncmp(name, "requests.", strlen("requests.")) == 0)
		return false;
	len = snprintf(quota, sizeof(quota), "requests.%s", name);
	return len > 0 && (size_t)len < sizeof(quota) && label_key_valid(quota);
}
