/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Places in objects that somebody wrote, and copies of what is there. Inside src/tools/plan/make only. */
#include "lib/base/buf.h"
#include "lib/yaml/yaml.h"

/* The value of @key; NULL: none, or @n is no object. */
const struct yaml_node *karpenter_old_get(const struct yaml_node *n, const char *key);

/* Neither a list nor an object, and not null. */
bool karpenter_old_is_scalar(const struct yaml_node *n);

/* The text of a scalar, else @otherwise. */
const char *karpenter_old_text(const struct yaml_node *n, const char *otherwise);

/* Copies a map of scalars as texts, below @head, which is left out with an empty one; so is what @leave says, if any. */
void karpenter_old_render_map(struct buf *b, const struct yaml_node *map, const char *head,
	const char *indent, bool (*leave)(const char *key));

/* Copies "key: value" at @indent spaces, whatever the value is; nothing for NULL. */
void karpenter_old_render_tree(struct buf *b, const char *key, const struct yaml_node *n,
	int indent);
