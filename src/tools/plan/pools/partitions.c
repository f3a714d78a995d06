/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/pools/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tenant's partition of its GPU, as a number: a MIG profile, or a size. */
static uint32_t get_tenant_partition(const struct plan_node *n, const struct plan_tenant *t)
{
	return n->mode == PLAN_MIG ? t->profile : t->memory_mib;
}

static int compare_partition_values(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* GPUs with more partitions first, so that unused GPUs come last. */
static int compare_partitions(const void *a, const void *b)
{
	const struct pool_partition *x = a, *y = b;

	if (x->n != y->n)
		return x->n > y->n ? -1 : 1;
	for (uint32_t i = 0; i < x->n; i++)
		if (x->v[i] != y->v[i])
			return x->v[i] < y->v[i] ? -1 : 1;
	return 0;
}

int pool_partitions_new(const struct plan_node *n, struct pool_partition **ret,
	struct error *err)
{
	struct pool_partition *partitions;

	*ret = NULL;
	if (n->mode != PLAN_MIG && n->mode != PLAN_SLICES)
		return 0;
	partitions = calloc(n->offer->gpus + 1, sizeof(*partitions));
	if (!partitions)
		return error_nomem(err);
	for (uint32_t i = 0; i < n->n; i++) {
		struct pool_partition *c = &partitions[n->tenants[i].gpu];

		if (c->n < PLAN_PODS_MAX)
			c->v[c->n++] = get_tenant_partition(n, &n->tenants[i]);
	}
	for (uint32_t g = 0; g < n->offer->gpus; g++)
		qsort(partitions[g].v, partitions[g].n, sizeof(*partitions[g].v),
			compare_partition_values);
	qsort(partitions, n->offer->gpus, sizeof(*partitions), compare_partitions);
	*ret = partitions;
	return 0;
}

int pool_partitions_compare(const struct pool_partition *a, const struct pool_partition *b,
	uint32_t gpus)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	for (uint32_t g = 0; g < gpus; g++) {
		int order = compare_partitions(&a[g], &b[g]);

		if (order)
			return order;
	}
	return 0;
}

void pool_format_resource(const struct plan_node *n, const struct plan_tenant *t,
	char ret[static POOL_KEY_MAX])
{
	char profile[MIG_PROFILE_NAME_MAX];

	switch (pool_mode(n)) {
	case PLAN_TIME_SLICING:
	case PLAN_MPS:
		(void)snprintf(ret, POOL_KEY_MAX, "%s", POOL_RESOURCE_SHARED);
		return;
	case PLAN_SLICES:
		(void)snprintf(ret, POOL_KEY_MAX, "nvidia.com/gpu.%umi", t->memory_mib);
		return;
	case PLAN_MIG:
		mig_layout_name(n->offer->gpu->mig, t->profile, 0, profile);
		(void)snprintf(ret, POOL_KEY_MAX, OFFER_MIG "%.40s", profile);
		return;
	case PLAN_EXCLUSIVE:
	case PLAN_MODES:
		break;
	}
	(void)snprintf(ret, POOL_KEY_MAX, "%s", POOL_RESOURCE_WHOLE);
}
