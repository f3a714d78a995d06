/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/make/make.h"
#include "tools/plan/make/old-class.h"

#include <string.h>

#define DOMAIN  "karpenter.sh/"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

bool old_is_karpenters(const char *key)
{
	return !strncmp(key, DOMAIN, sizeof(DOMAIN) - 1);
}

/* "a, b" as one term each. */
static void ids(struct buf *b, const char *text, const char *key)
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

/* Keys that are no tags. */
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

static void terms(struct buf *b, const struct yaml_node *old, const char *now)
{
	buf_printf(b, "  %s:\n", now);
	for (size_t i = 0; i < ARRAY_LEN(no_tags); i++)
		ids(b, old_text(old_get(old, no_tags[i].old), ""), no_tags[i].now);
	old_map(b, old, "  - tags:\n", "      ", is_no_tag);
}

static bool says_something(const struct yaml_node *selector)
{
	for (size_t i = 0; selector && selector->type == YAML_OBJECT && i < selector->n; i++)
		if (old_is_scalar(selector->pairs[i].value) && *selector->pairs[i].value->text)
			return true;
	return false;
}

static void selector(struct buf *b, const struct yaml_node *old, const char *now)
{
	if (says_something(old))
		terms(b, old, now);
	else
		buf_printf(b, "  %s:\n  - tags:\n      karpenter.sh/discovery: CLUSTER_NAME\n",
			now);
}

/* Images of one's own say of which family they are; of others the newest of a family that is still there. */
static void images(struct buf *b, const struct yaml_node *spec)
{
	const struct yaml_node *own = old_get(spec, "amiSelector");
	bool rocket = !strcmp(old_text(old_get(spec, "amiFamily"), ""), "Bottlerocket");

	if (says_something(own)) {
		buf_printf(b, "  amiFamily: %s\n", rocket ? "Bottlerocket" : "AL2023");
		terms(b, own, "amiSelectorTerms");
	} else {
		buf_printf(b, "  amiSelectorTerms:\n  - alias: %s@latest\n",
			rocket ? "bottlerocket" : "al2023");
	}
	if (!old_is_scalar(old_get(spec, "userData")))
		return;
	if (rocket)
		old_tree(b, "userData", old_get(spec, "userData"), 2);
	else
		buf_puts(b,
			"  # userData is left out: AL2023 reads another form, see nodeadm's NodeConfig\n");
}

static void rights(struct buf *b, const struct yaml_node *spec)
{
	const struct yaml_node *profile = old_get(spec, "instanceProfile");

	if (old_is_scalar(profile))
		old_tree(b, "instanceProfile", profile, 2);
	else
		buf_puts(b, "  role: KarpenterNodeRole-CLUSTER_NAME\n");
}

/* All but the container runtime, which is no choice any more. */
static void kubelet_of(struct buf *b, const struct yaml_node *old)
{
	bool any = false;

	for (size_t i = 0; old && old->type == YAML_OBJECT && i < old->n; i++) {
		const char *key = yaml_as_text(old->pairs[i].key);

		if (!strcmp(key, "containerRuntime") || key[strspn(key, LETTERS)])
			continue;
		if (!any)
			buf_puts(b, "  kubelet:\n");
		any = true;
		old_tree(b, key, old->pairs[i].value, 4);
	}
}

static void say_left_out(struct buf *b, const struct yaml_node *tags)
{
	for (size_t i = 0; tags && tags->type == YAML_OBJECT && i < tags->n; i++) {
		const char *key = yaml_as_text(tags->pairs[i].key);

		if (!old_is_karpenters(key))
			continue;
		buf_puts(b, "  # left out, as only Karpenter sets it: the tag ");
		make_quoted(b, key);
		buf_putc(b, '\n');
	}
}

void old_class(struct buf *b, const char *name, const struct yaml_node *spec,
	const struct yaml_node *kubelet)
{
	static const char *const same[] = { "blockDeviceMappings", "metadataOptions",
		"detailedMonitoring" };

	buf_puts(b,
		"apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: ");
	make_quoted(b, name);
	buf_puts(b, "\nspec:\n");
	images(b, spec);
	rights(b, spec);
	selector(b, old_get(spec, "subnetSelector"), "subnetSelectorTerms");
	selector(b, old_get(spec, "securityGroupSelector"), "securityGroupSelectorTerms");
	old_map(b, old_get(spec, "tags"), "  tags:\n", "    ", old_is_karpenters);
	say_left_out(b, old_get(spec, "tags"));
	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		old_tree(b, same[i], old_get(spec, same[i]), 2);
	kubelet_of(b, kubelet);
}
