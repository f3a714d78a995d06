/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/pools/internal.h"

#include "lib/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- partitions --- */

/* A tenant's partition of its GPU, as a number: a MIG profile, or a size. */
static uint32_t get_tenant_partition(const struct plan_node *n, const struct plan_tenant *t)
{
	return n->mode == PLAN_MIG ? t->profile : t->memory_mib;
}

static int compare_partition_values(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* GPUs with more partitions first, so that unused GPUs come last. */
static int compare_partitions(const void *a, const void *b)
{
	const struct pool_partition *x = a, *y = b;

	if (x->n != y->n)
		return x->n > y->n ? -1 : 1;
	for (uint32_t i = 0; i < x->n; i++)
		if (x->v[i] != y->v[i])
			return x->v[i] < y->v[i] ? -1 : 1;
	return 0;
}

/* The partitions of the GPUs of @n; NULL without an error: none. */
static int pool_partitions_new(const struct plan_node *n, struct pool_partition **ret,
	struct error *err)
{
	struct pool_partition *partitions;

	*ret = NULL;
	if (n->mode != PLAN_MIG && n->mode != PLAN_SLICES)
		return 0;
	partitions = calloc(n->offer->gpus + 1, sizeof(*partitions));
	if (!partitions)
		return error_nomem(err);
	for (uint32_t i = 0; i < n->n; i++) {
		struct pool_partition *c = &partitions[n->tenants[i].gpu];

		if (c->n < PLAN_PODS_MAX)
			c->v[c->n++] = get_tenant_partition(n, &n->tenants[i]);
	}
	for (uint32_t g = 0; g < n->offer->gpus; g++)
		qsort(partitions[g].v, partitions[g].n, sizeof(*partitions[g].v),
			compare_partition_values);
	qsort(partitions, n->offer->gpus, sizeof(*partitions), compare_partitions);
	*ret = partitions;
	return 0;
}

static int pool_partitions_compare(const struct pool_partition *a,
	const struct pool_partition *b, uint32_t gpus)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	for (uint32_t g = 0; g < gpus; g++) {
		int order = compare_partitions(&a[g], &b[g]);

		if (order)
			return order;
	}
	return 0;
}

void pool_format_resource(const struct plan_node *n, const struct plan_tenant *t,
	char ret[static POOL_KEY_MAX])
{
	char profile[MIG_PROFILE_NAME_MAX];

	switch (pool_mode(n)) {
	case PLAN_TIME_SLICING:
	case PLAN_MPS:
		(void)snprintf(ret, POOL_KEY_MAX, "%s", POOL_RESOURCE_SHARED);
		return;
	case PLAN_SLICES:
		(void)snprintf(ret, POOL_KEY_MAX, "nvidia.com/gpu.%umi", t->memory_mib);
		return;
	case PLAN_MIG:
		mig_layout_name(n->offer->gpu->mig, t->profile, 0, profile);
		(void)snprintf(ret, POOL_KEY_MAX, OFFER_MIG "%.40s", profile);
		return;
	case PLAN_EXCLUSIVE:
	case PLAN_MODES:
		break;
	}
	(void)snprintf(ret, POOL_KEY_MAX, "%s", POOL_RESOURCE_WHOLE);
}

#define NOTES_MAX 1024
#define TEXT_MAX  4096

/* --- equal nodes --- */

