/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fit_predict(): the times of pods on one GPU for each way of sharing, whether or not a plan would combine
 * them (fit.h).
 */
#include "tools/plan/fit/fit.h"

#include <math.h>

struct fit_prediction {
	const struct fit *f;
	const struct plan_gpu *gpu;
	const struct predict_pod *pods;
	size_t n;
	const struct fit_pod *pod[PLAN_PODS_MAX];
	struct model_pod model[PLAN_PODS_MAX];
	struct model_times got[PLAN_PODS_MAX];
};

/* GPU share of a pod that is not limited. */
static double get_gpu_demand(const struct fit_pod *p)
{
	return fmin(1, p->busy);
}

static int predict_rotation(struct fit_prediction *prediction, enum plan_mode mode,
	struct error *err)
{
	struct model_rotation r =
		fit_rotation(prediction->f, prediction->gpu, mode, prediction->n);
	double rho;

	return model_rotate(prediction->model, prediction->n, &r, prediction->got, &rho, err);
}

static int predict_pod_alone(struct fit_prediction *prediction, size_t i, double stretch,
	struct error *err)
{
	double used;

	return model_exclusive(&prediction->model[i], stretch, &prediction->got[i], &used, err);
}

/* Each pod has its share, and what the others leave of theirs. */
static int by_weights(struct fit_prediction *prediction, struct error *err)
{
	double sigma = fit_rotation(prediction->f, prediction->gpu, PLAN_SLICES, prediction->n)
			       .sigma,
	       sum = 0;

	for (size_t i = 0; i < prediction->n; i++)
		sum += prediction->pods[i].weight;
	for (size_t i = 0; i < prediction->n; i++) {
		double used = 0, has, demand = prediction->model[i].demand_s;

		for (size_t k = 0; k < prediction->n; k++)
			if (k != i)
				used += fmin(prediction->pods[k].weight / sum,
					get_gpu_demand(prediction->pod[k]));
		has = model_conserving(prediction->pods[i].weight / sum, used);
		prediction->model[i].demand_s = demand * (1 + sigma) / has;
		if (predict_pod_alone(prediction, i, 1, err) < 0)
			return -1;
	}
	return 0;
}

/* Pods of class latency get the GPU when they demand it; the others share the rest, as without classes. */
static int by_classes(struct fit_prediction *prediction, struct error *err)
{
	double taken = 0, batch = 0;
	struct model_pod rest[PLAN_PODS_MAX];
	struct model_times got[PLAN_PODS_MAX];
	size_t n = 0;
	double rho;

	for (size_t i = 0; i < prediction->n; i++) {
		if (prediction->pods[i].latency)
			taken += get_gpu_demand(prediction->pod[i]);
		else
			batch += get_gpu_demand(prediction->pod[i]);
	}
	if (taken >= 1)
		return error_set(err, ERR_UNAVAILABLE,
			"those of class latency ask for all of the GPU");
	for (size_t i = 0; i < prediction->n; i++)
		if (!prediction->pods[i].latency) {
			rest[n] = prediction->model[i];
			rest[n++].demand_s /= 1 - taken;
		}
	if (n) {
		struct model_rotation r =
			fit_rotation(prediction->f, prediction->gpu, PLAN_SLICES, n);

		if (model_rotate(rest, n, &r, got, &rho, err) < 0)
			return -1;
	}
	n = 0;
	for (size_t i = 0; i < prediction->n; i++) {
		if (!prediction->pods[i].latency) {
			prediction->got[i] = got[n++];
			continue;
		}
		prediction->model[i].rest_s += MODEL_REVOKE_S * fmin(1, batch);
		if (predict_pod_alone(prediction, i, 1, err) < 0)
			return -1;
	}
	return 0;
}

