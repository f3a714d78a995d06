/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A plan for those who decide and were not there: one page with pictures. Pure; thread: any. */
#include "tools/cli/plan/view/report/page.h"
#include "tools/plan/answer/answer.h"

/* @created: when, as it is to be printed. */
void plan_report(struct buf *b, const struct plan_answer *a, const struct page_form *form,
	const char *created);
