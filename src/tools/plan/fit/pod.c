/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/fit/fit.h"

#include "abi/slice-limits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* From profiles to the figures of one workload alone on one GPU. */

#define U_MIN 0.2 /* minimum if derived from counters */

/* Cost of other pods' bandwidth under MPS: +5 to +13 % for two pods with half the bandwidth each, on a V100. */
#define KAPPA 0.15

static void worsen_origin(enum plan_origin *o, enum plan_origin with)
{
	if (with > *o)
		*o = with;
}

/* Shares of its time that grow with fewer multiprocessors and with less bandwidth. */
static void set_pod_sensitivity(struct fit_pod *p, const struct plan_workload *w)
{
	if (w->u.known) {
		p->splits = true;
		p->u_sm = p->u_share = w->u.v;
		worsen_origin(&p->origin, w->u.origin);
	} else if ((w->sm_active.known || w->dram.known) && w->busy.known && w->busy.v > 0) {
		double max = fmax(w->sm_active.known ? w->sm_active.v : 0,
			w->dram.known ? w->dram.v : 0);

		p->splits = true;
		p->u_sm = p->u_share = fmin(1, fmax(U_MIN, max / w->busy.v));
		worsen_origin(&p->origin, PLAN_DERIVED);
	}
	if (w->u_bw.known) {
		p->u_bw = w->u_bw.v;
		worsen_origin(&p->origin, w->u_bw.origin);
		if (!w->u.known) /* the counters behind a derived u include bandwidth */
			p->u_sm = fmax(0, p->u_sm - p->u_bw);
	}
}

/* GPU time of a request, its remaining time, and the request rate. */
static void set_pod_demand(struct fit_pod *p, const struct plan_workload *w)
{
	double busy = w->busy.known ? w->busy.v : 1;

	worsen_origin(&p->origin, w->busy.known ? w->busy.origin : PLAN_DEFAULT);
	p->busy = busy;
	p->timed = w->solo_s.known && w->solo_s.v > 0;
	if (p->timed) {
		p->ref_s = w->solo_s.v;
		worsen_origin(&p->origin, w->solo_s.origin);
	}
	if (w->kind != PLAN_OPEN) {
		if (!p->timed) /* in units of the unknown time of a request, which cancels out in a slowdown */
			p->ref_s = 1;
		p->pod.demand_s = busy * p->ref_s;
		p->pod.rest_s = (1 - busy) * p->ref_s;
		return;
	}
	if (!w->rate.known || w->rate.v <= 0 || !p->timed) {
		p->timed = false;
		p->ref_s = 0;
		p->pod = (struct model_pod){ .demand_s = busy, .rate = 1 };
		return;
	}
	/* By the utilization law, at most the time of the request. */
	worsen_origin(&p->origin, w->rate.origin);
	p->pod.rate = w->rate.v;
	p->pod.demand_s = w->busy.known ? fmin(busy / w->rate.v, p->ref_s) : p->ref_s;
	p->pod.rest_s = p->ref_s - p->pod.demand_s;
	p->busy = p->pod.rate * p->pod.demand_s;
}

/* From the GPU of the measurement to another one: the whole difference in time is GPU time. */
static void translate_pod_to_gpu(struct fit_pod *p, const struct plan_gpu *from,
	const struct plan_gpu *to)
{
	double compute = from->tflops > 0 && to->tflops > 0 ? from->tflops / to->tflops : 0;
	double bandwidth = from->bandwidth_gb_s / to->bandwidth_gb_s;
	double moved = p->busy > 0 ? p->pod.demand_s * fmin(1, p->dram / p->busy) : 0;
	double times, whole = p->timed ? p->ref_s : p->pod.demand_s + p->pod.rest_s, more;

	if (from == to)
		return;
	worsen_origin(&p->origin, PLAN_DEFAULT);
	if (compute <= 0) /* by multiprocessors; no gain where no figures are published */
		compute = fmax(1, (double)from->multiprocessors / to->multiprocessors);
	/* Without sensitivities: the worse ratio, and no gain. That is a bound. */
	times = p->splits ? model_translate(p->u_sm, p->u_bw, compute, bandwidth)
			  : fmax(1, fmax(compute, bandwidth));
	more = whole * (times - 1);
	p->pod.demand_s =
		fmax(p->pod.demand_s + more, p->pod.demand_s * fmin(compute, bandwidth));
	/* The memory traffic of the request takes its time, whatever the sensitivities are. */
	p->pod.demand_s = fmax(p->pod.demand_s, moved * bandwidth);
	if (p->pod.rate > 0)
		p->busy = fmin(1, p->pod.rate * p->pod.demand_s);
	else if (p->pod.demand_s > 0)
		p->busy = p->pod.demand_s / (p->pod.demand_s + p->pod.rest_s);
}

