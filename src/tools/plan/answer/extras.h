/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Costs of nodes beside their instances, by policy.extras: the cluster, an amount for each node, and a share of
 * the price on demand. EKS Auto Mode charges that share for spot instances too. Thread: any.
 */
#include "tools/plan/answer/answer.h"

/* Nano-units per hour; they saturate at PRICE_SUM_MAX. */
struct extras {
	uint64_t nodes;                         /* bought or existing */
	int64_t cluster, each_node, share, all; /* .all: including the instances */
};

bool extras_any(const struct plan_answer *a);
void extras_of_plan(const struct plan_answer *a, const struct pack_result *plan,
	struct extras *ret);
void extras_of_line(const struct plan_answer *a, const struct answer_line *l,
	struct extras *ret);