static int compare_uint(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Nodes that compare equal may be in one pool. */
static int by_kind(const void *x, const void *y)
{
	const struct pool_node *a = x, *b = y;
	const struct plan_node *m = a->node, *n = b->node;
	int order = 0;

	if (m->offer != n->offer) /* both are in one array */
		return m->offer < n->offer ? -1 : 1;
	order = compare_uint(pool_mode(m), pool_mode(n));
	if (!order)
		order = compare_uint(pool_slots(m), pool_slots(n));
	if (!order)
		order = pool_partitions_compare(a->partitions, b->partitions, m->offer->gpus);
	if (!order)
		order = compare_uint(a->alone, b->alone);
	if (order || !a->alone)
		return order;
	order = compare_uint(m->n, n->n);
	for (uint32_t i = 0; i < m->n && !order; i++)
		order = compare_uint(a->workloads[i], b->workloads[i]);
	return order;
}

static int compare_workload_indexes(const void *a, const void *b)
{
	return compare_uint(*(const uint32_t *)a, *(const uint32_t *)b);
}

static void pooled_free(struct pool_node *list, size_t n)
{
	for (size_t i = 0; list && i < n; i++) {
		free(list[i].partitions);
		free(list[i].workloads);
	}
	free(list);
}

static int pooled_new(struct pool_node **ret, const struct plan_answer *a, struct error *err)
{
	size_t n = a->plan.n_nodes;
	struct pool_node *list = calloc(n + 1, sizeof(*list));
	bool failed = !list;

	for (size_t i = 0; i < n && !failed; i++) {
		const struct plan_node *node = &a->plan.nodes[i];

		list[i].node = node;
		list[i].workloads = calloc(node->n + 1, sizeof(*list[i].workloads));
		failed = !list[i].workloads ||
			 pool_partitions_new(node, &list[i].partitions, err) < 0;
		for (uint32_t k = 0; k < node->n && !failed; k++)
			list[i].workloads[k] = node->tenants[k].workload;
		if (!failed)
			qsort(list[i].workloads, node->n, sizeof(*list[i].workloads),
				compare_workload_indexes);
	}
	if (failed) {
		pooled_free(list, list ? n : 0);
		return error_nomem(err);
	}
	*ret = list;
	return 0;
}

/* --- contents of a pool --- */

static uint32_t resource_at(struct plan_pool *p, const char *name)
{
	uint32_t i = 0;

	while (i < p->n_resources && strcmp(p->resources[i].name, name) != 0)
		i++;
	if (i == p->n_resources)
		(void)snprintf(p->resources[p->n_resources++].name, POOL_KEY_MAX, "%s", name);
	return i;
}

/* What one node offers, independent of its tenants. */
static void set_resources(struct plan_pool *p)
{
	const struct plan_node like = { .offer = p->offer, .mode = p->mode, .slots = p->slots };
	uint32_t gpus = p->offer->gpus;

	if (!p->partitions) {
		struct plan_tenant any = { 0 };
		char name[POOL_KEY_MAX];

		pool_format_resource(&like, &any, name);
		p->resources[resource_at(p, name)].count = gpus * (p->slots ? p->slots : 1);
		return;
	}
	for (uint32_t g = 0; g < gpus; g++) {
		for (uint32_t i = 0; i < p->partitions[g].n; i++) {
			struct plan_tenant t = { .profile = (uint16_t)p->partitions[g].v[i],
				.memory_mib = p->partitions[g].v[i] };
			char name[POOL_KEY_MAX];

			pool_format_resource(&like, &t, name);
			p->resources[resource_at(p, name)].count++;
		}
		/* A GPU without partitions stays whole. */
		if (!p->partitions[g].n)
			p->resources[resource_at(p, POOL_RESOURCE_WHOLE)].count++;
	}
}

static void add_tenant(const struct plan_answer *a, struct plan_pool *p,
	const struct plan_node *n, const struct plan_tenant *t)
{
	uint32_t gpus = a->in->workloads[t->workload].gpus, resource;
	char name[POOL_KEY_MAX];
	size_t i = 0;

	pool_format_resource(n, t, name);
	resource = resource_at(p, name);
	while (i < p->n_tenants &&
		(p->tenants[i].workload != t->workload || p->tenants[i].resource != resource))
		i++;
	if (i == p->n_tenants)
		p->tenants[p->n_tenants++] = (struct pool_tenant){ .workload = t->workload,
			.resource = resource,
			.each = gpus > 1 ? gpus : 1 };
	p->tenants[i].replicas++;
}

static void pool_fini(struct plan_pool *p)
{
	free(p->partitions);
	free(p->resources);
	free(p->tenants);
}

/* Makes a pool of the @n nodes of @list, which are equal. */
static int pool_make(struct plan_pool *ret, const struct plan_answer *a,
	const struct pool_node *list, size_t n, struct error *err)
{
	const struct plan_node *first = list[0].node;
	uint32_t gpus = first->offer->gpus;
	struct plan_pool p = { .offer = first->offer,
		.mode = pool_mode(first),
		.slots = pool_slots(first),
		.nodes = (uint32_t)n,
		.have = first->offer->nano_per_hour == 0 };
	size_t tenants = 1;

	for (size_t i = 0; i < n; i++)
		tenants += list[i].node->n;
	if (list[0].partitions) {
		p.partitions = calloc(gpus, sizeof(*p.partitions));
		if (p.partitions)
			memcpy(p.partitions, list[0].partitions, gpus * sizeof(*p.partitions));
	}
	p.resources = calloc((size_t)gpus * PLAN_PODS_MAX + 2, sizeof(*p.resources));
	p.tenants = calloc(tenants, sizeof(*p.tenants));
	if (!p.resources || !p.tenants || (list[0].partitions && !p.partitions)) {
		pool_fini(&p);
		return error_nomem(err);
	}
	set_resources(&p);
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < list[i].node->n; k++)
			add_tenant(a, &p, list[i].node, &list[i].node->tenants[k]);
	*ret = p;
	return 0;
}

