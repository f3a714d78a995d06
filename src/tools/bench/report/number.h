/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Formats figures the same way for a terminal and a page. Pure. Thread: any. */

#define BENCH_NUMBER_MAX 32

/* ns as "378 us" or "1.46 ms"; "-" unless above 0 and finite. @buf has BENCH_NUMBER_MAX bytes. Returns @buf. */
const char *bench_print_ns(double ns, char *buf);

/* The figure of an isolation test, with the precision of its verdict: "98.7", "412", "1000.4". "-" unless
 * finite. */
const char *bench_print_figure(double v, char *buf);

/* About three digits: "9.87", "98.7", "987". "-" unless finite. @buf as above. Returns @buf. */
const char *bench_print_number(double v, char *buf);
