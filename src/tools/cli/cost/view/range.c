/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and formats the points in time of --from and --to (view.h). */
#include "tools/cli/cost/view/view.h"

#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DAY_S     86400
#define WORDS_MAX 64
#define LAST_S    UINT64_C(253402300799) /* last second of the year 9999 */

/* Parses @n digits at *text as a number from @min to @max, and moves *text behind them. */
static bool parse_time_digits(const char **text, size_t n, int min, int max, int *ret)
{
	int v = 0;

	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)(*text)[i]))
			return false;
		v = v * 10 + ((*text)[i] - '0');
	}
	*text += n;
	*ret = v;
	return v >= min && v <= max;
}

static bool skip_time_letter(const char **text, const char *of)
{
	if (!**text || !strchr(of, **text))
		return false;
	++*text;
	return true;
}

static bool parse_day(const char **text, struct tm *tm)
{
	if (!parse_time_digits(text, 4, 1970, 9999, &tm->tm_year) ||
		!skip_time_letter(text, "-") ||
		!parse_time_digits(text, 2, 1, 12, &tm->tm_mon) ||
		!skip_time_letter(text, "-") ||
		!parse_time_digits(text, 2, 1, 31, &tm->tm_mday))
		return false;
	tm->tm_year -= 1900;
	tm->tm_mon--;
	return true;
}

/* "+02:00" as seconds east of Greenwich. */
static bool parse_zone(const char **text, int *ret_s)
{
	int sign, hours, minutes;

	*ret_s = 0;
	if (skip_time_letter(text, "Zz"))
		return true;
	sign = **text == '-' ? -1 : 1;
	if (!skip_time_letter(text, "+-") || !parse_time_digits(text, 2, 0, 23, &hours) ||
		!skip_time_letter(text, ":") || !parse_time_digits(text, 2, 0, 59, &minutes))
		return false;
	*ret_s = sign * (hours * 3600 + minutes * 60);
	return true;
}

static bool parse_clock(const char **text, struct tm *tm)
{
	if (!skip_time_letter(text, "Tt ") ||
		!parse_time_digits(text, 2, 0, 23, &tm->tm_hour) ||
		!skip_time_letter(text, ":") || !parse_time_digits(text, 2, 0, 59, &tm->tm_min))
		return false;
	if (!skip_time_letter(text, ":"))
		return true;
	if (!parse_time_digits(text, 2, 0, 59, &tm->tm_sec))
		return false;
	if (skip_time_letter(text, ".")) {
		size_t n = strspn(*text, "0123456789");

		*text += n;
		return n > 0;
	}
	return true;
}

static bool parse_calendar(const char *text, uint64_t *ret_s)
{
	struct tm tm = { 0 };
	int day, zone_s = 0;
	time_t s;

	if (!parse_day(&text, &tm))
		return false;
	if (*text && (!parse_clock(&text, &tm) || !parse_zone(&text, &zone_s)))
		return false;
	day = tm.tm_mday;
	s = timegm(&tm);
	/* timegm() turns the 31st of a month with 30 days into the first of the next month. */
	if (*text || tm.tm_mday != day || s - zone_s < 0 || (uint64_t)(s - zone_s) > LAST_S)
		return false;
	*ret_s = (uint64_t)(s - zone_s);
	return true;
}

static bool parse_ago(const char *text, uint64_t now_s, uint64_t *ret_s)
{
	static const char ago[] = " ago";
	char words[WORDS_MAX];
	size_t len = strlen(text);
	uint64_t s;
	int64_t ns;

	if (len >= sizeof(words))
		return false;
	memcpy(words, text, len + 1);
	if (len > strlen(ago) && !strcmp(words + len - strlen(ago), ago))
		words[len -= strlen(ago)] = '\0';
	if (len > 1 && (words[len - 1] == 'd' || words[len - 1] == 'w')) {
		uint64_t unit_s = words[len - 1] == 'd' ? DAY_S : 7 * DAY_S;

		words[len - 1] = '\0';
		if (!parse_u64(words, &s) || __builtin_mul_overflow(s, unit_s, &s))
			return false;
	} else if (parse_duration(words, &ns) && ns >= 0) {
		s = (uint64_t)ns / NS_PER_SEC;
	} else {
		return false;
	}
	*ret_s = s < now_s ? now_s - s : 0;
	return true;
}

int cost_time_parse(uint64_t *ret_s, const char *option, const char *text, uint64_t now_s,
	struct error *err)
{
	if (!strcmp(text, "now")) {
		*ret_s = now_s;
		return 0;
	}
	if (parse_calendar(text, ret_s) || parse_ago(text, now_s, ret_s))
		return 0;
	return error_set(err, ERR_INVALID,
		"--%s: expected a time such as 24h, 7d, 2026-11-01 or 2026-11-01T12:00:00Z, found "
		"'%.60s'",
		option, text);
}

const char *cost_time_text(uint64_t s, char *buf)
{
	time_t at = (time_t)(s <= LAST_S ? s : LAST_S);
	struct tm tm = { 0 };

	(void)gmtime_r(&at, &tm);
	(void)snprintf(buf, TIME_RFC3339_MAX, "%04u-%02u-%02uT%02u:%02u:%02uZ",
		(unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
		(unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100,
		(unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
	return buf;
}
