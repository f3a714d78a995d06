/* SPDX-License-Identifier: Apache-2.0 */
/* What a scheduler can put into a pool, and whether all of that is feasible. */
#include "tools/plan/pools/internal.h"

#include <stdlib.h>
#include <string.h>

/* --- what can come to a pool --- */

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

static bool is_first(const struct pools *pools, size_t pool, const char *name)
{
	for (size_t i = 0; i < pool; i++)
		if (find_resource_position(&pools->v[i], name) < pools->v[i].n_resources)
			return false;
	return true;
}

/* Counts the replicas that request @name in all pools; @sum has one element for each workload. */
static void count_reachable(struct pools *pools, const char *name, uint32_t *sum)
{
	memset(sum, 0, pools->a->in->n_workloads * sizeof(*sum));
	for (int set = 0; set <= 1; set++) {
		for (size_t i = 0; i < pools->n; i++) {
			uint32_t resource = find_resource_position(&pools->v[i], name);

			for (size_t k = 0; k < pools->v[i].n_tenants; k++) {
				struct pool_tenant *t = &pools->v[i].tenants[k];

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

int pools_set_reachable(struct pools *pools, struct error *err)
{
	CLEANUP(freep) uint32_t *sum = calloc(pools->a->in->n_workloads + 1, sizeof(*sum));

	if (!sum)
		return error_nomem(err);
	for (size_t i = 0; i < pools->n; i++)
		for (size_t k = 0; k < pools->v[i].n_resources; k++)
			if (is_first(pools, i, pools->v[i].resources[k].name))
				count_reachable(pools, pools->v[i].resources[k].name, sum);
	return 0;
}

/* --- whether all of it can be on one GPU --- */

/*
 * The worst case of a pool. A scheduler puts any replica on any GPU where the requested resource is free. So the
 * replicas with the largest demand for time, memory or bandwidth can meet on one GPU, together with any other
 * replica. Those of other pools can meet there too, if they request the same resource.
 */

enum gpu_demand { GPU_DEMAND_TIME, GPU_DEMAND_MEMORY, GPU_DEMAND_BANDWIDTH, GPU_DEMANDS };

static double get_demand(const struct plan_answer *a, const struct plan_pool *p,
	uint32_t workload, enum gpu_demand want)
{
	const struct fit_pod *pod = fit_pod(a->fit, workload, p->offer->gpu);

	switch (want) {
	case GPU_DEMAND_TIME:
		return pod->busy;
	case GPU_DEMAND_BANDWIDTH: /* where pods run concurrently */
		return pod->busy * pod->dram;
	case GPU_DEMAND_MEMORY:
	case GPU_DEMANDS:
		break;
	}
	return pod->memory_mib;
}

/* A GPU of the pool during filling. */
struct worst_case_gpu {
	const struct plan_answer *a;
	const struct plan_pool *p;
	enum gpu_demand want;
	uint32_t workloads[PLAN_PODS_MAX], n;
	uint32_t *used; /* replicas of each tenant on the GPU */
};

/* Adds up to @n replicas that request @resource, the largest demand first. */
static void add_largest_tenants(struct worst_case_gpu *m, uint32_t resource, uint32_t n)
{
	while (n) {
		size_t best = m->p->n_tenants;
		double max = -1;

		for (size_t i = 0; i < m->p->n_tenants; i++) {
			const struct pool_tenant *t = &m->p->tenants[i];
			double want = get_demand(m->a, m->p, t->workload, m->want);

			if (t->resource != resource || m->used[i] >= t->reachable ||
				(m->used[i] && m->a->in->workloads[t->workload].anti_affinity))
				continue;
			if (want > max) {
				max = want;
				best = i;
			}
		}
		if (best == m->p->n_tenants || m->n == PLAN_PODS_MAX)
			return;
		m->used[best]++;
		m->workloads[m->n++] = m->p->tenants[best].workload;
		n--;
	}
}

static enum plan_reason check_worst_case(const struct worst_case_gpu *m, uint32_t *culprit)
{
	struct fit_gpu g = { m->p->offer, m->p->mode, m->p->slots, m->workloads, m->n };

	return m->n ? fit_check(m->a->fit, &g, NULL, NULL, culprit) : PLAN_FITS;
}

static void describe_conflict(const struct worst_case_gpu *m, enum plan_reason reason,
	uint32_t culprit, struct buf *text)
{
	buf_printf(text, "'%s' (%s) beside",
		m->a->in->workloads[m->workloads[culprit < m->n ? culprit : 0]].name,
		plan_reason_names[reason]);
	for (uint32_t i = 0; i < m->n && i < 8; i++)
		if (i != culprit)
			buf_printf(text, " '%s'", m->a->in->workloads[m->workloads[i]].name);
}

/* Checks a GPU with @first and the replicas with the largest demand. */
static bool is_worst_case_feasible(struct worst_case_gpu *m, size_t first, struct buf *text)
{
	const struct pool_tenant *t = &m->p->tenants[first];
	const struct pool_partition *partitions = m->p->partitions;
	uint32_t culprit = 0, gpus = partitions ? m->p->offer->gpus : 1;
	enum plan_reason reason;

	for (uint32_t g = 0; g < gpus; g++) {
		bool seated = false;

		for (size_t i = 0; i < m->p->n_tenants; i++)
			m->used[i] = 0;
		m->n = 0;
		m->used[first] = 1;
		m->workloads[m->n++] = t->workload;
		if (!partitions)
			add_largest_tenants(m, t->resource, m->p->slots - 1);
		for (uint32_t i = 0; partitions && i < partitions[g].n; i++) {
			char name[POOL_KEY_MAX];
			struct plan_tenant like = { .memory_mib = partitions[g].v[i] };
			const struct plan_node node = { .offer = m->p->offer,
				.mode = m->p->mode };
			uint32_t resource = 0;

			pool_format_resource(&node, &like, name);
			while (resource < m->p->n_resources &&
				strcmp(m->p->resources[resource].name, name) != 0)
				resource++;
			if (resource == t->resource && !seated)
				seated = true; /* the partition of @first itself */
			else
				add_largest_tenants(m, resource, 1);
		}
		if (partitions && !seated)
			continue;
		reason = check_worst_case(m, &culprit);
		if (reason != PLAN_FITS) {
			describe_conflict(m, reason, culprit, text);
			return false;
		}
	}
	return true;
}

int pool_check_feasible(const struct plan_answer *a, const struct plan_pool *p,
	bool *ret_feasible, struct buf *text, struct error *err)
{
	struct worst_case_gpu m = { .a = a, .p = p };
	bool feasible = true;

	*ret_feasible = true;
	/* MIG devices are separate, and a whole GPU has one tenant. */
	if (p->mode == PLAN_EXCLUSIVE || p->mode == PLAN_MIG || p->slots == 1)
		return 0;
	m.used = calloc(p->n_tenants + 1, sizeof(*m.used));
	if (!m.used)
		return error_nomem(err);
	for (int w = 0; w < GPU_DEMANDS && feasible; w++) {
		m.want = (enum gpu_demand)w;
		for (size_t i = 0; i < p->n_tenants && feasible; i++)
			feasible = is_worst_case_feasible(&m, i, text);
	}
	free(m.used);
	*ret_feasible = feasible;
	return 0;
}
