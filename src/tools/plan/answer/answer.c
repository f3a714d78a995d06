/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/answer/answer.h"

#include "tools/plan/gpus/gpus.h"
#include "lib/base/array.h"

#include <stdlib.h>
#include <string.h>

#define MILLI 1000

uint64_t answer_nodes(uint64_t replicas, uint32_t slices, uint32_t gpus)
{
	uint64_t at_once = (uint64_t)slices * gpus;

	return at_once ? (replicas + at_once - 1) / at_once : 0;
}

/* --- offers --- */

struct offer_import {
	struct plan_answer *a;
	struct error *err;
};

static int append_offer(struct plan_offer **list, size_t *n, size_t *room,
	const struct plan_offer *o, struct error *err)
{
	if (!ARRAY_GROW(list, *n, room, ARRAY_NO_LIMIT))
		return error_nomem(err);
	(*list)[(*n)++] = *o;
	return 0;
}

static bool may_buy(const struct plan_input *in, const struct plan_offer *o)
{
	if (!(in->policy.capacities >> o->capacity & 1) || in->only_have)
		return false;
	if (in->gpus_per_instance && o->gpus > in->gpus_per_instance)
		return false;
	return !in->instances.n || strv_has(&in->instances, o->type);
}

/* Workloads need amd64; offers of other architectures are dropped. */
static int add_price_offer(void *arg, const struct price_offer *p)
{
	struct offer_import *s = arg;
	struct plan_answer *a = s->a;
	const struct plan_gpu *gpu = plan_gpu_find(p->price.gpu);
	struct plan_offer o = { .type = p->price.type,
		.region = p->price.region,
		.arch = p->arch,
		.currency = p->price.currency,
		.capacity = p->spot ? PLAN_SPOT : PLAN_ON_DEMAND,
		.gpu = gpu,
		.gpus = p->price.gpus,
		.gpu_milli = p->gpu_milli,
		.gpu_memory_mib = p->price.gpu_memory_mib,
		.cpu_milli = p->allocatable_cpu_milli,
		.memory_mib = p->allocatable_memory_mib,
		.nano_per_hour = p->price.nano_per_hour,
		.low = p->low,
		.high = p->high,
		.interrupt_low_milli = p->interrupt_low_milli,
		.interrupt_high_milli = p->interrupt_high_milli,
		.source = p->price.source,
		.stamp = p->price.stamp,
		.vcpus = p->price.vcpus,
		.node_memory_mib = p->price.memory_mib,
		.has_mig = gpu && gpu->mig && p->gpu_milli == MILLI };

	/* Providers give the memory on the board, of which some is not usable. */
	if (gpu && gpu->memory_mib && o.gpu_milli == MILLI &&
		o.gpu_memory_mib > gpu->memory_mib)
		o.gpu_memory_mib = gpu->memory_mib;
	if (!gpu || !o.gpus || o.gpus > PLAN_NODE_GPUS_MAX || !o.gpu_memory_mib ||
		strcmp(o.arch, "amd64") != 0)
		return 0;
	if (!a->currency)
		a->currency = o.currency;
	if (strcmp(a->currency, o.currency) != 0)
		return error_set(s->err, ERR_INVALID,
			"%s: '%s' is in %s, other prices are in %s; a plan is in one currency",
			o.source, o.type, o.currency, a->currency);
	if (may_buy(a->in, &o))
		return append_offer(&a->offers, &a->n_offers, &a->offers_cap, &o, s->err);
	return append_offer(&a->others, &a->n_others, &a->others_cap, &o, s->err);
}

static const struct plan_offer *find_offer(const struct plan_answer *a, const char *type,
	enum plan_capacity capacity)
{
	for (size_t i = 0; i < a->n_offers; i++)
		if (!strcmp(a->offers[i].type, type) && a->offers[i].capacity == capacity)
			return &a->offers[i];
	for (size_t i = 0; i < a->n_others; i++)
		if (!strcmp(a->others[i].type, type) && a->others[i].capacity == capacity)
			return &a->others[i];
	return NULL;
}

static int no_offer(const struct plan_answer *a, const char *type, const char *key,
	struct error *err)
{
	struct price ignored;

	if (price_find(a->prices, type, a->in->regions.v[0], &ignored, err) < 0)
		return error_prefix(err, "%s", key);
	return error_set(err, ERR_NOT_FOUND,
		"%s: '%s' has no GPU that is known, or is not for amd64", key, type);
}

