/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/simulate/place/cutting-stock.h"
#include "tools/simulate/place/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * The loss of a placement, in GPUs, is the sum of two losses.
 *
 *	1. The loss of value of the GPU's free rest, beyond the pod's own value. The loss is large for a cut that is
 *	   seldom part of a good pattern. The value is the dual of the cutting-stock problem of the expected
 *	   fractions (cutting-stock.h).
 *	2. The loss of use: how much less of the node's free GPUs the expected pods can use. A pod uses no more
 *	   than the node's processors and memory allow. A pod uses no GPU of a model that it does not accept, and
 *	   whole GPUs only in groups of its request. The loss is an average over the mix.
 *
 * The second loss is an estimate of the future. So losses that differ by less than SAME count as equal, and the
 * first of the nodes with the least loss wins. Later nodes then stay free for pods that need a whole node. Among
 * the GPUs of one node the tightest wins if nothing else differs: TIGHT is its small weight.
 */

#define SAME  0.03 /* of a GPU */
#define TIGHT 0.05

/* One kind of pod, in the form for the inner loop. */
struct pod_kinds {
	size_t n;
	double *weight;
	double *per_cpu, *per_memory; /* GPUs for one thousandth, for one MiB */
	double *group; /* whole GPUs in groups of this size; 1 for fractions too */
};

struct value_policy {
	struct cutting_stock cutting_stock;
	struct pod_kinds of_model[PLACE_MODELS_MAX];
	double weight;    /* of all kinds, also those that do not accept the model */
	double *stranded; /* of each node; < 0: unknown */
	double *loss; /* of each node, in the present decision; INFINITY: the pod does not fit */
	uint32_t *gpu;  /* of each node: the GPU with that loss */
	double *memory; /* memory of the arrays of all kinds */
};

/* The free GPUs of a node. */
struct free_resources {
	double worth;
	uint32_t whole; /* GPUs that are completely free */
	uint32_t cpu_milli, memory_mib;
};

static double pick_smaller_bound(double a, double b)
{
	return b < a ? b : a; /* @a if @b is NaN (0 times infinity) */
}

static double compute_stranded_gpus(const struct value_policy *v, uint32_t model,
	const struct free_resources *r)
{
	const struct pod_kinds *k = &v->of_model[model];
	double used = 0;

	if (r->worth <= 0)
		return 0;
	for (size_t i = 0; i < k->n; i++) {
		double can = r->worth;

		if (k->group[i] > 1)
			can = pick_smaller_bound(can,
				floor(r->whole / k->group[i]) * k->group[i]);
		can = pick_smaller_bound(can, r->cpu_milli * k->per_cpu[i]);
		can = pick_smaller_bound(can, r->memory_mib * k->per_memory[i]);
		used += k->weight[i] * can;
	}
	return v->weight * r->worth - used;
}

static struct free_resources compute_node_rest(const struct value_policy *v,
	const struct place_node *n)
{
	struct free_resources r = { .cpu_milli = n->cpu_milli, .memory_mib = n->memory_mib };

	for (uint32_t g = 0; g < n->gpus; g++) {
		r.worth += v->cutting_stock.value[n->free_milli[g]];
		r.whole += n->free_milli[g] == PLACE_WHOLE;
	}
	return r;
}

/* --- from the mix --- */

static void stop_value_policy(struct place_policy *p)
{
	struct value_policy *v = p->own;

	if (!v)
		return;
	free(v->stranded);
	free(v->loss);
	free(v->gpu);
	free(v->memory);
	free(v);
	p->own = NULL;
}

static int solve_rest_values(struct value_policy *v, const struct place_setting *s,
	struct error *err)
{
	CLEANUP(freep) struct cutting_demand *demand = calloc(s->n_types + 1, sizeof(*demand));
	size_t n = 0;

	if (!demand)
		return error_nomem(err);
	for (size_t i = 0; i < s->n_types; i++) {
		const struct place_pod *p = &s->types[i].pod;

		if (p->gpus == 1 && p->gpu_milli < PLACE_WHOLE)
			demand[n++] =
				(struct cutting_demand){ p->gpu_milli, s->types[i].weight };
	}
	return cutting_stock_solve(&v->cutting_stock, demand, n, err);
}

/*
 * Between two weights. One per pod would refuse pods with eight GPUs first. One per requested GPU would keep so
 * much free for those pods that GPUs stay unallocated.
 */
static double compute_type_weight(const struct place_type *t)
{
	return t->weight * sqrt(t->pod.gpus);
}

static void add_pod_kind(struct pod_kinds *k, const struct place_type *t, double all)
{
	double gpus = place_get_demand(&t->pod) / (double)PLACE_WHOLE;

	k->weight[k->n] = compute_type_weight(t) / all;
	k->per_cpu[k->n] = t->pod.cpu_milli ? gpus / t->pod.cpu_milli : INFINITY;
	k->per_memory[k->n] = t->pod.memory_mib ? gpus / t->pod.memory_mib : INFINITY;
	k->group[k->n] = t->pod.gpus;
	k->n++;
}

