/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A result as one page for those who decide and were not there: what each way of sharing gives in words, isolation
 * checks, and of each scenario its table, its throughput, the tails of its times and how its pods shared.
 *
 * The page is HTML that is also well-formed XML, and needs nothing else: no script, no font, nothing is fetched. All
 * texts of the result are escaped. Of a simulated GPU it says SIMULATED in title, at the top, on each printed
 * page and in each plot. Pure. Thread: any.
 */
#include "lib/base/buf.h"
#include "tools/bench/result/result.h"

#define BENCH_REPORT_MAX (64U << 20)

/*
 * Adds the page of @r to @b; with @before, what was there before, beside it: NULL for a page of one result.
 * ERR_INVALID: both have no row in common; ERR_LIMIT: the page is longer than @b may be; ERR_NOMEM.
 */
int bench_report(struct buf *b, const struct bench_result *r, const struct bench_result *before,
	struct error *err) MUST_USE;
