/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A plan as text and as JSON. Pure; thread: any. */
#include "lib/base/buf.h"
#include "tools/plan/answer/answer.h"

void plan_text(struct buf *b, const struct plan_answer *a);
int plan_json(struct buf *b, const struct plan_answer *a, uint64_t seed,
	struct error *err) MUST_USE;

/* "12.24", rounded half up; "8,935.20" with @groups. */
#define PLAN_MONEY_MAX 40
const char *plan_money(int64_t nano, bool groups, char *buf);

/* Why @l is not feasible, as a clause: "they ask for 111 % of the GPU's time". */
void plan_format_reason(struct buf *b, const struct plan_answer *a,
	const struct answer_line *l);

/* The predicted times of a tenant of @node. False: not feasible there. */
bool plan_times(const struct plan_answer *a, const struct plan_node *node, uint32_t tenant,
	struct fit_times *ret);
