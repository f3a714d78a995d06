/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outcome of a plan for each workload: money, times and interruptions; and the costs of nodes beside their
 * instances (answer.h).
 */
#include "tools/plan/answer/answer.h"

#include <math.h>
#include <stdlib.h>

/* --- the outcome of a plan --- */

#define SECONDS_AN_HOUR 3600.0
#define MILLION         1e6

int64_t outcome_million(int64_t nano_per_hour, double rate)
{
	double nano =
		rate > 0 ? (double)nano_per_hour / (SECONDS_AN_HOUR * rate) * MILLION : -1;

	return nano >= 0 && nano < (double)PRICE_SUM_MAX ? llround(nano) : -1;
}

/* One pass over the plan. */
struct outcome_sums {
	const struct plan_answer *a;
	struct plan_outcome *of;
	struct outcome_money *money;
	const struct plan_node **last; /* node on which each workload was last seen */
};

/* --- money --- */

/* A tenant's share of a GPU, as a weight; a whole GPU has the weight *whole. */
static int64_t get_tenant_weight(const struct plan_node *n, const struct plan_tenant *t,
	int64_t *whole)
{
	switch (n->mode) {
	case PLAN_TIME_SLICING:
	case PLAN_MPS:
		*whole = n->slots;
		return 1;
	case PLAN_SLICES:
		*whole = n->offer->gpu_memory_mib;
		return t->memory_mib;
	case PLAN_MIG:
		*whole = n->offer->gpu->mig->slots;
		return n->offer->gpu->mig->profiles[t->profile].size;
	case PLAN_EXCLUSIVE:
	case PLAN_MODES:
		break;
	}
	*whole = 1;
	return 1;
}

double outcome_share(const struct plan_node *n, const struct plan_tenant *t)
{
	int64_t whole, weight = get_tenant_weight(n, t, &whole);

	return whole > 0 ? fmin(1, (double)weight / (double)whole) : 0;
}

/* Splits the price of a GPU, @nano, among the tenants @at of it; the remaining weight is unallocated. */
static void split_gpu_price(struct outcome_sums *s, const struct plan_node *n,
	const uint32_t *at, uint32_t n_at, int64_t nano)
{
	int64_t weights[PLAN_PODS_MAX + 1] = { 0 }, parts[PLAN_PODS_MAX + 1];
	int64_t whole = 1, given = 0;

	for (uint32_t i = 0; i < n_at; i++)
		given += weights[i] = get_tenant_weight(n, &n->tenants[at[i]], &whole);
	weights[n_at] = whole > given ? whole - given : 0;
	price_split(nano, weights, parts, n_at + 1);
	for (uint32_t i = 0; i < n_at; i++)
		s->of[n->tenants[at[i]].workload].nano_per_hour += parts[i];
	s->money->idle_nano = price_plus(s->money->idle_nano, parts[n_at]);
}

/* --- times --- */

static bool is_slower(const struct fit_times *t, const struct plan_outcome *than)
{
	if (!than->worst || (than->times.known && !t->known))
		return true;
	return t->known && than->times.known && t->times.mean_s > than->times.times.mean_s;
}

static void add_predicted_times(struct outcome_sums *s, const struct plan_node *n,
	const uint32_t *at, uint32_t n_at)
{
	struct fit_times times[PLAN_PODS_MAX];
	uint32_t who[PLAN_PODS_MAX];
	struct fit_gpu g = { n->offer, n->mode, n->slots, who, n_at };

	for (uint32_t i = 0; i < n_at; i++)
		who[i] = n->tenants[at[i]].workload;
	if (fit_check(s->a->fit, &g, NULL, times, NULL) != PLAN_FITS)
		return;
	for (uint32_t i = 0; i < n_at; i++) {
		struct plan_outcome *o = &s->of[who[i]];

		o->rate = times[i].known && o->rate >= 0 ? o->rate + times[i].times.rate : -1;
		if (is_slower(&times[i], o)) {
			o->worst = n;
			o->times = times[i];
		}
	}
}

