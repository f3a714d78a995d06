/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A plan and what it is compared with: what everybody having a GPU of their own costs, what the user has in mind,
 * what is cheaper and why it may not do.
 * Thread: any.
 */
#include "tools/plan/answer/outcome.h"
#include "tools/plan/input/input.h"
#include "tools/plan/pack/pack.h"
#include "io/price/price.h"

#define ANSWER_HOURS_A_MONTH 730
#define ANSWER_LINES_MAX     64

/* So many nodes of an offer; .slices of each GPU, 1 where none is shared. */
struct answer_line {
	const struct plan_offer *offer; /* NULL: there is none */
	enum plan_mode mode;
	uint32_t slices;
	uint64_t nodes;
	int64_t nano_per_hour;
	enum plan_reason reason; /* PLAN_FITS, or what speaks against it */
	uint32_t culprit;        /* the workload that it is about */
	double rho; /* of the GPU's time that is asked for there, where that is the reason; else 0 */
};

struct plan_answer {
	struct plan_input *in;                /* borrowed */
	const struct price_catalogue *prices; /* borrowed */
	struct plan_offer *offers;            /* that may be had by the policy */
	size_t n_offers, offers_cap;
	struct plan_offer *others; /* that may not, but are worth a look */
	size_t n_others, others_cap;
	uint32_t *limits; /* of each offer; NULL: none has one */
	struct fit *fit;
	uint64_t replicas;
	const char *currency; /* of all amounts */
	struct answer_line
		baseline;          /* a GPU for each, of the baseline's type or the cheapest */
	struct answer_line layout; /* what the user has in mind; .offer NULL: nothing */
	struct pack_result unsliced; /* the best of whole GPUs */
	struct pack_result plan;
	struct answer_line
		lines[ANSWER_LINES_MAX]; /* alternatives to the layout, cheapest first */
	size_t n_lines;
	struct plan_outcome *outcomes; /* of each workload of .in */
	struct outcome_money money;
};

struct answer_setting {
	uint64_t budget, budget_each; /* of questions: for all, and for each replica */
	uint64_t seed;
	bool (*go_on)(void *arg, double done, int64_t nano_per_hour);
	void *arg;
};

/* ERR_NOT_FOUND: a type that is named is not in the catalogue, or no offer is left by the policy. */
int plan_answer_new(struct plan_answer **ret, struct plan_input *in,
	const struct price_catalogue *prices, const struct answer_setting *s,
	struct error *err) MUST_USE;
struct plan_answer *plan_answer_free(struct plan_answer *a); /* returns NULL */
DEFINE_CLEANUP(struct plan_answer *, plan_answer_free)

/* ceil(replicas / (slices * GPUs)) nodes of @o. */
uint64_t answer_nodes(uint64_t replicas, uint32_t slices, uint32_t gpus);
