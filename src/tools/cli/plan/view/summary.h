/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The sentences of a plan, for its text and its report. They have no line ends. A function adds
 * nothing if it has nothing to report.
 * Thread: any.
 */
#include "lib/base/buf.h"
#include "tools/plan/answer/answer.h"

void plan_summary_stamp(struct buf *b, const struct plan_answer *a);
void plan_summary_layout(struct buf *b, const struct plan_answer *a); /* if not feasible: why */
void plan_summary_total(struct buf *b, const struct plan_answer *a);
/* The first workload without a known t_solo; NULL: none. Its speed cannot be predicted. */
const struct plan_workload *plan_find_untimed(const struct plan_answer *a);

/* Whether the workload has an SLO and a place, and the planner cannot tell whether the SLO is met. */
bool plan_slo_unknown(const struct plan_answer *a, size_t workload);

void plan_summary_confidence(struct buf *b, const struct plan_answer *a); /* confidence */
void plan_summary_per_million(struct buf *b, const struct plan_answer *a);
void plan_summary_idle(struct buf *b, const struct plan_answer *a);
void plan_summary_spot(struct buf *b, const struct plan_answer *a);
void plan_summary_unplaced(struct buf *b, const struct plan_answer *a,
	size_t i); /* of .plan.unplaced */
