/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by manifest.c (documents and kinds) and manifest-pod.c (the pod spec).
 * Thread: any.
 */
#include "standin/object.h"
#include "standin/doc.h"

/* The object that is being read, for messages. */
struct reading {
	const char *file;
	const char *kind;
	char name[OBJECT_NAME_MAX + 1];
	struct fy_node *root;
	struct error *err;
};

/* "<file>:<line>:<column>: <Kind> "<name>" is invalid: <fmt>"; returns -1. @at NULL: the object. */
int invalid_at(const struct reading *r, struct fy_node *at, const char *fmt, ...) PRINTF(3, 4);

/* The value is of type @want or absent; else says so at @path. */
int expect_type(const struct reading *r, struct fy_node *value, struct fy_node *key,
	enum doc_type want, const char *path);

/* A map of strings, keys checked as label keys if @labels. Absent: empty. */
int read_str_map(const struct reading *r, struct fy_node *parent, const char *key,
	const char *path, bool labels, struct str_map *ret);

/* A string at @path; absent: NULL. Yours. */
int read_str(const struct reading *r, struct fy_node *parent, const char *key, const char *path,
	char **ret);

/* The pod spec under @parent's key "spec"; @path is its path ("spec.template.spec"). @labels are
 * taken over. */
int read_pod_spec(const struct reading *r, struct fy_node *parent, const char *path,
	struct str_map *labels, bool template, struct pod_spec **ret);
