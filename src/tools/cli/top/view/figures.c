/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/top/view/figures.h"

#include "tools/cli/top/view/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define KIB        1024U
#define PERCENT    10000U  /* in millionths */
#define MONEY_STEP 100000U /* nano-units; value of the last digit shown */

static char *format_unknown_figure(char ret[FIGURE_MAX])
{
	(void)snprintf(ret, FIGURE_MAX, "-");
	return ret;
}

/* @n tenths, such as "7.5". From 100 on without the tenths, which do not fit the column. */
static void format_tenths(char ret[FIGURE_MAX], uint64_t n, const char *unit)
{
	if (n >= 1000)
		(void)snprintf(ret, FIGURE_MAX, "%" PRIu64 "%s", (n + 5) / 10, unit);
	else
		(void)snprintf(ret, FIGURE_MAX, "%" PRIu64 ".%" PRIu64 "%s", n / 10, n % 10,
			unit);
}

char *figure_percent(char ret[FIGURE_MAX], uint64_t millionths)
{
	if (millionths == TOP_UNKNOWN)
		return format_unknown_figure(ret);
	format_tenths(ret,
		millionths / (PERCENT / 10) + (millionths % (PERCENT / 10) >= PERCENT / 20),
		"%");
	return ret;
}

char *figure_whole_percent(char ret[FIGURE_MAX], uint64_t millionths)
{
	if (millionths == TOP_UNKNOWN)
		return format_unknown_figure(ret);
	(void)snprintf(ret, FIGURE_MAX, "%" PRIu64 "%%",
		millionths / PERCENT + (millionths % PERCENT >= PERCENT / 2));
	return ret;
}

char *figure_bytes(char ret[FIGURE_MAX], uint64_t bytes)
{
	static const char *const units[] = { "Ki", "Mi", "Gi", "Ti", "Pi", "Ei" };
	uint64_t kib_tenths;
	size_t i = 0;

	if (bytes == TOP_UNKNOWN)
		return format_unknown_figure(ret);
	if (bytes == 0) {
		(void)snprintf(ret, FIGURE_MAX, "0");
		return ret;
	}
	/* chooses the unit in which the number is below 1024; Mi and smaller need no tenths */
	for (kib_tenths = bytes / KIB * 10 + bytes % KIB * 10 / KIB;
		kib_tenths >= (uint64_t)KIB * 10 && i + 1 < sizeof(units) / sizeof(units[0]);
		i++)
		kib_tenths /= KIB;
	if (i < 2)
		(void)snprintf(ret, FIGURE_MAX, "%" PRIu64 "%s", kib_tenths / 10, units[i]);
	else
		format_tenths(ret, kib_tenths, units[i]);
	return ret;
}

char *figure_mib(char ret[FIGURE_MAX], uint64_t bytes)
{
	if (bytes == TOP_UNKNOWN)
		(void)snprintf(ret, FIGURE_MAX, "N/A");
	else
		(void)snprintf(ret, FIGURE_MAX, "%" PRIu64 "MiB", bytes / KIB / KIB);
	return ret;
}

char *figure_count(char ret[FIGURE_MAX], uint64_t n)
{
	static const char *const units[] = { "", "k", "M", "G", "T", "P", "E" };
	size_t i = 0;

	if (n == TOP_UNKNOWN)
		return format_unknown_figure(ret);
	if (n < 100000) {
		(void)snprintf(ret, FIGURE_MAX, "%" PRIu64, n);
		return ret;
	}
	for (; n >= 1000000 && i + 2 < sizeof(units) / sizeof(units[0]); i++)
		n /= 1000;
	format_tenths(ret, n / 100, units[i + 1]);
	return ret;
}

char *figure_money(char ret[FIGURE_MAX], uint64_t nano)
{
	uint64_t steps;

	if (nano == TOP_UNKNOWN)
		return format_unknown_figure(ret);
	steps = nano / MONEY_STEP + (nano % MONEY_STEP >= MONEY_STEP / 2);
	(void)snprintf(ret, FIGURE_MAX, "%" PRIu64 ".%04" PRIu64, steps / 10000, steps % 10000);
	return ret;
}

char *figure_real(char ret[FIGURE_MAX], double value, const char *unit)
{
	if (isnan(value))
		(void)snprintf(ret, FIGURE_MAX, "N/A");
	else
		(void)snprintf(ret, FIGURE_MAX, "%.0f%s", fmin(fmax(value, -1e6), 1e6), unit);
	return ret;
}
