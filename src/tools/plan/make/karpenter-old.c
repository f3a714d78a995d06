/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/make/karpenter-old.h"

#include "tools/plan/make/make.h"

const struct yaml_node *karpenter_old_get(const struct yaml_node *n, const char *key)
{
	return n && n->type == YAML_OBJECT ? yaml_get(n, key, false) : NULL;
}

bool karpenter_old_is_scalar(const struct yaml_node *n)
{
	return n && n->type != YAML_LIST && n->type != YAML_OBJECT && n->type != YAML_NULL;
}

const char *karpenter_old_text(const struct yaml_node *n, const char *otherwise)
{
	return karpenter_old_is_scalar(n) ? n->text : otherwise;
}

void karpenter_old_render_map(struct buf *b, const struct yaml_node *map, const char *head,
	const char *indent, bool (*leave)(const char *key))
{
	bool any = false;

	for (size_t i = 0; map && map->type == YAML_OBJECT && i < map->n; i++) {
		const char *key = yaml_as_text(map->pairs[i].key);

		if (!karpenter_old_is_scalar(map->pairs[i].value) || (leave && leave(key)))
			continue;
		if (!any)
			buf_puts(b, head);
		any = true;
		buf_puts(b, indent);
		make_quoted(b, key);
		buf_puts(b, ": ");
		make_quoted(b, map->pairs[i].value->text);
		buf_putc(b, '\n');
	}
}

static void render_yaml_scalar(struct buf *b, const struct yaml_node *n)
{
	if (n->type == YAML_NULL)
		buf_puts(b, "null");
	else if (n->type == YAML_BOOL)
		buf_puts(b, n->b ? "true" : "false");
	else if (n->type == YAML_INT)
		buf_printf(b, "%lld", (long long)n->i);
	else if (n->type == YAML_FLOAT)
		buf_puts(b, n->text);
	else
		make_quoted(b, n->text);
}

/* Renders in one line, as JSON. The tree is no deeper than YAML_DEPTH_MAX. */
static void render_yaml_flow(struct buf *b, const struct yaml_node *n)
{
	bool list = n->type == YAML_LIST;

	if (!list && n->type != YAML_OBJECT) {
		render_yaml_scalar(b, n);
		return;
	}
	buf_putc(b, list ? '[' : '{');
	for (size_t i = 0; i < n->n; i++) {
		buf_puts(b, i ? ", " : "");
		if (!list) {
			make_quoted(b, yaml_as_text(n->pairs[i].key));
			buf_puts(b, ": ");
		}
		render_yaml_flow(b, list ? n->items[i] : n->pairs[i].value);
	}
	buf_putc(b, list ? ']' : '}');
}

void karpenter_old_render_tree(struct buf *b, const char *key, const struct yaml_node *n,
	int indent)
{
	if (!n)
		return;
	buf_printf(b, "%*s%s:", indent, "", key);
	if (n->type != YAML_LIST || !n->n) {
		buf_putc(b, ' ');
		render_yaml_flow(b, n);
		buf_putc(b, '\n');
		return;
	}
	buf_putc(b, '\n');
	for (size_t i = 0; i < n->n; i++) {
		buf_printf(b, "%*s- ", indent, "");
		render_yaml_flow(b, n->items[i]);
		buf_putc(b, '\n');
	}
}
