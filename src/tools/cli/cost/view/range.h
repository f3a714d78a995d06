/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parses times from a command line. Pure, except for the C library's calendar in UTC. Thread: any. */
#include "lib/base/error.h"

#include <stdint.h>

/*
 * @text as seconds since 1970. Forms: "now"; a duration before @now_s ("24h", "24h ago", "7d",
 * "1h30m"); a day ("2026-11-01": its start in UTC); RFC 3339 ("2026-11-01T12:00:00Z", "2026-11-01
 * 12:00+02:00"). Fractions of a second are ignored. @option: the option's name for errors.
 */
int cost_time_parse(uint64_t *ret_s, const char *option, const char *text, uint64_t now_s,
	struct error *err) MUST_USE;

/* Writes "2026-11-01T12:00:00Z" into @buf of TIME_RFC3339_MAX bytes, and returns @buf. */
const char *cost_time_text(uint64_t s, char *buf);
