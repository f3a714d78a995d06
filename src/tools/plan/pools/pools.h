/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The nodes of a plan as pools. A pool has nodes that Kubernetes may treat as one kind: they have one type and
 * price and share their GPUs in one way. A scheduler does not ask the plan which pods to combine on a GPU. So a
 * pool is only as wide as every combination that can occur in it is feasible.
 *
 * Thread: any. The pools own themselves; all else is borrowed from the answer.
 */
#include "model/offer/offer.h"
#include "tools/plan/answer/answer.h"

#define POOLS_MAX     256
#define POOL_NAME_MAX 64 /* with the NUL; a DNS label, and the value of a node label */
#define POOL_KEY_MAX  64 /* resource name, with the NUL */

#define POOL_RESOURCE_WHOLE  OFFER_GPU
#define POOL_RESOURCE_SHARED OFFER_GPU ".shared"

/* A resource that each node of a pool offers. */
struct pool_resource {
	char name[POOL_KEY_MAX];
	uint32_t count;
};

/* Replicas of a workload in a pool. */
struct pool_tenant {
	uint32_t workload, replicas;
	uint32_t resource;  /* position in the pool's .resources */
	uint32_t each;      /* number of the resource that a replica requests */
	uint32_t reachable; /* replicas, also of other pools, that request the same resource */
};

/* The partitions of one GPU: MIG profiles by position in the model's layout, or sizes in MiB; ascending. */
struct pool_partition {
	uint32_t n;
	uint32_t v[PLAN_PODS_MAX];
};

struct plan_pool {
	char name[POOL_NAME_MAX];
	const struct plan_offer *offer;
	enum plan_mode mode;
	uint32_t slots; /* of each GPU; 0: no slots */
	uint32_t nodes;
	bool have;                         /* existing nodes */
	struct pool_partition *partitions; /* of each GPU of a node; NULL: not partitioned */
	struct pool_resource *resources;
	size_t n_resources;
	struct pool_tenant *tenants;
	size_t n_tenants;
};

/* A warning for the operator who applies the objects; codes are part of the output's format. */
struct pool_note {
	const char *code; /* "arrangement", "many-pools", "split-workload" */
	char *text;       /* malloc'ed */
};

struct pools {
	const struct plan_answer *a;
	struct plan_pool *v;
	size_t n;
	struct pool_note *notes;
	size_t n_notes;
};

/* ERR_LIMIT: more than POOLS_MAX kinds of nodes. */
int pools_new(struct pools **ret, const struct plan_answer *a, struct error *err) MUST_USE;
struct pools *pools_free(struct pools *p); /* returns NULL */
DEFINE_CLEANUP(struct pools *, pools_free)
