/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/pools/internal.h"

#include <stdlib.h>
#include <string.h>

/* A scheduler may put a patched workload into each pool that offers its resource, with any number of its
 * replicas. */

/* Position of resource @name in @p; .n_resources: not found. */
static uint32_t find_resource_position(const struct plan_pool *p, const char *name)
{
	uint32_t i = 0;

	while (i < p->n_resources && strcmp(p->resources[i].name, name) != 0)
		i++;
	return i;
}

static bool is_first(const struct pools *s, size_t pool, const char *name)
{
	for (size_t i = 0; i < pool; i++)
		if (find_resource_position(&s->v[i], name) < s->v[i].n_resources)
			return false;
	return true;
}

/* Counts the replicas that request @name in all pools; @sum has one element for each workload. */
static void count_reachable(struct pools *s, const char *name, uint32_t *sum)
{
	memset(sum, 0, s->a->in->n_workloads * sizeof(*sum));
	for (int set = 0; set <= 1; set++) {
		for (size_t i = 0; i < s->n; i++) {
			uint32_t resource = find_resource_position(&s->v[i], name);

			for (size_t k = 0; k < s->v[i].n_tenants; k++) {
				struct pool_tenant *t = &s->v[i].tenants[k];

				if (t->resource != resource)
					continue;
				if (set)
					t->reachable = sum[t->workload];
				else
					sum[t->workload] += t->replicas;
			}
		}
	}
}

int pools_set_reachable(struct pools *s, struct error *err)
{
	CLEANUP(freep) uint32_t *sum = calloc(s->a->in->n_workloads + 1, sizeof(*sum));

	if (!sum)
		return error_nomem(err);
	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < s->v[i].n_resources; k++)
			if (is_first(s, i, s->v[i].resources[k].name))
				count_reachable(s, s->v[i].resources[k].name, sum);
	return 0;
}
