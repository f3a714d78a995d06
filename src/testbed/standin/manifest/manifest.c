/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/standin/manifest/manifest.h"

#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "testbed/standin/manifest/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct yaml_node *node_key(const struct yaml_node *n, const char *key)
{
	for (size_t i = 0; i < node_pairs(n); i++) {
		if (strcmp(n->pairs[i].key->text, key) == 0)
			return n->pairs[i].key;
	}
	return NULL;
}

/* "<file>:<line>:<column>: <fmt>", with control characters replaced. Returns -1. */
static int fail_at(const struct manifest_reader *r, const struct yaml_node *at,
	enum error_code code, const char *fmt, ...) PRINTF(4, 5);
static int fail_at(const struct manifest_reader *r, const struct yaml_node *at,
	enum error_code code, const char *fmt, ...)
{
	char text[ERROR_MSG_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *p = text; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	}
	if (!at)
		at = r->root;
	return error_set(r->err, code, "%s:%u:%u: %s", r->file, at->line, at->column, text);
}

int invalid_at(const struct manifest_reader *r, const struct yaml_node *at, const char *fmt,
	...)
{
	char text[ERROR_MSG_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return fail_at(r, at, ERR_INVALID, "%s \"%s\" is invalid: %s", r->kind, r->name, text);
}

int expect_type(const struct manifest_reader *r, const struct yaml_node *value,
	const struct yaml_node *key, enum yaml_type want, const char *path)
{
	enum yaml_type found = node_yaml_type(value);

	if (found == YAML_STR && want == YAML_STR && strlen(value->text) != value->len)
		return invalid_at(r, value, "%s: a NUL character in the text", path);
	if (found == YAML_NULL || found == want)
		return 0;
	if (want == YAML_STR &&
		(found == YAML_BOOL || found == YAML_INT || found == YAML_FLOAT))
		return invalid_at(r, value,
			"%s: expected string, found %s %.64s; put it in quotes: \"%.64s\"",
			path, yaml_type_name(found), node_text(value), node_text(value));
	return invalid_at(r, node_yaml_type(value) == YAML_STR ? value : key,
		"%s: expected %s, found %s", path, yaml_type_name(want), yaml_type_name(found));
}

int read_str(const struct manifest_reader *r, const struct yaml_node *parent, const char *key,
	const char *path, char **ret)
{
	const struct yaml_node *value = node_get(parent, key);

	*ret = NULL;
	if (expect_type(r, value, node_key(parent, key), YAML_STR, path) < 0)
		return -1;
	if (node_yaml_type(value) == YAML_NULL)
		return 0;
	*ret = strdup(node_text(value));
	return *ret ? 0 : error_nomem(r->err);
}

int read_str_map(const struct manifest_reader *r, const struct yaml_node *parent,
	const char *key, const char *path, bool labels, struct str_map *ret)
{
	const struct yaml_node *map = node_get(parent, key);
	char at[160];

	if (expect_type(r, map, node_key(parent, key), YAML_OBJECT, path) < 0)
		return -1;
	for (size_t i = 0; i < node_pairs(map); i++) {
		const struct yaml_node *k = map->pairs[i].key, *v = map->pairs[i].value;
		const char *name = node_text(k);

		(void)snprintf(at, sizeof(at), "%s[%.80s]", path, name);
		if (expect_type(r, v, k, YAML_STR, at) < 0)
			return -1;
		if (labels && !label_key_valid(name))
			return invalid_at(r, k,
				"%s: Invalid value: \"%.80s\": name part must "
				"consist of alphanumeric characters, '-', '_' or '.'",
				path, name);
		if (labels && !label_value_valid(node_text(v)))
			return invalid_at(r, v,
				"%s: Invalid value: \"%.80s\": a valid label must be "
				"an empty string or consist of at most 63 alphanumeric characters, "
				"'-', '_' or '.'",
				path, node_text(v));
		if (str_map_set(ret, name, node_text(v), r->err) < 0)
			return -1;
	}
	return 0;
}

/* Kinds that users apply together with gpuslice's, and that a plain cluster does not know, with hints. */
static const struct {
	const char *prefix; /* of apiVersion */
	const char *kind, *hint;
} foreign_kinds[] = {
	{ "eksctl.io/", "ClusterConfig",
		"this is input of 'eksctl create cluster', not of kubectl" },
	{ "karpenter.sh/v1alpha5", "Provisioner",
		"gone from Karpenter since 0.33; today it is a NodePool of karpenter.sh/v1" },
	{ "karpenter.sh/", "Provisioner",
		"a Provisioner existed in karpenter.sh/v1alpha5 only; today it is a NodePool of "
		"karpenter.sh/v1" },
	{ "karpenter", "", "needs Karpenter's CRDs" },
};

static int unknown_kind(const struct manifest_reader *r, const char *api_version)
{
	const char *hint = NULL;

	for (size_t i = 0; i < ARRAY_LEN(foreign_kinds) && !hint; i++) {
		size_t len = strlen(foreign_kinds[i].prefix);

		if (strncmp(api_version, foreign_kinds[i].prefix, len) == 0 &&
			(!*foreign_kinds[i].kind ||
				strcmp(r->kind, foreign_kinds[i].kind) == 0))
			hint = foreign_kinds[i].hint;
	}
	return fail_at(r, node_get(r->root, "kind"), ERR_UNSUPPORTED,
		"no matches for kind \"%.80s\" in version \"%.80s\" (name \"%s\")%s%s", r->kind,
		api_version, r->name,
		hint ? ": " : "; known here: Pod, Deployment, ConfigMap, Namespace, List",
		hint ? hint : "");
}

static const struct {
	const char *api_version;
	const char *kind;
	enum object_kind value;
} known_kinds[] = {
	{ "v1", "Pod", OBJECT_POD },
	{ "apps/v1", "Deployment", OBJECT_DEPLOYMENT },
	{ "v1", "ConfigMap", OBJECT_CONFIG_MAP },
	{ "v1", "Namespace", OBJECT_NAMESPACE },
};

static int read_metadata(const struct manifest_reader *r, struct object *o)
{
	const struct yaml_node *meta = node_get(r->root, "metadata"), *name;

	if (expect_type(r, meta, node_key(r->root, "metadata"), YAML_OBJECT, "metadata") < 0)
		return -1;
	name = node_get(meta, "name");
	if (node_yaml_type(name) == YAML_NULL)
		return invalid_at(r, node_key(r->root, "metadata"),
			"metadata.name: Required value: name or generateName is required");
	if (expect_type(r, name, node_key(meta, "name"), YAML_STR, "metadata.name") < 0)
		return -1;
	if (!dns_name_valid(node_text(name), /* dots= */ true))
		return invalid_at(r, name,
			"metadata.name: Invalid value: \"%.80s\": a lowercase RFC 1123 subdomain must "
			"consist of lower case alphanumeric characters, '-' or '.', and must start and "
			"end with an alphanumeric character",
			node_text(name));
	o->name = strdup(node_text(name));
	if (!o->name)
		return error_nomem(r->err);
	if (read_str(r, meta, "namespace", "metadata.namespace", &o->namespace_) < 0)
		return -1;
	if (o->namespace_ && !dns_name_valid(o->namespace_, /* dots= */ false))
		return invalid_at(r, node_get(meta, "namespace"),
			"metadata.namespace: Invalid value: \"%.80s\": a lowercase RFC 1123 label must "
			"consist of lower case alphanumeric characters or '-'",
			o->namespace_);
	if (!o->namespace_)
		o->namespace_ = strdup(o->kind == OBJECT_NAMESPACE ? "" : "default");
	if (!o->namespace_)
		return error_nomem(r->err);
	return read_str_map(r, meta, "labels", "metadata.labels", /* labels= */ true,
		&o->labels);
}

static int read_pod_object(const struct manifest_reader *r, struct object *o)
{
	struct str_map labels = { 0 };

	for (size_t i = 0; i < o->labels.n; i++) {
		if (str_map_set(&labels, o->labels.v[i].key, o->labels.v[i].value, r->err) <
			0) {
			str_map_fini(&labels);
			return -1;
		}
	}
	return read_pod_spec(r, r->root, "spec", &labels, /* template= */ false, &o->spec);
}

static int read_replica_count(const struct manifest_reader *r, const struct yaml_node *spec,
	uint32_t *ret)
{
	const struct yaml_node *node = node_get(spec, "replicas");
	int64_t n = 1;

	if (expect_type(r, node, node_key(spec, "replicas"), YAML_INT, "spec.replicas") < 0)
		return -1;
	if (node_yaml_type(node) == YAML_INT && !parse_i64(node_text(node), &n))
		n = -1;
	if (n < 0)
		return invalid_at(r, node,
			"spec.replicas: Invalid value: %s: must be greater than or equal to 0",
			node_text(node));
	if (n > MANIFEST_REPLICAS_MAX)
		return invalid_at(r, node,
			"spec.replicas: %s is more than the stand-in's limit of %d",
			node_text(node), MANIFEST_REPLICAS_MAX);
	*ret = (uint32_t)n;
	return 0;
}

static int read_selector(const struct manifest_reader *r, const struct yaml_node *spec,
	struct object *o)
{
	const struct yaml_node *selector = node_get(spec, "selector"), *node;

	if (node_yaml_type(selector) == YAML_NULL)
		return invalid_at(r, node_key(r->root, "spec"),
			"spec.selector: Required value (which pods belong to it: "
			"spec.selector.matchLabels, the same as spec.template.metadata.labels)");
	if (expect_type(r, selector, node_key(spec, "selector"), YAML_OBJECT, "spec.selector") <
		0)
		return -1;
	node = node_key(selector, "matchExpressions");
	if (node)
		return invalid_at(r, node,
			"spec.selector.matchExpressions: not supported by the "
			"stand-in, use matchLabels");
	if (read_str_map(r, selector, "matchLabels", "spec.selector.matchLabels",
		    /* labels= */ true, &o->selector) < 0)
		return -1;
	if (o->selector.n == 0)
		return invalid_at(r, node_key(spec, "selector"),
			"spec.selector: Invalid value: {}: empty selector is invalid for deployment");
	return 0;
}

static int read_deployment(const struct manifest_reader *r, struct object *o)
{
	const struct yaml_node *spec = node_get(r->root, "spec"), *template, *meta;
	struct str_map labels = { 0 };
	int rc;

	if (expect_type(r, spec, node_key(r->root, "spec"), YAML_OBJECT, "spec") < 0 ||
		read_replica_count(r, spec, &o->replicas) < 0 || read_selector(r, spec, o) < 0)
		return -1;
	template = node_get(spec, "template");
	if (node_yaml_type(template) == YAML_NULL)
		return invalid_at(r, node_key(r->root, "spec"),
			"spec.template: Required value");
	if (expect_type(r, template, node_key(spec, "template"), YAML_OBJECT, "spec.template") <
		0)
		return -1;
	meta = node_get(template, "metadata");
	if (expect_type(r, meta, node_key(template, "metadata"), YAML_OBJECT,
		    "spec.template.metadata") < 0)
		return -1;
	rc = read_str_map(r, meta, "labels", "spec.template.metadata.labels",
		/* labels= */ true, &labels);
	if (rc == 0 && !str_map_covers(&labels, &o->selector))
		rc = invalid_at(r, node_key(spec, "template"),
			"spec.template.metadata.labels: Invalid value: `selector` does not match "
			"template `labels`");
	if (rc < 0) {
		str_map_fini(&labels);
		return -1;
	}
	return read_pod_spec(r, template, "spec.template.spec", &labels, /* template= */ true,
		&o->spec);
}

static int read_config_map(const struct manifest_reader *r, struct object *o)
{
	size_t total = 0;

	if (read_str_map(r, r->root, "data", "data", /* labels= */ false, &o->data) < 0)
		return -1;
	for (size_t i = 0; i < o->data.n; i++) {
		const char *key = o->data.v[i].key;

		total += strlen(o->data.v[i].value);
		/* A key becomes a file name in the volume. */
		if (!*key || strlen(key) > OBJECT_NAME_MAX || strcmp(key, ".") == 0 ||
			strncmp(key, "..", 2) == 0 ||
			strspn(key,
				"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				"-_.") != strlen(key))
			return invalid_at(r, node_key(node_get(r->root, "data"), key),
				"data[%.80s]: Invalid value: a valid config key must consist of "
				"alphanumeric characters, '-', '_' or '.'",
				key);
	}
	if (total > 1U << 20)
		return invalid_at(r, node_key(r->root, "data"),
			"data: Too long: may not be more than 1048576 bytes");
	return 0;
}

static int read_object_body(const struct manifest_reader *r, struct object *o)
{
	o->line = r->root->line;
	o->column = r->root->column;
	if (read_metadata(r, o) < 0)
		return -1;
	switch (o->kind) {
	case OBJECT_POD:
		return read_pod_object(r, o);
	case OBJECT_DEPLOYMENT:
		return read_deployment(r, o);
	case OBJECT_CONFIG_MAP:
		return read_config_map(r, o);
	case OBJECT_NAMESPACE:
		return 0;
	}
	return error_set(r->err, ERR_INTERNAL, "kind %d", (int)o->kind);
}

struct manifest_collect {
	const char *file;
	struct manifest *m;
	size_t room; /* of .m->objects */
};

static int add_object(struct manifest_collect *c, struct object **ret, struct error *err)
{
	if (c->m->n == MANIFEST_OBJECTS_MAX)
		return error_set(err, ERR_LIMIT, "%s: more than %d objects", c->file,
			MANIFEST_OBJECTS_MAX);
	if (!ARRAY_GROW(&c->m->objects, c->m->n, &c->room, MANIFEST_OBJECTS_MAX))
		return error_nomem(err);
	*ret = &c->m->objects[c->m->n++];
	**ret = (struct object){ .kind = OBJECT_POD };
	return 0;
}

static int read_yaml_document(struct manifest_collect *c, const struct yaml_node *root,
	int depth, struct error *err);

static int read_list_items(struct manifest_collect *c, const struct yaml_node *root, int depth,
	struct error *err)
{
	const struct yaml_node *items = node_get(root, "items");

	for (size_t i = 0; i < node_items(items); i++) {
		if (read_yaml_document(c, items->items[i], depth + 1, err) < 0)
			return -1;
	}
	return 0;
}

/* kubectl's own checks, before it asks an API server. */
static int read_type_meta(struct manifest_reader *r, const char **ret_api_version)
{
	const struct yaml_node *api_version = node_get(r->root, "apiVersion");
	const struct yaml_node *kind = node_get(r->root, "kind");
	const char *want = NULL;

	if (node_yaml_type(r->root) != YAML_OBJECT)
		return fail_at(r, NULL, ERR_INVALID, "expected a Kubernetes object, found %s",
			yaml_type_name(node_yaml_type(r->root)));
	if (node_yaml_type(kind) != YAML_STR)
		return fail_at(r, NULL, ERR_INVALID, "Object 'Kind' is missing: kind not set");
	r->kind = node_text(kind);
	if (node_yaml_type(api_version) == YAML_STR) {
		*ret_api_version = node_text(api_version);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(known_kinds) && !want; i++) {
		if (strcmp(known_kinds[i].kind, r->kind) == 0)
			want = known_kinds[i].api_version;
	}
	if (!want)
		return fail_at(r, NULL, ERR_INVALID,
			"error validating data: apiVersion not set");
	return fail_at(r, NULL, ERR_INVALID,
		"error validating data: apiVersion not set (a %s is \"apiVersion: %s\")",
		r->kind, want);
}

static int read_yaml_document(struct manifest_collect *c, const struct yaml_node *root,
	int depth, struct error *err)
{
	struct manifest_reader r = { .file = c->file, .root = root, .err = err };
	const char *api_version = "", *name;
	struct object *o = NULL;

	if (read_type_meta(&r, &api_version) < 0)
		return -1;
	if (strcmp(api_version, "v1") == 0 && strcmp(r.kind, "List") == 0) {
		if (depth >= 4)
			return error_set(err, ERR_LIMIT, "%s: a List in a List in a List",
				c->file);
		return read_list_items(c, root, depth, err);
	}
	name = node_text(node_get(node_get(root, "metadata"), "name"));
	(void)snprintf(r.name, sizeof(r.name), "%s", name);
	for (size_t i = 0; i < ARRAY_LEN(known_kinds); i++) {
		if (strcmp(known_kinds[i].kind, r.kind) != 0 ||
			strcmp(known_kinds[i].api_version, api_version) != 0)
			continue;
		if (add_object(c, &o, err) < 0)
			return -1;
		o->kind = known_kinds[i].value;
		return read_object_body(&r, o);
	}
	return unknown_kind(&r, api_version);
}

struct manifest *manifest_free(struct manifest *m)
{
	if (!m)
		return NULL;
	for (size_t i = 0; i < m->n; i++)
		object_fini(&m->objects[i]);
	free(m->objects);
	free(m);
	return NULL;
}

int manifest_parse(struct manifest **ret, const char *name, const char *text, size_t len,
	struct error *err)
{
	CLEANUP(manifest_freep) struct manifest *m = calloc(1, sizeof(*m));
	CLEANUP(yaml_freep) struct yaml *y = NULL;
	const struct yaml_source source = { .name = name, .text = text, .len = len };
	struct manifest_collect c = { .file = name, .m = m };

	if (!m)
		return error_nomem(err);
	if (len > MANIFEST_FILE_MAX)
		return error_set(err, ERR_LIMIT, "%s: longer than %u bytes", name,
			MANIFEST_FILE_MAX);
	if (yaml_parse(&y, &source, err) < 0)
		return -1;
	for (size_t i = 0; i < y->n; i++) {
		if (y->docs[i]->type != YAML_NULL &&
			read_yaml_document(&c, y->docs[i], /* depth= */ 0, err) < 0)
			return -1;
	}
	if (m->n == 0)
		return error_set(err, ERR_INVALID, "%s: no objects in it", name);
	*ret = STEAL_PTR(m);
	return 0;
}

static int read_manifest_stdin(struct buf *b, struct error *err)
{
	char chunk[65536];

	for (;;) {
		ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_sys(err, errno, "read standard input");
		if (n == 0)
			return 0;
		buf_add(b, chunk, (size_t)n);
		if (!buf_ok(b))
			return error_set(err, ERR_LIMIT, "standard input: longer than %u bytes",
				MANIFEST_FILE_MAX);
	}
}

int manifest_load(struct manifest **ret, const char *path, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MANIFEST_FILE_MAX);
	bool from_stdin = strcmp(path, "-") == 0;

	if ((from_stdin ? read_manifest_stdin(&b, err) : file_read(path, &b, err)) < 0)
		return -1;
	return manifest_parse(ret, from_stdin ? "STDIN" : path, buf_str(&b), b.len, err);
}
