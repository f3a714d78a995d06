/* SPDX-License-Identifier: Apache-2.0 */
/* Fills one node. */
#include "tools/plan/pack/internal.h"

#include <math.h>
#include <string.h>

#define MISSES_MAX 64 /* failed checks before a node counts as full */
#define LOAD_MAX \
	1.25F /* sum of sizes on a GPU above which no check is made: mixes can exceed 1 */

void pack_node_begin(struct pack_node *plan, const struct pack_shape *shape)
{
	plan->shape = shape;
	plan->cpu_milli = shape->offer->cpu_milli;
	plan->memory_mib = shape->offer->memory_mib;
	plan->n = 0;
	plan->worth = 0;
	memset(plan->n_on_gpu, 0, sizeof(plan->n_on_gpu));
	memset(plan->load, 0, sizeof(plan->load));
}

static bool is_gpu_plan_feasible(struct packer *p, const struct pack_node *plan, uint32_t gpu)
{
	return pack_check_fit(p, plan->shape, plan->workloads[gpu], plan->n_on_gpu[gpu]);
}

static void allocate_node_capacity(struct packer *p, struct pack_node *plan, uint32_t workload)
{
	const struct plan_workload *w = &p->fit->workloads[workload];

	plan->cpu_milli -= w->cpu_milli;
	plan->memory_mib -= w->memory_mib;
	plan->n++;
	plan->worth += p->worth[workload];
}

/* Whole GPUs for one replica: the replica is on the first of them, the others are full. */
static bool add_whole_gpus(struct packer *p, struct pack_node *plan, uint32_t workload,
	uint32_t gpus)
{
	uint32_t n = plan->shape->offer->gpus, empty = 0, first = n;

	if (plan->shape->mode != PLAN_EXCLUSIVE)
		return false;
	for (uint32_t g = n; g-- > 0;) {
		if (plan->load[g] > 0)
			continue;
		empty++;
		first = g;
	}
	if (empty < gpus)
		return false;
	plan->workloads[first][0] = workload;
	plan->n_on_gpu[first] = 1;
	if (!is_gpu_plan_feasible(p, plan, first)) {
		plan->n_on_gpu[first] = 0;
		return false;
	}
	for (uint32_t g = first; gpus; g++) {
		if (plan->load[g] > 0)
			continue;
		plan->load[g] = 1;
		gpus--;
	}
	allocate_node_capacity(p, plan, workload);
	return true;
}

/* Anti-affinity is between nodes, as in Kubernetes. */
static bool has_node_workload(const struct pack_node *plan, uint32_t workload)
{
	for (uint32_t g = 0; g < plan->shape->offer->gpus; g++)
		for (uint32_t i = 0; i < plan->n_on_gpu[g]; i++)
			if (plan->workloads[g][i] == workload)
				return true;
	return false;
}

/* The fullest GPU that may have room for @size more and is not in @tried; only one of the empty GPUs, which
 * are equal. Returns the number of GPUs if there is none. */
static uint32_t find_fullest_gpu(const struct pack_node *plan, float size, uint32_t tried)
{
	uint32_t n = plan->shape->offer->gpus, best = n;
	bool empty_tried = false;

	for (uint32_t g = 0; g < n; g++)
		empty_tried |= tried >> g & 1 && !plan->n_on_gpu[g];
	for (uint32_t g = 0; g < n; g++) {
		bool full = plan->shape->mode == PLAN_EXCLUSIVE ||
			    plan->n_on_gpu[g] >= PLAN_PODS_MAX ||
			    (plan->shape->slots && plan->n_on_gpu[g] >= plan->shape->slots);

		if (tried >> g & 1 ||
			plan->load[g] + size > (plan->n_on_gpu[g] ? LOAD_MAX : 1) ||
			(plan->n_on_gpu[g] ? full : empty_tried || plan->load[g] > 0))
			continue;
		if (best == n || plan->load[g] > plan->load[best])
			best = g;
	}
	return best;
}

static bool node_plan_add(struct packer *p, struct pack_node *plan, uint32_t workload)
{
	const struct plan_workload *w = &p->fit->workloads[workload];
	uint32_t tried = 0, g; /* bits: GPUs already checked */
	float size = p->size[plan->shape->config * p->fit->n_workloads + workload];

	if (size > 1 || w->cpu_milli > plan->cpu_milli || w->memory_mib > plan->memory_mib ||
		(w->anti_affinity && has_node_workload(plan, workload)))
		return false;
	if (w->gpus > 1)
		return add_whole_gpus(p, plan, workload, w->gpus);
	while ((g = find_fullest_gpu(plan, size, tried)) < plan->shape->offer->gpus) {
		plan->workloads[g][plan->n_on_gpu[g]++] = workload;
		if (is_gpu_plan_feasible(p, plan, g)) {
			plan->load[g] += size;
			allocate_node_capacity(p, plan, workload);
			return true;
		}
		plan->n_on_gpu[g]--;
		tried |= UINT32_C(1) << g;
	}
	return false;
}

void pack_node_fill(struct packer *p, struct pack_node *plan)
{
	const uint32_t *order = p->fill[plan->shape->config];
	size_t n = p->n_fill[plan->shape->config];
	uint32_t misses = 0;

	for (size_t i = 0; i < n && misses < MISSES_MAX; i++) {
		uint32_t w = order[i], left = p->unplaced[w], had = plan->n;
		uint64_t before = p->fit_cost;

		double cost = left ? pack_compute_cost(p, plan->shape, w) : INFINITY;

		if (!isfinite(cost) || cost > p->max_cost_ratio * p->worth[w])
			continue;
		while (left && node_plan_add(p, plan, w))
			left--;
		misses += plan->n == had && p->fit_cost != before;
	}
}
