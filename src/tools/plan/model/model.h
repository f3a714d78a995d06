/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How long requests take when programs share a GPU. Pure arithmetic: seconds, shares from 0 to 1,
 * requests per second. Who calls knows what the figures are worth (plan/fit/).
 *
 * Sources: E. Lazowska et al., Quantitative System Performance, 1984 (exact mean-value analysis, mixed
 * classes); L. Kleinrock, Queueing Systems II, 1976 (processor sharing). What was measured for time-slicing,
 * MPS and MIG on an A100 by nebuly-ai/nos comes out within 2 % (test-plan-model).
 * Thread: any.
 */
#include "lib/base/error.h"

#include "model/sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_PODS_MAX 128 /* on one GPU */

/* What stock time-slicing loses while two or more contexts have work: A100, driver 525. */
#define MODEL_SIGMA_TIME_SLICING 0.11

/* How long one context runs before the next one: NVIDIA's default time slice. */
#define MODEL_TIME_SLICE_S (SCHED_TIME_SLICE_NS / 1e9)

/* What turns of our runtime lose: 98.7 to 99.3 % of one alone on an H100, 2026-11-23. */
#define MODEL_SIGMA_FAIR_SHARE 0.01
#define MODEL_QUANTUM_S        (SCHED_QUANTUM_NS / 1e9) /* a turn at most */
#define MODEL_QUANTUM_ROUND_S  (SCHED_ROUND_NS / 1e9)   /* of many, all of them together */
#define MODEL_QUANTUM_MIN_S    (SCHED_QUANTUM_MIN_NS / 1e9)
#define MODEL_QUANTUM_SHORT_S \
	0.0025 /* that the holder goes on when one that has had less than its share wants the GPU: p99 of
		* a burst of 0.2 ms beside three saturating ones is 2.7 ms on an H100, 2026-11-27 */
#define MODEL_KEEP_S 0.0005 /* one that has no work for longer loses the GPU to the next */
#define MODEL_REVOKE_S \
	0.0005 /* a latency slice beside others: 0.3 ms in flight, a change of contexts */

/*
 * One pod. Open: requests arrive at .rate whatever becomes of those before. Closed (.rate 0): one is always
 * in flight or being thought about.
 */
struct model_pod {
	double demand_s; /* GPU time of one request, alone */
	double rest_s;   /* the rest of its time: host, network */
	double rate;     /* requests per second; 0: closed */
};

/* mean_s and p50_s of one request, all of it; p50_s is never above the mean, p95_s and p99_s are bounds. */
struct model_times {
	double mean_s, p50_s, p95_s, p99_s;
	double rate; /* requests per second that are answered */
};

/* Shares of requests that take longer than p50, p95 and p99. */
#define MODEL_BEYOND_P50 0.50
#define MODEL_BEYOND_P95 0.05
#define MODEL_BEYOND_P99 0.01

/* ---- one after the other: time-slicing, and turns ---------------------------------------------------- */

struct model_rotation {
	double sigma;   /* extra GPU time while two or more pods have work */
	double slice_s; /* somebody else's stretch that one may have to wait for; 0: none */
	double short_s; /* the same for one that asks for less than an equal share; 0: no difference */
};

/*
 * All of @pods share one GPU by turns. Closed pods: exact, but by Schweitzer's approximation where more than ten kinds
 * of them meet. Open ones: M/G/1 with processor sharing, whose mean does not depend on how demands vary. Besides,
 * a request that comes anew, as of an open pod or of a closed one that pauses (MODEL_KEEP_S), waits for half a
 * stretch of each of the others that have work, unless it is longer itself; of .short_s, for half of one such.
 * What follows on what was there before goes on in the same stretch. p99 is a bound. ret[i] is for pods[i].
 *
 * *rho is what share of the GPU's time open pods ask for. ERR_UNAVAILABLE: that is 1 or more.
 */
int model_rotate(const struct model_pod *pods, size_t n, const struct model_rotation *r,
	struct model_times *ret, double *rho, struct error *err) MUST_USE;

/* Stock time-slicing, and turns of n pods. */
struct model_rotation model_time_slicing(void);
struct model_rotation model_fair_share(size_t n);

/* ---- side by side: MPS --------------------------------------------------------------------------------- */

struct model_side {
	double u;     /* share of the time that stretches with fewer multiprocessors */
	double busy;  /* share of the time in which it has work on the GPU, alone */
	double dram;  /* share of the memory bandwidth while it runs; 0: not known */
	double kappa; /* what others' use of bandwidth costs it */
	double bw;    /* share of its time that stretches with less bandwidth */
	double limit; /* share of multiprocessors that it may use; 1: no limit */
};

/* What a side-by-side pod's time is stretched by: its own limit times its neighbours. */
int model_side_by_side(const struct model_pod *pods, const struct model_side *sides, size_t n,
	double *stretch, struct error *err) MUST_USE;

/* (1 - u) + u / share, Amdahl's law with a share of a processor. */
double model_amdahl(double u, double share);

/* ---- apart: MIG ---------------------------------------------------------------------------------------- */

/* By what a MIG device of these shares of the GPU's multiprocessors and bandwidth stretches. */
double model_split_stretch(double u_sm, double u_bw, double sm_share, double bw_share);

/* ---- in a share ---------------------------------------------------------------------------------------- */

/*
 * A share @a of each @period_s, with credit for @burst_s of GPU time: @ret is the mean and the worst case of
 * one request that comes alone. .rate is not set.
 */
void model_bucket(const struct model_pod *p, double a, double period_s, double burst_s,
	struct model_times *ret);

/* What one of weight share @a has at least where those others use @used (their shares capped) of the GPU. */
double model_conserving(double a, double used);

/* ---- any pod alone, stretched by @stretch --------------------------------------------------------------- */

/*
 * What stretches is GPU time: all that a request takes longer. Of an open pod *used is then the share of the time
 * of what it has that it asks for, 0 of a closed one; its own requests wait for each other as that grows.
 * ERR_UNAVAILABLE: *used is 1 or more.
 */
int model_exclusive(const struct model_pod *p, double stretch, struct model_times *ret,
	double *used, struct error *err) MUST_USE;

/* ---- another GPU ------------------------------------------------------------------------------------------ */

/* Time on the new one for time on the old. Ratios are old by new: TFLOPS, bandwidth. */
double model_translate(double u_sm, double u_bw, double compute_ratio, double bandwidth_ratio);
