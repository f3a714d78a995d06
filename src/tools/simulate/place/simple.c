/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/simulate/place/policy.h"

/* The policies without a mix. */

/* The values that best-fit scales to 1: the largest node in its authors' cluster. */
#define BEST_FIT_CPU_MILLI 128000.0
#define BEST_FIT_GPU_MILLI 8000.0

static void choose_tightest_gpu(const struct place_policy *p, const struct place_pod *pod,
	size_t node, struct place_choice *ret)
{
	*ret = (struct place_choice){ .node = node,
		.gpu = place_tightest(&p->nodes[node], pod) };
}

static bool decide_first_fit(struct place_policy *p, const struct place_pod *pod,
	struct place_choice *ret)
{
	for (size_t i = 0; i < p->n_nodes; i++) {
		if (!place_fits(&p->nodes[i], pod))
			continue;
		choose_tightest_gpu(p, pod, i, ret);
		return true;
	}
	return false;
}

const struct place_method place_first_fit = { .decide = decide_first_fit };

/* As published with FGD: the mean of the processors and of the GPUs that would be left, in whole hundredths. */
static bool best_fit(struct place_policy *p, const struct place_pod *pod,
	struct place_choice *ret)
{
	int best = -1;

	for (size_t i = 0; i < p->n_nodes; i++) {
		const struct place_node *n = &p->nodes[i];
		double left;
		int score;

		if (!place_fits(n, pod))
			continue;
		left = (n->cpu_milli - pod->cpu_milli) / BEST_FIT_CPU_MILLI +
		       (place_get_free(n) - place_get_demand(pod)) / BEST_FIT_GPU_MILLI;
		score = (int)((1 - left / 2) * 100);
		if (score < 0)
			score = 0;
		if (score > best) {
			best = score;
			choose_tightest_gpu(p, pod, i, ret);
		}
	}
	return best >= 0;
}

const struct place_method place_best_fit = { .decide = best_fit };

static bool random_fit(struct place_policy *p, const struct place_pod *pod,
	struct place_choice *ret)
{
	uint64_t fits = 0;

	/* The n-th fitting node replaces the earlier choice with probability 1/n. */
	for (size_t i = 0; i < p->n_nodes; i++) {
		if (place_fits(&p->nodes[i], pod) && place_draw(&p->state, ++fits) == 0)
			choose_tightest_gpu(p, pod, i, ret);
	}
	if (!fits)
		return false;
	if (ret->gpu != PLACE_NO_GPU) {
		const struct place_node *n = &p->nodes[ret->node];
		uint64_t rooms = 0;

		for (uint32_t g = 0; g < n->gpus; g++)
			if (n->free_milli[g] >= pod->gpu_milli &&
				place_draw(&p->state, ++rooms) == 0)
				ret->gpu = g;
	}
	return true;
}

const struct place_method place_random = { .decide = random_fit };
