/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/make/make.h"
#include "tools/plan/make/karpenter-v1beta1.h"

#include <string.h>

#define DOMAIN  "karpenter.sh/"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

bool karpenter_is_own_key(const char *key)
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

void karpenter_render_class(struct buf *b, const char *name, const struct yaml_node *spec,
	const struct yaml_node *kubelet)
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
