/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/simulate/simulate.h"

#include "tools/simulate/place/cutting-stock.h"

#include <math.h>
#include <stdlib.h>

#define PERCENT 100.0

struct comparison {
	const struct place_trace *trace;
	const struct simulate_setting *setting;
	struct simulate_result *result;
	bool stopped;
};

static bool ask_to_go_on(void *arg)
{
	struct comparison *c = arg;
	const struct simulate_setting *s = c->setting;

	return !s->go_on || s->go_on(s->arg, c->result->done, c->result->runs);
}

static uint32_t find_full_point(void)
{
	uint32_t i = 0;

	while (replay_points[i] != 100)
		i++;
	return i;
}

static void add_policy_run(struct simulate_policy *p, const struct replay_result *r)
{
	double full = PERCENT * r->allocated[find_full_point()];

	for (uint32_t i = 0; i < REPLAY_POINTS; i++) {
		double v = PERCENT * r->allocated[i];

		p->sum[i] += v;
		p->squares[i] += v * v;
	}
	p->least = p->runs ? fmin(p->least, full) : full;
	p->most = p->runs ? fmax(p->most, full) : full;
	p->decisions += r->pods;
	p->decide_ns += r->decide_ns;
	if (r->decide_max_ns > p->decide_max_ns)
		p->decide_max_ns = r->decide_max_ns;
	p->runs++;
}

static int run_policy(struct comparison *c, struct simulate_policy *p, uint64_t seed,
	struct error *err)
{
	struct replay_setting s = { .policy = p->name,
		.seed = seed,
		.mix = c->setting->mix,
		.now_ns = c->setting->now_ns,
		.go_on = ask_to_go_on,
		.arg = c };
	struct replay_result r;

	if (place_replay(&r, c->trace, &s, err) < 0)
		return -1;
	c->stopped = r.stopped;
	if (r.stopped)
		return 0;
	add_policy_run(p, &r);
	c->result->done++;
	return 0;
}

/* The outer loop is over seeds: when the caller ends the comparison, the numbers of runs of two policies differ by
 * at most one. */
static int run_all_policies(struct comparison *c, struct error *err)
{
	struct simulate_result *r = c->result;

	for (uint64_t k = 0; k < c->setting->seeds; k++)
		for (size_t i = 0; i < r->n_policies && !c->stopped; i++)
			if (run_policy(c, &r->policies[i], c->setting->first_seed + k, err) < 0)
				return -1;
	return 0;
}

static int pack_gpu_fractions(struct simulate_packing *p, const struct place_trace *t,
	struct error *err)
{
	CLEANUP(freep) struct cutting_demand *demand = calloc(t->n_pods + 1, sizeof(*demand));
	struct cutting_stock c;

	if (!demand)
		return error_nomem(err);
	for (size_t i = 0; i < t->n_pods; i++) {
		if (t->pods[i].gpus != 1 || t->pods[i].gpu_milli >= PLACE_WHOLE)
			continue;
		demand[p->pods++] = (struct cutting_demand){ t->pods[i].gpu_milli, 1 };
		p->gpus += t->pods[i].gpu_milli / (double)PLACE_WHOLE;
	}
	p->l2 = cutting_stock_l2(demand, p->pods);
	if (cutting_stock_solve(&c, demand, p->pods, err) < 0 ||
		cutting_stock_first_fit(&p->first_fit, demand, p->pods, err) < 0 ||
		cutting_stock_pack(&p->packed, demand, p->pods, err) < 0)
		return -1;
	p->bound = ceil(c.bound - 1e-6); /* tolerance: the accuracy of the solver's prices */
	return 0;
}

int simulate_compare_policies(struct simulate_result *ret, const struct place_trace *t,
	const struct simulate_setting *s, struct error *err)
{
	struct comparison c = { .trace = t, .setting = s, .result = ret };
	const struct strv *names = s->policies;

	*ret = (struct simulate_result){ .n_policies = names->n ? names->n : place_n_policies };
	ret->runs = ret->n_policies * s->seeds;
	ret->policies = calloc(ret->n_policies, sizeof(*ret->policies));
	if (!ret->policies)
		return error_nomem(err);
	for (size_t i = 0; i < ret->n_policies; i++)
		ret->policies[i].name = names->n ? names->v[i] : place_policy_names[i];
	if (run_all_policies(&c, err) == 0 && pack_gpu_fractions(&ret->packing, t, err) == 0)
		return 0;
	simulate_result_fini(ret);
	return -1;
}

void simulate_result_fini(struct simulate_result *r)
{
	free(r->policies);
	*r = (struct simulate_result){ 0 };
}

double simulate_get_mean(const struct simulate_policy *p, uint32_t point)
{
	return p->sum[point] / (double)p->runs;
}

double simulate_get_deviation(const struct simulate_policy *p, uint32_t point)
{
	double n = (double)p->runs, m = simulate_get_mean(p, point);

	return n < 2 ? 0 : sqrt(fmax(0, (p->squares[point] - n * m * m) / (n - 1)));
}
