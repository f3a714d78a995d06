/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/plan/view/text.h"

#include "lib/base/digits.h"
#include "io/price/price.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *plan_money(int64_t nano, bool groups, char *buf)
{
	bool negative = nano < 0;
	int64_t cents = ((negative ? -nano : nano) + PRICE_NANO / 200) / (PRICE_NANO / 100);
	char whole[24];
	size_t len, out = 0;

	if (negative && cents)
		buf[out++] = '-';
	(void)snprintf(whole, sizeof(whole), "%" PRId64, cents / 100);
	len = strlen(whole);
	for (size_t i = 0; i < len; i++) {
		if (groups && i && (len - i) % 3 == 0)
			buf[out++] = ',';
		buf[out++] = whole[i];
	}
	(void)snprintf(buf + out, PLAN_MONEY_MAX - out, ".%02d", (int)(cents % 100));
	return buf;
}

/* The workloads ask for too much of the GPU's time. The text says how busy equal workloads may be. */
static void add_utilization_reason(struct buf *b, const struct plan_answer *a,
	const struct answer_line *l)
{
	double sigma = l->mode == PLAN_TIME_SLICING ? MODEL_SIGMA_TIME_SLICING
						    : MODEL_SIGMA_FAIR_SHARE;
	double max = 100 / (1 + sigma) / l->slices;

	if (l->rho <= 0 || l->slices < 2) {
		buf_printf(b, "'%s' would be too busy there",
			a->in->workloads[l->culprit].name);
		return;
	}
	buf_printf(b,
		"they ask for %.*f %% of the GPU's time (switching between them takes %.0f %%)",
		digits_to_differ(l->rho * 100, 100, 0), l->rho * 100, sigma * 100);
	if (a->in->workloads[l->culprit].ref &&
		a->in->workloads[l->culprit].ref != l->offer->gpu)
		return; /* .busy was measured on another GPU */
	buf_printf(b,
		"; %u fit without loss if they are busy for %.1f %% each at most, and within rho_max if for "
		"%.1f %%",
		l->slices, max, max * a->in->policy.rho_max);
}

void plan_format_reason(struct buf *b, const struct plan_answer *a, const struct answer_line *l)
{
	const struct plan_workload *w = &a->in->workloads[l->culprit];
	const struct fit_pod *pod = fit_pod(a->fit, l->culprit, l->offer->gpu);

	if (l->slices > a->in->policy.pods_per_gpu) {
		buf_printf(b, "max_pods_per_gpu is %u", a->in->policy.pods_per_gpu);
		return;
	}
	switch (l->reason) {
	case PLAN_FITS:
		buf_puts(b, "nothing");
		break;
	case PLAN_RHO:
		add_utilization_reason(b, a, l);
		break;
	case PLAN_NO_MEMORY:
		buf_printf(b,
			"'%s' needs %u MiB of GPU memory with its context, and there are %u for %u",
			w->name, pod->memory_mib, fit_usable_mib(a->fit, l->offer), l->slices);
		break;
	case PLAN_NO_ISOLATION_IN_MODE:
		if (w->isolation <= fit_isolation_of[l->mode]) {
			buf_printf(b, "replicas of '%s' have to be on nodes of their own",
				w->name);
			break;
		}
		buf_printf(b, "'%s' wants more isolation than %s gives", w->name,
			plan_mode_names[l->mode]);
		break;
	case PLAN_MISSES_SLO:
		buf_printf(b, "'%s' would be too slow", w->name);
		break;
	case PLAN_PROFILE_INCOMPLETE:
		if (w->mem_peak_mib.known)
			buf_printf(b,
				"of '%s' it is not known what less of a GPU does to it: measure u",
				w->name);
		else
			buf_printf(b, "the memory of '%s' is not known: measure mem_peak_mib",
				w->name);
		break;
	case PLAN_PRICE_UNKNOWN:
		buf_printf(b, "'%s' is not marked spot_ok", w->name);
		break;
	case PLAN_MODEL_NOT_ALLOWED:
		if (w->gpus > 1)
			buf_printf(b, "'%s' wants %u whole GPUs of one node", w->name, w->gpus);
		else
			buf_printf(b, "'%s' may not run on %s", w->name, l->offer->gpu->name);
		break;
	case PLAN_HOST_CPU:
		buf_puts(b, "the node has too few processors for as many");
		break;
	case PLAN_HOST_MEMORY:
		buf_puts(b, "the node has too little memory for as many");
		break;
	case PLAN_MIG_GEOMETRY:
		buf_puts(b, "so many MIG devices of the size do not fit on the GPU");
		break;
	case PLAN_MIG_UNSUPPORTED:
		buf_printf(b, "%s has no MIG", l->offer->gpu->name);
		break;
	case PLAN_ARCH:
	case PLAN_REGION:
	case PLAN_REASONS:
		buf_puts(b, plan_reason_names[l->reason]);
		break;
	}
}

bool plan_times(const struct plan_answer *a, const struct plan_node *node, uint32_t tenant,
	struct fit_times *ret)
{
	struct fit_times times[PLAN_PODS_MAX];
	uint32_t who[PLAN_PODS_MAX], at = 0;
	struct fit_gpu g = { node->offer, node->mode, node->slots, who, 0 };

	for (uint32_t i = 0; i < node->n && g.n < PLAN_PODS_MAX; i++) {
		if (node->tenants[i].gpu != node->tenants[tenant].gpu)
			continue;
		if (i == tenant)
			at = g.n;
		who[g.n++] = node->tenants[i].workload;
	}
	if (fit_check(a->fit, &g, NULL, times, NULL) != PLAN_FITS)
		return false;
	*ret = times[at];
	return true;
}
