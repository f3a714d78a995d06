/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config/choice.h"
#include "tools/plan/make/make.h"

#include <stdio.h>
#include <string.h>

/* Karpenter 1.x. Karpenter does not know what a node with shared GPUs offers: the overlays declare it. */

#define CONSOLIDATE_AFTER "5m" /* such nodes hold many pods: do not move them for every gap */
#define FIRST_WEIGHT      10

static bool has_bought_pool(const struct pools *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (!p->v[i].have)
			return true;
	return false;
}

void make_node_class(struct buf *b, const struct pools *p)
{
	if (!has_bought_pool(p))
		return;
	make_head(b, p,
		"The machines of all pools. Put your cluster's name for CLUSTER_NAME, and a version for latest.");
	buf_puts(b,
		"apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n"
		"  name: " MAKE_NODE_CLASS "\nspec:\n"
		"  amiSelectorTerms:\n  - alias: al2023@latest\n"
		"  role: KarpenterNodeRole-CLUSTER_NAME\n"
		"  subnetSelectorTerms:\n  - tags:\n      karpenter.sh/discovery: CLUSTER_NAME\n"
		"  securityGroupSelectorTerms:\n  - tags:\n      karpenter.sh/discovery: CLUSTER_NAME\n");
}

static void render_requirement(struct buf *b, const char *key, const char *value)
{
	buf_printf(b, "      - key: %s\n        operator: In\n        values: [", key);
	make_quoted(b, value);
	buf_puts(b, "]\n");
}

/* The limit is one node more than planned, so that Karpenter can start a replacement before it removes a
 * node. */
static void render_node_pool(struct buf *b, const struct pools *pools,
	const struct plan_pool *p)
{
	buf_printf(b,
		"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: %s\nspec:\n"
		"  template:\n    metadata:\n      labels:\n"
		"        nvidia.com/gpu.present: \"true\"\n"
		"        nvidia.com/device-plugin.config: %s\n",
		p->name, p->name);
	if (p->mode == PLAN_MIG)
		buf_printf(b, "        nvidia.com/mig.config: %s\n", p->name);
	buf_puts(b, "    spec:\n      nodeClassRef:\n        group: karpenter.k8s.aws\n"
		    "        kind: EC2NodeClass\n        name: " MAKE_NODE_CLASS "\n"
		    "      requirements:\n");
	render_requirement(b, "node.kubernetes.io/instance-type", p->offer->type);
	render_requirement(b, "karpenter.sh/capacity-type",
		p->offer->capacity == PLAN_SPOT ? "spot" : "on-demand");
	render_requirement(b, "kubernetes.io/arch", p->offer->arch);
	if (pools->a->in->regions.n > 1)
		render_requirement(b, "topology.kubernetes.io/region", p->offer->region);
	buf_printf(b,
		"      taints:\n      - key: nvidia.com/gpu\n        effect: NoSchedule\n"
		"      startupTaints:\n      - key: gpuslice.io/not-ready\n        effect: NoSchedule\n"
		"  disruption:\n    consolidateAfter: " CONSOLIDATE_AFTER
		"\n    budgets:\n    - nodes: \"1\"\n"
		"  limits:\n    nodes: %u\n",
		p->nodes + 1);
}

void make_node_pools(struct buf *b, const struct pools *p)
{
	bool any = false;

	for (size_t i = 0; i < p->n; i++) {
		if (p->v[i].have)
			continue;
		if (!any)
			make_head(b, p, "The nodes to buy.");
		else
			buf_puts(b, "---\n");
		any = true;
		render_node_pool(b, p, &p->v[i]);
	}
}

static void render_node_overlay(struct buf *b, const struct plan_pool *p, unsigned weight)
{
	bool whole = false;

	buf_printf(b,
		"apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata:\n  name: %s\nspec:\n"
		"  weight: %u\n  requirements:\n"
		"  - key: karpenter.sh/nodepool\n    operator: In\n    values: [\"%s\"]\n"
		"  - key: node.kubernetes.io/instance-type\n    operator: In\n    values: [",
		p->name, weight, p->name);
	make_quoted(b, p->offer->type);
	buf_puts(b, "]\n  capacity:\n");
	for (size_t i = 0; i < p->n_resources; i++) {
		whole |= !strcmp(p->resources[i].name, POOL_RESOURCE_WHOLE);
		buf_printf(b, "    %s: \"%u\"\n", p->resources[i].name, p->resources[i].count);
	}
	/* Else Karpenter buys nodes for pods that request a whole GPU, which these nodes do not offer. */
	if (!whole)
		buf_puts(b, "    " POOL_RESOURCE_WHOLE ": \"0\"\n");
}

void make_overlays(struct buf *b, const struct pools *p)
{
	unsigned n = 0;

	for (size_t i = 0; i < p->n; i++) {
		if (p->v[i].have || !make_differs(&p->v[i]))
			continue;
		if (!n)
			make_head(b, p,
				"What these nodes will offer; needs Karpenter's feature gate NodeOverlay=true.");
		else
			buf_puts(b, "---\n");
		render_node_overlay(b, &p->v[i], FIRST_WEIGHT + n++);
	}
}

/* --- cluster-autoscaler --- */

static void render_autoscaler_tag(struct buf *b, const char *key, const char *name,
	const char *value, bool last)
{
	buf_printf(b,
		"  \"ResourceId=ASG_NAME,ResourceType=auto-scaling-group,PropagateAtLaunch=true,"
		"Key=k8s.io/cluster-autoscaler/node-template/%s/%s,Value=%s\"%s\n",
		key, name, value, last ? "" : " \\");
}

static void pool_tags(struct buf *b, const struct plan_pool *p)
{
	bool whole = false;

	buf_printf(b,
		"\n# Pool %s: a group of %u x %s, %s\naws autoscaling create-or-update-tags --tags \\\n",
		p->name, p->nodes, p->offer->type,
		p->offer->capacity == PLAN_SPOT ? "spot" : "on demand");
	for (size_t i = 0; i < p->n_resources; i++) {
		char count[16];

		whole |= !strcmp(p->resources[i].name, POOL_RESOURCE_WHOLE);
		(void)snprintf(count, sizeof(count), "%u", p->resources[i].count);
		render_autoscaler_tag(b, "resources", p->resources[i].name, count, false);
	}
	if (!whole) /* as in the overlay */
		render_autoscaler_tag(b, "resources", POOL_RESOURCE_WHOLE, "0", false);
	render_autoscaler_tag(b, "label", "nvidia.com/gpu.present", "true", false);
	render_autoscaler_tag(b, "label", CONFIG_NODE_LABEL, p->name, false);
	if (p->mode == PLAN_MIG)
		render_autoscaler_tag(b, "label", "nvidia.com/mig.config", p->name, false);
	render_autoscaler_tag(b, "taint", POOL_RESOURCE_WHOLE, ":NoSchedule", true);
}

void make_tags(struct buf *b, const struct pools *p)
{
	if (!has_bought_pool(p))
		return;
	make_head(b, p,
		"Instead of Karpenter's objects: for node groups under cluster-autoscaler.");
	buf_puts(b,
		"# The groups' nodes need the same labels and taint themselves. A node with the label k8s.amazonaws.com/accelerator\n"
		"# counts as unready until it offers nvidia.com/gpu: leave that label away where only slots or MIG devices are offered.\n");
	for (size_t i = 0; i < p->n; i++)
		if (!p->v[i].have)
			pool_tags(b, &p->v[i]);
}