/* Existing nodes cost nothing more, and their number is limited. */
static int add_have(struct plan_answer *a, struct error *err)
{
	const struct plan_input *in = a->in;
	size_t first = a->n_offers;

	for (size_t i = 0; i < in->n_have; i++) {
		const struct plan_offer *known =
			find_offer(a, in->have[i].instance, PLAN_ON_DEMAND);
		struct plan_offer o;

		if (!known)
			return no_offer(a, in->have[i].instance, "nodes", err);
		o = *known;
		o.nano_per_hour = 0;
		if (append_offer(&a->offers, &a->n_offers, &a->offers_cap, &o, err) < 0)
			return -1;
	}
	if (!in->n_have)
		return 0;
	a->limits = calloc(a->n_offers + 1, sizeof(*a->limits));
	if (!a->limits)
		return error_nomem(err);
	for (size_t i = 0; i < a->n_offers; i++)
		a->limits[i] = i < first ? UINT32_MAX : in->have[i - first].count;
	return 0;
}

static int collect_offers(struct plan_answer *a, struct error *err)
{
	struct offer_import s = { a, err };

	for (size_t i = 0; i < a->in->regions.n; i++)
		if (price_each(a->prices, a->in->regions.v[i], add_price_offer, &s) < 0)
			return -1;
	for (size_t i = 0; i < a->in->instances.n; i++)
		if (!find_offer(a, a->in->instances.v[i], PLAN_ON_DEMAND) &&
			!find_offer(a, a->in->instances.v[i], PLAN_SPOT))
			return no_offer(a, a->in->instances.v[i], "instances", err);
	if (add_have(a, err) < 0)
		return -1;
	if (!a->n_offers)
		return error_set(err, ERR_NOT_FOUND,
			"the policy leaves no instance type: %zu of the catalogue are in these regions, see "
			"regions, capacity, instances and max_gpus_per_instance",
			a->n_others);
	return 0;
}

/* --- lines --- */

/* A node of the line during placement of the replicas in the order of the file. */
struct line_fill {
	const struct plan_answer *a;
	struct answer_line *l;
	uint32_t workloads[PLAN_PODS_MAX], n; /* on the present GPU */
	uint32_t gpus;                        /* full GPUs of the node */
	uint32_t last, alike;                 /* last workload; its replicas on the node */
	uint64_t cpu_milli, memory_mib;       /* used on the host */
};

static double compute_gpu_demand(const struct line_fill *f)
{
	double sigma = fit_rotation(f->a->fit, f->l->offer->gpu, f->l->mode, f->n).sigma;
	double sum = 0;

	for (uint32_t i = 0; i < f->n; i++)
		sum += fit_pod(f->a->fit, f->workloads[i], f->l->offer->gpu)->busy *
		       (1 + sigma);
	return sum;
}

/* Checks the present GPU, which is full or the last one. */
static bool close_gpu(struct line_fill *f)
{
	struct answer_line *l = f->l;
	struct fit_gpu g = { l->offer, l->mode, l->slices, f->workloads, f->n };
	uint32_t culprit = 0;

	if (l->mode != PLAN_TIME_SLICING && l->mode != PLAN_MPS)
		g.slots = 0;
	l->reason = fit_check(f->a->fit, &g, NULL, NULL, &culprit);
	l->culprit = f->n ? f->workloads[culprit] : 0;
	if (l->reason == PLAN_RHO && l->mode != PLAN_MPS && l->mode != PLAN_MIG)
		l->rho = compute_gpu_demand(f);
	f->n = 0;
	if (++f->gpus == l->offer->gpus)
		f->gpus = 0, f->alike = 0, f->cpu_milli = f->memory_mib = 0;
	return l->reason == PLAN_FITS;
}

static bool add_line_replica(struct line_fill *f, uint32_t workload)
{
	const struct plan_workload *w = &f->a->in->workloads[workload];
	struct answer_line *l = f->l;

	f->cpu_milli += w->cpu_milli;
	f->memory_mib += w->memory_mib;
	l->culprit = workload;
	f->alike = f->last == workload ? f->alike : 0;
	f->last = workload;
	if (w->anti_affinity && f->alike)
		l->reason = PLAN_NO_ISOLATION_IN_MODE;
	else if (f->cpu_milli > l->offer->cpu_milli)
		l->reason = PLAN_HOST_CPU;
	else if (f->memory_mib > l->offer->memory_mib)
		l->reason = PLAN_HOST_MEMORY;
	else if (w->gpus > l->offer->gpus || (w->gpus > 1 && l->slices > 1))
		l->reason = PLAN_MODEL_NOT_ALLOWED;
	if (l->reason != PLAN_FITS)
		return false;
	f->alike++;
	f->workloads[f->n++] = workload;
	return f->n < l->slices || close_gpu(f);
}

/* Places replicas in the order of the file, .slices on each GPU, and checks every GPU and host. */
static void check_answer_line(const struct plan_answer *a, struct answer_line *l)
{
	struct line_fill f = { .a = a, .l = l };

	l->reason = PLAN_FITS;
	for (uint32_t w = 0; w < a->in->n_workloads; w++)
		for (uint32_t i = 0; i < a->in->workloads[w].replicas; i++)
			if (!add_line_replica(&f, w))
				return;
	if (f.n)
		(void)close_gpu(&f);
}

