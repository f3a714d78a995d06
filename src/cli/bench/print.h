/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A result for people and for spreadsheets. Thread: any. */
#include "base/buf.h"
#include "bench/report/figures.h"

int bench_print_text(struct buf *b, const struct bench_result *r, struct error *err) MUST_USE;
int bench_print_csv(struct buf *b, const struct bench_result *r, struct error *err) MUST_USE;

/* Reads @path. ERR_NOT_FOUND, ERR_IO, and as bench_result_read(). */
int bench_file_read(struct bench_result *ret, const char *path, struct error *err) MUST_USE;

/* Of ns: "378 us", "1.46 ms". @buf has 32 bytes; NaN and 0: "-". Returns it. */
const char *bench_print_ns(double ns, char *buf);
