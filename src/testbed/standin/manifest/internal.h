/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by manifest.c (documents and kinds) and pod.c (the pod spec).
 * Thread: any.
 */
#include "lib/yaml/yaml.h"
#include "testbed/standin/object.h"

/* Look-ups that treat an absent node (NULL) as null, and a node of another type as empty. */
static inline enum yaml_type node_yaml_type(const struct yaml_node *n)
{
	return n ? n->type : YAML_NULL;
}

static inline const struct yaml_node *node_get(const struct yaml_node *n, const char *key)
{
	return n ? yaml_get(n, key, /* fold_case= */ false) : NULL;
}

static inline const char *node_text(const struct yaml_node *n)
{
	return n && n->text ? n->text : "";
}

static inline size_t node_pairs(const struct yaml_node *n)
{
	return node_yaml_type(n) == YAML_OBJECT ? n->n : 0;
}

static inline size_t node_items(const struct yaml_node *n)
{
	return node_yaml_type(n) == YAML_LIST ? n->n : 0;
}

/* The key node of @key in @n, for its position; NULL if absent. */
const struct yaml_node *node_key(const struct yaml_node *n, const char *key);

/* The present object, for messages. */
struct manifest_reader {
	const char *file;
	const char *kind;
	char name[OBJECT_NAME_MAX + 1];
	const struct yaml_node *root;
	struct error *err;
};

/* "<file>:<line>:<column>: <Kind> "<name>" is invalid: <fmt>"; returns -1. @at NULL: the object. */
int invalid_at(const struct manifest_reader *r, const struct yaml_node *at, const char *fmt,
	...) PRINTF(3, 4);

/* Returns 0 if the value is of type @want or absent; else sets an error at @path. */
int expect_type(const struct manifest_reader *r, const struct yaml_node *value,
	const struct yaml_node *key, enum yaml_type want, const char *path);

/* A map of strings, keys checked as label keys if @labels. Absent: empty. */
int read_str_map(const struct manifest_reader *r, const struct yaml_node *parent,
	const char *key, const char *path, bool labels, struct str_map *ret);

/* A string at @path; absent: NULL. The caller frees it. */
int read_str(const struct manifest_reader *r, const struct yaml_node *parent, const char *key,
	const char *path, char **ret);

/* The pod spec under @parent's key "spec"; @path is its path ("spec.template.spec"). Takes ownership of
 * @labels. */
int read_pod_spec(const struct manifest_reader *r, const struct yaml_node *parent,
	const char *path, struct str_map *labels, bool template, struct pod_spec **ret);
