/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A cost summary as a table, as JSON and as CSV for FinOps tools. Amounts are exact decimals made from
 * integers. Names come from outside: no control character reaches the terminal, and no CSV cell begins
 * like a spreadsheet formula. Pure; thread: any.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "tools/cli/cost/view/summary.h"

struct cost_print {
	struct cost_summary *summary;
	enum cost_by by;
	uint64_t from_s, to_s;          /* as requested */
	bool estimated;                 /* from Prometheus: no buckets, no exact sums */
	const char *provider, *account; /* for the CSV */
};

#define COST_TEXT_MAX (256U << 20) /* bytes; limit of the output buffer */

int cost_print_table(struct buf *b, const struct cost_print *p, struct error *err) MUST_USE;
int cost_print_json(struct buf *b, const struct cost_print *p, struct error *err) MUST_USE;

/* FOCUS 1.3, Cost and Usage, a row for each charge. The summary must be COST_BY_CHARGE. */
int cost_print_csv(struct buf *b, const struct cost_print *p, struct error *err) MUST_USE;

/* ---- cells ------------------------------------------------------------------------------------ */

/* Makes an outside text safe for a terminal: control characters and invalid UTF-8 become "?". */
void cost_clean(struct buf *b, const char *text);

/* Nanoseconds as hours, such as "1.5": @decimals below 9 are rounded half up; 9 or more are rounded
 * down to 9. */
#define COST_HOURS_MAX 32
const char *cost_hours(int64_t ns, unsigned decimals, char *buf);