/* Predicts the workload on its own GPU of the baseline's type. */
static void predict_baseline_times(struct outcome_sums *s, uint32_t w)
{
	const struct plan_offer *offer = s->a->baseline.offer;
	const struct plan_workload *workload = &s->a->in->workloads[w];
	struct fit_gpu g = { offer, PLAN_EXCLUSIVE, 0, &w, 1 };
	struct plan_outcome *o = &s->of[w];
	struct fit_times t;

	if (!offer)
		return;
	o->before_nano = price_times(offer->nano_per_hour / offer->gpus,
		(uint64_t)workload->replicas * (workload->gpus > 1 ? workload->gpus : 1));
	if (fit_check(s->a->fit, &g, NULL, &t, NULL) == PLAN_FITS && t.known)
		o->before_rate = t.times.rate * workload->replicas;
}

/* --- interruptions --- */

/* Share of the time lost to that many interruptions of a node in a month. */
static double compute_lost_share(const struct plan_workload *w, uint32_t milli_a_month)
{
	return milli_a_month / 1000.0 * (w->restart_s + w->warmup_s) /
	       (ANSWER_HOURS_A_MONTH * SECONDS_AN_HOUR);
}

static void add_node_interruptions(struct outcome_sums *s, const struct plan_node *n)
{
	uint32_t workloads = 0;

	for (uint32_t i = 0; i < n->n; i++) {
		const struct plan_tenant *t = &n->tenants[i];
		const struct plan_workload *w = &s->a->in->workloads[t->workload];
		struct plan_outcome *o = &s->of[t->workload];

		if (s->last[t->workload] != n) {
			s->last[t->workload] = n;
			o->nodes++;
			workloads++;
		}
		if (n->offer->capacity != PLAN_SPOT)
			continue;
		if (!n->offer->interrupt_high_milli)
			o->lost_low = o->lost_high = -1;
		if (o->lost_high < 0)
			continue;
		o->lost_low =
			fmax(o->lost_low, compute_lost_share(w, n->offer->interrupt_low_milli));
		o->lost_high = fmax(o->lost_high,
			compute_lost_share(w, n->offer->interrupt_high_milli));
	}
	if (n->offer->capacity != PLAN_SPOT)
		return;
	s->money->spot_nodes++;
	s->money->spot_nano = price_plus(s->money->spot_nano, n->offer->nano_per_hour);
	if (n->n > s->money->blast_replicas) {
		s->money->blast_replicas = n->n;
		s->money->blast_workloads = workloads;
	}
}

/* --- all of it --- */

bool outcome_has_gpu(const struct plan_answer *a, const struct plan_tenant *t, uint32_t gpu)
{
	uint32_t gpus = a->in->workloads[t->workload].gpus;

	return t->gpu <= gpu && gpu < t->gpu + (gpus > 1 ? gpus : 1);
}

static void add_node_outcome(struct outcome_sums *s, const struct plan_node *n)
{
	int64_t weights[PLAN_NODE_GPUS_MAX], parts[PLAN_NODE_GPUS_MAX];

	for (uint32_t g = 0; g < n->offer->gpus; g++)
		weights[g] = 1;
	price_split(n->offer->nano_per_hour, weights, parts, n->offer->gpus);
	for (uint32_t g = 0; g < n->offer->gpus; g++) {
		uint32_t at[PLAN_PODS_MAX], first[PLAN_PODS_MAX], n_at = 0, n_first = 0;

		for (uint32_t i = 0; i < n->n && n_at < PLAN_PODS_MAX; i++) {
			if (!outcome_has_gpu(s->a, &n->tenants[i], g))
				continue;
			at[n_at++] = i;
			/* A replica with several GPUs is predicted once, on its first GPU. */
			if (n->tenants[i].gpu == g)
				first[n_first++] = i;
		}
		split_gpu_price(s, n, at, n_at, parts[g]);
		add_predicted_times(s, n, first, n_first);
	}
	for (uint32_t i = 0; i < n->n; i++)
		s->of[n->tenants[i].workload].replicas++;
	add_node_interruptions(s, n);
}

