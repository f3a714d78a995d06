/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Look-ups in the user's objects, and copies of parts of them. Inside src/tools/plan/make only. */
#include "lib/base/buf.h"
#include "lib/yaml/yaml.h"

/* The value of @key; NULL: not found, or @n is not an object. */
const struct yaml_node *karpenter_old_get(const struct yaml_node *n, const char *key);

/* Neither a list nor an object, and not null. */
bool karpenter_old_is_scalar(const struct yaml_node *n);

/* The text of a scalar, else @otherwise. */
const char *karpenter_old_text(const struct yaml_node *n, const char *otherwise);

/* Copies a map of scalars as texts, below @head; no head for an empty map. Omits keys for which @leave (may
 * be NULL) is true. */
void karpenter_old_render_map(struct buf *b, const struct yaml_node *map, const char *head,
	const char *indent, bool (*leave)(const char *key));

/* Copies "key: value" at @indent spaces, for any value; nothing for NULL. */
void karpenter_old_render_tree(struct buf *b, const char *key, const struct yaml_node *n,
	int indent);
