/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Renders a result as one page for readers who did not run the benchmark. The page has a summary of the sharing
 * modes and the isolation tests. For each scenario it has the table, the throughput, the tail latency and the
 * pods' shares.
 *
 * The page is HTML that is also well-formed XML. It is self-contained: it has no script and no font, and loads
 * nothing. All texts of the result are escaped. For a simulated GPU, SIMULATED is in the title, at the top, on
 * each printed page and in each plot. Pure. Thread: any.
 */
#include "lib/base/buf.h"
#include "tools/bench/result/result.h"

#define BENCH_REPORT_MAX (64U << 20)

/*
 * Adds the page of @r to @b. @before: the earlier result for a comparison, or NULL. ERR_INVALID: the results have
 * no row in common. ERR_LIMIT: the page exceeds the limit of @b. ERR_NOMEM.
 */
int bench_report(struct buf *b, const struct bench_result *r, const struct bench_result *before,
	struct error *err) MUST_USE;