/* Replicas with several GPUs stay on one node each. The others fill as many nodes as they need.
 * Anti-affinity needs at least one node for each replica. */
static uint64_t nodes_for(const struct plan_answer *a, uint32_t slices, uint32_t gpus)
{
	uint64_t nodes = 0, single = 0, apart = 0;

	for (size_t i = 0; i < a->in->n_workloads; i++) {
		const struct plan_workload *w = &a->in->workloads[i];
		uint32_t at_once = w->gpus && w->gpus <= gpus ? gpus / w->gpus : 1;

		if (w->gpus > 1)
			nodes += (w->replicas + at_once - 1) / at_once;
		else
			single += w->replicas;
		if (w->anti_affinity && w->replicas > apart)
			apart = w->replicas;
	}
	nodes += answer_nodes(single, slices, gpus);
	return nodes > apart ? nodes : apart;
}

static struct answer_line make_answer_line(const struct plan_answer *a,
	const struct plan_offer *o, enum plan_mode mode, uint32_t slices)
{
	struct answer_line l = { .offer = o,
		.mode = slices > 1 ? mode : PLAN_EXCLUSIVE,
		.slices = slices };

	l.nodes = nodes_for(a, slices, o->gpus);
	l.nano_per_hour = price_times(o->nano_per_hour, l.nodes);
	check_answer_line(a, &l);
	return l;
}

static const struct plan_offer *cheapest_whole_of(const struct plan_answer *a,
	const struct plan_offer *offers, size_t n)
{
	const struct plan_offer *best = NULL;
	int64_t min = INT64_MAX;

	for (size_t i = 0; i < n; i++) {
		const struct plan_offer *o = &offers[i];
		struct answer_line l;

		if (o->gpu_milli < MILLI || o->capacity != PLAN_ON_DEMAND || !o->nano_per_hour)
			continue;
		l = make_answer_line(a, o, PLAN_EXCLUSIVE, 1);
		if (l.reason == PLAN_FITS && l.nano_per_hour < min) {
			min = l.nano_per_hour;
			best = o;
		}
	}
	return best;
}

/* The cheapest type of whole GPUs that gives each replica its own GPU; one that the policy excludes only if
 * there is no other. */
static const struct plan_offer *cheapest_whole(const struct plan_answer *a)
{
	const struct plan_offer *best = cheapest_whole_of(a, a->offers, a->n_offers);

	return best ? best : cheapest_whole_of(a, a->others, a->n_others);
}

static int cheaper_first(const void *x, const void *y)
{
	const struct answer_line *a = x, *b = y;

	if (a->nano_per_hour != b->nano_per_hour)
		return a->nano_per_hour < b->nano_per_hour ? -1 : 1;
	if (a->slices != b->slices)
		return a->slices > b->slices ? -1 : 1;
	if (a->offer->capacity != b->offer->capacity)
		return a->offer->capacity < b->offer->capacity ? -1 : 1;
	return strcmp(a->offer->type, b->offer->type);
}

static void add_answer_line(struct plan_answer *a, const struct answer_line *l)
{
	if (a->n_lines < ANSWER_LINES_MAX && l->nano_per_hour < a->baseline.nano_per_hour)
		a->lines[a->n_lines++] = *l;
}

/* The cheapest type of whole GPUs of @gpu for that many slices; NULL: none. */
static const struct plan_offer *cheapest_of(const struct plan_answer *a,
	const struct plan_gpu *gpu, uint32_t slices)
{
	const struct plan_offer *lists[] = { a->offers, a->others }, *best = NULL;
	size_t counts[] = { a->n_offers, a->n_others };
	int64_t min = INT64_MAX;

	for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
		for (size_t i = 0; i < counts[k]; i++) {
			const struct plan_offer *o = &lists[k][i];
			int64_t price;

			if (o->gpu != gpu || o->gpu_milli < MILLI ||
				o->capacity != PLAN_ON_DEMAND || !o->nano_per_hour)
				continue;
			price = price_times(o->nano_per_hour, nodes_for(a, slices, o->gpus));
			if (price < min) {
				min = price;
				best = o;
			}
		}
	}
	return best;
}

/* Alternatives: the layout's type on the spot market, and the cheapest of each GPU, whole and sliced in the
 * same way. */
