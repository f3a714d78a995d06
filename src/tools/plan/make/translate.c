/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/make/translate.h"

#include "tools/plan/make/make.h"
#include "tools/plan/make/karpenter-v1beta1.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- parts of a NodePool --------------------------------------------------------------------------------------------- */

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

/* ---- objects ---------------------------------------------------------------------------------------------------- */

/* Provisioners and AWSNodeTemplates. */
struct objects {
	const struct yaml_node **v;
	size_t n;
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
static const struct yaml_node *has_kubelet_config(const struct objects *l, const char *template)
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
	const struct yaml_node **more;

	if (!is_a(o, "Provisioner") && !is_a(o, "AWSNodeTemplate"))
		return 0;
	more = reallocarray(l->v, l->n + 1, sizeof(*more));
	if (!more)
		return error_nomem(err);
	l->v = more;
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
			has_kubelet_config(&l, get_object_name(o)));
		(*n)++;
	}
	return 0;
}
