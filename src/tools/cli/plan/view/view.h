/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A plan for people and for programs: as text, as JSON, and as a page with pictures.
 * Pure. Thread: any.
 */
#include "lib/base/buf.h"
#include "lib/report/table.h"
#include "tools/cli/plan/view/page.h"
#include "tools/plan/answer/answer.h"

/* --- text and JSON --- */

/* Appends the plan for a terminal: sentences, tables, notes, and the workloads without a place. */
void plan_text(struct buf *b, const struct plan_answer *a);
/*
 * Appends one JSON document, gpuslice/plan-result/v1, with the present time. @seed: the seed of the search.
 * ERR_NOMEM.
 */
int plan_json(struct buf *b, const struct plan_answer *a, uint64_t seed,
	struct error *err) MUST_USE;

/* --- the report --- */

/* A plan as one page with pictures, for decision makers who did not make the plan. @created: the time
 * of the plan, as printed. */
void plan_report(struct buf *b, const struct plan_answer *a, const struct page_form *form,
	const char *created);

/* --- sentences --- */

/*
 * The sentences of a plan, for its text and its report. They have no line ends. A function adds
 * nothing if it has nothing to report.
 */

/* Numbers of replicas and workloads, the regions, the currency, and the date and source of the prices. */
void plan_summary_stamp(struct buf *b, const struct plan_answer *a);
/* The user's layout, and why it or the baseline is not feasible. Only with .layout.offer. */
void plan_summary_layout(struct buf *b, const struct plan_answer *a);
/* The plan's nodes and price, and the price compared with the baseline. */
void plan_summary_total(struct buf *b, const struct plan_answer *a);
/* The first workload without a known t_solo; NULL: none. Its speed cannot be predicted. */
const struct plan_workload *plan_find_untimed(const struct plan_answer *a);

/* Whether the workload has an SLO and a place, and the planner cannot tell whether the SLO is met. */
bool plan_slo_unknown(const struct plan_answer *a, size_t workload);

/* The worst origin of the figures, and which speeds and SLOs are unknown. */
void plan_summary_confidence(struct buf *b, const struct plan_answer *a);
/* The price of a million requests of all workloads. Nothing if it is unknown or a replica has no place. */
void plan_summary_per_million(struct buf *b, const struct plan_answer *a);
/* The cost of GPU parts that no tenant has. */
void plan_summary_idle(struct buf *b, const struct plan_answer *a);
/* The spot nodes, and what an interruption of one of them stops. Nothing without spot nodes. */
void plan_summary_spot(struct buf *b, const struct plan_answer *a);
/* Which replicas of .plan.unplaced[@i] have no place, and why. */
void plan_summary_unplaced(struct buf *b, const struct plan_answer *a, size_t i);

/* "12.24", rounded half up; "8,935.20" with @groups. */
#define PLAN_MONEY_MAX 40
const char *plan_money(int64_t nano, bool groups, char *buf);

/* Why @l is not feasible, as a clause: "they ask for 111 % of the GPU's time". */
void plan_format_reason(struct buf *b, const struct plan_answer *a,
	const struct answer_line *l);

/* The predicted times of a tenant of @node. False: not feasible there. */
bool plan_times(const struct plan_answer *a, const struct plan_node *node, uint32_t tenant,
	struct fit_times *ret);

/* --- tables --- */

/*
 * The tables of a plan, for its text and its report. Each call fills @t; the caller frees it with
 * table_fini(). Rows beyond PLAN_ROWS_SHOWN are left out, and their number is returned.
 */

#define PLAN_ROWS_SHOWN 40 /* in one table; the JSON form has all */

void plan_table_layout(struct table *t, const struct plan_answer *a); /* only with .layout */
/* A row for each alternative that is cheaper than the baseline (.lines). */
void plan_table_lines(struct table *t, const struct plan_answer *a);
/* A row for each placed workload: the predicted times of its slowest replica. */
size_t plan_table_times(struct table *t, const struct plan_answer *a);
/* A row for each workload: what its shares cost, now and in the baseline. */
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

/* "4 x L4", "1 x 0.125 of L4"; @buf has PLAN_GPUS_TEXT bytes. */
#define PLAN_GPUS_TEXT 80
const char *plan_gpus_text(const struct plan_offer *o, char *buf);

const char *plan_capacity(const struct plan_offer *o); /* "on demand", "spot" */
double plan_saving(int64_t less, int64_t than);        /* in percent of @than */
