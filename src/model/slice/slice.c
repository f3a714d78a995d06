/* SPDX-License-Identifier: Apache-2.0 */
#include "model/slice/slice.h"

#include <string.h>

#define PERMILLE_ALL 1000

uint64_t slice_usable(const struct inventory *inv, uint32_t gpu, uint32_t mig)
{
	if (mig != OFFER_WHOLE)
		return mig < inv->n_mig ? inv->mig[mig].memory_mib << 20 : 0;
	return gpu < inv->n ? inv->gpus[gpu].memory_usable_bytes : 0;
}

uint64_t slice_limit(const struct isolation *isolation, uint32_t replicas, uint64_t usable,
	uint32_t k)
{
	uint64_t one = 0, all;

	switch (isolation->memory) {
	case ISOLATION_MEMORY_NONE:
		return SLICE_NO_LIMIT;
	case ISOLATION_MEMORY_EQUAL:
		one = usable / (replicas ? replicas : 1);
		break;
	case ISOLATION_MEMORY_PERMILLE: /* divides first, so that no product overflows */
		one = usable / PERMILLE_ALL * isolation->memory_value +
		      usable % PERMILLE_ALL * isolation->memory_value / PERMILLE_ALL;
		break;
	case ISOLATION_MEMORY_BYTES:
		one = isolation->memory_value;
		break;
	}
	if (one >= SLICE_GRANULE)
		one -= one % SLICE_GRANULE;
	if (usable == 0)
		return isolation->memory == ISOLATION_MEMORY_BYTES &&
				       !__builtin_mul_overflow(one, k, &all)
			       ? all
			       : 0;
	if (__builtin_mul_overflow(one, k, &all) || all > usable)
		return usable;
	return all - (one < SLICE_GRANULE ? all % SLICE_GRANULE : 0);
}

