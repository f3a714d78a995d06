/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the planner needs of one workload (docs/profile.md): the time of a step, GPU utilization, SM sensitivity,
 * and memory. The sources are runs of the workload alone on the GPU:
 *
 *	- without a slice;
 *	- in its own slice, where the interception libraries count its launches;
 *	- under MPS with shares of the multiprocessors.
 *
 * Pure. Thread: any.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "tools/bench/result/result.h"

#include <stddef.h>
#include <stdint.h>

/* --- steps --- */

/*
 * Finds the steps of a program in its launches. A training or an inference launches the same kernels again and
 * again, so a step is the shortest sequence of launches that repeats.
 */

#define PROFILE_LAUNCHES_MAX 32768 /* maximum searched launches; the search time is quadratic */

struct profile_launch {
	uint64_t at_ns;
	uint32_t kind; /* alike: same kernel and number of blocks (abi/launch-log.h) */
};

struct profile_steps {
	size_t launches; /* in a step; 0: nothing repeats, or too few launches */
	size_t n;        /* number of complete steps */
	double mean_s;   /* from one beginning to the next */
	double cv;       /* of the times whose mean is .mean_s */
	double span_s;   /* from the first launch of a step to its last, mean */
};

/* @l: in the order of launches. */
struct profile_steps profile_steps_find(const struct profile_launch *l, size_t n);

/* --- a profile --- */

#define PROFILE_WINDOWS_MAX 1000
#define PROFILE_POINTS_MAX  8

/* The arbiter's status of the slice at one moment. Counters start with the slice. */
struct profile_sample {
	uint64_t at_ns;
	uint64_t charged_ns, launches, copies, bytes;
	uint64_t used, peak, overhead; /* bytes of GPU memory; .overhead: contexts and code */
	bool overhead_known;
};

/* One repetition with observation. */
struct profile_window {
	enum bench_mode mode; /* BENCH_FAIR_SHARE or BENCH_MPS_LIMITED */
	double sm_share;      /* 1: no limit */
	size_t n_samples, n_launches;
	struct profile_sample *samples;
	struct profile_launch *launches; /* the last launches of the window, in order */
};

/* Frees the samples and launches, not @w. */
void profile_window_fini(struct profile_window *w);

enum profile_origin { PROFILE_MEASURED, PROFILE_DERIVED };

/* .v NaN: unknown, and .how has the reason or the remedy. */
struct profile_value {
	double v;
	double half; /* half width of the 95 % interval, as a share of .v; NaN: unknown */
	enum profile_origin origin;
	const char *how; /* static string */
};

/* Time with a share of the multiprocessors, divided by the time with all of them. */
struct profile_point {
	double sm_share;
	double stretch;
	double fitted; /* .stretch as predicted by .u */
};

struct profile {
	const char *name, *kind, *gpu; /* borrowed */
	struct profile_value t_solo, busy, rate, arrival_cv, u, u_bw, sm_active, dram,
		mem_peak_mib, burst;
	struct profile_value context_mib; /* in addition to mem_peak_mib */
	struct profile_value overhead;    /* of the observation: relative increase of a step */
	struct profile_value launches;    /* per second */
	struct profile_steps steps;       /* .launches 0: no steps found */
	size_t n_points;
	struct profile_point points[PROFILE_POINTS_MAX];
	const char *problem; /* error of a pod that prevented a measurement; "" */
	const char *doubt;   /* what disturbed the measurement (tools/bench/run/doubt.h); "" */
};

struct profile_facts {
	const char *name, *kind; /* .kind: the planner's word, "inference-closed", ... */
	bool open;               /* requests arrive independent of earlier requests */
	bool silent; /* the program reports no units; the steps come from its launches */
	bool intervals; /* a unit's time is since the previous unit; for an open workload, the time between requests */
	const struct bench_result *result; /* rows of this workload only */
	const struct profile_window *windows;
	size_t n_windows;
};

/* ERR_NOMEM. Borrowed members are valid as long as the result. */
int profile_make(struct profile *ret, const struct profile_facts *f,
	struct error *err) MUST_USE;

/*
 * The SM sensitivity by Amdahl's law: the share of a time, 0 to 1, that grows with fewer multiprocessors. Fits @n
 * points with the least squares of relative error. NaN without points.
 */
double profile_fit_u(const struct profile_point *points, size_t n);

/* --- as text --- */

/* The file for the planner is in the format gpuslice/plan/v1 (docs/plan.md), with one workload. */

/* One figure of a profile, with its names in files and tables. */
struct profile_figure {
	const char *key; /* in the file; NULL: only in tables */
	const char *words;
	const char *unit; /* "%": the value is a share, and tables show percent */
	size_t at;        /* offset of its struct profile_value */
	bool only_open;   /* only for kind inference-open */
};

#define PROFILE_FIGURES 13
/* In the order of files and tables. */
extern const struct profile_figure profile_figures[PROFILE_FIGURES];

/* The value of figure @f in @p; borrowed from @p. */
const struct profile_value *profile_figure_of(const struct profile *p,
	const struct profile_figure *f);

/* Formats the value as in the file into @buf of PROFILE_NUMBER_MAX bytes. Returns @buf. */
#define PROFILE_NUMBER_MAX 32
const char *profile_number(const struct profile_figure *f, double v, char *buf);

/* @comment: lines for the head, without "# ". Each line ends with "\n". */
void profile_write(struct buf *b, const struct profile *p, const char *comment);
