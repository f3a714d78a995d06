/* SPDX-License-Identifier: Apache-2.0 */
/* fit_check(): whether pods fit on one GPU in a mode, and their times there (fit.h). */
#include "tools/plan/fit/fit.h"

#include "model/mig/geometry/geometry.h"

#include <math.h>
#include <string.h>

/* Sum of the pods' bandwidth above which concurrent pods are slower than pods one after the other. */
#define BANDWIDTH_MAX 0.9

/* The state of one check. */
struct fit_check_state {
	const struct fit *f;
	const struct fit_gpu *g;
	const struct fit_pod *pod[PLAN_PODS_MAX];
	struct model_pod pods[PLAN_PODS_MAX];
	struct model_times got[PLAN_PODS_MAX];
	uint16_t profile[PLAN_PODS_MAX];
	const char *model;
	uint32_t culprit;
	double part; /* fraction of a GPU that the provider sells as one */
	bool alike;  /* ignore anti-affinity */
};

uint32_t fit_usable_mib(const struct fit *f, const struct plan_offer *offer)
{
	return (uint32_t)(offer->gpu_memory_mib * (1 - f->policy->headroom));
}

static uint32_t slice_mib(uint32_t need)
{
	return (need + FIT_GRAIN_MIB - 1) / FIT_GRAIN_MIB * FIT_GRAIN_MIB;
}

/* --- memory and isolation --- */

const enum plan_isolation fit_isolation_of[PLAN_MODES] = {
	[PLAN_EXCLUSIVE] = PLAN_HARDWARE,
	[PLAN_TIME_SLICING] = PLAN_NO_ISOLATION,
	[PLAN_SLICES] = PLAN_MEMORY,
	[PLAN_MPS] = PLAN_MEMORY,
	[PLAN_MIG] = PLAN_HARDWARE,
};

static enum plan_reason check_each(struct fit_check_state *state)
{
	const struct fit_gpu *g = state->g;

	for (uint32_t i = 0; i < g->n; i++) {
		const struct plan_workload *w = &state->f->workloads[g->workloads[i]];

		state->culprit = i;
		if (state->pod[i]->reason != PLAN_FITS)
			return state->pod[i]->reason;
		if (w->isolation > fit_isolation_of[g->mode])
			return PLAN_NO_ISOLATION_IN_MODE;
		if (g->offer->capacity == PLAN_SPOT && !w->spot_ok)
			return PLAN_PRICE_UNKNOWN;
		if (state->part < 1 &&
			!w->mem_peak_mib.known) /* others have the rest of the GPU */
			return PLAN_PROFILE_INCOMPLETE;
		if (w->gpus > 1 && g->mode != PLAN_EXCLUSIVE)
			return PLAN_MODEL_NOT_ALLOWED;
		if (!w->anti_affinity || state->alike)
			continue;
		for (uint32_t j = 0; j < i; j++)
			if (g->workloads[j] == g->workloads[i])
				return PLAN_NO_ISOLATION_IN_MODE;
	}
	return PLAN_FITS;
}

static enum plan_reason check_gpu_memory(struct fit_check_state *state)
{
	const struct fit_gpu *g = state->g;
	uint32_t usable = fit_usable_mib(state->f, g->offer);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < g->n; i++) {
		uint32_t need = state->pod[i]->memory_mib;

		state->culprit = i;
		if (g->mode != PLAN_EXCLUSIVE &&
			!state->f->workloads[g->workloads[i]].mem_peak_mib.known)
			return PLAN_PROFILE_INCOMPLETE;
		if (g->mode == PLAN_MPS && (!g->slots || need > usable / g->slots))
			return PLAN_NO_MEMORY;
		sum += g->mode == PLAN_SLICES ? slice_mib(need) : need;
		if (sum > usable)
			return PLAN_NO_MEMORY;
	}
	return PLAN_FITS;
}

/* --- MIG --- */

/* Profiles that @pod fits into, the smallest first. */
static uint32_t profiles_for(const struct mig_layout *m, const struct fit_pod *pod,
	double headroom, uint16_t ret[MIG_PROFILES_MAX])
{
	uint32_t n = 0;

	for (uint16_t i = 0; i < m->n; i++) {
		const struct mig_gi_profile *p = &m->profiles[i];
		uint32_t at = n;

		if ((double)p->memory_mib * (1 - headroom) < pod->memory_mib ||
			p->name.attributes[0])
			continue;
		while (at > 0) {
			const struct mig_gi_profile *q = &m->profiles[ret[at - 1]];

			if (q->size < p->size || (q->size == p->size && q->slices <= p->slices))
				break;
			ret[at] = ret[at - 1];
			at--;
		}
		ret[at] = i;
		n++;
	}
	return n;
}

