/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of nodes, the share of a node that workloads take, and the bound of a plan's cost by these shares. */
#include "tools/plan/pack/internal.h"

#include "io/price/price.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* --- kinds of nodes --- */

static const uint32_t mps_slots[] = { 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20,
	24, 32, 48 };

const uint32_t pack_mps_min_replicas = 2;

static bool same_config(const struct packer *p, const struct pack_shape *a,
	const struct pack_shape *b)
{
	return p->class[a->offer - p->s->offers] == p->class[b->offer - p->s->offers] &&
	       a->mode == b->mode && a->slots == b->slots;
}

static int add_shape(struct packer *p, const struct plan_offer *o, enum plan_mode mode,
	uint32_t slots, struct error *err)
{
	struct pack_shape *s = &p->shapes[p->n_shapes];
	/* A free node has a price of nearly 0, so that a replica that does not fit there still has an
	 * infinite cost. */
	double price = fmax((double)o->nano_per_hour, 1);

	if (p->n_shapes == PACK_SHAPES_MAX)
		return error_set(err, ERR_LIMIT, "more than %d kinds of nodes",
			PACK_SHAPES_MAX);
	*s = (struct pack_shape){ .offer = o,
		.mode = mode,
		.slots = slots,
		.price = price,
		.per_gpu = price / o->gpus,
		.per_cpu = o->cpu_milli ? price / o->cpu_milli : 0,
		.per_memory = o->memory_mib ? price / o->memory_mib : 0 };
	s->config = (uint32_t)p->n_configs;
	for (size_t i = 0; i < p->n_shapes && s->config == p->n_configs; i++)
		if (same_config(p, &p->shapes[i], s))
			s->config = p->shapes[i].config;
	p->n_configs += s->config == p->n_configs;
	p->n_shapes++;
	return 0;
}

static int add_offer(struct packer *p, const struct plan_offer *o, struct error *err)
{
	const struct plan_policy *policy = p->fit->policy;

	for (int m = 0; m < PLAN_MODES; m++) {
		size_t n = m == PLAN_MPS ? ARRAY_LEN(mps_slots) : 1;

		if (!(policy->modes >> m & 1) ||
			(m == PLAN_MIG && (!o->has_mig || !o->gpu->mig)))
			continue;
		/* A GPU fraction of the provider is not shared further by MIG or MPS. */
		if (o->gpu_milli < 1000 && (m == PLAN_MIG || m == PLAN_MPS))
			continue;
		for (size_t k = 0; k < n; k++) {
			if (m == PLAN_MPS && mps_slots[k] > policy->pods_per_gpu)
				break;
			if (add_shape(p, o, (enum plan_mode)m, m == PLAN_MPS ? mps_slots[k] : 0,
				    err) < 0)
				return -1;
		}
	}
	return 0;
}

/* The smallest share of a GPU's time for the workload where pods rotate, at its largest allowed slowdown. */
static double get_min_time(const struct packer *p, uint32_t workload,
	const struct plan_offer *o, double sigma)
{
	const struct plan_workload *w = &p->fit->workloads[workload];
	const struct fit_pod *pod = fit_pod(p->fit, workload, o->gpu);
	double max = plan_get_max_slowdown(p->fit->policy, &w->slo);

	if (pod->pod.rate > 0)
		return pod->pod.rate * pod->pod.demand_s * (1 + sigma);
	if (!pod->timed || max <= 0)
		return 0;
	return pod->pod.demand_s * (1 + sigma) / (max * pod->ref_s);
}

/*
 * The smallest share of a GPU that @workload can have in any mode; 2: none fits. The shares on one GPU sum to 1 at
 * most, for any combination of workloads.
 */
static double get_min_slot(const struct packer *p, uint32_t workload,
	const struct plan_offer *o)
{
	const struct plan_policy *policy = p->fit->policy;
	struct fit_gpu g = { .offer = o, .workloads = &workload, .n = 1 };
	struct plan_tenant t;
	double min = 2;

	for (int m = 0; m < PLAN_MODES; m++) {
		double share = 1;

		if (!(policy->modes >> m & 1) ||
			(m == PLAN_MIG && (!o->has_mig || !o->gpu->mig)))
			continue;
		g.mode = (enum plan_mode)m;
		g.slots = m == PLAN_MPS ? mps_slots[0] : 0;
		if (fit_check(p->fit, &g, &t, NULL, NULL) != PLAN_FITS)
			continue;
		if (m == PLAN_TIME_SLICING || m == PLAN_SLICES)
			share = fmax(1.0 / policy->pods_per_gpu,
				get_min_time(p, workload, o,
					fit_rotation(p->fit, o->gpu, (enum plan_mode)m, 2)
						.sigma));
		else if (m == PLAN_MIG)
			share = (double)o->gpu->mig->profiles[t.profile].size /
				o->gpu->mig->slots;
		for (size_t k = 0; m == PLAN_MPS && k < ARRAY_LEN(mps_slots); k++) {
			g.slots = mps_slots[k];
			if (g.slots > policy->pods_per_gpu ||
				fit_check(p->fit, &g, &t, NULL, NULL) != PLAN_FITS)
				break;
			share = 1.0 / g.slots;
		}
		min = fmin(min, fmin(share, 1));
	}
	return min;
}

