/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/simulate/place/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Fragmentation gradient descent: Q. Weng et al., USENIX ATC 2023. The fragment of a node is the part of its free
 * GPUs that a pod of the mix cannot use, on average. A pod goes where the fragment grows least. The score is in
 * whole hundredths, as published: exact scores allocate less on the authors' traces, since ties then spread pods.
 */

struct fgd {
	size_t n_types, n_nodes;
	struct place_type *types; /* weights sum to 1 */
	double *fragment;         /* of each node, < 0: unknown */
};

static double compute_fragment(const struct fgd *f, const struct place_node *n)
{
	uint32_t idle = place_get_free(n);
	double sum = 0;

	if (!idle)
		return 0;
	for (size_t i = 0; i < f->n_types; i++) {
		const struct place_pod *p = &f->types[i].pod;
		uint32_t lost = 0;

		if (!p->gpus || !place_fits(n, p)) {
			lost = idle;
		} else {
			for (uint32_t g = 0; g < n->gpus; g++)
				if (n->free_milli[g] < p->gpu_milli)
					lost += n->free_milli[g];
		}
		sum += f->types[i].weight * lost;
	}
	return sum;
}

static void stop_fgd_policy(struct place_policy *p)
{
	struct fgd *f = p->own;

	if (!f)
		return;
	free(f->types);
	free(f->fragment);
	free(f);
	p->own = NULL;
}

static int start_fgd_policy(struct place_policy *p, const struct place_setting *s,
	struct error *err)
{
	struct fgd *f = p->own = calloc(1, sizeof(*f));
	double sum = 0;

	if (!f)
		return error_nomem(err);
	f->n_types = s->n_types;
	f->n_nodes = s->n_nodes;
	f->types = malloc((s->n_types + 1) * sizeof(*f->types));
	f->fragment = malloc((s->n_nodes + 1) * sizeof(*f->fragment));
	if (!f->types || !f->fragment)
		return error_nomem(err);
	for (size_t i = 0; i < s->n_nodes; i++)
		f->fragment[i] = -1;
	for (size_t i = 0; i < s->n_types; i++)
		sum += s->types[i].weight;
	for (size_t i = 0; i < s->n_types; i++) {
		f->types[i] = s->types[i];
		f->types[i].weight /= sum;
	}
	return 0;
}

static void on_fgd_node_changed(struct place_policy *p, size_t i)
{
	((struct fgd *)p->own)->fragment[i] = -1;
}

static int score_fgd_placement(const struct fgd *f, const struct place_node *n,
	const struct place_pod *pod, uint32_t gpu, double before)
{
	struct place_node after = *n;

	place_allocate(&after, pod, gpu);
	return (int)(100 / (1 + exp((compute_fragment(f, &after) - before) / PLACE_WHOLE)));
}

static bool decide_fgd_placement(struct place_policy *p, const struct place_pod *pod,
	struct place_choice *ret)
{
	struct fgd *f = p->own;
	int best = -1;

	for (size_t i = 0; i < p->n_nodes; i++) {
		const struct place_node *n = &p->nodes[i];
		bool part = place_tightest(n, pod) != PLACE_NO_GPU;

		if (!place_fits(n, pod))
			continue;
		if (f->fragment[i] < 0)
			f->fragment[i] = compute_fragment(f, n);
		for (uint32_t g = 0; g < (part ? n->gpus : 1); g++) {
			int s;

			if (part && n->free_milli[g] < pod->gpu_milli)
				continue;
			s = score_fgd_placement(f, n, pod, part ? g : PLACE_NO_GPU,
				f->fragment[i]);
			if (s > best) {
				best = s;
				*ret = (struct place_choice){ .node = i,
					.gpu = part ? g : PLACE_NO_GPU };
			}
		}
	}
	return best >= 0;
}

const struct place_method place_fgd = {
	.start = start_fgd_policy,
	.stop = stop_fgd_policy,
	.decide = decide_fgd_placement,
	.changed = on_fgd_node_changed,
};