static enum plan_reason time_mig(struct fit_check_state *state, uint32_t i);
static enum plan_reason check_pod_slo(const struct fit_check_state *state, uint32_t i);

/* The smallest profile for each pod by itself. MIG devices are separate, so only their geometry matters
 * then. */
static enum plan_reason place_mig_profiles(struct fit_check_state *state)
{
	const struct mig_layout *m = state->g->offer->gpu->mig;
	uint32_t counts[MIG_PROFILES_MAX] = { 0 };

	if (!m || !state->g->offer->has_mig)
		return PLAN_MIG_UNSUPPORTED;
	if (state->g->n > MIG_GIS_MAX)
		return PLAN_MIG_GEOMETRY;
	for (uint32_t i = 0; i < state->g->n; i++) {
		uint16_t can[MIG_PROFILES_MAX];
		uint32_t n = profiles_for(m, state->pod[i], state->f->policy->headroom, can),
			 at = 0;
		enum plan_reason r = PLAN_NO_MEMORY;

		state->culprit = i;
		if (!state->f->workloads[state->g->workloads[i]].mem_peak_mib.known)
			return PLAN_PROFILE_INCOMPLETE;
		for (; at < n; at++) {
			state->profile[i] = can[at];
			r = time_mig(state, i);
			if (r == PLAN_FITS)
				r = check_pod_slo(state, i);
			if (r == PLAN_FITS)
				break;
		}
		if (r != PLAN_FITS)
			return r;
		counts[state->profile[i]]++;
	}
	return mig_geometry_fits(m, counts) ? PLAN_FITS : PLAN_MIG_GEOMETRY;
}

/* A pod alone with less than a GPU: whether that suffices, with the idle share that the policy requires. */
static enum plan_reason time_with_share(struct fit_check_state *state, uint32_t i,
	double stretch)
{
	struct error ignored;
	double used;

	if (model_exclusive(&state->pods[i], stretch, &state->got[i], &used, &ignored) < 0 ||
		used > state->f->policy->rho_max)
		return PLAN_RHO;
	return PLAN_FITS;
}

/* Without known sensitivities there is no prediction, and no rejection. */
static enum plan_reason time_mig(struct fit_check_state *state, uint32_t i)
{
	const struct plan_gpu *gpu = state->g->offer->gpu;
	const struct mig_gi_profile *p = &gpu->mig->profiles[state->profile[i]];

	state->model = "mig";
	if (!state->pod[i]->splits)
		return PLAN_FITS;
	return time_with_share(state, i,
		model_split_stretch(state->pod[i]->u_sm, state->pod[i]->u_bw,
			(double)p->multiprocessors / gpu->multiprocessors,
			(double)p->size / gpu->mig->slots));
}

/* --- times --- */

/* MPS and MIG give a pod less of the GPU: only its sensitivities tell the effect. */
static bool split_known(const struct fit_check_state *state, uint32_t i)
{
	return (state->g->mode != PLAN_MPS && state->g->mode != PLAN_MIG) ||
	       state->pod[i]->splits;
}

static bool stretch_known(const struct fit_check_state *state, uint32_t i)
{
	return state->pod[i]->timed && split_known(state, i);
}

static enum plan_reason time_rotation(struct fit_check_state *state)
{
	struct model_rotation r =
		fit_rotation(state->f, state->g->offer->gpu, state->g->mode, state->g->n);
	struct error ignored;
	double rho;

	state->model = state->g->mode == PLAN_SLICES ? "turns-ps" : "time-slicing-ps";
	if (model_rotate(state->pods, state->g->n, &r, state->got, &rho, &ignored) < 0 ||
		rho > state->f->policy->rho_max)
		return PLAN_RHO;
	return PLAN_FITS;
}

static enum plan_reason time_mps_limited(struct fit_check_state *state)
{
	struct model_side sides[PLAN_PODS_MAX];
	double stretch[PLAN_PODS_MAX], bandwidth = 0;
	struct error ignored;

	state->model = "mps-limit";
	for (uint32_t i = 0; i < state->g->n; i++) {
		const struct fit_pod *p = state->pod[i];

		sides[i] = (struct model_side){ .u = p->splits ? p->u_share : 1,
			.busy = p->busy,
			.dram = p->dram,
			.kappa = fit_kappa(state->f, state->g->offer->gpu),
			.bw = p->u_bw,
			.limit = 1.0 / state->g->slots };
		bandwidth += p->busy * p->dram;
	}
	if (bandwidth > BANDWIDTH_MAX && state->g->n > 1)
		return PLAN_MISSES_SLO;
	if (model_side_by_side(state->pods, sides, state->g->n, stretch, &ignored) < 0)
		return PLAN_MISSES_SLO;
	for (uint32_t i = 0; i < state->g->n; i++) {
		state->culprit = i;
		if (time_with_share(state, i, stretch[i]) != PLAN_FITS)
			return PLAN_RHO;
	}
	return PLAN_FITS;
}

