/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/run/doubt.h"

#include "base/error.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const slowed_words[DOUBT_SLOWED] = {
	[DOUBT_POWER] = "slowed down by its power limit",
	[DOUBT_THERMAL] = "slowed down by its temperature",
	[DOUBT_BOARD] = "slowed down by a limit of its board",
	[DOUBT_RELIABILITY] = "slowed down by its reliability voltage",
	[DOUBT_BASE] = "below its base clocks (if it is simulated: host too busy)",
};

/* NVML's nvmlClocksEventReasons that no benchmark should see; the power limit has a counter. */
static const struct {
	uint64_t bit;
	const char *word;
} slowdowns[] = {
	{ 0x8, "hardware slowdown" },
	{ 0x20, "software thermal slowdown" },
	{ 0x40, "hardware thermal slowdown" },
	{ 0x80, "hardware power brake" },
};

#define REASON_GPU_IDLE 0x1

double doubt_clock(double mhz, double reasons)
{
	return reasons > 0 && ((uint64_t)reasons & REASON_GPU_IDLE) ? NAN : mhz;
}

struct doubt_facts doubt_unknown(void)
{
	struct doubt_facts f = { .waited = NAN,
		.clock_from_mhz = NAN,
		.clock_to_mhz = NAN,
		.busy = NAN };

	for (size_t i = 0; i < DOUBT_SLOWED; i++)
		f.slowed[i] = NAN;
	return f;
}

static void add(char *text, const char *fmt, ...) PRINTF(2, 3);

/* What has no place any more is left out. */
static void add(char *text, const char *fmt, ...)
{
	char one[DOUBT_TEXT_MAX];
	size_t len = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(one, sizeof(one), fmt, ap);
	va_end(ap);
	if (len + strlen(one) + sizeof("; ") <= DOUBT_TEXT_MAX)
		(void)snprintf(text + len, DOUBT_TEXT_MAX - len, "%s%s", len ? "; " : "", one);
}

void doubt_text(char ret[static DOUBT_TEXT_MAX], const struct doubt_facts *f)
{
	ret[0] = '\0';
	if (f->waited > DOUBT_WAITED_MOST)
		add(ret,
			"host too busy: a thread waited for a CPU for %.0f %% of the time "
			"(limit %.0f %%)",
			100 * f->waited, 100 * DOUBT_WAITED_MOST);
	for (size_t i = 0; i < DOUBT_SLOWED; i++)
		if (f->slowed[i] > DOUBT_SLOWED_MOST)
			add(ret, "the GPU was %s for %.0f %% of the time (limit %.0f %%)",
				slowed_words[i], 100 * fmin(1, f->slowed[i]),
				100 * DOUBT_SLOWED_MOST);
	for (size_t i = 0; i < ARRAY_LEN(slowdowns); i++)
		if (f->reasons & slowdowns[i].bit)
			add(ret, "the GPU reports %s", slowdowns[i].word);
	if (f->busy > DOUBT_BUSY_LEAST && f->clock_from_mhz > 0 &&
		fabs(f->clock_to_mhz / f->clock_from_mhz - 1) > DOUBT_CLOCK_MOST)
		add(ret, "the GPU's clock changed from %.0f to %.0f MHz", f->clock_from_mhz,
			f->clock_to_mhz);
	if (f->others)
		add(ret, "%zu other process%s used the GPU", f->others,
			f->others == 1 ? "" : "es");
}
