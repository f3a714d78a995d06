/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The times that people give on a command line. Thread: any (pure but for the C library's calendar,
 * in UTC). */
#include "lib/base/error.h"

#include <stdint.h>

/*
 * Seconds since 1970 of @text: "now", a duration before @now_s ("24h", "24h ago", "7d", "1h30m"), a
 * day ("2026-11-01": its begin in UTC), or RFC 3339 ("2026-11-01T12:00:00Z", "2026-11-01 12:00+02:00"; parts
 * of a second are left out). @option is named in errors.
 */
int cost_time_parse(uint64_t *ret_s, const char *option, const char *text, uint64_t now_s,
	struct error *err) MUST_USE;

/* "2026-11-01T12:00:00Z" into @buf of TIME_RFC3339_MAX bytes, which is returned. */
const char *cost_time_text(uint64_t s, char *buf);
