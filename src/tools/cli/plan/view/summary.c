/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences of a plan. */
#include "tools/cli/plan/view/view.h"

#include "io/price/price.h"
#include "lib/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- amounts, times, and why something is not feasible --- */

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

/* What the workload needs, or its profile lacks. */
static void add_workload_reason(struct buf *b, const struct plan_workload *w,
	const struct answer_line *l)
{
	if (l->reason == PLAN_MISSES_SLO)
		buf_printf(b, "'%s' would be too slow", w->name);
	else if (l->reason == PLAN_PRICE_UNKNOWN)
		buf_printf(b, "'%s' is not marked spot_ok", w->name);
	else if (l->reason == PLAN_NO_ISOLATION_IN_MODE &&
		 w->isolation <= fit_isolation_of[l->mode])
		buf_printf(b, "replicas of '%s' have to be on nodes of their own", w->name);
	else if (l->reason == PLAN_NO_ISOLATION_IN_MODE)
		buf_printf(b, "'%s' wants more isolation than %s gives", w->name,
			plan_mode_names[l->mode]);
	else if (l->reason == PLAN_PROFILE_INCOMPLETE && w->mem_peak_mib.known)
		buf_printf(b,
			"of '%s' it is not known what less of a GPU does to it: measure u",
			w->name);
	else if (l->reason == PLAN_PROFILE_INCOMPLETE)
		buf_printf(b, "the memory of '%s' is not known: measure mem_peak_mib", w->name);
	else if (l->reason == PLAN_MODEL_NOT_ALLOWED && w->gpus > 1)
		buf_printf(b, "'%s' wants %u whole GPUs of one node", w->name, w->gpus);
	else if (l->reason == PLAN_MODEL_NOT_ALLOWED)
		buf_printf(b, "'%s' may not run on %s", w->name, l->offer->gpu->name);
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
	case PLAN_MISSES_SLO:
	case PLAN_PRICE_UNKNOWN:
	case PLAN_NO_ISOLATION_IN_MODE:
	case PLAN_PROFILE_INCOMPLETE:
	case PLAN_MODEL_NOT_ALLOWED:
		add_workload_reason(b, w, l);
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

#define SLOS_NAMED_MAX 5

static int64_t get_plan_month_nano(int64_t nano_per_hour)
{
	return nano_per_hour * ANSWER_HOURS_A_MONTH;
}

/* --- the subject --- */

void plan_summary_stamp(struct buf *b, const struct plan_answer *a)
{
	const struct plan_offer *o = a->n_offers ? &a->offers[0] : NULL;

	buf_printf(b, "%llu replica%s of %zu workload%s. Region%s",
		(unsigned long long)a->replicas, plan_plural(a->replicas), a->in->n_workloads,
		plan_plural(a->in->n_workloads), plan_plural(a->in->regions.n));
	for (size_t i = 0; i < a->in->regions.n; i++)
		buf_printf(b, "%s %s", i ? "," : "", a->in->regions.v[i]);
	if (o)
		buf_printf(b, "; prices in %s an hour of %s, %s", a->currency,
			*o->stamp ? o->stamp : "an unknown day", o->source);
}

/* Begins a sentence, with a blank between it and the sentences before. */
static void add_next_sentence(struct buf *b, const char *begin)
{
	buf_printf(b, "%s%s", b->len ? " " : "", begin);
}

void plan_summary_layout(struct buf *b, const struct plan_answer *a)
{
	const struct answer_line *l = &a->layout;

	/* The text multiplies: "slices of each GPU" is easily read as "slices of the node". */
	if (l->slices > 1 && l->offer->gpus > 1)
		buf_printf(b,
			"%u slices of each of the %u GPUs of %s are %u, each 1/%u of a GPU.",
			l->slices, l->offer->gpus, l->offer->type, l->slices * l->offer->gpus,
			l->slices);
	if (a->baseline.reason != PLAN_FITS) {
		add_next_sentence(b, "A GPU each does not hold: ");
		plan_format_reason(b, a, &a->baseline);
		buf_puts(b, ".");
	}
	if (l->reason != PLAN_FITS) {
		add_next_sentence(b, "But it does not hold: ");
		plan_format_reason(b, a, l);
		buf_puts(b, ".");
	}
}

/* --- the plan --- */

/* Compares the plan with a GPU for each replica, and with the cheapest plan without slicing, where
 * these place all workloads. */
static void add_comparison(struct buf *b, const struct plan_answer *a)
{
	const struct pack_result *r = &a->plan;
	char other[PLAN_MONEY_MAX];

	if (a->baseline.offer && a->baseline.reason == PLAN_FITS)
		buf_printf(b, " A GPU each on %llu x %s: %s an hour, the plan is %.1f %% less.",
			(unsigned long long)a->baseline.nodes, a->baseline.offer->type,
			plan_money(a->baseline.nano_per_hour, true, other),
			plan_saving(r->nano_per_hour, a->baseline.nano_per_hour));
	if (a->unsliced.n_nodes && !a->unsliced.n_unplaced)
		buf_printf(b,
			" The cheapest without slicing: %s an hour, the plan is %.1f %% less.",
			plan_money(a->unsliced.nano_per_hour, true, other),
			plan_saving(r->nano_per_hour, a->unsliced.nano_per_hour));
	if (r->exact)
		buf_puts(b, " Nothing is cheaper: all ways were tried.");
	else if (r->bound_nano)
		buf_printf(b, " No plan costs less than %s an hour (gap %.1f %%).",
			plan_money(r->bound_nano, true, other),
			plan_saving(r->bound_nano, r->nano_per_hour));
}

void plan_summary_total(struct buf *b, const struct plan_answer *a)
{
	const struct pack_result *r = &a->plan;
	char hour[PLAN_MONEY_MAX], each_month[PLAN_MONEY_MAX];

	buf_printf(b, "The plan: %zu node%s, %s %s an hour, %s a month.", r->n_nodes,
		plan_plural(r->n_nodes), plan_money(r->nano_per_hour, true, hour), a->currency,
		plan_money(get_plan_month_nano(r->nano_per_hour), true, each_month));
	if (r->n_unplaced)
		buf_puts(b, " Not all have a place: see the end.");
	else
		add_comparison(b, a);
	if (r->stopped)
		buf_puts(b, " Interrupted: there may be a better one.");
}

const struct plan_workload *plan_find_untimed(const struct plan_answer *a)
{
	for (size_t w = 0; w < a->in->n_workloads; w++)
		if (!a->in->workloads[w].solo_s.known)
			return &a->in->workloads[w];
	return NULL;
}

bool plan_slo_unknown(const struct plan_answer *a, size_t workload)
{
	const struct plan_outcome *o = &a->outcomes[workload];

	return plan_has_slo(&a->in->workloads[workload].slo) && o->worst && !o->times.known;
}

/* "'a' (p99_ms; without t_solo), 'b' (min_rate; without rate)" */
static void add_slo_text(struct buf *b, const struct plan_answer *a, size_t workload,
	const char *before)
{
	const struct plan_workload *w = &a->in->workloads[workload];
	const struct {
		const char *key;
		double asked;
	} keys[] = { { "p50_ms", w->slo.p50_s }, { "p95_ms", w->slo.p95_s },
		{ "p99_ms", w->slo.p99_s }, { "min_rate", w->slo.min_rate },
		{ "max_slowdown", w->slo.max_slowdown } };
	const char *missing = a->outcomes[workload].times.missing, *comma = " (";

	buf_printf(b, "%s'%s'", before, w->name);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (keys[i].asked > 0) {
			buf_printf(b, "%s%s", comma, keys[i].key);
			comma = ", ";
		}
	buf_printf(b, "%s%s)", missing ? "; without " : "", missing ? missing : "");
}

static void add_unknown_slos(struct buf *b, const struct plan_answer *a)
{
	size_t n = 0;

	for (size_t w = 0; w < a->in->n_workloads; w++)
		if (plan_slo_unknown(a, w) && n++ < SLOS_NAMED_MAX)
			add_slo_text(b, a, w,
				n == 1 ? " Not known is whether an SLO is met: " : ", ");
	if (n > SLOS_NAMED_MAX)
		buf_printf(b, ", and %zu more", n - SLOS_NAMED_MAX);
	if (n)
		buf_putc(b, '.');
}

/* Whether the times of each placed workload are known. */
static bool all_timed(const struct plan_answer *a)
{
	for (size_t w = 0; w < a->in->n_workloads; w++)
		if (a->outcomes[w].worst && !a->outcomes[w].times.known)
			return false;
	return true;
}

/* The confidence of an answer is that of its worst input. */
void plan_summary_confidence(struct buf *b, const struct plan_answer *a)
{
	const struct plan_workload *untimed = plan_find_untimed(a);
	size_t n;
	enum plan_origin worst = outcome_origin(a, &n);

	if (worst == PLAN_MEASURED)
		buf_printf(b, "%s of it rests on what was measured.",
			all_timed(a) ? "All" : "What is known");
	else
		buf_printf(b,
			"It is as good as its worst figures: those of %zu of %zu workload%s are %s. The last "
			"column says what to measure.",
			n, a->in->n_workloads, plan_plural(a->in->n_workloads),
			worst == PLAN_DERIVED ? "derived from others" : "defaults");
	if (untimed)
		buf_printf(b,
			" How fast '%s' will be nobody can say without t_solo: the plan may make it as slow as its "
			"GPU is.",
			untimed->name);
	add_unknown_slos(b, a);
	for (size_t w = 0; w < a->in->n_workloads; w++)
		if (a->in->workloads[w].disturbed)
			buf_printf(b,
				" '%s' was disturbed while it was measured (%s), so none of its figures "
				"counts as measured: profile it again.",
				a->in->workloads[w].name, a->in->workloads[w].disturbed);
}

/* --- money --- */

/* All requests together pay the whole bill, including the idle parts. */
void plan_summary_per_million(struct buf *b, const struct plan_answer *a)
{
	int64_t after = outcome_million(a->plan.nano_per_hour, a->money.rate);
	int64_t before = outcome_million(a->baseline.nano_per_hour, a->money.before_rate);
	char now[PLAN_MONEY_MAX], then[PLAN_MONEY_MAX];

	if (after < 0 || a->plan.n_unplaced)
		return;
	buf_printf(b, "A million requests, of all kinds together, cost %s %s",
		plan_money(after, true, now), a->currency);
	if (before > 0)
		buf_printf(b, ", with a GPU each %s: %.1f %% %s",
			plan_money(before, true, then),
			after <= before ? plan_saving(after, before)
					: -plan_saving(after, before),
			after <= before ? "less" : "more");
	buf_puts(b, ".");
}

void plan_summary_idle(struct buf *b, const struct plan_answer *a)
{
	char money[PLAN_MONEY_MAX];

	if (a->plan.nano_per_hour)
		buf_printf(b,
			"Idle: %s an hour, %.1f %% of the plan, is for parts of GPUs that nobody has.",
			plan_money(a->money.idle_nano, true, money),
			100.0 * (double)a->money.idle_nano / (double)a->plan.nano_per_hour);
}

void plan_summary_spot(struct buf *b, const struct plan_answer *a)
{
	const struct outcome_money *m = &a->money;
	char money[PLAN_MONEY_MAX];
	bool unknown = false, unsaid = false;

	if (!m->spot_nodes)
		return;
	for (size_t w = 0; w < a->in->n_workloads; w++) {
		const struct plan_workload *is = &a->in->workloads[w];

		unknown |= a->outcomes[w].lost_high < 0;
		unsaid |= is->spot_ok && is->restart_s + is->warmup_s <= 0;
	}
	buf_printf(b,
		"Spot: %llu of %zu nodes, %s an hour. The end of one takes up to %u replica%s of %u "
		"workload%s at once.",
		(unsigned long long)m->spot_nodes, a->plan.n_nodes,
		plan_money(m->spot_nano, true, money), m->blast_replicas,
		plan_plural(m->blast_replicas), m->blast_workloads,
		plan_plural(m->blast_workloads));
	if (unknown)
		buf_puts(b,
			" How often that is nobody has said: no prices with interruptions.");
	if (unsaid)
		buf_puts(b,
			" Without t_restart and t_warmup nothing is reckoned for starting again.");
}

void plan_summary_unplaced(struct buf *b, const struct plan_answer *a, size_t i)
{
	const struct pack_unplaced *l = &a->plan.unplaced[i];
	const struct plan_workload *w = &a->in->workloads[l->workload];

	buf_printf(b, "%s:%u: no place for %u of '%s': %s", w->file, w->line, l->replicas,
		w->name,
		l->reason == PLAN_PRICE_UNKNOWN ? "no such node may be had (spot_ok, nodes)"
						: plan_reason_names[l->reason]);
}
