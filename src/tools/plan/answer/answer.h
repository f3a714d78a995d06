/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A plan and its comparisons: a dedicated GPU for each replica (baseline), the user's layout, and cheaper
 * alternatives with the reason why they may not be feasible; and what each team pays for. Thread: any.
 */
#include "io/price/price.h"
#include "tools/plan/fit/fit.h"
#include "tools/plan/input/input.h"
#include "tools/plan/pack/pack.h"

/* --- what the plan means for each workload --- */

/*
 * The meaning of a plan for each workload, and how its cost is spent: times, cost of a million requests,
 * unallocated capacity, loss to interruptions.
 *
 * A node's price is split equally among its GPUs. A tenant pays for its share of a GPU: one slot, the memory of
 * its slice or MIG device, or all of it. The rest of a GPU is unallocated (.idle_nano). So all amounts sum to the
 * price of the nodes exactly.
 */

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
	/* Requests per second of all workloads, in the plan and in the baseline; 0: some are unknown. */
	double rate, before_rate;
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

/* --- the plan and what it is compared with --- */

/*
 * A plan and its comparisons: a dedicated GPU for each replica (baseline), the user's layout, and cheaper
 * alternatives with the reason why they may not be feasible. Thread: any.
 */

#define ANSWER_HOURS_A_MONTH 730
#define ANSWER_LINES_MAX     64

/* A way to serve the workloads: .nodes of .offer, each GPU in .slices parts (1: not shared). */
struct answer_line {
	const struct plan_offer *offer; /* NULL: no line */
	enum plan_mode mode;
	uint32_t slices;
	uint64_t nodes;
	int64_t nano_per_hour;
	enum plan_reason reason; /* PLAN_FITS, or why the line is not feasible */
	uint32_t culprit;        /* the workload of the reason */
	double rho; /* demanded share of the GPU's time, if that is the reason; else 0 */
};

struct plan_answer {
	struct plan_input *in;                /* borrowed */
	const struct price_catalogue *prices; /* borrowed */
	struct plan_offer *offers;            /* allowed by the policy */
	size_t n_offers, offers_cap;
	struct plan_offer *others; /* excluded by the policy, for comparisons */
	size_t n_others, others_cap;
	uint32_t *limits; /* of each offer; NULL: no limits */
	struct fit *fit;
	uint64_t replicas;
	const char *currency; /* of all amounts */
	/* A dedicated GPU for each replica, of the baseline's type or the cheapest. */
	struct answer_line baseline;
	struct answer_line layout;   /* the user's layout; .offer NULL: none */
	struct pack_result unsliced; /* cheapest without slicing */
	struct pack_result plan;
	/* Alternatives to the layout, cheapest first. */
	struct answer_line lines[ANSWER_LINES_MAX];
	size_t n_lines;
	struct plan_outcome *outcomes; /* of each workload of .in */
	struct outcome_money money;
};

struct answer_setting {
	uint64_t budget, budget_each; /* cost of fit checks: for all, and for each replica */
	uint64_t seed;
	bool (*go_on)(void *arg, double done, int64_t nano_per_hour);
	void *arg;
};

/* ERR_NOT_FOUND: a named type is not in the catalogue, or the policy leaves no offer. */
int plan_answer_new(struct plan_answer **ret, struct plan_input *in,
	const struct price_catalogue *prices, const struct answer_setting *s,
	struct error *err) MUST_USE;
struct plan_answer *plan_answer_free(struct plan_answer *a); /* returns NULL */
DEFINE_CLEANUP(struct plan_answer *, plan_answer_free)

/* ceil(@replicas / (@slices * @gpus)): nodes with @gpus GPUs. 0 if there are no slices or GPUs. */
uint64_t answer_nodes(uint64_t replicas, uint32_t slices, uint32_t gpus);

/* --- costs of nodes beside their instances --- */

/*
 * By policy.extras: the cluster, an amount for each node, and a share of the price on demand. EKS Auto Mode
 * charges that share for spot instances too.
 */

/* Nano-units per hour; they saturate at PRICE_SUM_MAX. */
struct extras {
	uint64_t nodes;                         /* bought or existing */
	int64_t cluster, each_node, share, all; /* .all: including the instances */
};

/* Whether the input has such costs. */
bool extras_any(const struct plan_answer *a);
/* Sums the costs of @plan, or of the line @l, with an .offer. */
void extras_of_plan(const struct plan_answer *a, const struct pack_result *plan,
	struct extras *ret);
void extras_of_line(const struct plan_answer *a, const struct answer_line *l,
	struct extras *ret);

/* --- workloads that do not fit, even alone --- */

/* Each workload on each available GPU, in each mode that the policy allows. */

#define REJECTIONS_MAX 20000

struct rejection {
	uint32_t workload;
	const struct plan_gpu *gpu;
	enum plan_mode mode;
	enum plan_reason reason;
};

/* By workload, GPU, mode. @ret has @room elements; returns the number of all rejections, even if larger. */
size_t reject_list(const struct plan_answer *a, struct rejection *ret, size_t room);
