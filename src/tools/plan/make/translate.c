/* SPDX-License-Identifier: Apache-2.0 */
/* Old objects of Karpenter as those of today. */
#include "tools/plan/make/make.h"

#include "lib/yaml/yaml.h"
#include "lib/base/array.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- look-ups in the user's objects, and copies of parts of them --- */

/* The value of @key; NULL: not found, or @n is not an object. */
static const struct yaml_node *karpenter_old_get(const struct yaml_node *n, const char *key)
{
	return n && n->type == YAML_OBJECT ? yaml_get(n, key, false) : NULL;
}

/* The value is a scalar: no list, no object and not null. */
static bool karpenter_old_is_scalar(const struct yaml_node *n)
{
	return n && n->type != YAML_LIST && n->type != YAML_OBJECT && n->type != YAML_NULL;
}

/* The text of a scalar, else @otherwise. */
static const char *karpenter_old_text(const struct yaml_node *n, const char *otherwise)
{
	return karpenter_old_is_scalar(n) ? n->text : otherwise;
}

/* Copies a map of scalars as texts, below @head; no head for an empty map. Omits keys for which @leave (may
 * be NULL) is true. */
static void karpenter_old_render_map(struct buf *b, const struct yaml_node *map,
	const char *head, const char *indent, bool (*leave)(const char *key))
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

/* Copies "key: value" at @indent spaces, for any value; nothing for NULL. */
static void karpenter_old_render_tree(struct buf *b, const char *key, const struct yaml_node *n,
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

/* --- the EC2NodeClass: of the provider of a Provisioner, or of an AWSNodeTemplate --- */

#define DOMAIN  "karpenter.sh/"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* Labels and tags that only Karpenter may set. */
static bool karpenter_is_own_key(const char *key)
{
	return !strncmp(key, DOMAIN, sizeof(DOMAIN) - 1);
}

/* Renders "a, b" as one term each. */
static void render_selector_ids(struct buf *b, const char *text, const char *key)
{
	while (*text) {
		size_t len = strcspn(text, ",");
		char id[64];

		if (len && len < sizeof(id)) {
			memcpy(id, text, len);
			id[len] = '\0';
			buf_printf(b, "  - %s: ", key);
			make_quoted(b, id);
			buf_putc(b, '\n');
		}
		text += len;
		text += strspn(text, ", ");
	}
}

/* Keys that are not tags. */
static const struct {
	const char *old, *now;
} no_tags[] = { { "aws-ids", "id" }, { "aws::ids", "id" }, { "aws::name", "name" } };

static bool is_no_tag(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(no_tags); i++)
		if (!strcmp(key, no_tags[i].old))
			return true;
	return false;
}

static void render_selector_terms(struct buf *b, const struct yaml_node *old, const char *now)
{
	buf_printf(b, "  %s:\n", now);
	for (size_t i = 0; i < ARRAY_LEN(no_tags); i++)
		render_selector_ids(b,
			karpenter_old_text(karpenter_old_get(old, no_tags[i].old), ""),
			no_tags[i].now);
	karpenter_old_render_map(b, old, "  - tags:\n", "      ", is_no_tag);
}

static bool has_selector_value(const struct yaml_node *selector)
{
	for (size_t i = 0; selector && selector->type == YAML_OBJECT && i < selector->n; i++)
		if (karpenter_old_is_scalar(selector->pairs[i].value) &&
			*selector->pairs[i].value->text)
			return true;
	return false;
}

static void render_selector(struct buf *b, const struct yaml_node *old, const char *now)
{
	if (has_selector_value(old))
		render_selector_terms(b, old, now);
	else
		buf_printf(b, "  %s:\n  - tags:\n      karpenter.sh/discovery: CLUSTER_NAME\n",
			now);
}

/* Custom images name their family; otherwise the newest image of a family that still exists. */
static void render_ami_selector(struct buf *b, const struct yaml_node *spec)
{
	const struct yaml_node *own = karpenter_old_get(spec, "amiSelector");
	bool rocket = !strcmp(karpenter_old_text(karpenter_old_get(spec, "amiFamily"), ""),
		"Bottlerocket");

	if (has_selector_value(own)) {
		buf_printf(b, "  amiFamily: %s\n", rocket ? "Bottlerocket" : "AL2023");
		render_selector_terms(b, own, "amiSelectorTerms");
	} else {
		buf_printf(b, "  amiSelectorTerms:\n  - alias: %s@latest\n",
			rocket ? "bottlerocket" : "al2023");
	}
	if (!karpenter_old_is_scalar(karpenter_old_get(spec, "userData")))
		return;
	if (rocket)
		karpenter_old_render_tree(b, "userData", karpenter_old_get(spec, "userData"),
			2);
	else
		buf_puts(b,
			"  # userData is left out: AL2023 reads another form, see nodeadm's NodeConfig\n");
}

