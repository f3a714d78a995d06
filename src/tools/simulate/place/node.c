/* SPDX-License-Identifier: Apache-2.0 */
/* What a pod needs and a node has: fit, allocation and rest; and equal kinds of pods merged (place.h). */
#include "tools/simulate/place/place.h"

#include <stdlib.h>

static bool is_fractional_pod(const struct place_pod *p)
{
	return p->gpus == 1 && p->gpu_milli < PLACE_WHOLE;
}

bool place_fits(const struct place_node *n, const struct place_pod *p)
{
	uint32_t with_room = 0;

	if (n->cpu_milli < p->cpu_milli || n->memory_mib < p->memory_mib)
		return false;
	if (!p->gpus)
		return true;
	if (!(p->models >> n->model & 1))
		return false;
	for (uint32_t g = 0; g < n->gpus; g++)
		with_room += n->free_milli[g] >= p->gpu_milli;
	return with_room >= p->gpus;
}

void place_allocate(struct place_node *n, const struct place_pod *p, uint32_t gpu)
{
	uint32_t left = p->gpus;

	n->cpu_milli -= p->cpu_milli;
	n->memory_mib -= p->memory_mib;
	if (gpu != PLACE_NO_GPU) {
		n->free_milli[gpu] = (uint16_t)(n->free_milli[gpu] - p->gpu_milli);
		return;
	}
	for (uint32_t g = 0; g < n->gpus && left; g++) {
		if (n->free_milli[g] < p->gpu_milli)
			continue;
		n->free_milli[g] = (uint16_t)(n->free_milli[g] - p->gpu_milli);
		left--;
	}
}

uint32_t place_get_demand(const struct place_pod *p)
{
	return p->gpus * p->gpu_milli;
}

uint32_t place_get_free(const struct place_node *n)
{
	uint32_t sum = 0;

	for (uint32_t g = 0; g < n->gpus; g++)
		sum += n->free_milli[g];
	return sum;
}

uint32_t place_tightest(const struct place_node *n, const struct place_pod *p)
{
	uint32_t best = PLACE_NO_GPU;

	if (!is_fractional_pod(p))
		return PLACE_NO_GPU;
	for (uint32_t g = 0; g < n->gpus; g++)
		if (n->free_milli[g] >= p->gpu_milli &&
			(best == PLACE_NO_GPU || n->free_milli[g] < n->free_milli[best]))
			best = g;
	return best;
}

#define COMPARE(a, b)                              \
	do {                                       \
		if ((a) != (b))                    \
			return (a) < (b) ? -1 : 1; \
	} while (0)

static int compare_types(const void *a, const void *b)
{
	const struct place_pod *x = &((const struct place_type *)a)->pod;
	const struct place_pod *y = &((const struct place_type *)b)->pod;

	COMPARE(x->gpus, y->gpus);
	COMPARE(x->gpu_milli, y->gpu_milli);
	COMPARE(x->cpu_milli, y->cpu_milli);
	COMPARE(x->memory_mib, y->memory_mib);
	COMPARE(x->models, y->models);
	return 0;
}

size_t place_types_merge(struct place_type *types, size_t n)
{
	size_t kept = 0;

	if (!n)
		return 0;
	qsort(types, n, sizeof(*types), compare_types);
	for (size_t i = 1; i < n; i++) {
		if (compare_types(&types[kept], &types[i]) == 0)
			types[kept].weight += types[i].weight;
		else
			types[++kept] = types[i];
	}
	return kept + 1;
}
