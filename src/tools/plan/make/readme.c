/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/make/make.h"

#include <assert.h>

static bool has_pool_where(const struct pools *p, bool (*is)(const struct plan_pool *p))
{
	for (size_t i = 0; i < p->n; i++)
		if (is(&p->v[i]))
			return true;
	return false;
}

static bool is_mig_pool(const struct plan_pool *p)
{
	return p->mode == PLAN_MIG;
}

/* Ampere needs a reset of the GPU for MIG; later GPUs turn MIG on without one. */
static bool needs_pool_reboot(const struct plan_pool *p)
{
	return is_mig_pool(p) && p->offer->gpu->cc_major == 8;
}

static bool is_slices_pool(const struct plan_pool *p)
{
	return p->mode == PLAN_SLICES;
}

static bool has_mps(const struct plan_pool *p)
{
	return p->mode == PLAN_MPS;
}

static bool is_bought_pool(const struct plan_pool *p)
{
	return !p->have;
}

static bool is_existing_pool(const struct plan_pool *p)
{
	return p->have;
}

static bool needs_overlay(const struct plan_pool *p)
{
	return !p->have && make_differs(p);
}

static void render_pool_table(struct buf *b, const struct pools *p)
{
	buf_puts(b, "| pool | nodes | of | each offers |\n|---|---|---|---|\n");
	for (size_t i = 0; i < p->n; i++) {
		const struct plan_pool *q = &p->v[i];

		assert(q->offer); /* each pool has an offer */
		buf_printf(b, "| %s | %u | %s, %s | ", q->name, q->nodes, q->offer->type,
			q->have                           ? "there already"
			: q->offer->capacity == PLAN_SPOT ? "spot"
							  : "on demand");
		for (size_t k = 0; k < q->n_resources; k++)
			buf_printf(b, "%s%s: %u", k ? ", " : "", q->resources[k].name,
				q->resources[k].count);
		buf_puts(b, " |\n");
	}
}

/* Applies the map in the agent's namespace, whatever the file has. */
static void apply_map(struct buf *b, const char *path)
{
	buf_printf(b,
		"   sed \"1,/^data:/s/^  namespace: .*/  namespace: $NAMESPACE/\" %s | kubectl apply -f -\n",
		path);
}

static void render_agent_steps(struct buf *b, const struct pools *p)
{
	buf_puts(b,
		"1. The sharing configs, and the agent that reads them. If it is installed already, `helm list "
		"--all-namespaces` has its\n   release and namespace:\n\n   ```sh\n"
		"   RELEASE=gpuslice NAMESPACE=" MAKE_NAMESPACE "\n"
		"   kubectl create namespace \"$NAMESPACE\" --dry-run=client -o yaml | kubectl apply -f -\n");
	apply_map(b, MAKE_CONFIG_PATH);
	if (has_pool_where(p, is_mig_pool))
		apply_map(b, MAKE_MIG_PATH);
	/* Values of an earlier install stay, except its own config, which the chart refuses beside this one. */
	buf_puts(b,
		"   helm upgrade --install \"$RELEASE\" deploy/helm/gpuslice --namespace \"$NAMESPACE\" "
		"\\\n     --reset-then-reuse-values --set config.name=" MAKE_CONFIG_MAP
		",config.map=null,config.default=");
	if (has_pool_where(p, is_slices_pool))
		buf_puts(b, " --set slices.enabled=true");
	if (has_pool_where(p, has_mps))
		buf_puts(b, " --set mps.enabled=true");
	if (has_pool_where(p, is_mig_pool))
		buf_puts(b,
			" \\\n     --set migManager.enabled=true --set migManager.config.name=" MAKE_MIG_MAP
			",migManager.config.default=");
	if (has_pool_where(p, needs_pool_reboot))
		buf_puts(b, " --set migManager.withReboot=true");
	buf_puts(b,
		"\n   ```\n\n   `deploy/helm/gpuslice` is the chart in gpuslice's repository. `--reset-then-reuse-values` needs Helm "
		"3.14: what an earlier\n   install was given stays, but its own configs.\n\n");
	if (has_pool_where(p, needs_pool_reboot))
		buf_puts(b,
			"   **A100 and A30 turn MIG on with a reset, which virtual machines often cannot do**: the agent reboots such a "
			"node once, before pods come.\n\n");
}

static void render_node_steps(struct buf *b, const struct pools *p)
{
	if (has_pool_where(p, is_bought_pool)) {
		buf_puts(b,
			"2. The nodes. With Karpenter put your cluster's name for `CLUSTER_NAME` in `20-nodeclass.yaml`, "
			"then:\n\n   ```sh\n   kubectl apply -f 20-nodeclass.yaml -f 30-nodepools.yaml");
		if (has_pool_where(p, needs_overlay))
			buf_puts(b, " -f 40-nodeoverlays.yaml");
		buf_puts(b,
			"\n   ```\n\n   With cluster-autoscaler see `60-cluster-autoscaler-tags.txt` instead.\n\n");
	}
	if (has_pool_where(p, needs_overlay))
		buf_puts(b,
			"   **The overlays need Karpenter's feature gate `NodeOverlay=true`**, which is off by default. Without it "
			"Karpenter knows of no\n   such resource, and starts no node for pods that ask for it. "
			"`kubectl get nodeoverlays` shows READY `True` where it works.\n\n");
	if (!has_pool_where(p, is_existing_pool))
		return;
	buf_puts(b,
		"   Nodes that are there already get their label, so many of the type each:\n\n   ```sh\n");
	for (size_t i = 0; i < p->n; i++) {
		const struct plan_pool *q = &p->v[i];

		if (!q->have)
			continue;
		buf_printf(b,
			"   kubectl label node NODE nvidia.com/gpu.present=true nvidia.com/device-plugin.config=%s%s%s   # %u x %s\n",
			q->name, is_mig_pool(q) ? " nvidia.com/mig.config=" : "",
			is_mig_pool(q) ? q->name : "", q->nodes, q->offer->type);
	}
	buf_puts(b, "   ```\n\n");
}

void make_readme(struct buf *b, const struct pools *p)
{
	buf_puts(b, "# A plan to apply\n\n");
	make_sum(b, p);
	buf_puts(b, ". Made by `gpuslice plan --write`.\n\n");
	render_pool_table(b, p);
	buf_puts(b, "\n## Order\n\n");
	render_agent_steps(b, p);
	render_node_steps(b, p);
	buf_puts(b,
		"3. The workloads: `patches/` has a patch for each, with its command. Nodes of the pools carry the taint "
		"`nvidia.com/gpu:NoSchedule`,\n   and until their GPUs are offered `gpuslice.io/not-ready:NoSchedule`, which the "
		"agent takes away.\n");
	if (p->n_notes)
		buf_puts(b, "\n## To know before\n\n");
	for (size_t i = 0; i < p->n_notes; i++)
		buf_printf(b, "- %s (%s)\n", p->notes[i].text, p->notes[i].code);
}
