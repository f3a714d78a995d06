/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Formats numbers for a narrow column; "-": not known. Each returns @ret. Thread: any (pure). */
#include <stddef.h>
#include <stdint.h>

#define FIGURE_MAX 40

char *figure_percent(char ret[FIGURE_MAX], uint64_t millionths);         /* "7.5%", "100%" */
char *figure_whole_percent(char ret[FIGURE_MAX], uint64_t millionths);   /* "8%" */
char *figure_bytes(char ret[FIGURE_MAX], uint64_t bytes);                /* "512Mi", "9.5Gi" */
char *figure_mib(char ret[FIGURE_MAX], uint64_t bytes);                  /* "81559MiB" */
char *figure_count(char ret[FIGURE_MAX], uint64_t n);                    /* "12345", "1.2M" */
char *figure_money(char ret[FIGURE_MAX], uint64_t nano);                 /* "1.2290" */
char *figure_real(char ret[FIGURE_MAX], double value, const char *unit); /* "69W"; NaN: "N/A" */
