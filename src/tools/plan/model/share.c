/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/model/model.h"

#include "lib/base/digits.h"

#include <math.h>

/* Rounds of a fixed point: a pod that is slowed down has work on the GPU for longer. */
#define ROUNDS 3

double model_amdahl(double u, double share)
{
	return 1 - u + u / share;
}

/* GPU time of a request: all extra time is spent on the GPU. */
static double compute_stretched_time(const struct model_pod *p, double stretch)
{
	return p->demand_s + (p->demand_s + p->rest_s) * (stretch - 1);
}

int model_side_by_side(const struct model_pod *pods, const struct model_side *sides, size_t n,
	double *stretch, struct error *err)
{
	double busy[MODEL_PODS_MAX];

	if (n > MODEL_PODS_MAX)
		return error_set(err, ERR_LIMIT, "%zu pods on one GPU; at most %d", n,
			MODEL_PODS_MAX);
	for (size_t i = 0; i < n; i++)
		busy[i] = sides[i].busy;
	for (unsigned round = 0; round < ROUNDS; round++) {
		double demand = 0, bandwidth = 0, bound = 0;

		for (size_t i = 0; i < n; i++) {
			demand += busy[i] * sides[i].u;
			bandwidth += busy[i] * sides[i].dram;
			bound += busy[i] * sides[i].bw;
		}
		for (size_t i = 0; i < n; i++) {
			double beside =
				sides[i].limit < 1
					? fmax(sides[i].kappa *
							  (bandwidth - busy[i] * sides[i].dram),
						  sides[i].bw > 0
							  ? bound - busy[i] * sides[i].bw
							  : 0)
					: demand - busy[i] * sides[i].u;

			stretch[i] = model_amdahl(sides[i].u, sides[i].limit) * (1 + beside);
		}
		/* An open pod has as many requests as before, each of them longer. */
		for (size_t i = 0; i < n; i++)
			if (pods[i].rate > 0)
				busy[i] = fmin(1, pods[i].rate * compute_stretched_time(
									 &pods[i], stretch[i]));
	}
	return 0;
}

double model_split_stretch(double u_sm, double u_bw, double sm_share, double bw_share)
{
	return 1 - u_sm - u_bw + u_sm / sm_share + u_bw / bw_share;
}

void model_bucket(const struct model_pod *p, double a, double period_s, double burst_s,
	struct model_times *ret)
{
	double beyond = p->demand_s - burst_s;

	*ret = (struct model_times){ .mean_s = p->rest_s + p->demand_s,
		.p50_s = p->rest_s + p->demand_s,
		.p95_s = p->rest_s + p->demand_s,
		.p99_s = p->rest_s + p->demand_s };
	if (beyond <= 0)
		return;
	ret->mean_s = ret->p50_s = p->rest_s + p->demand_s / a;
	ret->p99_s += ceil(beyond / (a * period_s)) * (1 - a) * period_s;
	ret->p99_s = ret->p95_s = fmax(ret->p99_s, ret->mean_s);
}

double model_conserving(double a, double used)
{
	return fmax(a, 1 - used);
}

int model_exclusive(const struct model_pod *p, double stretch, struct model_times *ret,
	double *used, struct error *err)
{
	double demand = compute_stretched_time(p, stretch), before = p->rate * p->demand_s;

	*used = p->rate * demand;
	if (*used >= 1)
		return error_set(err, ERR_UNAVAILABLE, "it asks for %.*f %% of what it has",
			digits_to_differ(*used * 100, 100, 0), *used * 100);
	/* The measured time already includes waiting of its requests for each other, up to that load. */
	ret->mean_s = p->rest_s + demand * (1 - fmin(before, *used)) / (1 - *used);
	ret->p50_s = ret->p95_s = ret->p99_s = ret->mean_s;
	ret->rate = ret->mean_s > 0 ? 1 / ret->mean_s : 0;
	if (p->rate > 0) {
		ret->rate = p->rate;
		if (*used > 0) {
			ret->p95_s += demand * log(MODEL_BEYOND_P95) / log(*used);
			ret->p99_s += demand * log(MODEL_BEYOND_P99) / log(*used);
		}
	}
	return 0;
}

double model_translate(double u_sm, double u_bw, double compute_ratio, double bandwidth_ratio)
{
	return 1 - u_sm - u_bw + u_sm * compute_ratio + u_bw * bandwidth_ratio;
}
