/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside src/tools/plan/pools only. Thread: the owner's of the pools. */
#include "lib/base/buf.h"
#include "tools/plan/pools/pools.h"

/* A node, and the properties that decide its pool. */
struct pool_node {
	const struct plan_node *node;
	/* Of its GPUs, in the order of a pool; NULL: not partitioned. */
	struct pool_partition *partitions;
	uint32_t *workloads; /* workloads on it, ascending; .node->n */
	bool alone; /* the node may only share a pool with nodes of the same workloads */
};

/* One slot is not sharing. */
static inline enum plan_mode pool_mode(const struct plan_node *n)
{
	return n->mode == PLAN_TIME_SLICING && n->slots <= 1 ? PLAN_EXCLUSIVE : n->mode;
}

static inline uint32_t pool_slots(const struct plan_node *n)
{
	return pool_mode(n) == PLAN_EXCLUSIVE ? 0 : n->slots;
}

/* The name of the resource that tenant @t of a node requests. */
void pool_format_resource(const struct plan_node *n, const struct plan_tenant *t,
	char ret[static POOL_KEY_MAX]);

/* Sets how many replicas of each tenant can come to each pool. */
int pools_set_reachable(struct pools *pools, struct error *err) MUST_USE;

/* *ret_feasible: whether every combination of tenants that can meet on a GPU of @p is feasible. If not, @text
 * names a conflict. */
int pool_check_feasible(const struct plan_answer *a, const struct plan_pool *p,
	bool *ret_feasible, struct buf *text, struct error *err) MUST_USE;
