/* SPDX-License-Identifier: Apache-2.0 */
#include "node/view/json/internal.h"

#include <stdlib.h>
#include <string.h>

/* The uses of a pod stand on several units; here they come together. */

static int by_pod(const void *a, const void *b)
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

static bool same_pod(const struct view_use *x, const struct view_use *y)
{
	return !strcmp(x->namespace_, y->namespace_) && !strcmp(x->pod, y->pod) &&
	       !strcmp(x->uid, y->uid);
}

struct pod_sum {
	bool live, received_known, memory_known, busy_known, memory_counted;
	uint64_t seats, share, received, memory, gpu_ns, busy_ns, memory_byte_s, cost;
};

/*
 * What is used now is of those that live, and not known of a pod of which none does; counters are of all. A sum of
 * which a part is not known is not known.
 */
static void sum_add(struct pod_sum *s, const struct view_use *use)
{
	if (use->live) {
		s->live = true;
		s->seats += use->n_seats;
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

static void put_sum(struct json_maker *m, json_t *o, const struct pod_sum *s)
{
	json_put(m, o, "live", json_boolean(s->live));
	json_put(m, o, "nSeats", json_u64(s->seats));
	json_put(m, o, "share", json_u64(s->share));
	json_put(m, o, "received",
		s->live && s->received_known ? json_u64(s->received) : json_null());
	json_put(m, o, "memoryUsed",
		s->live && s->memory_known ? json_u64(s->memory) : json_null());
	json_put(m, o, "gpuNs", json_u64(s->gpu_ns));
	json_put(m, o, "busyNs", s->busy_known ? json_u64(s->busy_ns) : json_null());
	json_put(m, o, "memoryByteS",
		s->memory_counted ? json_u64(s->memory_byte_s) : json_null());
	json_put_cost(m, o, "costNano", s->cost);
}

/* The pod of the first of @uses; how many of the @n are of it. */
static size_t put_pod(struct json_maker *m, json_t *pod, const struct view_use **uses, size_t n)
{
	struct pod_sum sum = { .received_known = true,
		.memory_known = true,
		.busy_known = true,
		.memory_counted = true };
	json_t *list;
	size_t i;

	json_put(m, pod, "namespace", json_string(uses[0]->namespace_));
	json_put(m, pod, "pod", json_string(uses[0]->pod));
	json_put(m, pod, "uid", *uses[0]->uid ? json_string(uses[0]->uid) : json_null());
	list = json_put_array(m, pod, "uses");
	for (i = 0; i < n && same_pod(uses[0], uses[i]); i++) {
		const struct view_unit *u = &m->v->units[uses[i]->unit];
		json_t *o = json_add_object(m, list);

		json_put(m, o, "gpu", json_integer(m->v->gpus[u->gpu].index));
		json_put(m, o, "unit", json_string(u->label));
		json_put(m, o, "unitUuid", json_string(u->uuid));
		json_put_use(m, o, uses[i]);
		sum_add(&sum, uses[i]);
	}
	put_sum(m, pod, &sum);
	return i;
}

void json_put_pods(struct json_maker *m, json_t *root)
{
	size_t n = m->v->n_uses;
	CLEANUP(freep)
	const struct view_use **uses = calloc(n + 1, sizeof(const struct view_use *));
	json_t *list = json_put_array(m, root, "pods");

	if (!uses) {
		m->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		uses[i] = &m->v->uses[i];
	qsort(uses, n, sizeof(const struct view_use *),
		by_pod); /* not stable: by_pod decides all */
	for (size_t i = 0; i < n;)
		i += put_pod(m, json_add_object(m, list), uses + i, n - i);
}
