/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/make/translate.h"

#include "config/yaml.h"
#include "plan/make/make.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define DOMAIN        "karpenter.sh/"
#define CAPACITY      "karpenter.sh/capacity-type"
#define VALUE_MAX_LEN 64

/* ---- places --------------------------------------------------------------------------------------------------- */

static const struct yaml_node *get(const struct yaml_node *n, const char *key)
{
	return n && n->type == YAML_OBJECT ? yaml_get(n, key, false) : NULL;
}

static bool is_scalar(const struct yaml_node *n)
{
	return n && n->type != YAML_LIST && n->type != YAML_OBJECT && n->type != YAML_NULL;
}

static const char *text_of(const struct yaml_node *n, const char *otherwise)
{
	return is_scalar(n) ? n->text : otherwise;
}

/* "ON_DEMAND", as some wrote it, is on-demand. */
static void capacity_word(const char *text, char ret[static VALUE_MAX_LEN])
{
	size_t n = 0;

	for (; *text && n + 1 < VALUE_MAX_LEN; text++)
		ret[n++] = *text == '_' ? '-' : (char)tolower((unsigned char)*text);
	ret[n] = '\0';
}

/* ---- parts of a NodePool --------------------------------------------------------------------------------------------- */

static bool is_karpenters(const char *key)
{
	return !strncmp(key, DOMAIN, sizeof(DOMAIN) - 1);
}

static void labels(struct buf *b, const struct yaml_node *map)
{
	bool any = false;

	for (size_t i = 0; map && map->type == YAML_OBJECT && i < map->n; i++) {
		const char *key = yaml_as_text(map->pairs[i].key);

		if (is_karpenters(key) || !is_scalar(map->pairs[i].value))
			continue;
		if (!any)
			buf_puts(b, "    metadata:\n      labels:\n");
		any = true;
		buf_puts(b, "        ");
		make_quoted(b, key);
		buf_puts(b, ": ");
		make_quoted(b, map->pairs[i].value->text);
		buf_putc(b, '\n');
	}
}

static bool has_key(const struct yaml_node *list, const char *key)
{
	for (size_t i = 0; list && list->type == YAML_LIST && i < list->n; i++)
		if (!strcmp(text_of(get(list->items[i], "key"), ""), key))
			return true;
	return false;
}

static void one_value(struct buf *b, const char *key, const char *value)
{
	buf_puts(b, "      - key: ");
	make_quoted(b, key);
	buf_puts(b, "\n        operator: In\n        values: [");
	make_quoted(b, value);
	buf_puts(b, "]\n");
}

static void requirement(struct buf *b, const struct yaml_node *q)
{
	const struct yaml_node *values = get(q, "values");

	if (!is_scalar(get(q, "key")))
		return;
	buf_puts(b, "      - key: ");
	make_quoted(b, get(q, "key")->text);
	buf_puts(b, "\n        operator: ");
	make_quoted(b, text_of(get(q, "operator"), "In"));
	buf_putc(b, '\n');
	if (!values || values->type != YAML_LIST || !values->n)
		return;
	buf_puts(b, "        values: [");
	for (size_t i = 0; i < values->n; i++) {
		buf_puts(b, i ? ", " : "");
		make_quoted(b, text_of(values->items[i], ""));
	}
	buf_puts(b, "]\n");
}

/* What v1alpha5 took for granted is written out. */
static void requirements(struct buf *b, const struct yaml_node *spec)
{
	const struct yaml_node *list = get(spec, "requirements");
	const struct yaml_node *capacity = get(get(spec, "labels"), CAPACITY);
	char word[VALUE_MAX_LEN];

	if (!list)
		list = get(spec, "constraints");
	buf_puts(b, "      requirements:\n");
	for (size_t i = 0; list && list->type == YAML_LIST && i < list->n; i++)
		requirement(b, list->items[i]);
	capacity_word(text_of(capacity, "on-demand"), word);
	if (!has_key(list, CAPACITY))
		one_value(b, CAPACITY, word);
	if (!has_key(list, "kubernetes.io/arch"))
		one_value(b, "kubernetes.io/arch", "amd64");
	if (!has_key(list, "kubernetes.io/os"))
		one_value(b, "kubernetes.io/os", "linux");
}

static void taints(struct buf *b, const struct yaml_node *spec, const char *name)
{
	static const char *const keys[] = { "key", "value", "effect" };
	const struct yaml_node *list = get(spec, name);

	if (!list || list->type != YAML_LIST || !list->n)
		return;
	buf_printf(b, "      %s:\n", name);
	for (size_t i = 0; i < list->n; i++) {
		bool first = true;

		for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
			if (!is_scalar(get(list->items[i], keys[k])))
				continue;
			buf_printf(b, "      %s %s: ", first ? "-" : " ", keys[k]);
			make_quoted(b, get(list->items[i], keys[k])->text);
			buf_putc(b, '\n');
			first = false;
		}
	}
}

