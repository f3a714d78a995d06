/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The nodes of a plan as pools: nodes that Kubernetes may treat as one kind, since they are of one type and price
 * and share their GPUs in one way. What a scheduler puts together on a GPU it does not ask the plan: so a pool is
 * only as wide as every arrangement that it may come to holds.
 * Thread: any. All is borrowed from the answer but for the pools themselves.
 */
#include "model/offer/offer.h"
#include "tools/plan/answer/answer.h"

#define POOLS_MAX     256
#define POOL_NAME_MAX 64 /* with the end; a DNS label, and the value of a node label */
#define POOL_KEY_MAX  64 /* name of a resource, with the end */

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
	uint32_t each;      /* how many of it a replica asks for */
	uint32_t reachable; /* replicas, here and elsewhere, that ask for the same */
};

/* How one GPU is cut: MIG profiles by position in the model's layout, or sizes in MiB; ascending. */
struct pool_partition {
	uint32_t n;
	uint32_t v[PLAN_PODS_MAX];
};

struct plan_pool {
	char name[POOL_NAME_MAX];
	const struct plan_offer *offer;
	enum plan_mode mode;
	uint32_t slots; /* of each GPU; 0: not by slots */
	uint32_t nodes;
	bool have;                         /* nodes that are there already */
	struct pool_partition *partitions; /* of each GPU of a node; NULL: not cut */
	struct pool_resource *resources;
	size_t n_resources;
	struct pool_tenant *tenants;
	size_t n_tenants;
};

/* What somebody should know before all of it is applied; codes are part of the output's format. */
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
