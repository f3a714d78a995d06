/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A plan and its comparisons: a dedicated GPU for each replica (baseline), the user's layout, and cheaper
 * alternatives with the reason why they may not be feasible. Thread: any.
 */
#include "tools/plan/answer/outcome.h"
#include "tools/plan/input/input.h"
#include "tools/plan/pack/pack.h"
#include "io/price/price.h"

#define ANSWER_HOURS_A_MONTH 730
#define ANSWER_LINES_MAX     64

/* .nodes of an offer; .slices of each GPU, 1: not shared. */
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
	struct answer_line
		baseline; /* a dedicated GPU for each replica, of the baseline's type or the cheapest */
	struct answer_line layout;   /* the user's layout; .offer NULL: none */
	struct pack_result unsliced; /* cheapest without slicing */
	struct pack_result plan;
	struct answer_line
		lines[ANSWER_LINES_MAX]; /* alternatives to the layout, cheapest first */
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
