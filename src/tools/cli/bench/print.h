/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A result as text and as CSV. Thread: any. */
#include "lib/base/buf.h"
#include "tools/bench/report/figures.h"

int bench_print_text(struct buf *b, const struct bench_result *r, struct error *err) MUST_USE;
int bench_print_csv(struct buf *b, const struct bench_result *r, struct error *err) MUST_USE;

/* Reads @path. ERR_NOT_FOUND, ERR_IO, and as bench_result_read(). */
int bench_file_read(struct bench_result *ret, const char *path, struct error *err) MUST_USE;

/* Writes the report of @r to @path; NULL: standard output. @before: an earlier result to compare
 * with; NULL: none. Errors as in bench_report(), and ERR_IO. */
int bench_report_write(const char *path, const struct bench_result *r,
	const struct bench_result *before, struct error *err) MUST_USE;
