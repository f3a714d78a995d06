/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The meaning of a plan for each workload, and how its cost is spent: times, cost of a million requests,
 * unallocated capacity, loss to interruptions.
 *
 * A node's price is split equally among its GPUs. A tenant pays for its share of a GPU: one slot, the memory of
 * its slice or MIG device, or all of it. The rest of a GPU is unallocated (.idle_nano). So all amounts sum to the
 * price of the nodes exactly.
 *
 * Thread: any.
 */
#include "tools/plan/fit/fit.h"
#include "tools/plan/input/input.h"

struct plan_answer;

/* A workload in the plan. */
struct plan_outcome {
	uint32_t replicas;             /* with a place */
	uint32_t nodes;                /* nodes with at least one replica */
	const struct plan_node *worst; /* node of its slowest replica; NULL: no place */
	struct fit_times times;        /* of that replica */
	int64_t nano_per_hour;         /* cost of its shares */
	double rate;                   /* requests per second of all replicas; 0: unknown */
	int64_t before_nano; /* the cost with a dedicated GPU per replica; 0: no baseline */
	double before_rate;
	double lost_low, lost_high; /* share of its time lost to interruptions; < 0: unknown */
};

/* How the cost of the nodes is spent. */
struct outcome_money {
	int64_t idle_nano; /* part of the plan's price per hour that no tenant has */
	int64_t spot_nano; /* part for spot nodes */
	uint64_t spot_nodes;
	uint32_t blast_replicas;  /* on the spot node with the most replicas */
	uint32_t blast_workloads; /* number of workloads of these replicas */
	double rate,
		before_rate; /* requests per second of all workloads; 0: some are unknown */
};

/* Fills @ret, with .in->n_workloads elements, and @money. */
int outcome_make(const struct plan_answer *a, struct plan_outcome *ret,
	struct outcome_money *money, struct error *err) MUST_USE;

/* Price of a million requests, in nano-units; -1: unknown, or beyond the range of an amount. */
int64_t outcome_million(int64_t nano_per_hour, double rate);

/* The worst origin of the figures of placed workloads; *n, unless NULL: number of workloads with it. */
enum plan_origin outcome_origin(const struct plan_answer *a, size_t *n);

/* Whether the tenant has that GPU: a tenant with several GPUs is listed with its first, and has those after
 * it too. */
bool outcome_has_gpu(const struct plan_answer *a, const struct plan_tenant *t, uint32_t gpu);

/* The share of its GPU that a tenant of @n has, 0 to 1: a slot, the memory of its slice or MIG device, or
 * all of it. */
double outcome_share(const struct plan_node *n, const struct plan_tenant *t);
