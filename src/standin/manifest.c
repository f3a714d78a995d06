/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/manifest.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"
#include "standin/manifest-internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int invalid_at(const struct reading *r, struct fy_node *at, const char *fmt, ...)
{
	char text[ERROR_MSG_MAX];
	uint32_t line, column;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	doc_pos(at, r->root, &line, &column);
	return error_set(r->err, ERR_INVALID, "%s:%u:%u: %s \"%s\" is invalid: %s", r->file,
		line, column, r->kind, r->name, text);
}

int expect_type(const struct reading *r, struct fy_node *value, struct fy_node *key,
	enum doc_type want, const char *path)
{
	enum doc_type found = doc_type(value);

	if (found == DOC_NULL || found == want)
		return 0;
	if (want == DOC_STRING && (found == DOC_BOOL || found == DOC_INT || found == DOC_FLOAT))
		return invalid_at(r, value,
			"%s: expected string, found %s %.64s; put it in quotes: \"%.64s\"",
			path, doc_type_name(found), doc_text(value), doc_text(value));
	return invalid_at(r, doc_type(value) == DOC_STRING ? value : key,
		"%s: expected %s, found %s", path, doc_type_name(want), doc_type_name(found));
}

int read_str(const struct reading *r, struct fy_node *parent, const char *key, const char *path,
	char **ret)
{
	struct fy_node *value = doc_get(parent, key);

	*ret = NULL;
	if (expect_type(r, value, doc_key(parent, key), DOC_STRING, path) < 0)
		return -1;
	if (doc_type(value) == DOC_NULL)
		return 0;
	*ret = strdup(doc_text(value));
	return *ret ? 0 : error_nomem(r->err);
}

int read_str_map(const struct reading *r, struct fy_node *parent, const char *key,
	const char *path, bool labels, struct str_map *ret)
{
	struct fy_node *map = doc_get(parent, key), *k, *v;
	char at[160];
	void *iter = NULL;

	if (expect_type(r, map, doc_key(parent, key), DOC_MAP, path) < 0)
		return -1;
	while (doc_pair(map, &iter, &k, &v)) {
		const char *name = doc_text(k);

		(void)snprintf(at, sizeof(at), "%s[%.80s]", path, name);
		if (expect_type(r, v, k, DOC_STRING, at) < 0)
			return -1;
		if (labels && !label_key_valid(name))
			return invalid_at(r, k,
				"%s: Invalid value: \"%.80s\": name part must "
				"consist of alphanumeric characters, '-', '_' or '.'",
				path, name);
		if (labels && !label_value_valid(doc_text(v)))
			return invalid_at(r, v,
				"%s: Invalid value: \"%.80s\": a valid label must be "
				"an empty string or consist of at most 63 alphanumeric characters, "
				"'-', '_' or '.'",
				path, doc_text(v));
		if (str_map_set(ret, name, doc_text(v), r->err) < 0)
			return -1;
	}
	return 0;
}

/* Kinds that users apply beside ours and that no plain cluster knows, with what is known of them. */
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