/*
 * The peak and the contexts, measured or from the policy; at least the first context, for which the interception
 * libraries reserve the whole bound.
 */
static uint32_t compute_pod_memory(const struct plan_workload *w,
	const struct plan_policy *policy)
{
	double context = w->context_mib.known ? w->context_mib.v : policy->context_mib;

	return (uint32_t)ceil(fmax(w->mem_peak_mib.v + context, CUDA_CONTEXT_MIB));
}

static void prepare_fit_pod(struct fit_pod *p, const struct fit *f, uint32_t workload,
	size_t gpu)
{
	const struct plan_workload *w = &f->workloads[workload];
	const struct plan_gpu *g = &f->gpus[gpu];

	*p = (struct fit_pod){ .reason = PLAN_FITS, .origin = PLAN_MEASURED };
	if (!(w->gpus_allowed >> gpu & 1))
		p->reason = PLAN_MODEL_NOT_ALLOWED;
	if (w->mem_peak_mib.known)
		p->memory_mib = compute_pod_memory(w, f->policy);
	set_pod_sensitivity(p, w);
	set_pod_demand(p, w);
	p->dram = w->dram.known ? w->dram.v : 0;
	if (w->ref)
		translate_pod_to_gpu(p, w->ref, g);
	else if (p->timed)
		worsen_origin(&p->origin, PLAN_DEFAULT); /* treated as measured on this GPU */
	p->solo_s = p->timed ? p->pod.demand_s + p->pod.rest_s : 0;
}

int fit_new(struct fit **ret, const struct plan_policy *policy,
	const struct plan_workload *workloads, size_t n_workloads, const struct plan_gpu *gpus,
	size_t n_gpus, struct error *err)
{
	CLEANUP(fit_freep) struct fit *f = calloc(1, sizeof(*f));

	if (!f)
		return error_nomem(err);
	*f = (struct fit){ policy, workloads, n_workloads, gpus, n_gpus, NULL };
	f->pods = calloc(n_workloads * n_gpus + 1, sizeof(*f->pods));
	if (!f->pods)
		return error_nomem(err);
	for (size_t g = 0; g < n_gpus; g++)
		for (size_t w = 0; w < n_workloads; w++)
			prepare_fit_pod(&f->pods[g * n_workloads + w], f, (uint32_t)w, g);
	*ret = STEAL_PTR(f);
	return 0;
}

struct fit *fit_free(struct fit *f)
{
	if (!f)
		return NULL;
	free(f->pods);
	free(f);
	return NULL;
}

const struct fit_pod *fit_pod(const struct fit *f, uint32_t workload,
	const struct plan_gpu *gpu)
{
	return &f->pods[(size_t)(gpu - f->gpus) * f->n_workloads + workload];
}

/* The last calibration of @gpu for one member; NaN: none. */
static double find_calibrated_value(const struct fit *f, const struct plan_gpu *gpu,
	size_t member)
{
	double ret = NAN;

	for (size_t i = 0; i < f->policy->n_calibrations; i++) {
		const struct plan_calibration *c = &f->policy->calibrations[i];
		double v;

		memcpy(&v, (const char *)c + member, sizeof(v));
		if (c->gpu == gpu && !isnan(v))
			ret = v;
	}
	return ret;
}

struct model_rotation fit_rotation(const struct fit *f, const struct plan_gpu *gpu,
	enum plan_mode mode, size_t n)
{
	bool turns = mode == PLAN_SLICES;
	struct model_rotation r = turns ? model_fair_share(n) : model_time_slicing();
	double sigma = find_calibrated_value(f, gpu,
		turns ? offsetof(struct plan_calibration, sigma_fair_share)
		      : offsetof(struct plan_calibration, sigma_time_slicing));

	if (!turns && mode != PLAN_TIME_SLICING)
		return (struct model_rotation){ 0, 0, 0 };
	if (!isnan(sigma))
		r.sigma = sigma;
	return r;
}

double fit_kappa(const struct fit *f, const struct plan_gpu *gpu)
{
	double kappa = find_calibrated_value(f, gpu, offsetof(struct plan_calibration, kappa));

	return isnan(kappa) ? KAPPA : kappa;
}