static bool is_same_gpu_offer(const struct plan_offer *a, const struct plan_offer *b)
{
	return a->gpu == b->gpu && a->gpu_milli == b->gpu_milli &&
	       a->gpu_memory_mib == b->gpu_memory_mib && a->has_mig == b->has_mig;
}

static int make_classes(struct packer *p, struct error *err)
{
	size_t n = p->fit->n_workloads, n_classes = 0;
	CLEANUP(freep) size_t *first = calloc(p->s->n_offers + 1, sizeof(*first));

	p->class = calloc(p->s->n_offers + 1, sizeof(*p->class));
	if (!first || !p->class)
		return error_nomem(err);
	for (size_t i = 0; i < p->s->n_offers; i++) {
		size_t c = 0;

		while (c < n_classes &&
			!is_same_gpu_offer(&p->s->offers[first[c]], &p->s->offers[i]))
			c++;
		if (c == n_classes)
			first[n_classes++] = i;
		p->class[i] = (uint32_t)c;
	}
	p->slot = calloc(n_classes * n + 1, sizeof(*p->slot));
	if (!p->slot)
		return error_nomem(err);
	for (size_t c = 0; c < n_classes; c++) {
		struct plan_offer o = p->s->offers[first[c]];

		o.capacity = PLAN_ON_DEMAND;
		for (uint32_t w = 0; w < n; w++)
			p->slot[c * n + w] = get_min_slot(p, w, &o);
	}
	return 0;
}

/* The least that a replica of workload w takes of one node of an offer: share of its GPUs' memory, slots,
 * processors, RAM. */
enum { SHARE_MEMORY, SHARE_SLOT, SHARE_CPU, SHARE_RAM, SHARES };

/* False: it fits on no GPU of the offer. */
static bool pack_compute_shares(const struct packer *p, uint32_t workload, size_t offer,
	double ret[SHARES])
{
	const struct plan_workload *w = &p->fit->workloads[workload];
	const struct plan_offer *o = &p->s->offers[offer];
	const struct fit_pod *pod = fit_pod(p->fit, workload, o->gpu);
	double whole = w->gpus > 1 ? w->gpus : 1;
	double slot =
		(double)p->slot[p->class[offer] * p -> fit -> n_workloads + workload] * whole;

	if (slot > whole || whole > o->gpus || w->cpu_milli > o->cpu_milli ||
		w->memory_mib > o->memory_mib || (o->capacity == PLAN_SPOT && !w->spot_ok))
		return false;
	ret[SHARE_MEMORY] = pod->memory_mib * whole / o->gpu_memory_mib / o->gpus;
	ret[SHARE_SLOT] = (w->gpus > 1 ? whole : slot) / o->gpus;
	ret[SHARE_CPU] = o->cpu_milli ? (double)w->cpu_milli / o->cpu_milli : 0;
	ret[SHARE_RAM] = o->memory_mib ? (double)w->memory_mib / o->memory_mib : 0;
	return true;
}

/* --- sizes --- */

static bool can_fit_equal_replicas(const struct packer *p, const struct pack_shape *s,
	uint32_t workload, uint32_t n)
{
	uint32_t who[PLAN_PODS_MAX];
	struct plan_offer o = *s->offer;
	struct fit_gpu g = { &o, s->mode, s->slots, who, n };

	o.capacity = PLAN_ON_DEMAND; /* the capacity belongs to the offer, not to the GPU */
	for (uint32_t i = 0; i < n; i++)
		who[i] = workload;
	return fit_alike(p->fit, &g);
}

/* How many replicas of the workload alone fit on a GPU, even with anti-affinity. The size of one follows
 * from it. */
