/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The sentences of a plan, for its text and its report alike, without ends of lines; nothing where there is nothing
 * to say.
 * Thread: any.
 */
#include "lib/base/buf.h"
#include "tools/plan/answer/answer.h"

void plan_say_stamp(struct buf *b, const struct plan_answer *a);
void plan_say_layout(struct buf *b, const struct plan_answer *a); /* why it does not hold */
void plan_say_sum(struct buf *b, const struct plan_answer *a);
/* The first workload whose time is not known, so that nothing can be said of how fast it will be; NULL: none. */
const struct plan_workload *plan_untimed(const struct plan_answer *a);

/* Whether the workload has an SLO and a place, and nobody can say whether it is met there. */
bool plan_slo_unknown(const struct plan_answer *a, size_t workload);

void plan_say_origin(struct buf *b, const struct plan_answer *a); /* how good it is */
void plan_say_million(struct buf *b, const struct plan_answer *a);
void plan_say_idle(struct buf *b, const struct plan_answer *a);
void plan_say_spot(struct buf *b, const struct plan_answer *a);
void plan_say_left(struct buf *b, const struct plan_answer *a, size_t i); /* of .plan.left */
