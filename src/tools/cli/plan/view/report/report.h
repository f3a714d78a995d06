/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A plan as one page with pictures, for decision makers who did not make the plan. Pure; thread:
 * any. */
#include "tools/cli/plan/view/report/page.h"
#include "tools/plan/answer/answer.h"

/* @created: the time of the plan, as printed. */
void plan_report(struct buf *b, const struct plan_answer *a, const struct page_form *form,
	const char *created);