static uint32_t get_max_replicas(const struct packer *p, const struct pack_shape *s,
	uint32_t workload)
{
	uint32_t max = p->fit->policy->pods_per_gpu, low = 1, high;

	if (max > PLAN_PODS_MAX)
		max = PLAN_PODS_MAX;
	if (s->slots && max > s->slots)
		max = s->slots;
	for (high = 2; high <= max && can_fit_equal_replicas(p, s, workload, high); high *= 2)
		low = high;
	if (high > max)
		high = max + 1;
	while (low + 1 < high) {
		uint32_t middle = (low + high) / 2;

		if (can_fit_equal_replicas(p, s, workload, middle))
			low = middle;
		else
			high = middle;
	}
	return low;
}

static float compute_replica_size(const struct packer *p, const struct pack_shape *s,
	uint32_t workload)
{
	assert(s->offer); /* each shape has an offer */

	struct plan_offer o = *s->offer;
	struct fit_gpu g = { &o, s->mode, s->slots, &workload, 1 };
	struct plan_tenant t;

	o.capacity = PLAN_ON_DEMAND;
	if (fit_check(p->fit, &g, &t, NULL, NULL) != PLAN_FITS)
		return 2;
	switch (s->mode) {
	case PLAN_TIME_SLICING:
	case PLAN_SLICES:
		/* A single pod on a shared GPU is exclusive. */
		return (float)(1.0 / get_max_replicas(p, s, workload));
	case PLAN_MPS:
		return (float)fmax(1.0 / s->slots, 1.0 / get_max_replicas(p, s, workload));
	case PLAN_MIG: {
		const struct mig_layout *m = o.gpu->mig;

		return fmaxf((float)m->profiles[t.profile].size / (float)m->slots,
			(float)m->profiles[t.profile].slices / (float)m->slices);
	}
	case PLAN_EXCLUSIVE:
	case PLAN_MODES:
		break;
	}
	return 1;
}

struct sized_workload {
	uint32_t workload;
	float size;
};

static int compare_sized_workloads(const void *a, const void *b)
{
	const struct sized_workload *x = a, *y = b;

	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return x->workload < y->workload ? -1 : x->workload > y->workload;
}

static int order_for(struct packer *p, const struct pack_shape *s, struct error *err)
{
	size_t n = p->fit->n_workloads, kept = 0;
	CLEANUP(freep) struct sized_workload *sized = calloc(n + 1, sizeof(*sized));
	float *size = p->size + s->config * n;

	p->order[s->config] = calloc(n + 1, sizeof(**p->order));
	if (!sized || !p->order[s->config])
		return error_nomem(err);
	for (uint32_t w = 0; w < n; w++) {
		size[w] = compute_replica_size(p, s, w);
		if (size[w] <= 1)
			sized[kept++] = (struct sized_workload){ w,
				size[w] + (float)p->fit->workloads[w].gpus };
	}
	qsort(sized, kept, sizeof(*sized), compare_sized_workloads);
	for (size_t i = 0; i < kept; i++)
		p->order[s->config][i] = sized[i].workload;
	p->n_order[s->config] = kept;
	return 0;
}

/* Called for each workload and each kind of node. */
double pack_compute_cost(const struct packer *p, const struct pack_shape *s, uint32_t workload)
{
	const struct plan_workload *w = &p->fit->workloads[workload];
	double size = (double)p->size[s->config * p->fit->n_workloads + workload];
	double cost = s->per_gpu * (w->gpus > 1 ? w->gpus : size);

	if (size > 1 || (s->offer->capacity == PLAN_SPOT && !w->spot_ok))
		return INFINITY;
	if (s->per_cpu * w->cpu_milli > cost)
		cost = s->per_cpu * w->cpu_milli;
	if (s->per_memory * w->memory_mib > cost)
		cost = s->per_memory * w->memory_mib;
	return cost > s->price * (1 + 1e-9) ? INFINITY : cost;
}

/* The cost of its share of a node, where that is lowest. Limited and free nodes count only if there are no
 * others. */
static double worth_of(const struct packer *p, uint32_t workload)
{
	double best = INFINITY, limited = INFINITY;

	for (size_t i = 0; i < p->n_shapes; i++) {
		const struct pack_shape *s = &p->shapes[i];
		double cost = pack_compute_cost(p, s, workload);

		if (p->unused_nodes[s->offer - p->s->offers] == UINT32_MAX)
			best = fmin(best, cost);
		else
			limited = fmin(limited, cost);
	}
	if (!isfinite(best))
		best = limited;
	return isfinite(best) ? fmax(best, 1) : 0;
}