static void sum_outcome_rates(struct outcome_sums *s)
{
	bool known = true, before_known = true;

	for (uint32_t w = 0; w < s->a->in->n_workloads; w++) {
		struct plan_outcome *o = &s->of[w];

		if (o->rate < 0)
			o->rate = 0;
		known &= o->rate > 0;
		before_known &= o->before_rate > 0;
		s->money->rate += o->rate;
		s->money->before_rate += o->before_rate;
	}
	if (!known)
		s->money->rate = 0;
	if (!before_known)
		s->money->before_rate = 0;
}

enum plan_origin outcome_origin(const struct plan_answer *a, size_t *n)
{
	enum plan_origin worst = PLAN_MEASURED;
	size_t count[PLAN_ORIGINS] = { 0 };

	for (size_t w = 0; w < a->in->n_workloads; w++) {
		enum plan_origin is = a->outcomes[w].times.origin;

		if (!a->outcomes[w].worst)
			continue;
		count[is]++;
		worst = is > worst ? is : worst;
	}
	if (n)
		*n = count[worst];
	return worst;
}

int outcome_make(const struct plan_answer *a, struct plan_outcome *ret,
	struct outcome_money *money, struct error *err)
{
	size_t n = a->in->n_workloads;
	CLEANUP(freep)
	const struct plan_node **last = calloc(n + 1, sizeof(const struct plan_node *));
	struct outcome_sums s = { a, ret, money, last };

	if (!last)
		return error_nomem(err);
	*money = (struct outcome_money){ 0 };
	for (uint32_t w = 0; w < n; w++) {
		ret[w] = (struct plan_outcome){ 0 };
		predict_baseline_times(&s, w);
	}
	for (size_t i = 0; i < a->plan.n_nodes; i++)
		add_node_outcome(&s, &a->plan.nodes[i]);
	sum_outcome_rates(&s);
	return 0;
}

/* --- costs of nodes beside their instances --- */

bool extras_any(const struct plan_answer *a)
{
	const struct plan_extras *e = &a->in->extras;

	return e->cluster_nano > 0 || e->node_nano > 0 || e->on_demand_share > 0;
}

/* The share for one node of @o: of its price on demand, also if the node is spot. */
static int64_t compute_extras_share(const struct plan_answer *a, const struct plan_offer *o)
{
	struct error ignored = ERROR_INIT;
	int64_t nano = o->nano_per_hour;
	struct price p;

	if (a->in->extras.on_demand_share <= 0)
		return 0;
	if (price_find(a->prices, o->type, o->region, &p, &ignored) == 0)
		nano = p.nano_per_hour;
	error_clear(&ignored);
	return (int64_t)((double)nano * a->in->extras.on_demand_share + 0.5);
}

static void add_extras_nodes(const struct plan_answer *a, const struct plan_offer *o,
	uint64_t n, struct extras *e)
{
	e->nodes += n;
	e->each_node = price_plus(e->each_node, price_times(a->in->extras.node_nano, n));
	e->share = price_plus(e->share, price_times(compute_extras_share(a, o), n));
}

static void sum_extras(const struct plan_answer *a, int64_t instances, struct extras *e)
{
	e->cluster = a->in->extras.cluster_nano;
	e->all = price_plus(price_plus(instances, e->cluster),
		price_plus(e->each_node, e->share));
}

void extras_of_plan(const struct plan_answer *a, const struct pack_result *plan,
	struct extras *ret)
{
	*ret = (struct extras){ .nodes = 0 };
	for (size_t i = 0; i < plan->n_nodes; i++)
		add_extras_nodes(a, plan->nodes[i].offer, 1, ret);
	sum_extras(a, plan->nano_per_hour, ret);
}

void extras_of_line(const struct plan_answer *a, const struct answer_line *l,
	struct extras *ret)
{
	*ret = (struct extras){ .nodes = 0 };
	add_extras_nodes(a, l->offer, l->nodes, ret);
	sum_extras(a, l->nano_per_hour, ret);
}
