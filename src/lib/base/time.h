/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Clocks. Durations and deadlines are uint64_t nanoseconds of the monotonic clock. Wall-clock time is for
 * logs and people only. Thread: any. */
#include <stdint.h>

#define NS_PER_MS  UINT64_C(1000000)
#define NS_PER_SEC UINT64_C(1000000000)

#define TIME_RFC3339_MAX 32 /* "2026-11-21T12:34:56.789Z" with its NUL */

uint64_t time_mono_ns(void); /* CLOCK_MONOTONIC */
uint64_t time_wall_ns(void); /* since 1970-01-01 UTC */

/* Writes UTC with milliseconds. @buf has TIME_RFC3339_MAX bytes. */
void time_rfc3339(uint64_t wall_ns, char *buf);

/* Writes a duration for people, rounded down: "850ms", "12s", "3m04s", "2h10m", "5d03h". @buf has TIME_AGE_MAX
 * bytes. */
#define TIME_AGE_MAX 32
void time_age(uint64_t ns, char *buf);
