/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides whether a disturbance makes a measurement inconclusive. Disturbances: the host had no CPU for the pods,
 * the GPU ran slower than it can, or other processes used the GPU. A simulated GPU needs no special case. If the
 * host delays the simulator, NVML reports the simulated GPU below its base clocks. Pure. Thread: any.
 */
#include "tools/bench/result/result.h"

#include <stdint.h>

#define DOUBT_TEXT_MAX 400

/*
 * Measured on a simulated H100 with 2 cores, waited and slowed: at most 3 % and 5 % on idle cores, and 8 to 20 %
 * and 7 to 53 % beside ten programs that compute.
 */
#define DOUBT_WAITED_MAX 0.05 /* share of the time that a thread may wait for a CPU */
#define DOUBT_SLOWED_MAX 0.10 /* share of the time slowed down for one reason */
#define DOUBT_CLOCK_MAX  0.10 /* relative change of the multiprocessor clock */
#define DOUBT_BUSY_MIN   0.80 /* share of the time; below it, clocks fall because the GPU rests */

/* Why a GPU runs slower than it can. NVML has a time counter for each reason. */
enum doubt_slowed {
	DOUBT_POWER,
	DOUBT_THERMAL,
	DOUBT_BOARD,
	DOUBT_RELIABILITY,
	DOUBT_BASE,
	DOUBT_SLOWED
};

/* Facts of one window. NaN: unknown. */
struct doubt_facts {
	double waited;               /* host_watch_waited() */
	double slowed[DOUBT_SLOWED]; /* shares of the time; 0 to 1 */
	uint64_t reasons;            /* NVML's clocks event reasons at the end of the window */
	bool reasons_known, clock_known; /* NVML reports the value; an unknown .reasons is 0 */
	double busy;                     /* share of the time in which the GPU had work */
	double clock_from_mhz, clock_to_mhz; /* doubt_clock() */
	double others; /* processes on the GPU that do not belong to the benchmark */
};

/*
 * Returns @mhz if it can be compared with another clock. Returns NaN if NVML's clocks event @reasons, read at the
 * same time, show an idle GPU. @reasons NaN: unknown.
 */
double doubt_clock(double mhz, double reasons);

/* Facts with no known value. */
struct doubt_facts doubt_unknown(void);

/* Each fact that exceeds its limit, with its figure, separated by "; ". "": no doubt. */
void doubt_text(char ret[static DOUBT_TEXT_MAX], const struct doubt_facts *f);

/*
 * The number of foreign processes on the GPU.
 *
 *	@seen     all processes on the GPU; NaN: NVML does not report them
 *	@earlier  those of them that ran before the benchmark
 *	@own      processes of the benchmark; DOUBT_UNCOUNTED: a user's program, which can be several processes
 *
 * The result is @seen - @own, or @earlier if that is greater. Without a usable @own, the result is @earlier, or
 * NaN (unknown) if @earlier is 0. @own is unusable for DOUBT_UNCOUNTED, for an unknown @seen, and under MPS, where
 * NVML also lists the server.
 */
#define DOUBT_UNCOUNTED SIZE_MAX
double doubt_others(double seen, double earlier, size_t own, enum bench_mode m);

/* The checked facts. An unknown fact is a gap: its disturbance would pass unnoticed. */
enum doubt_gap {
	GAP_WAITED,
	GAP_SLOWED,
	GAP_REASONS = GAP_SLOWED + DOUBT_SLOWED,
	GAP_CLOCK,
	GAP_OTHERS,
	DOUBT_GAPS
};
#define DOUBT_GAPS_MAX 2048

struct doubt_gaps {
	unsigned int modes[DOUBT_GAPS]; /* bits: enum bench_mode with the gap */
	unsigned int all;               /* modes with any measurement */
};

/* Records the gaps of a measurement in mode @m: the facts of @f that are unknown. @g begins zeroed. */
void doubt_gaps_add(struct doubt_gaps *g, enum bench_mode m, const struct doubt_facts *f);
/* A sentence that names each gap and its modes. "": no gap. */
void doubt_gaps_text(char ret[static DOUBT_GAPS_MAX], const struct doubt_gaps *g);