/* A map of texts below @head; what @leave says is left out. */
static void map_of(struct buf *b, const struct yaml_node *map, const char *head,
	const char *indent, bool (*leave)(const char *key))
{
	bool any = false;

	for (size_t i = 0; map && map->type == YAML_OBJECT && i < map->n; i++) {
		if (!is_scalar(map->pairs[i].value) ||
			(leave && leave(yaml_as_text(map->pairs[i].key))))
			continue;
		if (!any)
			buf_puts(b, head);
		any = true;
		buf_puts(b, indent);
		make_quoted(b, yaml_as_text(map->pairs[i].key));
		buf_puts(b, ": ");
		make_quoted(b, map->pairs[i].value->text);
		buf_putc(b, '\n');
	}
}

static void disruption(struct buf *b, const struct yaml_node *spec)
{
	const struct yaml_node *empty = get(spec, "ttlSecondsAfterEmpty");
	int64_t seconds;

	if (empty && yaml_integer(empty, &seconds) && seconds >= 0)
		buf_printf(b,
			"  disruption:\n    consolidationPolicy: WhenEmpty\n    consolidateAfter: %llds\n",
			(long long)seconds);
}

static void node_pool(struct buf *b, const struct yaml_node *spec, const char *name)
{
	const struct yaml_node *expires = get(spec, "ttlSecondsUntilExpired");
	const struct yaml_node *weight = get(spec, "weight");
	int64_t number;

	buf_puts(b, "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: ");
	make_quoted(b, name);
	buf_puts(b, "\nspec:\n  template:\n");
	labels(b, get(spec, "labels"));
	buf_puts(b, "    spec:\n      nodeClassRef:\n        group: karpenter.k8s.aws\n"
		    "        kind: EC2NodeClass\n        name: ");
	make_quoted(b, name);
	buf_putc(b, '\n');
	requirements(b, spec);
	taints(b, spec, "taints");
	taints(b, spec, "startupTaints");
	if (expires && yaml_integer(expires, &number) && number > 0)
		buf_printf(b, "      expireAfter: %llds\n", (long long)number);
	disruption(b, spec);
	map_of(b, get(get(spec, "limits"), "resources"), "  limits:\n", "    ", NULL);
	if (weight && yaml_integer(weight, &number) && number > 0)
		buf_printf(b, "  weight: %lld\n", (long long)number);
}

/* ---- its machines ------------------------------------------------------------------------------------------------------- */

static void selector(struct buf *b, const struct yaml_node *provider, const char *old,
	const char *now)
{
	buf_printf(b, "  %s:\n  - tags:\n", now);
	if (get(provider, old) && get(provider, old)->type == YAML_OBJECT &&
		get(provider, old)->n)
		map_of(b, get(provider, old), "", "      ", NULL);
	else
		buf_puts(b, "      karpenter.sh/discovery: CLUSTER_NAME\n");
}

static void node_class(struct buf *b, const struct yaml_node *spec, const char *name)
{
	const struct yaml_node *provider = get(spec, "provider");
	const struct yaml_node *profile = get(provider, "instanceProfile");

	buf_puts(b,
		"---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: ");
	make_quoted(b, name);
	buf_puts(b, "\nspec:\n  amiSelectorTerms:\n  - alias: al2023@latest\n");
	if (is_scalar(profile)) {
		buf_puts(b, "  instanceProfile: ");
		make_quoted(b, profile->text);
		buf_putc(b, '\n');
	} else {
		buf_puts(b, "  role: KarpenterNodeRole-CLUSTER_NAME\n");
	}
	selector(b, provider, "subnetSelector", "subnetSelectorTerms");
	selector(b, provider, "securityGroupSelector", "securityGroupSelectorTerms");
	map_of(b, get(provider, "tags"), "  tags:\n", "    ", is_karpenters);
}

int make_translation(struct buf *ret, const char *name, const char *text, size_t len, size_t *n,
	struct error *err)
{
	const struct yaml_source src = { .name = name, .text = text, .len = len };
	CLEANUP(yaml_freep) struct yaml *y = NULL;

	if (yaml_parse(&y, &src, err) < 0)
		return -1;
	for (size_t i = 0; i < y->n; i++) {
		const struct yaml_node *o = y->docs[i];
		const char *called = text_of(get(get(o, "metadata"), "name"), NULL);

		if (strcmp(text_of(get(o, "kind"), ""), "Provisioner") != 0)
			continue;
		if (!called)
			return yaml_fail(&src, o->line, o->column, ERR_INVALID, err,
				"metadata.name: expected a name, found none");
		if ((*n)++)
			buf_puts(ret, "---\n");
		node_pool(ret, get(o, "spec"), called);
		node_class(ret, get(o, "spec"), called);
	}
	return 0;
}