/* --- notes --- */

static int add_pool_note(struct pools *p, const char *code, const struct buf *text,
	struct error *err)
{
	if (p->n_notes == NOTES_MAX)
		return 0;
	if (!ARRAY_EXTEND(&p->notes, p->n_notes, 1, NOTES_MAX))
		return error_nomem(err);
	p->notes[p->n_notes] = (struct pool_note){ code, strdup(buf_str(text)) };
	if (!p->notes[p->n_notes].text)
		return error_nomem(err);
	p->n_notes++;
	return 0;
}

static int add_arrangement_note(struct pools *pools, const struct plan_pool *p,
	const struct buf *who, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);

	buf_printf(&text,
		"pool %s: the scheduler may put together what the plan does not: %s. Keep them "
		"apart, or measure more exactly",
		p->name, buf_str(who));
	return add_pool_note(pools, "arrangement", &text, err);
}

/* A workload that requests different resources in different pools needs several Kubernetes objects. */
static int add_split_note(struct pools *pools, struct error *err)
{
	size_t n = pools->a->in->n_workloads;
	CLEANUP(freep) uint64_t *first = calloc(n + 1, sizeof(*first));

	if (!first)
		return error_nomem(err);
	for (size_t i = 0; i < pools->n; i++) {
		for (size_t k = 0; k < pools->v[i].n_tenants; k++) {
			const struct pool_tenant *t = &pools->v[i].tenants[k], *was;
			const struct plan_pool *other;
			CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);

			if (!first[t->workload]) {
				first[t->workload] = (uint64_t)i << 32 | (k + 1);
				continue;
			}
			other = &pools->v[first[t->workload] >> 32];
			was = &other->tenants[(first[t->workload] & UINT32_MAX) - 1];
			if (!strcmp(other->resources[was->resource].name,
				    pools->v[i].resources[t->resource].name))
				continue;
			buf_printf(&text,
				"'%s' needs an object for each: replicas that ask for %s in pool %s (%u), and for "
				"%s in pool %s (%u)",
				pools->a->in->workloads[t->workload].name,
				other->resources[was->resource].name, other->name,
				was->replicas, pools->v[i].resources[t->resource].name,
				pools->v[i].name, t->replicas);
			if (add_pool_note(pools, "split-workload", &text, err) < 0)
				return -1;
		}
	}
	return 0;
}

/* --- all of it --- */

