/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A book for people, for programs and for FinOps tools. Amounts are exact decimals made of whole
 * numbers. Names are of others: no control character reaches the terminal, and no cell of the CSV
 * begins like a formula of a spreadsheet. Pure; thread: any.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "tools/cli/cost/view/summary.h"

struct cost_print {
	struct cost_summary *summary;
	enum cost_by by;
	uint64_t from_s, to_s;          /* as asked */
	bool estimated;                 /* from Prometheus: no buckets, no exact sum */
	const char *provider, *account; /* of the CSV */
};

#define COST_TEXT_MAX (256U << 20) /* bytes; the ceiling of a buffer for these */

int cost_print_table(struct buf *b, const struct cost_print *p, struct error *err) MUST_USE;
int cost_print_json(struct buf *b, const struct cost_print *p, struct error *err) MUST_USE;

/* FOCUS 1.3, Cost and Usage, a row for each charge; the book is COST_BY_CHARGE. */
int cost_print_csv(struct buf *b, const struct cost_print *p, struct error *err) MUST_USE;

/* ---- cells ------------------------------------------------------------------------------------ */

/* A text of others for a terminal: control characters become "?", what is not UTF-8 as well. */
void cost_clean(struct buf *b, const char *text);

/* Nanoseconds as hours: "1.5", with @decimals of them rounded half up, or all nine, rounded down. */
#define COST_HOURS_MAX 32
const char *cost_hours(int64_t ns, unsigned decimals, char *buf);