/* On the GPU of its measurement a pod performs as measured, whatever else is known. */
static bool as_measured(const struct fit_check_state *state)
{
	const struct plan_workload *w = &state->f->workloads[state->g->workloads[0]];

	return state->part >= 1 && (w->ref == state->g->offer->gpu || !w->ref);
}

static enum plan_reason time_alone(struct fit_check_state *state)
{
	struct model_pod p = state->pods[0];
	struct error ignored;
	double used;

	state->model = "exclusive";
	if (!as_measured(state))
		return time_with_share(state, 0, 1);
	/* The measured time includes the waiting of its requests for each other. */
	p.rate = 0;
	if (model_exclusive(&state->pods[0], 1, &state->got[0], &used, &ignored) == 0)
		return PLAN_FITS;
	/* A pod that was busy all the time and finished its work fits; if that is unknown, its demand is too
	 * large. */
	if ((state->pod[0]->timed && !state->f->workloads[state->g->workloads[0]].busy.known) ||
		model_exclusive(&p, 1, &state->got[0], &used, &ignored) < 0)
		return PLAN_RHO;
	if (state->pod[0]->timed && state->pods[0].rate > 0)
		state->got[0].rate = state->pods[0].rate;
	return PLAN_FITS;
}

/* --- demands --- */

/* Under MPS the cost of other pods' bandwidth is a guess if their bandwidth is unknown. */
static enum plan_origin origin_of(const struct fit_check_state *state, uint32_t i)
{
	bool guessed = state->part < 1;

	for (uint32_t k = 0; state->g->mode == PLAN_MPS && k < state->g->n; k++)
		guessed |= k != i && !state->f->workloads[state->g->workloads[k]].dram.known;
	return guessed ? PLAN_DEFAULT : state->pod[i]->origin;
}

static double get_pod_error_band(const struct fit_check_state *state, uint32_t i)
{
	return plan_band(origin_of(state, i));
}

static bool is_over_limit(double limit, double value)
{
	return limit > 0 && value > limit;
}

static enum plan_reason check_pod_slo(const struct fit_check_state *state, uint32_t i)
{
	const struct plan_workload *w = &state->f->workloads[state->g->workloads[i]];
	const struct plan_slo *s = &w->slo;
	const struct model_times *t = &state->got[i];
	double max = plan_get_max_slowdown(state->f->policy, s);
	double upper = 1 + get_pod_error_band(state, i);
	bool asked = s->p50_s > 0 || s->p95_s > 0 || s->p99_s > 0 || s->min_rate > 0;

	if (!split_known(state, i))
		return asked || max > 0 ? PLAN_PROFILE_INCOMPLETE : PLAN_FITS;
	if (state->g->mode == PLAN_EXCLUSIVE && as_measured(state))
		max = 0; /* nothing is slower than at its measurement */
	/* For a closed pod the slowdown is known even if its time is not. */
	if (state->pod[i]->ref_s > 0 &&
		is_over_limit(max, t->mean_s / state->pod[i]->ref_s * upper))
		return PLAN_MISSES_SLO;
	if (!state->pod[i]->timed) /* no more is known; the plan reports that */
		return PLAN_FITS;
	if (is_over_limit(s->p50_s, t->p50_s * upper) ||
		is_over_limit(s->p95_s, t->p95_s * upper) ||
		is_over_limit(s->p99_s, t->p99_s * upper) ||
		t->rate / (state->pods[i].rate > 0 ? 1 : upper) < s->min_rate)
		return PLAN_MISSES_SLO;
	return PLAN_FITS;
}

/* On a fraction of a GPU all GPU work takes longer, by its sensitivities, or else by the whole ratio. */
static void stretch_to_share(struct fit_check_state *state, uint32_t i)
{
	const struct fit_pod *p = state->pod[i];
	double stretch =
		p->splits ? model_split_stretch(p->u_sm, p->u_bw, state->part, state->part)
			  : 1 / state->part;

	state->pods[i].demand_s += (p->pod.demand_s + p->pod.rest_s) * (stretch - 1);
}

/* --- all together --- */

static enum plan_reason time_all(struct fit_check_state *state)
{
	enum plan_reason r = PLAN_FITS;

	switch (state->g->mode) {
	case PLAN_TIME_SLICING:
	case PLAN_SLICES:
		r = state->g->n > 1 ? time_rotation(state) : time_alone(state);
		break;
	case PLAN_MPS:
		r = time_mps_limited(state);
		break;
	case PLAN_MIG: /* has checked each pod by itself */
		return place_mig_profiles(state);
	case PLAN_EXCLUSIVE:
	case PLAN_MODES:
		r = time_alone(state);
		break;
	}
	for (uint32_t i = 0; i < state->g->n && r == PLAN_FITS; i++) {
		state->culprit = i;
		r = check_pod_slo(state, i);
	}
	return r;
}

