/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What fits on one GPU, and how fast it is there: a set of workloads, a mode, a GPU. The planner's search asks
 * this a million times, the report once for each workload. Pure.
 * Thread: any; a struct fit does not change once it is made.
 */
#include "lib/base/cleanup.h"
#include "lib/base/error.h"
#include "tools/plan/model/model.h"
#include "tools/plan/plan.h"

#define FIT_GRAIN_MIB 256 /* sizes of slices are multiples of it */

/* A workload on a GPU that it has for itself. */
struct fit_pod {
	enum plan_reason reason; /* PLAN_FITS, or why it may never be on this GPU */
	bool timed;              /* there is a time of it: predictions can be made */
	bool splits; /* .u_sm is known: it can be said what less of a GPU does to it */
	enum plan_origin origin; /* the worst of what the figures here are made of */
	uint32_t memory_mib;     /* peak and context */
	struct model_pod
		pod;   /* .rate 1 and .demand_s its busy share where it is open and not timed */
	double solo_s; /* here; and where it was measured: */
	double ref_s;  /* > 0 without .timed: 1, of a closed one whose time is not known */
	double busy, u_sm, u_bw, dram;
	double u_share; /* stretches with a share of the multiprocessors, as MPS limits them */
};

struct fit {
	const struct plan_policy *policy;
	const struct plan_workload *workloads;
	size_t n_workloads;
	const struct plan_gpu *gpus;
	size_t n_gpus;
	struct fit_pod *pods; /* of workload w on GPU g: pods[g * n_workloads + w] */
};

/* All three are borrowed for as long as the fit lives. */
int fit_new(struct fit **ret, const struct plan_policy *policy,
	const struct plan_workload *workloads, size_t n_workloads, const struct plan_gpu *gpus,
	size_t n_gpus, struct error *err) MUST_USE;
struct fit *fit_free(struct fit *f); /* returns NULL */
DEFINE_CLEANUP(struct fit *, fit_free)

/* What rotation costs @n pods on @gpu: of PLAN_TIME_SLICING and PLAN_SLICES, of all others nothing. */
struct model_rotation fit_rotation(const struct fit *f, const struct plan_gpu *gpu,
	enum plan_mode mode, size_t n);
/* What others' use of bandwidth costs a pod under MPS there. */
double fit_kappa(const struct fit *f, const struct plan_gpu *gpu);

const struct fit_pod *fit_pod(const struct fit *f, uint32_t workload,
	const struct plan_gpu *gpu);

/* What one tenant feels. */
struct fit_times {
	bool known;
	struct model_times times;
	double slowdown; /* of its time where it was measured */
	double band;
	enum plan_origin origin;
	const char *model; /* "exclusive", "time-slicing-ps", "turns-ps", "mps-limit", "mig" */
	const char *
		missing; /* the figure without which nothing can be said, or that would narrow the band */
};

/* A GPU of an offer, how it is shared, and who is on it: .tenants' workloads. */
struct fit_gpu {
	const struct plan_offer *offer;
	enum plan_mode mode;
	uint32_t slots;
	const uint32_t *workloads;
	uint32_t n;
};

/*
 * Whether all of them can be there. Fills sizes and MIG profiles of @tenants, and @times, unless they are NULL
 * (room for .n of each). *culprit, unless NULL: the position of the one whose demand is not met.
 */
enum plan_reason fit_check(const struct fit *f, const struct fit_gpu *g,
	struct plan_tenant *tenants, struct fit_times *times, uint32_t *culprit);

extern const enum plan_isolation fit_isolation_of[PLAN_MODES]; /* that a mode gives */

/* Whether they could be there if nobody had to be apart from his like: for sizes. */
bool fit_alike(const struct fit *f, const struct fit_gpu *g);

/* The memory of one GPU of @offer that may be given away. */
uint32_t fit_usable_mib(const struct fit *f, const struct plan_offer *offer);
