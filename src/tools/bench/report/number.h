/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Figures as people read them: the same in a terminal and on a page. Pure. Thread: any. */

#define BENCH_NUMBER_MAX 32

/* Of ns: "378 us", "1.46 ms"; what is not above 0, and what is not finite: "-". @buf has BENCH_NUMBER_MAX bytes. Returns it. */
const char *bench_print_ns(double ns, char *buf);

/* The figure of an isolation test, which is judged to a tenth: "98.7", "412", "1000.4"; what is not finite: "-". */
const char *bench_print_figure(double v, char *buf);

/* Three digits or so: "9.87", "98.7", "987"; what is not finite: "-". @buf as above. Returns it. */
const char *bench_print_number(double v, char *buf);
