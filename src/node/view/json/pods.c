/* SPDX-License-Identifier: Apache-2.0 */
#include "node/view/json/internal.h"

#include <stdlib.h>
#include <string.h>

/* A pod may have uses on several devices. This file puts them together. */

static int compare_uses_by_pod(const void *a, const void *b)
{
	const struct view_use *x = *(const struct view_use *const *)a,
			      *y = *(const struct view_use *const *)b;
	int order = strcmp(x->namespace_, y->namespace_);

	if (order == 0)
		order = strcmp(x->pod, y->pod);
	if (order == 0)
		order = strcmp(x->uid, y->uid);
	if (order == 0) /* as in the view */
		order = x < y ? -1 : x > y;
	return order;
}

static bool is_same_use_pod(const struct view_use *x, const struct view_use *y)
{
	return !strcmp(x->namespace_, y->namespace_) && !strcmp(x->pod, y->pod) &&
	       !strcmp(x->uid, y->uid);
}

struct pod_sum {
	bool live, received_known, memory_known, busy_known, memory_counted;
	uint64_t replicas, share, received, memory, gpu_ns, busy_ns, memory_byte_s, cost;
};

/*
 * Figures of now are sums of the live uses; without a live use they are not known. Counters are sums of all uses.
 * A sum with an unknown part is not known.
 */
static void add_use_to_pod_sum(struct pod_sum *s, const struct view_use *use)
{
	if (use->live) {
		s->live = true;
		s->replicas += use->n_replicas;
		s->share += use->share;
		s->received_known &= use->received != VIEW_NONE;
		s->received += use->received != VIEW_NONE ? use->received : 0;
		s->memory_known &= use->memory_known;
		s->memory += use->memory_used;
	}
	s->busy_known &= use->busy_known;
	s->memory_counted &= use->memory_counted;
	s->busy_ns += use->busy_ns;
	s->gpu_ns += use->gpu_ns;
	s->memory_byte_s += use->memory_byte_s;
	s->cost += use->cost_nano;
}

static void add_pod_sum_json(struct json_maker *m, json_t *o, const struct pod_sum *s)
{
	json_set_value(m, o, "live", json_boolean(s->live));
	json_set_value(m, o, "nSeats", json_u64(s->replicas));
	json_set_value(m, o, "share", json_u64(s->share));
	json_set_value(m, o, "received",
		s->live && s->received_known ? json_u64(s->received) : json_null());
	json_set_value(m, o, "memoryUsed",
		s->live && s->memory_known ? json_u64(s->memory) : json_null());
	json_set_value(m, o, "gpuNs", json_u64(s->gpu_ns));
	json_set_value(m, o, "busyNs", s->busy_known ? json_u64(s->busy_ns) : json_null());
	json_set_value(m, o, "memoryByteS",
		s->memory_counted ? json_u64(s->memory_byte_s) : json_null());
	json_set_cost(m, o, "costNano", s->cost);
}

/* Adds the pod of the first use in @uses. Returns how many of the @n uses belong to that pod. */
static size_t add_pod_json(struct json_maker *m, json_t *pod, const struct view_use **uses,
	size_t n)
{
	struct pod_sum sum = { .received_known = true,
		.memory_known = true,
		.busy_known = true,
		.memory_counted = true };
	json_t *list;
	size_t i;

	json_set_value(m, pod, "namespace", json_string(uses[0]->namespace_));
	json_set_value(m, pod, "pod", json_string(uses[0]->pod));
	json_set_value(m, pod, "uid", *uses[0]->uid ? json_string(uses[0]->uid) : json_null());
	list = json_set_array(m, pod, "uses");
	for (i = 0; i < n && is_same_use_pod(uses[0], uses[i]); i++) {
		const struct view_device *u = &m->v->devices[uses[i]->device];
		json_t *o = json_add_object(m, list);

		json_set_value(m, o, "gpu", json_integer(m->v->gpus[u->gpu].index));
		json_set_value(m, o, "unit", json_string(u->label));
		json_set_value(m, o, "unitUuid", json_string(u->uuid));
		json_set_use(m, o, uses[i]);
		add_use_to_pod_sum(&sum, uses[i]);
	}
	add_pod_sum_json(m, pod, &sum);
	return i;
}

void json_set_pods(struct json_maker *m, json_t *root)
{
	size_t n = m->v->n_uses;
	CLEANUP(freep)
	const struct view_use **uses = calloc(n + 1, sizeof(const struct view_use *));
	json_t *list = json_set_array(m, root, "pods");

	if (!uses) {
		m->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		uses[i] = &m->v->uses[i];
	qsort(uses, n, sizeof(const struct view_use *),
		compare_uses_by_pod); /* not stable; compare_uses_by_pod() leaves no ties */
	for (size_t i = 0; i < n;)
		i += add_pod_json(m, json_add_object(m, list), uses + i, n - i);
}
