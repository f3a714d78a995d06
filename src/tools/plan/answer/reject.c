/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/answer/reject.h"

/* The first offer of each GPU: whole GPUs before fractions, on demand before spot. */
static const struct plan_offer *find_gpu_offer(const struct plan_answer *a,
	const struct plan_gpu *gpu)
{
	const struct plan_offer *best = NULL;

	for (size_t i = 0; i < a->n_offers; i++) {
		const struct plan_offer *o = &a->offers[i];

		if (o->gpu != gpu)
			continue;
		if (!best || o->gpu_milli > best->gpu_milli ||
			(o->gpu_milli == best->gpu_milli && o->capacity < best->capacity))
			best = o;
	}
	return best;
}

static enum plan_reason check_mode_fit(const struct plan_answer *a, const struct plan_offer *o,
	enum plan_mode mode, uint32_t workload)
{
	/* Two slots on a GPU: one is not sharing. */
	const struct fit_gpu g = { o, mode,
		mode == PLAN_TIME_SLICING || mode == PLAN_MPS ? 2 : 0, &workload, 1 };

	return fit_check(a->fit, &g, NULL, NULL, NULL);
}

size_t reject_list(const struct plan_answer *a, struct rejection *ret, size_t room)
{
	const struct plan_offer *offers[PLAN_GPUS_MAX];
	size_t n_offers = 0, n = 0;

	for (size_t g = 0; g < a->fit->n_gpus && n_offers < PLAN_GPUS_MAX; g++) {
		offers[n_offers] = find_gpu_offer(a, &a->fit->gpus[g]);
		n_offers += offers[n_offers] != NULL;
	}
	for (uint32_t w = 0; w < a->in->n_workloads; w++) {
		for (size_t i = 0; i < n_offers; i++) {
			for (int m = 0; m < PLAN_MODES; m++) {
				enum plan_reason r;

				if (!(a->in->policy.modes >> m & 1))
					continue;
				r = check_mode_fit(a, offers[i], (enum plan_mode)m, w);
				if (r == PLAN_FITS)
					continue;
				if (n < room)
					ret[n] = (struct rejection){ w, offers[i]->gpu,
						(enum plan_mode)m, r };
				n++;
			}
		}
	}
	return n;
}