static void render_node_role(struct buf *b, const struct yaml_node *spec)
{
	const struct yaml_node *profile = karpenter_old_get(spec, "instanceProfile");

	if (karpenter_old_is_scalar(profile))
		karpenter_old_render_tree(b, "instanceProfile", profile, 2);
	else
		buf_puts(b, "  role: KarpenterNodeRole-CLUSTER_NAME\n");
}

/* All except the container runtime, which can no longer be chosen. */
static void render_kubelet_config(struct buf *b, const struct yaml_node *old)
{
	bool any = false;

	for (size_t i = 0; old && old->type == YAML_OBJECT && i < old->n; i++) {
		const char *key = yaml_as_text(old->pairs[i].key);

		if (!strcmp(key, "containerRuntime") || key[strspn(key, LETTERS)])
			continue;
		if (!any)
			buf_puts(b, "  kubelet:\n");
		any = true;
		karpenter_old_render_tree(b, key, old->pairs[i].value, 4);
	}
}

static void render_left_out_tags(struct buf *b, const struct yaml_node *tags)
{
	for (size_t i = 0; tags && tags->type == YAML_OBJECT && i < tags->n; i++) {
		const char *key = yaml_as_text(tags->pairs[i].key);

		if (!karpenter_is_own_key(key))
			continue;
		buf_puts(b, "  # left out, as only Karpenter sets it: the tag ");
		make_quoted(b, key);
		buf_putc(b, '\n');
	}
}

/*
 * Renders the EC2NodeClass @name of today. @spec: the provider, or the template's spec. @kubelet: the
 * Provisioner's configuration of the kubelet; NULL: none.
 */
static void karpenter_render_class(struct buf *b, const char *name,
	const struct yaml_node *spec, const struct yaml_node *kubelet)
{
	static const char *const same[] = { "blockDeviceMappings", "metadataOptions",
		"detailedMonitoring" };

	buf_puts(b,
		"apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: ");
	make_quoted(b, name);
	buf_puts(b, "\nspec:\n");
	render_ami_selector(b, spec);
	render_node_role(b, spec);
	render_selector(b, karpenter_old_get(spec, "subnetSelector"), "subnetSelectorTerms");
	render_selector(b, karpenter_old_get(spec, "securityGroupSelector"),
		"securityGroupSelectorTerms");
	karpenter_old_render_map(b, karpenter_old_get(spec, "tags"), "  tags:\n", "    ",
		karpenter_is_own_key);
	render_left_out_tags(b, karpenter_old_get(spec, "tags"));
	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		karpenter_old_render_tree(b, same[i], karpenter_old_get(spec, same[i]), 2);
	render_kubelet_config(b, kubelet);
}

/* --- parts of a NodePool --- */

#define CAPACITY      "karpenter.sh/capacity-type"
#define VALUE_MAX_LEN 64

/* Some users wrote "ON_DEMAND" for on-demand. */
static void capacity_word(const char *text, char ret[static VALUE_MAX_LEN])
{
	size_t n = 0;

	for (; *text && n + 1 < VALUE_MAX_LEN; text++)
		ret[n++] = *text == '_' ? '-' : (char)tolower((unsigned char)*text);
	ret[n] = '\0';
}

