/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The tables of a plan, for its text and its report. Each call fills @t; the caller frees it with
 * table_fini(). Rows beyond PLAN_ROWS_SHOWN are left out, and their number is returned.
 * Thread: any.
 */
#include "tools/cli/table/table.h"
#include "tools/plan/answer/answer.h"

#define PLAN_ROWS_SHOWN 40 /* in one table; the JSON form has all */

void plan_table_layout(struct table *t, const struct plan_answer *a); /* only with .layout */
void plan_table_lines(struct table *t, const struct plan_answer *a);
size_t plan_table_nodes(struct table *t, const struct plan_answer *a);
size_t plan_table_times(struct table *t, const struct plan_answer *a);
size_t plan_table_pays(struct table *t, const struct plan_answer *a);
size_t plan_table_prices(struct table *t, const struct plan_answer *a); /* of .plan */

void plan_table_extras(struct table *t, const struct plan_answer *a); /* only if extras_any() */

/* Equal nodes, and their number. */
struct node_kind {
	const struct plan_node *node;
	uint32_t count;
};

/* Returns at most @room kinds, in the order of the plan. *more: nodes of further kinds. */
size_t plan_kinds(const struct plan_answer *a, struct node_kind *ret, size_t room,
	size_t *more);

/* "chat x3, embed": the workloads on a GPU of @n; "-": none. */
void plan_format_tenants(struct buf *b, const struct plan_answer *a, const struct plan_node *n,
	uint32_t gpu);

/* "4 x L4", "1 x 0.125 of L4"; @buf has PLAN_GPUS_TEXT bytes. */
#define PLAN_GPUS_TEXT 80
const char *plan_gpus_text(const struct plan_offer *o, char *buf);

const char *plan_capacity(const struct plan_offer *o); /* "on demand", "spot" */
double plan_saving(int64_t less, int64_t than);        /* in percent of @than */
