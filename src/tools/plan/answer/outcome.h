/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a plan means for each workload, and what the money is spent on: times, cost of a million requests, what
 * nobody uses, what an interruption takes.
 *
 * A node's price is its GPUs' in equal parts. A tenant pays for its part of a GPU: a slot of so many, the memory
 * of its slice or MIG device, or all of it. What is left of a GPU is idle. So all parts sum to the price of the
 * nodes exactly.
 * Thread: any.
 */
#include "tools/plan/fit/fit.h"
#include "tools/plan/input/input.h"

struct plan_answer;

/* A workload in the plan. */
struct plan_outcome {
	uint32_t replicas;             /* that have a place */
	uint32_t nodes;                /* that it is on */
	const struct plan_node *worst; /* where its slowest replica is; NULL: nowhere */
	struct fit_times times;        /* of that one */
	int64_t nano_per_hour;         /* what it pays for */
	double rate;                   /* requests per second of all replicas; 0: not known */
	int64_t before_nano;           /* the same with a GPU each; 0: no such */
	double before_rate;
	double lost_low, lost_high; /* of its time, to interruptions; < 0: not known */
};

/* What the nodes are spent on. */
struct outcome_money {
	int64_t idle_nano; /* of the plan's price per hour: nobody has it */
	int64_t spot_nano; /* is for spot nodes */
	uint64_t spot_nodes;
	uint32_t blast_replicas;  /* on the spot node that has most */
	uint32_t blast_workloads; /* of so many workloads */
	double rate,
		before_rate; /* requests per second of all workloads; 0: not all are known */
};

/* Fills @ret of .in->n_workloads, and @money. */
int outcome_make(const struct plan_answer *a, struct plan_outcome *ret,
	struct outcome_money *money, struct error *err) MUST_USE;

/* Price of a million requests, in nano-units; -1: not known, or beyond what an amount can be. */
int64_t outcome_million(int64_t nano_per_hour, double rate);

/* The worst origin of the figures that those with a place rest on; *n, unless NULL: so many workloads have it. */
enum plan_origin outcome_origin(const struct plan_answer *a, size_t *n);

/* Whether it has that GPU: one with several is listed with the first of them, and has those behind it too. */
bool outcome_has_gpu(const struct plan_answer *a, const struct plan_tenant *t, uint32_t gpu);

/* What part of its GPU a tenant of @n has, 0 to 1: a slot, the memory of its slice or MIG device, or all of it. */
double outcome_share(const struct plan_node *n, const struct plan_tenant *t);
