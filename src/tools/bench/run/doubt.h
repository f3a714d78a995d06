/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether what was measured in a window says something of the way of sharing, or of what disturbed it: the host had no
 * CPU for the pods, the GPU did not run as fast as it can, somebody else was on it. Of a simulated GPU nothing is
 * special: one that the host lets be late reports through NVML that it is below its base clocks. Pure. Thread: any.
 */
#include "tools/bench/result/result.h"

#include <stdint.h>

#define DOUBT_TEXT_MAX 400

/*
 * Measured on a simulated H100 and 2 cores: 3 % and 5 % at most with the cores for itself, 8 to 20 % and 7 to 53 % beside
 * ten programs that compute.
 */
#define DOUBT_WAITED_MAX 0.05 /* of the time that one thread may wait for a CPU */
#define DOUBT_SLOWED_MAX 0.10 /* of the time that the GPU may be slowed down for one reason */
#define DOUBT_CLOCK_MAX  0.10 /* by which the clock of the multiprocessors may change */
#define DOUBT_BUSY_MIN   0.80 /* of the time, else clocks fall as it rests */

/* Why a GPU runs slower than it could: NVML's counters of the time under each. */
enum doubt_slowed {
	DOUBT_POWER,
	DOUBT_THERMAL,
	DOUBT_BOARD,
	DOUBT_RELIABILITY,
	DOUBT_BASE,
	DOUBT_SLOWED
};

/* Of one window. What is not known is NaN. */
struct doubt_facts {
	double waited;                       /* host_watch_waited() */
	double slowed[DOUBT_SLOWED];         /* share of the time; 0 to 1 */
	uint64_t reasons;                    /* NVML's clocks event reasons at its end */
	bool reasons_known, clock_known;     /* NVML says them; .reasons is 0 if not */
	double busy;                         /* share of the time in which the GPU had work */
	double clock_from_mhz, clock_to_mhz; /* doubt_clock() */
	double others; /* processes on the GPU that are not the benchmark's */
};

/*
 * A clock in MHz that can be compared with another one: NaN where NVML's clocks event @reasons, read with it, say that
 * the GPU was idle at that moment. @reasons: NaN if not known.
 */
double doubt_clock(double mhz, double reasons);

/* Nothing is known of it. */
struct doubt_facts doubt_unknown(void);

/* Each that passes its bound, with its figure, "; " between them. "": no doubt. */
void doubt_text(char ret[static DOUBT_TEXT_MAX], const struct doubt_facts *f);

/*
 * Processes on the GPU beside @own of the benchmark, of all @seen there, @earlier of which were there before the benchmark
 * was; NaN: NVML does not say. Where ours cannot be counted, those that were there before are known to be others, and
 * without one it is not known (NaN): so for a user's program (@own: DOUBT_UNCOUNTED), which may be several processes, and
 * under MPS, of which NVML lists the server as well.
 */
#define DOUBT_UNCOUNTED SIZE_MAX
double doubt_others(double seen, double earlier, size_t own, enum bench_mode m);

/* What is judged; what of it is not known is a gap: a disturbance that nobody would have noticed. */
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
	unsigned int modes[DOUBT_GAPS]; /* bits: enum bench_mode, in which it was not known */
	unsigned int all;               /* in which anything was measured */
};

void doubt_gaps_add(struct doubt_gaps *g, enum bench_mode m, const struct doubt_facts *f);
/* A sentence that names each gap and its modes. "": there is none. */
void doubt_gaps_text(char ret[static DOUBT_GAPS_MAX], const struct doubt_gaps *g);
