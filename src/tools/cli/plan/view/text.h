/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A plan for people, and for programs. Pure; thread: any. */
#include "lib/base/buf.h"
#include "tools/plan/answer/answer.h"

void plan_text(struct buf *b, const struct plan_answer *a);
int plan_json(struct buf *b, const struct plan_answer *a, uint64_t seed,
	struct error *err) MUST_USE;

/* "12.24", rounded half up; "8,935.20" with @groups. */
#define PLAN_MONEY_MAX 40
const char *plan_money(int64_t nano, bool groups, char *buf);

/* Why @l does not hold, as a clause: "they ask for 111 % of the GPU's time". */
void plan_format_reason(struct buf *b, const struct plan_answer *a,
	const struct answer_line *l);

/* What a tenant of @node feels. */
bool plan_times(const struct plan_answer *a, const struct plan_node *node, uint32_t tenant,
	struct fit_times *ret);
