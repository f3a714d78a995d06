/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/plan.h"

const char *const plan_origin_names[PLAN_ORIGINS] = { [PLAN_MEASURED] = "measured",
	[PLAN_DERIVED] = "derived",
	[PLAN_DEFAULT] = "default" };

const char *const plan_mode_names[PLAN_MODES] = {
	[PLAN_EXCLUSIVE] = "exclusive",
	[PLAN_TIME_SLICING] = "time-slicing",
	[PLAN_SLICES] = "slices",
	[PLAN_MPS] = "mps",
	[PLAN_MIG] = "mig",
};

const char *const plan_reason_names[PLAN_REASONS] = {
	[PLAN_FITS] = "fits",
	[PLAN_NO_MEMORY] = "memory",
	[PLAN_NO_ISOLATION_IN_MODE] = "isolation",
	[PLAN_MISSES_SLO] = "slo",
	[PLAN_RHO] = "rho",
	[PLAN_MIG_GEOMETRY] = "mig_geometry",
	[PLAN_MIG_UNSUPPORTED] = "mig_unsupported",
	[PLAN_ARCH] = "arch",
	[PLAN_MODEL_NOT_ALLOWED] = "model_not_allowed",
	[PLAN_HOST_CPU] = "host_cpu",
	[PLAN_HOST_MEMORY] = "host_memory",
	[PLAN_PRICE_UNKNOWN] = "price_unknown",
	[PLAN_REGION] = "region",
	[PLAN_PROFILE_INCOMPLETE] = "profile_incomplete",
};

double plan_band(enum plan_origin origin)
{
	static const double bands
		[] = { [PLAN_MEASURED] = 0.10, [PLAN_DERIVED] = 0.25, [PLAN_DEFAULT] = 0.50 };

	return bands[origin];
}

bool plan_has_slo(const struct plan_slo *s)
{
	return s->p50_s > 0 || s->p95_s > 0 || s->p99_s > 0 || s->min_rate > 0 ||
	       s->max_slowdown > 0;
}

double plan_get_max_slowdown(const struct plan_policy *p, const struct plan_slo *s)
{
	if (s->max_slowdown > 0)
		return s->max_slowdown;
	return plan_has_slo(s) ? 0 : p->max_slowdown;
}