static bool has_requirement_key(const struct yaml_node *list, const char *key)
{
	for (size_t i = 0; list && list->type == YAML_LIST && i < list->n; i++)
		if (!strcmp(karpenter_old_text(karpenter_old_get(list->items[i], "key"), ""),
			    key))
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

static void translate_requirement(struct buf *b, const struct yaml_node *q)
{
	const struct yaml_node *values = karpenter_old_get(q, "values");

	if (!karpenter_old_is_scalar(karpenter_old_get(q, "key")))
		return;
	buf_puts(b, "      - key: ");
	make_quoted(b, karpenter_old_get(q, "key")->text);
	buf_puts(b, "\n        operator: ");
	make_quoted(b, karpenter_old_text(karpenter_old_get(q, "operator"), "In"));
	buf_putc(b, '\n');
	if (!values || values->type != YAML_LIST || !values->n)
		return;
	buf_puts(b, "        values: [");
	for (size_t i = 0; i < values->n; i++) {
		buf_puts(b, i ? ", " : "");
		make_quoted(b, karpenter_old_text(values->items[i], ""));
	}
	buf_puts(b, "]\n");
}

/* Writes out the defaults of v1alpha5. */
static void translate_requirements(struct buf *b, const struct yaml_node *spec)
{
	const struct yaml_node *list = karpenter_old_get(spec, "requirements");
	const struct yaml_node *capacity =
		karpenter_old_get(karpenter_old_get(spec, "labels"), CAPACITY);
	char word[VALUE_MAX_LEN];

	if (!list)
		list = karpenter_old_get(spec, "constraints");
	buf_puts(b, "      requirements:\n");
	for (size_t i = 0; list && list->type == YAML_LIST && i < list->n; i++)
		translate_requirement(b, list->items[i]);
	capacity_word(karpenter_old_text(capacity, "on-demand"), word);
	if (!has_requirement_key(list, CAPACITY))
		one_value(b, CAPACITY, word);
	if (!has_requirement_key(list, "kubernetes.io/arch"))
		one_value(b, "kubernetes.io/arch", "amd64");
	if (!has_requirement_key(list, "kubernetes.io/os"))
		one_value(b, "kubernetes.io/os", "linux");
}

static void translate_taints(struct buf *b, const struct yaml_node *spec, const char *name)
{
	static const char *const keys[] = { "key", "value", "effect" };
	const struct yaml_node *list = karpenter_old_get(spec, name);

	if (!list || list->type != YAML_LIST || !list->n)
		return;
	buf_printf(b, "      %s:\n", name);
	for (size_t i = 0; i < list->n; i++) {
		bool first = true;

		for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
			if (!karpenter_old_is_scalar(
				    karpenter_old_get(list->items[i], keys[k])))
				continue;
			buf_printf(b, "      %s %s: ", first ? "-" : " ", keys[k]);
			make_quoted(b, karpenter_old_get(list->items[i], keys[k])->text);
			buf_putc(b, '\n');
			first = false;
		}
	}
}

/* The old Karpenter removed no node in use unless told to; today it does unless told not to. */
static void translate_disruption(struct buf *b, const struct yaml_node *spec)
{
	const struct yaml_node *empty = karpenter_old_get(spec, "ttlSecondsAfterEmpty");
	const struct yaml_node *on =
		karpenter_old_get(karpenter_old_get(spec, "consolidation"), "enabled");
	int64_t seconds;

	buf_puts(b, "  disruption:\n");
	if (on && on->type == YAML_BOOL && on->b)
		buf_puts(b,
			"    consolidationPolicy: WhenEmptyOrUnderutilized\n    consolidateAfter: 0s\n");
	else if (empty && yaml_integer(empty, &seconds) && seconds >= 0)
		buf_printf(b,
			"    consolidationPolicy: WhenEmpty\n    consolidateAfter: %llds\n",
			(long long)seconds);
	else
		buf_puts(b,
			"    consolidationPolicy: WhenEmpty\n    consolidateAfter: Never\n");
}

static void translate_expiry(struct buf *b, const struct yaml_node *spec)
{
	const struct yaml_node *expires = karpenter_old_get(spec, "ttlSecondsUntilExpired");
	int64_t seconds;

	if (expires && yaml_integer(expires, &seconds) && seconds > 0)
		buf_printf(b, "      expireAfter: %llds\n", (long long)seconds);
	else
		buf_puts(b, "      expireAfter: Never\n");
}

static void translate_metadata(struct buf *b, const struct yaml_node *spec)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MAKE_FILE_MAX);

	karpenter_old_render_map(&text, karpenter_old_get(spec, "labels"), "      labels:\n",
		"        ", karpenter_is_own_key);
	karpenter_old_render_map(&text, karpenter_old_get(spec, "annotations"),
		"      annotations:\n", "        ", karpenter_is_own_key);
	if (text.len) {
		buf_puts(b, "    metadata:\n");
		buf_puts(b, buf_str(&text));
	}
}

static void translate_node_pool(struct buf *b, const struct yaml_node *spec, const char *name,
	const char *class)
{
	const struct yaml_node *weight = karpenter_old_get(spec, "weight");
	int64_t number;

	buf_puts(b, "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: ");
	make_quoted(b, name);
	buf_puts(b, "\nspec:\n  template:\n");
	translate_metadata(b, spec);
	buf_puts(b, "    spec:\n      nodeClassRef:\n        group: karpenter.k8s.aws\n"
		    "        kind: EC2NodeClass\n        name: ");
	make_quoted(b, class);
	buf_putc(b, '\n');
	translate_requirements(b, spec);
	translate_taints(b, spec, "taints");
	translate_taints(b, spec, "startupTaints");
	translate_expiry(b, spec);
	translate_disruption(b, spec);
	karpenter_old_render_map(b,
		karpenter_old_get(karpenter_old_get(spec, "limits"), "resources"),
		"  limits:\n", "    ", NULL);
	if (weight && yaml_integer(weight, &number) && number > 0)
		buf_printf(b, "  weight: %lld\n", (long long)number);
}