static int predict_mps(struct fit_prediction *prediction, double limit, struct error *err)
{
	struct model_side sides[PLAN_PODS_MAX];
	double stretch[PLAN_PODS_MAX];

	for (size_t i = 0; i < prediction->n; i++) {
		const struct fit_pod *p = prediction->pod[i];

		sides[i] = (struct model_side){ .u = limit < 1 ? p->u_share
							       : fmin(1, p->u_sm + p->u_bw),
			.busy = p->busy,
			.dram = p->dram,
			.kappa = fit_kappa(prediction->f, prediction->gpu),
			.bw = p->u_bw,
			.limit = limit };
	}
	if (model_side_by_side(prediction->model, sides, prediction->n, stretch, err) < 0)
		return -1;
	for (size_t i = 0; i < prediction->n; i++)
		if (predict_pod_alone(prediction, i, stretch[i], err) < 0)
			return -1;
	return 0;
}

static const char *const models[] = {
	[PREDICT_ALONE] = "exclusive",
	[PREDICT_TIME_SLICING] = "time-slicing-ps",
	[PREDICT_SLICES] = "turns-ps",
	[PREDICT_MPS_LIMITED] = "mps-limit",
	[PREDICT_SLICES_WEIGHTED] = "turns-share",
	[PREDICT_SLICES_LATENCY] = "turns-class",
	[PREDICT_MPS] = "mps-additive",
};

static int predict_way_times(struct fit_prediction *prediction, enum predict_way way,
	double share, struct error *err)
{
	switch (way) {
	case PREDICT_ALONE:
		for (size_t i = 0; i < prediction->n; i++)
			prediction->got[i] = (struct model_times){ prediction->pod[i]->solo_s,
				prediction->pod[i]->solo_s, prediction->pod[i]->solo_s,
				prediction->pod[i]->solo_s,
				prediction->model[i].rate > 0
					? prediction->model[i].rate
					: 1 / prediction->pod[i]->solo_s };
		return 0;
	case PREDICT_TIME_SLICING:
		return predict_rotation(prediction, PLAN_TIME_SLICING, err);
	case PREDICT_SLICES:
		return predict_rotation(prediction, PLAN_SLICES, err);
	case PREDICT_SLICES_WEIGHTED:
		return by_weights(prediction, err);
	case PREDICT_SLICES_LATENCY:
		return by_classes(prediction, err);
	case PREDICT_MPS:
		return predict_mps(prediction, 1, err);
	case PREDICT_MPS_LIMITED:
		return predict_mps(prediction, share, err);
	}
	return error_set(err, ERR_INTERNAL, "no such way to meet");
}

/* The figure of a pod that this way needs and lacks; NULL: none. */
static const char *find_missing_input(const struct fit_pod *p, enum predict_way way)
{
	if (!p->timed)
		return "t_solo";
	if ((way == PREDICT_MPS || way == PREDICT_MPS_LIMITED) && !p->splits)
		return "u";
	return NULL;
}

int fit_predict(struct fit_times *ret, const struct fit *f, const struct plan_gpu *gpu,
	enum predict_way way, const struct predict_pod *pods, size_t n, double share,
	struct error *err)
{
	struct fit_prediction prediction = { .f = f, .gpu = gpu, .pods = pods, .n = n };
	const char *lacks = NULL;

	if (n > PLAN_PODS_MAX)
		return error_set(err, ERR_LIMIT, "%zu pods on one GPU; at most %d", n,
			PLAN_PODS_MAX);
	for (size_t i = 0; i < n; i++) {
		prediction.pod[i] = fit_pod(f, pods[i].workload, gpu);
		prediction.model[i] = prediction.pod[i]->pod;
		if (!lacks)
			lacks = find_missing_input(prediction.pod[i], way);
	}
	if (!lacks && predict_way_times(&prediction, way, share, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		ret[i] = (struct fit_times){ .known = !lacks,
			.times = prediction.got[i],
			.origin = prediction.pod[i]->origin,
			.band = plan_band(prediction.pod[i]->origin),
			.model = models[way],
			.missing = lacks };
		if (ret[i].known)
			ret[i].slowdown = prediction.got[i].mean_s / prediction.pod[i]->ref_s;
	}
	return 0;
}
