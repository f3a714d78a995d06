/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/make/make.h"

#include <string.h>

/* What changes in a workload: what it asks for, and where it may be. A strategic merge patch. */

/* The pools in which it asks for @resource, as a list. */
static size_t pools_with(struct buf *b, const struct pools *p, uint32_t workload,
	const char *resource, uint32_t *each)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		for (size_t k = 0; k < p->v[i].n_tenants; k++) {
			const struct pool_tenant *t = &p->v[i].tenants[k];

			if (t->workload != workload ||
				strcmp(p->v[i].resources[t->resource].name, resource) != 0)
				continue;
			buf_printf(b, "%s%s", n++ ? ", " : "", p->v[i].name);
			*each = t->each;
		}
	}
	return n;
}

static void where(struct buf *b, const struct buf *names, size_t n)
{
	if (n == 1) {
		buf_printf(b,
			"      nodeSelector:\n        nvidia.com/device-plugin.config: %s\n",
			buf_str(names));
		return;
	}
	buf_printf(b,
		"      affinity:\n        nodeAffinity:\n"
		"          requiredDuringSchedulingIgnoredDuringExecution:\n"
		"            nodeSelectorTerms:\n            - matchExpressions:\n"
		"              - key: nvidia.com/device-plugin.config\n                operator: In\n"
		"                values: [%s]\n",
		buf_str(names));
}

static bool must_stay(const struct plan_workload *w)
{
	return !w->checkpointable && (w->kind == PLAN_BATCH || w->kind == PLAN_TRAIN);
}

void make_patch(struct buf *b, const struct pools *p, uint32_t workload, const char *resource)
{
	const struct plan_workload *w = &p->a->in->workloads[workload];
	const char *kind = w->object_kind ? w->object_kind : "deployment";
	const char *was = w->object_resource ? w->object_resource : POOL_RESOURCE_WHOLE;
	CLEANUP(buf_fini) struct buf names = BUF_INIT(1U << 16);
	uint32_t each = 1;
	size_t n = pools_with(&names, p, workload, resource, &each);

	make_head(b, p, "What changes in a workload.");
	buf_printf(b, "# kubectl patch %s ", kind);
	make_quoted(b, w->name);
	buf_puts(b,
		" --patch-file THIS_FILE\n# Tolerations are a list that this replaces: add yours.\n");
	if (!w->object_container)
		buf_puts(b,
			"# Put the name of the container that uses the GPU for CONTAINER.\n");
	buf_puts(b, "spec:\n  template:\n");
	if (must_stay(w))
		buf_puts(b, "    metadata:\n      annotations:\n"
			    "        karpenter.sh/do-not-disrupt: \"true\"\n");
	buf_puts(b, "    spec:\n");
	where(b, &names, n);
	buf_puts(b,
		"      tolerations:\n      - key: nvidia.com/gpu\n        operator: Exists\n"
		"        effect: NoSchedule\n      containers:\n      - name: ");
	make_quoted(b, w->object_container ? w->object_container : "CONTAINER");
	buf_puts(b, "\n        resources:\n          limits:\n");
	buf_printf(b, "            %s: \"%u\"\n", resource, each);
	if (strcmp(was, resource) != 0)
		buf_printf(b,
			"            %s: null\n          requests:\n            %s: null\n",
			was, was);
}
