/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The sentences of a plan, for its text and its report alike, without ends of lines; nothing where there is nothing
 * to say.
 * Thread: any.
 */
#include "lib/base/buf.h"
#include "tools/plan/answer/answer.h"

void plan_summary_stamp(struct buf *b, const struct plan_answer *a);
void plan_summary_layout(struct buf *b, const struct plan_answer *a); /* why it does not hold */
void plan_summary_total(struct buf *b, const struct plan_answer *a);
/* The first workload whose time is not known, so that nothing can be said of how fast it will be; NULL: none. */
const struct plan_workload *plan_find_untimed(const struct plan_answer *a);

/* Whether the workload has an SLO and a place, and nobody can say whether it is met there. */
bool plan_slo_unknown(const struct plan_answer *a, size_t workload);

void plan_summary_confidence(struct buf *b, const struct plan_answer *a); /* how good it is */
void plan_summary_per_million(struct buf *b, const struct plan_answer *a);
void plan_summary_idle(struct buf *b, const struct plan_answer *a);
void plan_summary_spot(struct buf *b, const struct plan_answer *a);
void plan_summary_unplaced(struct buf *b, const struct plan_answer *a,
	size_t i); /* of .plan.left */