static int unknown_kind(const struct reading *r, const char *api_version)
{
	const char *hint = NULL;
	uint32_t line, column;

	for (size_t i = 0; i < ARRAY_LEN(foreign_kinds) && !hint; i++) {
		size_t len = strlen(foreign_kinds[i].prefix);

		if (strncmp(api_version, foreign_kinds[i].prefix, len) == 0 &&
			(!*foreign_kinds[i].kind ||
				strcmp(r->kind, foreign_kinds[i].kind) == 0))
			hint = foreign_kinds[i].hint;
	}
	doc_pos(doc_get(r->root, "kind"), r->root, &line, &column);
	return error_set(r->err, ERR_UNSUPPORTED,
		"%s:%u:%u: no matches for kind \"%s\" in version \"%s\" (name \"%s\")%s%s",
		r->file, line, column, r->kind, api_version, r->name,
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

static int read_metadata(const struct reading *r, struct object *o)
{
	struct fy_node *meta = doc_get(r->root, "metadata"), *name;

	if (expect_type(r, meta, doc_key(r->root, "metadata"), DOC_MAP, "metadata") < 0)
		return -1;
	name = doc_get(meta, "name");
	if (doc_type(name) == DOC_NULL)
		return invalid_at(r, doc_key(r->root, "metadata"),
			"metadata.name: Required value: name or generateName is required");
	if (expect_type(r, name, doc_key(meta, "name"), DOC_STRING, "metadata.name") < 0)
		return -1;
	if (!dns_name_valid(doc_text(name), /* dots= */ true))
		return invalid_at(r, name,
			"metadata.name: Invalid value: \"%.80s\": a lowercase RFC 1123 subdomain must "
			"consist of lower case alphanumeric characters, '-' or '.', and must start and "
			"end with an alphanumeric character",
			doc_text(name));
	o->name = strdup(doc_text(name));
	if (!o->name)
		return error_nomem(r->err);
	if (read_str(r, meta, "namespace", "metadata.namespace", &o->namespace_) < 0)
		return -1;
	if (o->namespace_ && !dns_name_valid(o->namespace_, /* dots= */ false))
		return invalid_at(r, doc_get(meta, "namespace"),
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

static int read_pod(const struct reading *r, struct object *o)
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

static int read_replicas(const struct reading *r, struct fy_node *spec, uint32_t *ret)
{
	struct fy_node *node = doc_get(spec, "replicas");
	int64_t n = 1;

	if (expect_type(r, node, doc_key(spec, "replicas"), DOC_INT, "spec.replicas") < 0)
		return -1;
	if (doc_type(node) == DOC_INT && !parse_i64(doc_text(node), &n))
		n = -1;
	if (n < 0)
		return invalid_at(r, node,
			"spec.replicas: Invalid value: %s: must be greater than or equal to 0",
			doc_text(node));
	if (n > MANIFEST_REPLICAS_MAX)
		return invalid_at(r, node,
			"spec.replicas: %s is more than the stand-in's limit of %d",
			doc_text(node), MANIFEST_REPLICAS_MAX);
	*ret = (uint32_t)n;
	return 0;
}

static int read_selector(const struct reading *r, struct fy_node *spec, struct object *o)
{
	struct fy_node *selector = doc_get(spec, "selector"), *node;

	if (doc_type(selector) == DOC_NULL)
		return invalid_at(r, doc_key(r->root, "spec"),
			"spec.selector: Required value (which pods belong to it: "
			"spec.selector.matchLabels, the same as spec.template.metadata.labels)");
	if (expect_type(r, selector, doc_key(spec, "selector"), DOC_MAP, "spec.selector") < 0)
		return -1;
	node = doc_key(selector, "matchExpressions");
	if (node)
		return invalid_at(r, node,
			"spec.selector.matchExpressions: not supported by the "
			"stand-in, use matchLabels");
	if (read_str_map(r, selector, "matchLabels", "spec.selector.matchLabels",
		    /* labels= */ true, &o->selector) < 0)
		return -1;
	if (o->selector.n == 0)
		return invalid_at(r, doc_key(spec, "selector"),
			"spec.selector: Invalid value: {}: empty selector is invalid for deployment");
	return 0;
}

static int read_deployment(const struct reading *r, struct object *o)
{
	struct fy_node *spec = doc_get(r->root, "spec"), *template, *meta;
	struct str_map labels = { 0 };
	int rc;

	if (expect_type(r, spec, doc_key(r->root, "spec"), DOC_MAP, "spec") < 0 ||
		read_replicas(r, spec, &o->replicas) < 0 || read_selector(r, spec, o) < 0)
		return -1;
	template = doc_get(spec, "template");
	if (doc_type(template) == DOC_NULL)
		return invalid_at(r, doc_key(r->root, "spec"), "spec.template: Required value");
	if (expect_type(r, template, doc_key(spec, "template"), DOC_MAP, "spec.template") < 0)
		return -1;
	meta = doc_get(template, "metadata");
	if (expect_type(r, meta, doc_key(template, "metadata"), DOC_MAP,
		    "spec.template.metadata") < 0)
		return -1;
	rc = read_str_map(r, meta, "labels", "spec.template.metadata.labels",
		/* labels= */ true, &labels);
	if (rc == 0 && !str_map_covers(&labels, &o->selector))
		rc = invalid_at(r, doc_key(spec, "template"),
			"spec.template.metadata.labels: Invalid value: `selector` does not match "
			"template `labels`");
	if (rc < 0) {
		str_map_fini(&labels);
		return -1;
	}
	return read_pod_spec(r, template, "spec.template.spec", &labels, /* template= */ true,
		&o->spec);
}

static int read_config_map(const struct reading *r, struct object *o)
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
			return invalid_at(r, doc_key(doc_get(r->root, "data"), key),
				"data[%.80s]: Invalid value: a valid config key must consist of "
				"alphanumeric characters, '-', '_' or '.'",
				key);
	}
	if (total > 1U << 20)
		return invalid_at(r, doc_key(r->root, "data"),
			"data: Too long: may not be more than 1048576 bytes");
	return 0;
}

static int read_kind(const struct reading *r, struct object *o)
{
	doc_pos(r->root, NULL, &o->line, &o->column);
	if (read_metadata(r, o) < 0)
		return -1;
	switch (o->kind) {
	case OBJECT_POD:
		return read_pod(r, o);
	case OBJECT_DEPLOYMENT:
		return read_deployment(r, o);
	case OBJECT_CONFIG_MAP:
		return read_config_map(r, o);
	case OBJECT_NAMESPACE:
		return 0;
	}
	return error_set(r->err, ERR_INTERNAL, "kind %d", (int)o->kind);
}

struct collecting {
	const char *file;
	struct manifest *m;
	size_t cap;
};

static int add_object(struct collecting *c, struct object **ret, struct error *err)
{
	if (c->m->n == MANIFEST_OBJECTS_MAX)
		return error_set(err, ERR_LIMIT, "%s: more than %d objects", c->file,
			MANIFEST_OBJECTS_MAX);
	if (c->m->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 4;
		struct object *grown = reallocarray(c->m->objects, cap, sizeof(*grown));

		if (!grown)
			return error_nomem(err);
		c->m->objects = grown;
		c->cap = cap;
	}
	*ret = &c->m->objects[c->m->n++];
	**ret = (struct object){ .kind = OBJECT_POD };
	return 0;
}

static int read_document(struct collecting *c, struct fy_node *root, int depth,
	struct error *err);

static int read_list(struct collecting *c, struct fy_node *root, int depth, struct error *err)
{
	struct fy_node *items = doc_get(root, "items");

	for (int i = 0; i < doc_count(items); i++) {
		if (read_document(c, doc_item(items, i), depth + 1, err) < 0)
			return -1;
	}
	return 0;
}

/* kubectl's own checks, before any API server is asked. */
static int read_type_meta(struct collecting *c, struct fy_node *root,
	const char **ret_api_version, const char **ret_kind, struct error *err)
{
	struct fy_node *api_version = doc_get(root, "apiVersion"),
		       *kind = doc_get(root, "kind");
	uint32_t line, column;

	doc_pos(root, NULL, &line, &column);
	if (doc_type(root) != DOC_MAP)
		return error_set(err, ERR_INVALID,
			"%s:%u:%u: expected a Kubernetes object, found %s", c->file, line,
			column, doc_type_name(doc_type(root)));
	if (doc_type(kind) != DOC_STRING)
		return error_set(err, ERR_INVALID,
			"%s:%u:%u: Object 'Kind' is missing: kind not set", c->file, line,
			column);
	if (doc_type(api_version) != DOC_STRING) {
		const char *want = NULL;

		for (size_t i = 0; i < ARRAY_LEN(known_kinds) && !want; i++) {
			if (strcmp(known_kinds[i].kind, doc_text(kind)) == 0)
				want = known_kinds[i].api_version;
		}
		return error_set(err, ERR_INVALID,
			"%s:%u:%u: error validating data: apiVersion not set%s%s%s%s%s",
			c->file, line, column, want ? " (a " : "", want ? doc_text(kind) : "",
			want ? " is \"apiVersion: " : "", want ? want : "", want ? "\")" : "");
	}
	*ret_api_version = doc_text(api_version);
	*ret_kind = doc_text(kind);
	return 0;
}

static int read_document(struct collecting *c, struct fy_node *root, int depth,
	struct error *err)
{
	struct reading r = { .file = c->file, .root = root, .err = err };
	const char *api_version = NULL, *name;
	struct object *o = NULL;

	if (read_type_meta(c, root, &api_version, &r.kind, err) < 0)
		return -1;
	if (strcmp(api_version, "v1") == 0 && strcmp(r.kind, "List") == 0) {
		if (depth >= 4)
			return error_set(err, ERR_LIMIT, "%s: a List in a List in a List",
				c->file);
		return read_list(c, root, depth, err);
	}
	name = doc_text(doc_get(doc_get(root, "metadata"), "name"));
	(void)snprintf(r.name, sizeof(r.name), "%s", name);
	for (size_t i = 0; i < ARRAY_LEN(known_kinds); i++) {
		if (strcmp(known_kinds[i].kind, r.kind) != 0 ||
			strcmp(known_kinds[i].api_version, api_version) != 0)
			continue;
		if (add_object(c, &o, err) < 0)
			return -1;
		o->kind = known_kinds[i].value;
		return read_kind(&r, o);
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
	CLEANUP(doc_closep) struct doc_reader *y = NULL;
	struct collecting c = { .file = name, .m = m };
	struct fy_node *root;
	int rc;

	if (!m)
		return error_nomem(err);
	if (len > MANIFEST_FILE_MAX)
		return error_set(err, ERR_LIMIT, "%s: longer than %u bytes", name,
			MANIFEST_FILE_MAX);
	if (doc_open(&y, name, text, len, err) < 0)
		return -1;
	while ((rc = doc_next(y, &root, err)) > 0) {
		if (read_document(&c, root, /* depth= */ 0, err) < 0)
			return -1;
	}
	if (rc < 0)
		return -1;
	if (m->n == 0)
		return error_set(err, ERR_INVALID, "%s: no objects in it", name);
	*ret = STEAL_PTR(m);
	return 0;
}

static int read_stdin(struct buf *b, struct error *err)
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

	if ((from_stdin ? read_stdin(&b, err) : file_read(path, &b, err)) < 0)
		return -1;
	return manifest_parse(ret, from_stdin ? "STDIN" : path, buf_str(&b), b.len, err);
}