static void set_pool_name(struct pools *pools, struct plan_pool *p)
{
	char base[POOL_NAME_MAX - 8];
	unsigned again = 1;
	bool taken = true;
	size_t len;

	(void)snprintf(base, sizeof(base), "%.24s-%s", p->offer->type,
		plan_mode_names[p->mode]);
	len = strlen(base);
	if (p->slots)
		(void)snprintf(base + len, sizeof(base) - len, "-%u", p->slots);
	len = strlen(base);
	if (p->offer->capacity == PLAN_SPOT)
		(void)snprintf(base + len, sizeof(base) - len, "-spot");
	else if (p->have)
		(void)snprintf(base + len, sizeof(base) - len, "-there");
	for (char *c = base; *c; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9')))
			*c = '-';
	(void)snprintf(p->name, sizeof(p->name), "%s", base);
	while (taken) {
		taken = false;
		for (const struct plan_pool *q = pools->v; q < p && !taken; q++)
			taken = !strcmp(q->name, p->name);
		if (taken)
			(void)snprintf(p->name, sizeof(p->name), "%s-%u", base, ++again);
	}
}

/* Kinds of nodes in @list, which is sorted. */
static size_t count_node_kinds(const struct pool_node *list, size_t n)
{
	size_t kinds = n > 0;

	for (size_t i = 1; i < n; i++)
		kinds += by_kind(&list[i - 1], &list[i]) != 0;
	return kinds;
}

/* Makes the pools of the nodes in @list, which is sorted and has at most POOLS_MAX kinds. */
static int make_kind_pools(struct pools *pools, const struct pool_node *list, size_t n,
	struct error *err)
{
	for (size_t i = 0, to; i < n; i = to) {
		struct plan_pool *p = &pools->v[pools->n];

		for (to = i + 1; to < n && by_kind(&list[i], &list[to]) == 0;)
			to++;
		if (pool_make(p, pools->a, list + i, to - i, err) < 0)
			return -1;
		pools->n++;
		set_pool_name(pools, p);
	}
	return pools_set_reachable(pools, err);
}

/*
 * Marks the nodes of infeasible pools .alone in @list, which is in the order of the pools, and sets *again. A pool
 * that cannot be split, or may not be because of @wide, gets a note.
 */
static int check_all(struct pools *pools, struct pool_node *list, bool wide, bool *again,
	struct error *err)
{
	*again = false;
	for (size_t i = 0; i < pools->n; list += pools->v[i++].nodes) {
		const struct plan_pool *p = &pools->v[i];
		CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);
		bool feasible;

		if (pool_check_feasible(pools->a, p, &feasible, &text, err) < 0)
			return -1;
		if (feasible)
			continue;
		if (wide || list[0].alone) {
			if (add_arrangement_note(pools, p, &text, err) < 0)
				return -1;
			continue;
		}
		*again = true;
		for (size_t k = 0; k < p->nodes; k++)
			list[k].alone = true;
	}
	return 0;
}

static void clear_pools(struct pools *pools)
{
	for (size_t i = 0; i < pools->n; i++)
		pool_fini(&pools->v[i]);
	for (size_t i = 0; i < pools->n_notes; i++)
		free(pools->notes[i].text);
	pools->n = pools->n_notes = 0;
}

static int add_wide_note(struct pools *pools, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);

	buf_printf(&text,
		"to keep apart what should not meet takes more than %d pools, so none was split: see the others here, or "
		"plan fewer workloads at a time",
		POOLS_MAX);
	return add_pool_note(pools, "many-pools", &text, err);
}

/* Sorts the nodes of @list. If .alone makes too many pools, clears it for all nodes and sets *wide. */
static int sort_all(struct pool_node *list, size_t n, bool *wide, struct error *err)
{
	if (n)
		qsort(list, n, sizeof(*list), by_kind);
	if (count_node_kinds(list, n) <= POOLS_MAX)
		return 0;
	*wide = true;
	for (size_t i = 0; i < n; i++)
		list[i].alone = false;
	qsort(list, n, sizeof(*list), by_kind);
	if (count_node_kinds(list, n) <= POOLS_MAX)
		return 0;
	return error_set(err, ERR_LIMIT,
		"more than %d kinds of nodes: that many pools nobody can keep; plan fewer "
		"workloads at a time, or allow fewer instance types and modes",
		POOLS_MAX);
}

static int pools_fill(struct pools *pools, struct pool_node *list, struct error *err)
{
	size_t n = pools->a->plan.n_nodes;
	bool again = true, wide = false;

	while (again) {
		clear_pools(pools);
		if (sort_all(list, n, &wide, err) < 0 ||
			make_kind_pools(pools, list, n, err) < 0 ||
			check_all(pools, list, wide, &again, err) < 0)
			return -1;
	}
	if (wide && add_wide_note(pools, err) < 0)
		return -1;
	return add_split_note(pools, err);
}

int pools_new(struct pools **ret, const struct plan_answer *a, struct error *err)
{
	CLEANUP(pools_freep) struct pools *pools = calloc(1, sizeof(*pools));
	struct pool_node *list = NULL;
	int got;

	if (!pools)
		return error_nomem(err);
	pools->a = a;
	pools->v = calloc(POOLS_MAX + 1, sizeof(*pools->v));
	if (!pools->v || pooled_new(&list, a, err) < 0)
		return error_nomem(err);
	got = pools_fill(pools, list, err);
	pooled_free(list, a->plan.n_nodes);
	if (got < 0)
		return -1;
	*ret = STEAL_PTR(pools);
	return 0;
}

struct pools *pools_free(struct pools *p)
{
	if (!p)
		return NULL;
	clear_pools(p);
	free(p->v);
	free(p->notes);
	free(p);
	return NULL;
}
