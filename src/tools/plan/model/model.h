/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How long requests take when programs share a GPU. Pure arithmetic: seconds, shares from 0 to 1, requests per
 * second. The caller knows the quality of the figures (plan/fit/).
 *
 * Sources: E. Lazowska et al., Quantitative System Performance, 1984 (exact mean-value analysis, mixed classes);
 * L. Kleinrock, Queueing Systems II, 1976 (processor sharing). The measurements of time-slicing, MPS and MIG on
 * an A100 by nebuly-ai/nos are reproduced within 2 % (test-plan-model).
 *
 * Thread: any.
 */
#include "lib/base/error.h"

#include "model/sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_PODS_MAX 128 /* on one GPU */

/* Loss of stock time-slicing while two or more contexts have work: A100, driver 525. */
#define MODEL_SIGMA_TIME_SLICING 0.11

/* NVIDIA's default time slice: how long one context runs before the next one. */
#define MODEL_TIME_SLICE_S (SCHED_TIME_SLICE_NS / 1e9)

/* Loss of the fair-share scheduler: 98.7 to 99.3 % of the throughput of one exclusive process on an H100,
 * 2026-11-23. */
#define MODEL_SIGMA_FAIR_SHARE 0.01
#define MODEL_QUANTUM_S        (SCHED_QUANTUM_NS / 1e9) /* longest quantum */
#define MODEL_QUANTUM_ROUND_S  (SCHED_ROUND_NS / 1e9)   /* all quanta of a round of many pods */
#define MODEL_QUANTUM_MIN_S    (SCHED_QUANTUM_MIN_NS / 1e9)
/*
 * How long the holder continues when a pod below its share wants the GPU. Measured on an H100, 2026-11-27: p99 of a
 * burst of 0.2 ms beside three saturating pods is 2.7 ms.
 */
#define MODEL_QUANTUM_SHORT_S 0.0025
/* A pod without work for longer than this loses the GPU to the next pod. */
#define MODEL_KEEP_S 0.0005
/* Until a latency slice gets the GPU from another slice: 0.3 ms of work in flight, and a context switch. */
#define MODEL_REVOKE_S 0.0005

/*
 * One pod. Open: requests arrive at .rate, whether earlier ones are finished or not. Closed (.rate 0): one
 * request at a time, with a pause between two.
 */
struct model_pod {
	double demand_s; /* GPU time of one request of an exclusive process */
	double rest_s;   /* the remaining time of a request: host, network */
	double rate;     /* requests per second; 0: closed */
};

/* Times of one whole request. p50_s is never above mean_s; p95_s and p99_s are bounds. */
struct model_times {
	double mean_s, p50_s, p95_s, p99_s;
	double rate; /* answered requests per second */
};

/* Shares of requests that take longer than p50, p95 and p99. */
#define MODEL_BEYOND_P50 0.50
#define MODEL_BEYOND_P95 0.05
#define MODEL_BEYOND_P99 0.01

/* --- one after the other: time-slicing, and the fair-share scheduler --- */

struct model_rotation {
	double sigma; /* extra GPU time while two or more pods have work */
	double slice_s; /* time slice or quantum of another pod for which a request may wait; 0: none */
	double short_s; /* .slice_s for a pod that demands less than an equal share; 0: no difference */
};

/*
 * All of @pods share one GPU, one after the other.
 *
 * Closed pods: exact mean-value analysis. Schweitzer's approximation where the populations of their classes
 * exceed a limit (more than ten different pods, or fewer kinds with many pods). Open pods: M/G/1 with processor
 * sharing; the mean does not depend on the variance of the demands.
 *
 * A new request is one of an open pod, or of a closed pod after a pause (MODEL_KEEP_S). The request also waits
 * for half a stretch of each other pod that has work, unless its own demand is longer. A pod below its share
 * waits for half of one .short_s instead. A request without a pause continues in the same stretch.
 *
 * ret[i] is for pods[i]. *rho: the share of the GPU's time that open pods demand. ERR_UNAVAILABLE: *rho is 1 or
 * more.
 */
int model_rotate(const struct model_pod *pods, size_t n, const struct model_rotation *r,
	struct model_times *ret, double *rho, struct error *err) MUST_USE;

/* Stock time-slicing, and the fair-share scheduler with n pods. */
struct model_rotation model_time_slicing(void);
struct model_rotation model_fair_share(size_t n);

/* --- concurrent: MPS --- */

struct model_side {
	double u;     /* share of the time that grows with fewer multiprocessors */
	double busy;  /* share of the time with work on the GPU, as an exclusive process */
	double dram;  /* share of the memory bandwidth while it runs; 0: unknown */
	double kappa; /* cost of the other pods' use of bandwidth */
	double bw;    /* share of its time that grows with less bandwidth */
	double limit; /* share of the multiprocessors that it may use; 1: no limit */
};

/* The stretch of each concurrent pod: the effect of its own limit times that of its neighbors. */
int model_side_by_side(const struct model_pod *pods, const struct model_side *sides, size_t n,
	double *stretch, struct error *err) MUST_USE;

/* --- separate: MIG --- */

/* The stretch on a MIG device with these shares of the GPU's multiprocessors and bandwidth. */
double model_split_stretch(double u_sm, double u_bw, double sm_share, double bw_share);

/* --- in a share --- */

/* The least share of a pod with weight share @a, if the other pods use @used of the GPU (each capped at its
 * share). */
double model_conserving(double a, double used);

/* --- a single pod, stretched by @stretch --- */

/*
 * All extra time of a request is GPU time. *used: the share of the available GPU time that an open pod demands;
 * its own requests wait for each other as this grows. 0 for a closed pod. ERR_UNAVAILABLE: *used is 1 or more.
 */
int model_exclusive(const struct model_pod *p, double stretch, struct model_times *ret,
	double *used, struct error *err) MUST_USE;

/* --- another GPU --- */

/* Time on the new GPU divided by time on the old one. The ratios are old by new: TFLOPS, bandwidth. */
double model_translate(double u_sm, double u_bw, double compute_ratio, double bandwidth_ratio);
