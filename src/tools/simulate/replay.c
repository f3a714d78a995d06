/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/simulate/replay.h"

#include "lib/base/array.h"
#include "tools/simulate/place/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const uint32_t replay_points[REPLAY_POINTS] = { 50, 80, 90, 95, 100, 110, 120 };

#define LEARN_FIRST 64   /* pods before the first mix is learned */
#define ASK_EVERY   1024 /* pods */

struct replay {
	const struct place_trace *trace;
	const struct replay_setting *setting;
	struct place_node *nodes;
	struct place_policy *policy;
	uint32_t *order;            /* of the trace's pods */
	struct place_type *arrived; /* REPLAY_LEARNED: the pods that arrived; capacity .room */
	size_t n_arrived, room, learn_at;
	uint64_t draws;
};

static void fini_replay_state(struct replay *r)
{
	r->policy = place_policy_free(r->policy);
	free(r->nodes);
	free(r->order);
	free(r->arrived);
}

/* Replaces the policy with one for the mix of @types, which it may reorder. */
static int replace_replay_policy(struct replay *r, struct place_type *types, size_t n,
	struct error *err)
{
	struct place_policy *next;
	struct place_setting s = { .nodes = r->nodes,
		.n_nodes = r->trace->n_nodes,
		.types = types,
		.n_types = place_types_merge(types, n),
		.seed = r->setting->seed };

	if (s.n_types > PLACE_TYPES_MAX)
		return error_set(err, ERR_LIMIT, "%zu different kinds of pods; at most %d",
			s.n_types, PLACE_TYPES_MAX);
	if (place_policy_new(&next, r->setting->policy, &s, err) < 0)
		return -1;
	place_policy_free(r->policy);
	r->policy = next;
	return 0;
}

static int know_mix(struct replay *r, struct error *err)
{
	size_t n = r->trace->n_pods;
	CLEANUP(freep) struct place_type *types = malloc((n + 1) * sizeof(*types));

	if (!types)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++)
		types[i] = (struct place_type){ r->trace->pods[i], 1 };
	return replace_replay_policy(r, types, r->setting->mix == REPLAY_KNOWN ? n : 0, err);
}

static int learn_pod_mix(struct replay *r, const struct place_pod *p, struct error *err)
{
	if (r->setting->mix != REPLAY_LEARNED)
		return 0;
	if (!ARRAY_GROW(&r->arrived, r->n_arrived, &r->room, ARRAY_NO_LIMIT))
		return error_nomem(err);
	r->arrived[r->n_arrived++] = (struct place_type){ *p, 1 };
	if (r->draws < r->learn_at)
		return 0;
	r->learn_at *= 2;
	r->n_arrived = place_types_merge(r->arrived, r->n_arrived);
	return replace_replay_policy(r, r->arrived, r->n_arrived, err);
}

static int init_replay(struct replay *r, struct error *err)
{
	const struct place_trace *t = r->trace;
	uint64_t state = r->setting->seed;

	r->learn_at = LEARN_FIRST;
	r->nodes = malloc((t->n_nodes + 1) * sizeof(*r->nodes));
	r->order = malloc((t->n_pods + 1) * sizeof(*r->order));
	if (!r->nodes || !r->order)
		return error_nomem(err);
	if (t->n_nodes)
		memcpy(r->nodes, t->nodes, t->n_nodes * sizeof(*r->nodes));
	for (uint32_t i = 0; i < t->n_pods; i++)
		r->order[i] = i;
	for (size_t i = t->n_pods; i > 1; i--) {
		size_t j = place_draw(&state, i);
		uint32_t last = r->order[i - 1];

		r->order[i - 1] = r->order[j];
		r->order[j] = last;
	}
	return know_mix(r, err);
}

/* Whether any pod requests a GPU; else the replay would never end. */
static bool has_demand(const struct place_trace *t)
{
	for (size_t i = 0; i < t->n_pods; i++)
		if (place_get_demand(&t->pods[i]))
			return t->gpus > 0;
	return false;
}

/* Returns the GPU that @p allocated, thousandths. */
static uint32_t replay_pod(struct replay *r, const struct place_pod *p,
	struct replay_result *ret)
{
	uint64_t (*now_ns)(void) = r->setting->now_ns;
	uint64_t begun = now_ns ? now_ns() : 0, took;
	struct place_choice c;
	bool fits = place_decide(r->policy, p, &c);

	took = now_ns ? now_ns() - begun : 0;
	ret->pods++;
	ret->decide_ns += took;
	if (took > ret->decide_max_ns)
		ret->decide_max_ns = took;
	if (!fits) {
		ret->refused++;
		return 0;
	}
	place_allocate(&r->nodes[c.node], p, c.gpu);
	place_notify_change(r->policy, c.node);
	return place_get_demand(p);
}

int place_replay(struct replay_result *ret, const struct place_trace *t,
	const struct replay_setting *s, struct error *err)
{
	CLEANUP(fini_replay_state) struct replay r = { .trace = t, .setting = s };
	uint64_t asked = 0, had = 0, all = t->gpus * PLACE_WHOLE, state = ~s->seed;
	uint32_t point = 0, last = 0;

	*ret = (struct replay_result){ 0 };
	for (uint32_t i = 0; i < REPLAY_POINTS; i++)
		ret->allocated[i] = NAN;
	while (last < REPLAY_POINTS - 1 && (!s->load || replay_points[last] < s->load))
		last++;
	if (!has_demand(t))
		return error_set(err, ERR_INVALID,
			"expected nodes with GPUs and pods that ask for some, found %llu GPUs",
			(unsigned long long)t->gpus);
	if (init_replay(&r, err) < 0)
		return -1;
	while (true) {
		const struct place_pod *p;

		while (point <= last && asked * 100 >= all * replay_points[point])
			ret->allocated[point++] = (double)had / (double)all;
		if (point > last)
			return 0;
		if (s->go_on && r.draws % ASK_EVERY == 0 && !s->go_on(s->arg)) {
			ret->stopped = true;
			return 0;
		}
		p = &t->pods[r.draws < t->n_pods ? r.order[r.draws]
						 : place_draw(&state, t->n_pods)];
		r.draws++;
		asked += place_get_demand(p);
		had += replay_pod(&r, p, ret);
		if (learn_pod_mix(&r, p, err) < 0)
			return -1;
	}
}
