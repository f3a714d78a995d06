/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What pods that meet on one GPU would feel by the planner's models, whether a plan would put them there or not: for a
 * comparison with what they do (gpuslice bench --profile). Pure. Thread: any.
 */
#include "tools/plan/fit/fit.h"

/* How they meet. The first four are ways that a plan uses. */
enum predict_way {
	PREDICT_ALONE,
	PREDICT_TIME_SLICING,
	PREDICT_SLICES,
	PREDICT_MPS_LIMITED, /* .share of the multiprocessors each */
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
 * ret[i] is for pods[i], of which there are @n, at most PLAN_PODS_MAX. .known is false where the workload's profile says
 * too little, with .missing. ERR_UNAVAILABLE: they ask for more than there is. ERR_LIMIT.
 */
int fit_predict(struct fit_times *ret, const struct fit *f, const struct plan_gpu *gpu,
	enum predict_way way, const struct predict_pod *pods, size_t n, double share,
	struct error *err) MUST_USE;