static void fill_fit_tenants(const struct fit_check_state *state, struct plan_tenant *ret)
{
	const struct fit_gpu *g = state->g;

	for (uint32_t i = 0; i < g->n; i++) {
		ret[i] = (struct plan_tenant){ .workload = g->workloads[i],
			.profile = state->profile[i] };
		if (g->mode == PLAN_SLICES)
			ret[i].memory_mib = slice_mib(state->pod[i]->memory_mib);
		else if (g->mode == PLAN_MPS)
			ret[i].memory_mib = g->offer->gpu_memory_mib / g->slots;
		else if (g->mode == PLAN_MIG)
			ret[i].memory_mib =
				(uint32_t)g->offer->gpu->mig->profiles[state->profile[i]]
					.memory_mib;
	}
}

/* The missing figure that matters most. */
static const char *find_missing_figure(const struct fit_check_state *state, uint32_t i)
{
	const struct plan_workload *w = &state->f->workloads[state->g->workloads[i]];

	if (!w->mem_peak_mib.known)
		return "mem_peak_mib";
	if (!w->solo_s.known)
		return "t_solo";
	if (w->kind == PLAN_OPEN && !w->rate.known)
		return "rate";
	if (!w->busy.known)
		return "busy";
	if ((state->g->mode == PLAN_MPS || state->g->mode == PLAN_MIG) && !w->u.known)
		return "u";
	if (state->g->mode == PLAN_MPS && !w->dram.known)
		return "dram";
	if (w->ref && w->ref != state->g->offer->gpu)
		return "t_solo on this GPU";
	return NULL;
}

static void fill_fit_times(const struct fit_check_state *state, struct fit_times *ret)
{
	for (uint32_t i = 0; i < state->g->n; i++) {
		ret[i] = (struct fit_times){ .known = stretch_known(state, i),
			.times = state->got[i],
			.band = get_pod_error_band(state, i),
			.origin = origin_of(state, i),
			.model = state->model,
			.missing = find_missing_figure(state, i) };
		if (ret[i].known)
			ret[i].slowdown = state->got[i].mean_s / state->pod[i]->ref_s;
	}
}

/* Sets only what the check uses: the search makes a million checks, and the struct has 9 KiB. */
static void init_fit_check(struct fit_check_state *state, const struct fit *f,
	const struct fit_gpu *g)
{
	static const struct fit_pod nobody;

	state->f = f;
	state->g = g;
	state->model = "exclusive";
	state->culprit = 0;
	state->alike = false;
	state->part = g->offer->gpu_milli / 1000.0;
	for (uint32_t i = 0; i < PLAN_PODS_MAX; i++)
		state->pod[i] = &nobody;
	for (uint32_t i = 0; i < g->n; i++) {
		state->pod[i] = fit_pod(f, g->workloads[i], g->offer->gpu);
		state->pods[i] = state->pod[i]->pod;
		state->got[i] = (struct model_times){ 0 };
		state->profile[i] = 0;
		if (state->part < 1)
			stretch_to_share(state, i);
	}
}

/* Checks the limits of the number of pods. */
static bool has_pod_room(const struct fit *f, const struct fit_gpu *g)
{
	return g->n <= PLAN_PODS_MAX && g->n <= f->policy->pods_per_gpu &&
	       (!g->slots || g->n <= g->slots) && (g->mode != PLAN_EXCLUSIVE || g->n <= 1);
}

static enum plan_reason check_gpu_fit(struct fit_check_state *state)
{
	enum plan_reason r = check_each(state);

	if (r == PLAN_FITS && state->g->mode != PLAN_MIG)
		r = check_gpu_memory(state);
	if (r == PLAN_FITS && state->g->n)
		r = time_all(state);
	return r;
}

bool fit_alike(const struct fit *f, const struct fit_gpu *g)
{
	struct fit_check_state state;

	if (!has_pod_room(f, g))
		return false;
	init_fit_check(&state, f, g);
	state.alike = true;
	return check_gpu_fit(&state) == PLAN_FITS;
}

enum plan_reason fit_check(const struct fit *f, const struct fit_gpu *g,
	struct plan_tenant *tenants, struct fit_times *times, uint32_t *culprit)
{
	struct fit_check_state state;
	enum plan_reason r;

	if (culprit)
		*culprit = 0;
	if (!has_pod_room(f, g))
		return PLAN_NO_MEMORY;
	init_fit_check(&state, f, g);
	r = check_gpu_fit(&state);
	if (culprit)
		*culprit = state.culprit;
	if (r != PLAN_FITS)
		return r;
	if (tenants)
		fill_fit_tenants(&state, tenants);
	if (times)
		fill_fit_times(&state, times);
	return r;
}
