/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/run/doubt.h"

#include "lib/base/text.h"
#include "lib/base/error.h"

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

/*
 * Bits of NVML's nvmlClocksEventReasons that no benchmark should see. The power limit is absent, as it has a
 * counter.
 */
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
		.busy = NAN,
		.others = NAN };

	for (size_t i = 0; i < DOUBT_SLOWED; i++)
		f.slowed[i] = NAN;
	return f;
}

static void append_doubt_text(char *text, const char *fmt, ...) PRINTF(2, 3);

/* Omits a doubt that does not fit. */
static void append_doubt_text(char *text, const char *fmt, ...)
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
	if (f->waited > DOUBT_WAITED_MAX)
		append_doubt_text(ret,
			"host too busy: a thread waited for a CPU for %.*f %% of the time "
			"(limit %.0f %%)",
			digits_to_differ(100 * f->waited, 100 * DOUBT_WAITED_MAX, 0),
			100 * f->waited, 100 * DOUBT_WAITED_MAX);
	for (size_t i = 0; i < DOUBT_SLOWED; i++)
		if (f->slowed[i] > DOUBT_SLOWED_MAX)
			append_doubt_text(ret,
				"the GPU was %s for %.*f %% of the time (limit %.0f %%)",
				slowed_words[i],
				digits_to_differ(100 * f->slowed[i], 100 * DOUBT_SLOWED_MAX, 0),
				100 * fmin(1, f->slowed[i]), 100 * DOUBT_SLOWED_MAX);
	for (size_t i = 0; i < ARRAY_LEN(slowdowns); i++)
		if (f->reasons & slowdowns[i].bit)
			append_doubt_text(ret, "the GPU reports %s", slowdowns[i].word);
	if (f->busy > DOUBT_BUSY_MIN && f->clock_from_mhz > 0 &&
		fabs(f->clock_to_mhz / f->clock_from_mhz - 1) > DOUBT_CLOCK_MAX)
		append_doubt_text(ret, "the GPU's clock changed from %.0f to %.0f MHz",
			f->clock_from_mhz, f->clock_to_mhz);
	if (f->others > 0)
		append_doubt_text(ret, "%.0f other process%s used the GPU", f->others,
			f->others > 1 ? "es" : "");
}

double doubt_others(double seen, double earlier, size_t own, enum bench_mode m)
{
	if (own == DOUBT_UNCOUNTED || bench_mode_mps(m) || isnan(seen))
		return earlier > 0 ? earlier : NAN;
	return fmax(fmax(0, seen - (double)own), earlier); /* fmax() ignores a NaN */
}

/* --- gaps --- */

static const char *const gap_words[DOUBT_GAPS] = {
	[GAP_WAITED] = "how long the pods waited for a CPU",
	[GAP_SLOWED + DOUBT_POWER] = "how long its power limit slowed down the GPU",
	[GAP_SLOWED + DOUBT_THERMAL] = "how long its temperature slowed down the GPU",
	[GAP_SLOWED + DOUBT_BOARD] = "how long a limit of its board slowed down the GPU",
	[GAP_SLOWED + DOUBT_RELIABILITY] =
		"how long its reliability voltage slowed down the GPU",
	[GAP_SLOWED + DOUBT_BASE] = "how long the GPU was below its base clocks",
	[GAP_REASONS] = "why the GPU changed its clocks",
	[GAP_CLOCK] = "whether the GPU's clock changed",
	[GAP_OTHERS] = "whether other processes used the GPU",
};

void doubt_gaps_add(struct doubt_gaps *g, enum bench_mode m, const struct doubt_facts *f)
{
	bool gap[DOUBT_GAPS] = { [GAP_WAITED] = isnan(f->waited),
		[GAP_REASONS] = !f->reasons_known,
		[GAP_CLOCK] = !f->clock_known || isnan(f->busy),
		[GAP_OTHERS] = isnan(f->others) };

	for (size_t i = 0; i < DOUBT_SLOWED; i++)
		gap[GAP_SLOWED + i] = isnan(f->slowed[i]);
	for (size_t i = 0; i < DOUBT_GAPS; i++)
		g->modes[i] |= gap[i] ? 1U << m : 0;
	g->all |= 1U << m;
}

static size_t append_gap_word(char *to, size_t at, const char *word)
{
	size_t left = DOUBT_GAPS_MAX - at;
	int n = snprintf(to + at, left, "%s", word);

	return n < 0 ? at : at + ((size_t)n < left ? (size_t)n : left - 1);
}

void doubt_gaps_text(char ret[static DOUBT_GAPS_MAX], const struct doubt_gaps *g)
{
	size_t at = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < DOUBT_GAPS; i++) {
		const char *before = " (";

		if (!g->modes[i])
			continue;
		at = append_gap_word(ret, at,
			at ? "; " : "Not known, so no doubt could come of it: ");
		at = append_gap_word(ret, at, gap_words[i]);
		if (g->modes[i] == g->all)
			continue;
		for (unsigned int m = 0; m < BENCH_MODES; m++)
			if (g->modes[i] & 1U << m) {
				at = append_gap_word(ret, at, before);
				at = append_gap_word(ret, at, bench_mode_names[m]);
				before = ", ";
			}
		at = append_gap_word(ret, at, ")");
	}
	if (at)
		(void)append_gap_word(ret, at, ".");
}
