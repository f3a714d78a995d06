/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Predictions of the planner's models for pods on one GPU, whether a plan would put them there or not, for a
 * comparison with measurements (gpuslice bench --profile). Pure. Thread: any.
 */
#include "tools/plan/fit/fit.h"

/* How the pods share the GPU. A plan uses the first four ways. */
enum predict_way {
	PREDICT_ALONE,
	PREDICT_TIME_SLICING,
	PREDICT_SLICES,
	PREDICT_MPS_LIMITED, /* each has .share of the multiprocessors */
	PREDICT_SLICES_WEIGHTED,
	PREDICT_SLICES_LATENCY, /* some are of class latency */
	PREDICT_MPS,            /* without limits */
};

struct predict_pod {
	uint32_t workload; /* position in the fit */
	double weight;     /* PREDICT_SLICES_WEIGHTED */
	bool latency;      /* PREDICT_SLICES_LATENCY */
};

/*
 * ret[i] is for pods[i]; @n is at most PLAN_PODS_MAX, else ERR_LIMIT. .known is false where the workload's profile
 * lacks a figure, see .missing. ERR_UNAVAILABLE: the demand exceeds the GPU.
 */
int fit_predict(struct fit_times *ret, const struct fit *f, const struct plan_gpu *gpu,
	enum predict_way way, const struct predict_pod *pods, size_t n, double share,
	struct error *err) MUST_USE;
