/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Costs of a cluster from a Prometheus server: the queries, and the conversion of the answers into a
 * summary. The server estimates an increase from its samples. So its sums are near those of the usage
 * records, not equal. Pure; tools/cli/cost/fetch.h does the request.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "tools/cli/cost/view/summary.h"

#define COST_SERIES_MAX 200000 /* in one answer */

struct cost_query {
	const char *metric;
	enum usage_db_kind kind;
	enum cost_field part;
};

/* The command sends all of them; the order does not matter. */
extern const struct cost_query cost_queries[];
extern const size_t cost_n_queries;

/* The PromQL expression for a range of @seconds. */
void cost_query_text(struct buf *b, const struct cost_query *q, uint64_t seconds);

/*
 * Adds the answer @json of /api/v1/query to @summary, which is COST_BY_CHARGE. The caller merges
 * @summary into another summary after the last answer. Errors say what is wrong with the answer. They
 * include the server's own text, cut and without control characters. Values that are not numbers are
 * ignored.
 */
int cost_query_read(struct cost_summary *summary, const struct cost_query *q, const char *json,
	size_t len, uint64_t from_s, uint64_t to_s, struct error *err) MUST_USE;