static int start_value_policy(struct place_policy *p, const struct place_setting *s,
	struct error *err)
{
	struct value_policy *v = p->own = calloc(1, sizeof(*v));
	size_t rows = 0;
	double all = 0, *at;
	uint64_t models = 0;

	if (!v)
		return error_nomem(err);
	for (size_t i = 0; i < s->n_nodes; i++)
		models |= UINT64_C(1) << s->nodes[i].model;
	for (size_t i = 0; i < s->n_types; i++)
		all += compute_type_weight(&s->types[i]);
	for (uint64_t m = models; m; m &= m - 1)
		rows += s->n_types;
	v->weight = all > 0;
	v->stranded = malloc((s->n_nodes + 1) * sizeof(*v->stranded));
	v->memory = at = malloc((4 * rows + 1) * sizeof(*v->memory));
	v->loss = malloc((s->n_nodes + 1) * sizeof(*v->loss));
	v->gpu = malloc((s->n_nodes + 1) * sizeof(*v->gpu));
	if (!v->stranded || !v->memory || !v->loss || !v->gpu)
		return error_nomem(err);
	for (size_t i = 0; i < s->n_nodes; i++)
		v->stranded[i] = -1;
	for (uint64_t left = models; left; left &= left - 1) {
		uint32_t m = (uint32_t)__builtin_ctzll(left);
		struct pod_kinds *k = &v->of_model[m];

		*k = (struct pod_kinds){ .weight = at,
			.per_cpu = at + s->n_types,
			.per_memory = at + 2 * s->n_types,
			.group = at + 3 * s->n_types };
		at += 4 * s->n_types;
		for (size_t i = 0; i < s->n_types; i++) {
			const struct place_pod *pod = &s->types[i].pod;

			if (pod->gpus && pod->models >> m & 1)
				add_pod_kind(k, &s->types[i], all);
		}
	}
	return solve_rest_values(v, s, err);
}

/* --- a decision --- */

static void on_value_node_changed(struct place_policy *p, size_t i)
{
	((struct value_policy *)p->own)->stranded[i] = -1;
}

struct gpu_search {
	struct value_policy *v;
	const struct place_node *node;
	const struct place_pod *pod;
	struct free_resources before;
	double stranded; /* before the placement */
	double least;
};

/* Computes the loss if @gpu of the node gets the pod's fraction, or whole GPUs get the pod. */
static void weigh_placement(struct gpu_search *s, size_t node, uint32_t gpu)
{
	const double *value = s->v->cutting_stock.value;
	struct free_resources after = s->before;
	double loss = 0;

	after.cpu_milli -= s->pod->cpu_milli;
	after.memory_mib -= s->pod->memory_mib;
	if (gpu != PLACE_NO_GPU) {
		uint32_t have = s->node->free_milli[gpu], left = have - s->pod->gpu_milli;

		/* The value of the pod itself is the same everywhere. */
		loss = value[have] - value[left];
		after.worth -= loss;
		after.whole -= have == PLACE_WHOLE;
		loss += TIGHT * left / PLACE_WHOLE;
	} else {
		after.worth -= s->pod->gpus;
		after.whole -= s->pod->gpus;
	}
	loss += compute_stranded_gpus(s->v, s->node->model, &after) - s->stranded;
	if (loss < s->v->loss[node]) {
		s->v->loss[node] = loss;
		s->v->gpu[node] = gpu;
	}
	s->least = fmin(s->least, loss);
}

static bool has_equal_gpu_before(const struct place_node *n, uint32_t gpu)
{
	for (uint32_t g = 0; g < gpu; g++)
		if (n->free_milli[g] == n->free_milli[gpu])
			return true;
	return false;
}

static bool decide_value_placement(struct place_policy *p, const struct place_pod *pod,
	struct place_choice *ret)
{
	struct value_policy *v = p->own;
	struct gpu_search s = { .v = v, .pod = pod, .least = INFINITY };
	bool part = pod->gpus == 1 && pod->gpu_milli < PLACE_WHOLE;
	size_t first = 0;

	for (size_t i = 0; i < p->n_nodes; i++) {
		s.node = &p->nodes[i];
		v->loss[i] = INFINITY;
		if (!place_fits(s.node, pod))
			continue;
		s.before = compute_node_rest(v, s.node);
		if (v->stranded[i] < 0)
			v->stranded[i] = compute_stranded_gpus(v, s.node->model, &s.before);
		s.stranded = v->stranded[i];
		if (!part)
			weigh_placement(&s, i, PLACE_NO_GPU);
		for (uint32_t g = 0; part && g < s.node->gpus; g++)
			if (s.node->free_milli[g] >= pod->gpu_milli &&
				!has_equal_gpu_before(s.node, g))
				weigh_placement(&s, i, g);
	}
	if (!isfinite(s.least))
		return false;
	while (v->loss[first] > s.least + SAME)
		first++;
	*ret = (struct place_choice){ .node = first, .gpu = v->gpu[first] };
	return true;
}

const struct place_method place_value = {
	.start = start_value_policy,
	.stop = stop_value_policy,
	.decide = decide_value_placement,
	.changed = on_value_node_changed,
};
