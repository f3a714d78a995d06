/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What one workload is to the planner: how long a step takes, how busy it keeps the GPU, what it would feel with fewer
 * multiprocessors, how much memory it holds. Made of what it did alone on the GPU: bare, in a slice of its own
 * where the runtime counts what it launches, and under MPS with parts of the multiprocessors
 * (planner.md, sections 1.1 and 3.5).
 *
 * Pure. Thread: any.
 */
#include "tools/bench/profile/steps.h"
#include "tools/bench/result/result.h"

#define PROFILE_WINDOWS_MAX 1000
#define PROFILE_POINTS_MAX  8

/* The slice at one moment, as the arbiter said; what it counts is since the slice began. */
struct profile_sample {
	uint64_t at_ns;
	uint64_t charged_ns, launches, copies, bytes;
	uint64_t used, peak,
		overhead; /* bytes of GPU memory; contexts and code are .overhead */
	bool overhead_known;
};

/* One repetition in which it was looked at. */
struct profile_window {
	enum bench_mode mode; /* BENCH_FAIR_SHARE or BENCH_MPS_LIMITED */
	double sm_share;      /* 1 where there is no limit */
	size_t n_samples, n_launches;
	struct profile_sample *samples;
	struct profile_launch *launches; /* the last ones of it, in order */
};

void profile_window_fini(struct profile_window *w);

enum profile_origin { PROFILE_MEASURED, PROFILE_DERIVED };

/* .v NaN: not known, and .how says why or what would tell. */
struct profile_value {
	double v;
	double half; /* of the 95 % interval, as a share of .v; NaN: not known */
	enum profile_origin origin;
	const char *how; /* static */
};

/* Time with a share of the multiprocessors, by that with all of them. */
struct profile_point {
	double sm_share;
	double stretch;
	double fitted; /* the same by .u */
};

struct profile {
	const char *name, *kind, *gpu; /* borrowed */
	struct profile_value t_solo, busy, rate, arrival_cv, u, u_bw, sm_active, dram,
		mem_peak_mib, burst;
	struct profile_value context_mib; /* beside mem_peak_mib */
	struct profile_value overhead; /* of being looked at: share that a step takes longer */
	struct profile_value launches; /* a second */
	struct profile_steps steps;    /* .launches 0: none were found */
	size_t n_points;
	struct profile_point points[PROFILE_POINTS_MAX];
	const char *problem; /* why something could not be measured, from a pod; "" */
	const char *doubt;   /* what disturbed the measurement (tools/bench/run/doubt.h); "" */
};

struct profile_facts {
	const char *name, *kind; /* of the planner: "inference-closed", ... */
	bool open;               /* its requests come whatever becomes of those before */
	bool silent;             /* no units were seen: steps are looked for in the launches */
	bool intervals; /* a unit's time is from the one before: of an open one, how often requests come */
	const struct bench_result *result; /* rows of that one workload */
	const struct profile_window *windows;
	size_t n_windows;
};

/* ERR_NOMEM. What is borrowed lives as long as the result. */
int profile_make(struct profile *ret, const struct profile_facts *f,
	struct error *err) MUST_USE;

/*
 * The share of a time that stretches with fewer multiprocessors, by Amdahl's law, from @n points of stretch above a
 * share: the one with the least squares of relative error, 0 to 1. NaN of nothing.
 */
double profile_fit_u(const struct profile_point *points, size_t n);