static void compare_layout(struct plan_answer *a)
{
	const struct plan_layout *want = &a->in->layout;
	const struct plan_offer *spot = find_offer(a, want->instance, PLAN_SPOT);

	for (uint32_t whole = want->slices == 1; whole < 2; whole++) {
		uint32_t slices = whole ? 1 : want->slices;

		if (spot && want->capacity != PLAN_SPOT) {
			struct answer_line l = make_answer_line(a, spot, want->mode, slices);

			add_answer_line(a, &l);
		}
		for (size_t g = 0; g < plan_n_gpus; g++) {
			const struct plan_offer *o = cheapest_of(a, &plan_gpus[g], slices);
			struct answer_line l;

			if (!o || (!strcmp(o->type, want->instance) && slices == want->slices))
				continue;
			if (want->mode == PLAN_MIG && !whole && !o->has_mig)
				continue;
			l = make_answer_line(a, o, want->mode, slices);
			add_answer_line(a, &l);
		}
	}
	qsort(a->lines, a->n_lines, sizeof(*a->lines), cheaper_first);
}

/* Manifests also have machines without a GPU: those are not compared. */
static int make_baseline_lines(struct plan_answer *a, struct error *err)
{
	const struct plan_input *in = a->in;
	const struct plan_offer *o =
		in->baseline ? find_offer(a, in->baseline, PLAN_ON_DEMAND) : NULL;

	if (!o && in->baseline && !in->baseline_found)
		return no_offer(a, in->baseline,
			in->layout.instance == in->baseline ? "layout" : "baseline", err);
	if (!o)
		o = cheapest_whole(a);
	if (o)
		a->baseline = make_answer_line(a, o, PLAN_EXCLUSIVE, 1);
	if (!in->layout.instance || !o)
		return 0;
	o = find_offer(a, in->layout.instance, in->layout.capacity);
	if (!o)
		return in->layout_found ? 0 : no_offer(a, in->layout.instance, "layout", err);
	a->layout = make_answer_line(a, o, in->layout.mode, in->layout.slices);
	compare_layout(a);
	return 0;
}

/* --- all of it --- */

static int solve_plan(struct plan_answer *a, const struct answer_setting *s, struct error *err)
{
	struct pack_setting p = { .fit = a->fit,
		.offers = a->offers,
		.n_offers = a->n_offers,
		.limits = a->limits,
		.budget = s->budget + s->budget_each * a->replicas,
		.seed = s->seed,
		.go_on = s->go_on,
		.arg = s->arg };
	struct plan_policy whole = a->in->policy;
	CLEANUP(fit_freep) struct fit *f = NULL;

	if (pack_solve(&a->plan, &p, err) < 0)
		return -1;
	whole.modes = 1U << PLAN_EXCLUSIVE;
	if (fit_new(&f, &whole, a->in->workloads, a->in->n_workloads, plan_gpus, plan_n_gpus,
		    err) < 0)
		return -1;
	p.fit = f;
	p.go_on = NULL; /* a plan already exists */
	if (a->plan.stopped)
		p.budget = 0;
	return pack_solve(&a->unsliced, &p, err);
}

/* Saturated sums are not a result. */
static int check_sums(const struct plan_answer *a, struct error *err)
{
	const int64_t sums[] = { a->plan.nano_per_hour, a->unsliced.nano_per_hour,
		a->baseline.nano_per_hour, a->layout.nano_per_hour };

	for (size_t i = 0; i < ARRAY_LEN(sums); i++)
		if (sums[i] >= PRICE_SUM_MAX)
			return error_set(err, ERR_LIMIT,
				"more than 9.2 million %s an hour: expected less", a->currency);
	return 0;
}

static int make_outcomes(struct plan_answer *a, struct error *err)
{
	a->outcomes = calloc(a->in->n_workloads + 1, sizeof(*a->outcomes));
	return a->outcomes ? outcome_make(a, a->outcomes, &a->money, err) : error_nomem(err);
}

int plan_answer_new(struct plan_answer **ret, struct plan_input *in,
	const struct price_catalogue *prices, const struct answer_setting *s, struct error *err)
{
	CLEANUP(plan_answer_freep) struct plan_answer *a = calloc(1, sizeof(*a));

	if (!a)
		return error_nomem(err);
	a->in = in;
	a->prices = prices;
	for (size_t i = 0; i < in->n_workloads; i++)
		a->replicas += in->workloads[i].replicas;
	if (collect_offers(a, err) < 0 ||
		fit_new(&a->fit, &in->policy, in->workloads, in->n_workloads, plan_gpus,
			plan_n_gpus, err) < 0 ||
		make_baseline_lines(a, err) < 0 || solve_plan(a, s, err) < 0 ||
		check_sums(a, err) < 0 || make_outcomes(a, err) < 0)
		return -1;
	*ret = STEAL_PTR(a);
	return 0;
}

struct plan_answer *plan_answer_free(struct plan_answer *a)
{
	if (!a)
		return NULL;
	pack_result_fini(&a->plan);
	pack_result_fini(&a->unsliced);
	fit_free(a->fit);
	free(a->offers);
	free(a->others);
	free(a->limits);
	free(a->outcomes);
	free(a);
	return NULL;
}

/* --- workloads that do not fit, even alone --- */

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