/* --- objects --- */

/* Provisioners and AWSNodeTemplates. */
struct objects {
	const struct yaml_node **v;
	size_t n, room;
};

static void objects_fini(struct objects *l)
{
	free(l->v);
}

static bool is_a(const struct yaml_node *o, const char *kind)
{
	return !strcmp(karpenter_old_text(karpenter_old_get(o, "kind"), ""), kind);
}

static const char *get_object_name(const struct yaml_node *o)
{
	return karpenter_old_text(karpenter_old_get(karpenter_old_get(o, "metadata"), "name"),
		NULL);
}

/* The AWSNodeTemplate of Provisioner @o; NULL: the Provisioner has the provider itself. */
static const char *template_of(const struct yaml_node *o)
{
	return karpenter_old_text(
		karpenter_old_get(
			karpenter_old_get(karpenter_old_get(o, "spec"), "providerRef"), "name"),
		NULL);
}

static const struct yaml_node *get_kubelet_config(const struct yaml_node *provisioner)
{
	return karpenter_old_get(karpenter_old_get(provisioner, "spec"),
		"kubeletConfiguration");
}

/* Today an EC2NodeClass configures the kubelet: takes the configuration of the first Provisioner with this
 * template. */
static const struct yaml_node *find_kubelet_config(const struct objects *l,
	const char *template)
{
	for (size_t i = 0; i < l->n; i++) {
		const char *ref = is_a(l->v[i], "Provisioner") ? template_of(l->v[i]) : NULL;

		if (ref && !strcmp(ref, template) && get_kubelet_config(l->v[i]))
			return get_kubelet_config(l->v[i]);
	}
	return NULL;
}

static bool has_template(const struct objects *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (is_a(l->v[i], "AWSNodeTemplate") && get_object_name(l->v[i]) &&
			!strcmp(get_object_name(l->v[i]), name))
			return true;
	return false;
}

static void translate_provisioner(struct buf *b, const struct objects *l,
	const struct yaml_node *o, size_t *n)
{
	const char *name = get_object_name(o), *template = template_of(o);
	const struct yaml_node *spec = karpenter_old_get(o, "spec");

	translate_node_pool(b, spec, name, template ? template : name);
	(*n)++;
	if (template) {
		if (get_kubelet_config(o) && !has_template(l, template))
			buf_puts(b,
				"# kubeletConfiguration is spec.kubelet of that EC2NodeClass now.\n");
		return;
	}
	buf_puts(b, "---\n");
	karpenter_render_class(b, name, karpenter_old_get(spec, "provider"),
		get_kubelet_config(o));
	(*n)++;
}

static int objects_add(struct objects *l, const struct yaml_node *o, struct error *err)
{
	if (!is_a(o, "Provisioner") && !is_a(o, "AWSNodeTemplate"))
		return 0;
	if (!ARRAY_GROW(&l->v, l->n, &l->room, ARRAY_NO_LIMIT))
		return error_nomem(err);
	l->v[l->n++] = o;
	return 0;
}

/* Finds the objects among the documents, and in the Lists that kubectl writes. */
static int objects_find(struct objects *l, const struct yaml *y, struct error *err)
{
	for (size_t i = 0; i < y->n; i++) {
		const struct yaml_node *items = is_a(y->docs[i], "List")
							? karpenter_old_get(y->docs[i], "items")
							: NULL;

		if (objects_add(l, y->docs[i], err) < 0)
			return -1;
		for (size_t k = 0; items && items->type == YAML_LIST && k < items->n; k++)
			if (objects_add(l, items->items[k], err) < 0)
				return -1;
	}
	return 0;
}

int make_translation(struct buf *ret, const char *name, const char *text, size_t len, size_t *n,
	struct error *err)
{
	const struct yaml_source src = { .name = name, .text = text, .len = len };
	CLEANUP(yaml_freep) struct yaml *y = NULL;
	CLEANUP(objects_fini) struct objects l = { .v = NULL };

	if (yaml_parse(&y, &src, err) < 0 || objects_find(&l, y, err) < 0)
		return -1;
	for (size_t i = 0; i < l.n; i++) {
		const struct yaml_node *o = l.v[i];

		if (!get_object_name(o))
			return yaml_fail(&src, o->line, o->column, ERR_INVALID, err,
				"metadata.name: expected a name, found none");
		buf_puts(ret, *n ? "---\n" : "");
		if (is_a(o, "Provisioner")) {
			translate_provisioner(ret, &l, o, n);
			continue;
		}
		karpenter_render_class(ret, get_object_name(o), karpenter_old_get(o, "spec"),
			find_kubelet_config(&l, get_object_name(o)));
		(*n)++;
	}
	return 0;
}
