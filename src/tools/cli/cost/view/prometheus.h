/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a Prometheus server knows about the costs of a cluster: the questions, and the answers put
 * into a book. An increase is an estimate of the server from the samples that it has, so its sums are
 * near those of the ledgers and not equal to them. Pure; the request itself is tools/cli/cost/fetch.h.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "tools/cli/cost/view/summary.h"

#define COST_SERIES_MAX 200000 /* of one answer */

struct cost_query {
	const char *metric;
	enum usage_db_kind kind;
	enum cost_field part;
};

/* In any order; all are asked. */
extern const struct cost_query cost_queries[];
extern const size_t cost_n_queries;

/* The PromQL expression for a range of @seconds. */
void cost_query_text(struct buf *b, const struct cost_query *q, uint64_t seconds);

/*
 * @summary is COST_BY_CHARGE, and is folded into another one when all are answered.
 * Adds the answer @json of /api/v1/query to @summary. Errors say what is wrong with the answer, and the
 * server's own words, cut and without control characters. Values that are no numbers are left out.
 */
int cost_query_read(struct cost_summary *summary, const struct cost_query *q, const char *json,
	size_t len, uint64_t from_s, uint64_t to_s, struct error *err) MUST_USE;