int pack_shapes_make(struct packer *p, struct error *err)
{
	size_t n = p->fit->n_workloads;

	p->shapes = calloc(PACK_SHAPES_MAX, sizeof(*p->shapes));
	p->worth = calloc(n + 1, sizeof(*p->worth));
	if (!p->shapes || !p->worth)
		return error_nomem(err);
	if (make_classes(p, err) < 0)
		return -1;
	for (size_t i = 0; i < p->s->n_offers; i++)
		if (add_offer(p, &p->s->offers[i], err) < 0)
			return -1;
	p->first_ratio = calloc(p->n_shapes + 1, sizeof(*p->first_ratio));
	p->size = calloc(p->n_configs * n + 1, sizeof(*p->size));
	p->order = calloc(p->n_configs + 1, sizeof(*p->order));
	p->n_order = calloc(p->n_configs + 1, sizeof(*p->n_order));
	if (!p->first_ratio || !p->size || !p->order || !p->n_order)
		return error_nomem(err);
	for (size_t i = 0; i < p->n_shapes; i++)
		if (!p->order[p->shapes[i].config] && order_for(p, &p->shapes[i], err) < 0)
			return -1;
	p->fill = p->order;
	p->n_fill = p->n_order;
	p->max_cost_ratio = INFINITY;
	for (uint32_t w = 0; w < n; w++)
		p->worth[w] = worth_of(p, w);
	return 0;
}

void pack_shapes_compact(struct packer *p)
{
	for (size_t c = 0; c < p->n_configs; c++) {
		size_t kept = 0;

		for (size_t i = 0; i < p->n_order[c]; i++)
			if (p->unplaced[p->order[c][i]])
				p->order[c][kept++] = p->order[c][i];
		p->n_order[c] = kept;
	}
}

uint32_t *pack_shapes_all(const struct packer *p, struct error *err)
{
	uint32_t *all = malloc((p->n_shapes + 1) * sizeof(*all));

	if (!all) {
		(void)error_nomem(err);
		return NULL;
	}
	for (uint32_t i = 0; i < p->n_shapes; i++)
		all[i] = i;
	return all;
}

/* --- a lower bound --- */

/*
 * A lower bound of a plan's cost. On each node, a replica takes a share of the GPUs' memory, of their slots, of
 * the processors and of the RAM. The shares of one resource sum to 1 at most. So for any weights that sum to 1,
 * the weighted shares of all replicas on a node sum to 1 at most. Hence a replica costs at least its weighted
 * share of an offer, where that is cheapest. The bound is the largest over a set of weights.
 */
static const double weights[][SHARES] = {
	{ 1, 0, 0, 0 },
	{ 0, 1, 0, 0 },
	{ 0, 0, 1, 0 },
	{ 0, 0, 0, 1 },
	{ 0.5, 0.5, 0, 0 },
	{ 0.5, 0, 0.5, 0 },
	{ 0.5, 0, 0, 0.5 },
	{ 0, 0.5, 0.5, 0 },
	{ 0.75, 0.25, 0, 0 },
	{ 0.75, 0, 0.25, 0 },
	{ 0.75, 0, 0, 0.25 },
	{ 0.25, 0.75, 0, 0 },
	{ 0.25, 0, 0.75, 0 },
	{ 0.25, 0.25, 0.25, 0.25 },
};

int64_t pack_compute_bound(const struct packer *p)
{
	double sums[ARRAY_LEN(weights)] = { 0 }, best = 0;

	for (uint32_t w = 0; w < p->fit->n_workloads; w++) {
		double least[ARRAY_LEN(weights)];
		uint32_t placed = p->fit->workloads[w].replicas - p->unplaced[w];

		for (size_t k = 0; k < ARRAY_LEN(weights); k++)
			least[k] = INFINITY;
		for (size_t i = 0; placed && i < p->s->n_offers; i++) {
			const struct plan_offer *o = &p->s->offers[i];
			double share[SHARES];

			if (!pack_compute_shares(p, w, i, share))
				continue;
			for (size_t k = 0; k < ARRAY_LEN(weights); k++) {
				double sum = 0;

				for (int d = 0; d < SHARES; d++)
					sum += weights[k][d] * share[d];
				least[k] = fmin(least[k], sum * (double)o->nano_per_hour);
			}
		}
		for (size_t k = 0; placed && k < ARRAY_LEN(weights); k++)
			sums[k] += isfinite(least[k]) ? placed * least[k] : 0;
	}
	for (size_t k = 0; k < ARRAY_LEN(weights); k++)
		best = fmax(best, sums[k]);
	return best < (double)PRICE_SUM_MAX ? (int64_t)floor(best * (1 - 1e-9)) : PRICE_SUM_MAX;
}
