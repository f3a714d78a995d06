/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What nodes cost beside their instances, as policy.extras says: the cluster, something for each node, and a share of
 * the price on demand, which EKS Auto Mode asks for spot instances too. Thread: any.
 */
#include "tools/plan/answer/answer.h"

/* Nano-units an hour; they stop at PRICE_MAX. */
struct extras {
	uint64_t nodes;                         /* that are bought or there */
	int64_t cluster, each_node, share, all; /* .all: with the instances */
};

bool extras_any(const struct plan_answer *a);
void extras_of_plan(const struct plan_answer *a, const struct pack_result *plan,
	struct extras *ret);
void extras_of_line(const struct plan_answer *a, const struct answer_line *l,
	struct extras *ret);
