/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a set of workloads fits on one GPU in a mode, and how fast it is there. The planner's search makes a
 * million such checks, the report one for each workload. Pure. Thread: any; a struct fit does not change after
 * fit_new().
 */
#include "lib/base/cleanup.h"
#include "lib/base/error.h"
#include "tools/plan/model/model.h"
#include "tools/plan/plan.h"

#define FIT_GRAIN_MIB 256 /* sizes of slices are multiples of this */

/* A workload on an exclusive GPU. */
struct fit_pod {
	enum plan_reason reason; /* PLAN_FITS, or why it never fits this GPU */
	bool timed;  /* the time of a request is known, so predictions are possible */
	bool splits; /* .u_sm is known, and with it the effect of less of a GPU */
	enum plan_origin origin; /* the worst origin of the figures here */
	uint32_t memory_mib;     /* peak and context */
	/* Of an open workload that is not .timed: .rate is 1, and .demand_s is the workload's busy share. */
	struct model_pod pod;
	double solo_s; /* time of a request on this GPU */
	double ref_s; /* time of a request at the measurement; without .timed: 1 for a closed pod, else 0 */
	double busy, u_sm, u_bw, dram;
	double u_share; /* share of the time that grows with fewer multiprocessors, as under an MPS limit */
};

struct fit {
	const struct plan_policy *policy;
	const struct plan_workload *workloads;
	size_t n_workloads;
	const struct plan_gpu *gpus;
	size_t n_gpus;
	struct fit_pod *pods; /* of workload w on GPU g: pods[g * n_workloads + w] */
};

/* The three arrays and the policy are borrowed as long as the fit lives. */
int fit_new(struct fit **ret, const struct plan_policy *policy,
	const struct plan_workload *workloads, size_t n_workloads, const struct plan_gpu *gpus,
	size_t n_gpus, struct error *err) MUST_USE;
struct fit *fit_free(struct fit *f); /* returns NULL */
DEFINE_CLEANUP(struct fit *, fit_free)

/* The rotation of @n pods on @gpu: for PLAN_TIME_SLICING and PLAN_SLICES; zeros for other modes. */
struct model_rotation fit_rotation(const struct fit *f, const struct plan_gpu *gpu,
	enum plan_mode mode, size_t n);
/* The cost of other pods' use of bandwidth under MPS on that GPU. */
double fit_kappa(const struct fit *f, const struct plan_gpu *gpu);

/* The workload at position @workload on @gpu, an element of f->gpus. Borrowed from @f. */
const struct fit_pod *fit_pod(const struct fit *f, uint32_t workload,
	const struct plan_gpu *gpu);

/* The prediction for one tenant. */
struct fit_times {
	bool known;
	struct model_times times;
	double slowdown; /* relative to its time at the measurement */
	double band;
	enum plan_origin origin;
	const char *model; /* "exclusive", "time-slicing-ps", "turns-ps", "mps-limit", "mig" */
	/* The figure that a prediction lacks, or that would narrow the band. */
	const char *missing;
};

/* A GPU of an offer, how it is shared, and the workloads on it. */
struct fit_gpu {
	const struct plan_offer *offer;
	enum plan_mode mode;
	uint32_t slots;
	const uint32_t *workloads;
	uint32_t n;
};

/*
 * Whether all workloads fit together. Fills sizes and MIG profiles of @tenants, and @times, unless NULL (each has
 * room for .n). *culprit, unless NULL: the position of the workload with the unmet demand.
 */
enum plan_reason fit_check(const struct fit *f, const struct fit_gpu *g,
	struct plan_tenant *tenants, struct fit_times *times, uint32_t *culprit);

extern const enum plan_isolation fit_isolation_of[PLAN_MODES]; /* isolation of each mode */

/* Whether the workloads fit together if anti-affinity does not count. The search derives sizes from this. */
bool fit_alike(const struct fit *f, const struct fit_gpu *g);

/* The memory of one GPU of @offer that a plan may allocate. */
uint32_t fit_usable_mib(const struct fit *f, const struct plan_offer *offer);

/* --- predictions for a comparison with measurements --- */

/* Of the planner's models for pods on one GPU, whether a plan would put them there or not (gpuslice bench
 * --profile). */

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