uint32_t slice_replicas_for(const struct isolation *isolation, uint32_t replicas,
	uint64_t usable, uint64_t bytes)
{
	uint32_t low = 1, high = replicas;

	if (!replicas || slice_limit(isolation, replicas, usable, replicas) < bytes)
		return 0;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (slice_limit(isolation, replicas, usable, middle) < bytes)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A physical device of the request, and how many of its replicas the request has. */
struct slice_part {
	const struct offer_device *device; /* the first of them */
	uint32_t count;
};

static int count_slice_parts(struct slice_part *parts, uint32_t *ret_n,
	const struct resource *r, const char *const *ids, size_t n_ids, struct error *err)
{
	*ret_n = 0;
	for (size_t i = 0; i < n_ids; i++) {
		const struct offer_device *d = resource_find(r, ids[i]);
		uint32_t at = 0;

		if (!d)
			continue;
		while (at < *ret_n &&
			(parts[at].device->gpu != d->gpu || parts[at].device->mig != d->mig))
			at++;
		if (at == SLICE_GPUS_MAX)
			return error_set(err, ERR_LIMIT,
				"resource \"%s\": a slice has at most %d physical devices, and more "
				"are asked for",
				r->name, SLICE_GPUS_MAX);
		if (at == *ret_n)
			parts[(*ret_n)++] = (struct slice_part){ .device = d };
		parts[at].count++;
	}
	return 0;
}

void slice_time(struct slice_gpu *ret, const struct offer_share *s, uint32_t k)
{
	uint64_t weight = (uint64_t)s->weight * k;
	uint64_t all = s->weights > weight ? s->weights : weight, cap;

	ret->weight = weight < SLICE_WEIGHT_MAX ? (uint32_t)weight : SLICE_WEIGHT_MAX;
	ret->cap = 0;
	if (s->isolation.compute != ISOLATION_COMPUTE_CAPPED)
		return;
	cap = all ? weight * SLICE_CAP_ALL / all
		  : SLICE_CAP_ALL;          /* at most 40 million times one million */
	ret->cap = cap ? (uint32_t)cap : 1; /* 0 means no cap */
}

static int plan_memory(struct slice_gpu *g, const struct slice_part *p,
	const struct resource *r, const struct inventory *inv, const struct offer_share *s,
	struct error *err)
{
	const struct offer_device *d = p->device;

	g->memory = slice_limit(&s->isolation, s->replicas, slice_usable(inv, d->gpu, d->mig),
		p->count);
	if (g->memory == 0 && slice_usable(inv, d->gpu, d->mig))
		return error_set(err, ERR_INVALID,
			"resource \"%s\": a replica's part of '%s' is less than 2 MiB of memory "
			"(isolation.memory)",
			r->name, g->uuid);
	if (g->memory == 0)
		return error_set(err, ERR_UNAVAILABLE,
			"resource \"%s\": the memory of '%s' is not known, so no part of it can be "
			"given (isolation.memory)",
			r->name, g->uuid);
	return 0;
}

/* @classed: a device before has set the class. */
static int plan_slice_gpu(struct slice_plan *plan, const struct slice_part *p,
	const struct resource *r, const struct inventory *inv, bool *classed, struct error *err)
{
	static const struct offer_share none = { .replicas = 1, .weight = 1, .weights = 1 };
	const struct offer_device *d = p->device;
	const struct offer_share *s = resource_share(r, d) ? resource_share(r, d) : &none;
	struct slice_gpu *g = &plan->gpus[plan->n++];
	const char *uuid =
		d->mig == OFFER_WHOLE ? inv->gpus[d->gpu].uuid : inv->mig[d->mig].uuid;

	memcpy(g->uuid, uuid, strlen(uuid) + 1);
	if (plan_memory(g, p, r, inv, s, err) < 0)
		return -1;
	slice_time(g, s, p->count);
	if (!isolation_enforces(&s->isolation))
		return 0;
	plan->wanted = true;
	if (s->isolation.unhooked > plan->unhooked)
		plan->unhooked = s->isolation.unhooked;
	if (s->strategy == SHARING_MPS)
		plan->compute = SLICE_COMPUTE_MPS;
	if (s->isolation.compute == ISOLATION_COMPUTE_NONE)
		return 0;
	if (plan->compute == SLICE_COMPUTE_NONE)
		plan->compute = SLICE_COMPUTE_FAIR_SHARE;
	if (!*classed || s->isolation.class_ == SLICE_CLASS_BATCH)
		plan->class_ = s->isolation.class_;
	*classed = true;
	return 0;
}

int slice_plan_make(struct slice_plan *ret, const struct resource *r,
	const struct inventory *inv, const char *const *ids, size_t n_ids, struct error *err)
{
	struct slice_part parts[SLICE_GPUS_MAX];
	bool isolates = false, classed = false;
	uint32_t n;

	*ret = (struct slice_plan){ .wanted = false };
	for (uint32_t i = 0; i < r->n_shares; i++)
		isolates = isolates || isolation_enforces(&r->shares[i].isolation);
	if (!isolates) /* without a slice, the number of devices has no limit */
		return 0;
	if (count_slice_parts(parts, &n, r, ids, n_ids, err) < 0)
		return -1;
	for (uint32_t i = 0; i < n; i++)
		if (plan_slice_gpu(ret, &parts[i], r, inv, &classed, err) < 0)
			return -1;
	return 0;
}

void slice_plan_open(struct slice_plan *plan)
{
	plan->unhooked = UNHOOKED_REPORT;
	plan->compute = SLICE_COMPUTE_NONE;
	plan->class_ = SLICE_CLASS_BATCH;
	for (uint32_t i = 0; i < plan->n; i++) {
		plan->gpus[i].memory = SLICE_NO_LIMIT;
		plan->gpus[i].weight = 1;
		plan->gpus[i].cap = 0;
	}
}

bool slice_plan_equal(const struct slice_plan *a, const struct slice_plan *b)
{
	if (a->wanted != b->wanted || a->unhooked != b->unhooked || a->n != b->n ||
		a->compute != b->compute ||
		(a->compute != SLICE_COMPUTE_NONE && a->class_ != b->class_))
		return false;
	for (uint32_t i = 0; i < a->n; i++) {
		const struct slice_gpu *x = &a->gpus[i], *y = &b->gpus[i];

		if (x->memory != y->memory || strcmp(x->uuid, y->uuid) != 0 ||
			(a->compute != SLICE_COMPUTE_NONE &&
				(x->weight != y->weight || x->cap != y->cap)))
			return false;
	}
	return true;
}
