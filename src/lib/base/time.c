/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/time.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts = { 0 };

	(void)clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t time_mono_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t time_wall_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

void time_rfc3339(uint64_t wall_ns, char *buf)
{
	time_t sec = (time_t)(wall_ns / NS_PER_SEC);
	struct tm tm = { 0 };

	(void)gmtime_r(&sec, &tm);
	(void)snprintf(buf, TIME_RFC3339_MAX, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
		(unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
		(unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100,
		(unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100,
		(unsigned)(wall_ns % NS_PER_SEC / NS_PER_MS));
}

void time_age(uint64_t ns, char *buf)
{
	uint64_t s = ns / NS_PER_SEC;

	if (s == 0)
		(void)snprintf(buf, TIME_AGE_MAX, "%" PRIu64 "ms", ns / NS_PER_MS);
	else if (s < 60)
		(void)snprintf(buf, TIME_AGE_MAX, "%" PRIu64 "s", s);
	else if (s < 3600)
		(void)snprintf(buf, TIME_AGE_MAX, "%" PRIu64 "m%02us", s / 60,
			(unsigned)(s % 60));
	else if (s < 86400)
		(void)snprintf(buf, TIME_AGE_MAX, "%" PRIu64 "h%02um", s / 3600,
			(unsigned)(s / 60 % 60));
	else
		(void)snprintf(buf, TIME_AGE_MAX, "%" PRIu64 "d%02uh", s / 86400,
			(unsigned)(s / 3600 % 24));
}
