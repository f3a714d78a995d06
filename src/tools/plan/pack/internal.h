/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside src/tools/plan/pack only. */
#include "tools/plan/pack/pack.h"

/* A kind of node. */
struct pack_shape {
	const struct plan_offer *offer;
	uint32_t config; /* GPUs of one class that are shared in one way */
	enum plan_mode mode;
	uint32_t slots;
	double price, per_gpu, per_cpu,
		per_memory; /* nano an hour: of a node, and of what it has */
	double ratio;       /* worth of what it takes, for its price, when it was last filled */
};

/* A node while it is filled; also one that is full. */
struct node_plan {
	const struct pack_shape *shape;
	uint32_t cpu_milli, memory_mib; /* left of the host */
	uint32_t n;
	uint32_t n_on_gpu[PLAN_NODE_GPUS_MAX]; /* tenants of each GPU */
	float load[PLAN_NODE_GPUS_MAX];        /* sum of their sizes; 1 is about all there is */
	uint32_t workloads[PLAN_NODE_GPUS_MAX][PLAN_PODS_MAX];
	double worth;
};

/* Nodes that are open, as few bytes each as may be. */
struct pack_open {
	uint32_t shape;
	uint32_t n;
	uint32_t *workloads; /* workload << 8 | GPU */
};

struct packer {
	const struct pack_setting *s;
	const struct fit *fit;
	struct pack_shape *shapes;
	size_t n_shapes;
	uint32_t *class; /* of each offer: offers whose GPUs are the same are one */
	double *slot; /* of workload w on class c, [c * workloads + w]: the least of a GPU that it can have */
	size_t n_configs;
	float *size; /* of workload w in config c, the same way: 1 by how many of it a GPU takes; > 1: none */
	double *worth; /* of a replica of each workload: what it costs where only such are, at best */
	uint32_t **order; /* of each config: workloads that it takes, the largest first */
	size_t *n_order;
	uint32_t **fill; /* what nodes are filled from: .order, or a part of it */
	size_t *n_fill;
	double max_cost_ratio; /* nodes take who costs no more there than so many times its worth */
	double *first_ratio;    /* of each shape, when all was left */
	uint32_t *unplaced;     /* replicas of each workload that have no place yet */
	uint32_t *unused_nodes; /* of each offer */
	uint64_t *memo;
	uint64_t fit_cost; /* what questions so far have cost */
	struct pack_open *open;
	size_t n_open, cap_open;
	bool stopped;
};

extern const uint32_t mps_min_replicas; /* the fewest replicas of a GPU under MPS */

int pack_shapes_make(struct packer *p, struct error *err) MUST_USE;

uint32_t *pack_shapes_all(const struct packer *p,
	struct error *err) MUST_USE; /* positions, malloc'ed */

/* What replicas of workload w take of one node of @o at least, of its GPUs, memory, processors ... */
enum { SHARE_MEMORY, SHARE_SLOT, SHARE_CPU, SHARE_RAM, SHARES };
/* Takes who has no replicas left out of .order. */
void pack_shapes_compact(struct packer *p);

/* What a replica costs on nodes of @s where only such are: INFINITY if it cannot be there. */
double pack_compute_cost(const struct packer *p, const struct pack_shape *s, uint32_t workload);

/* False: it can be on none of them. */
bool pack_compute_shares(const struct packer *p, uint32_t workload, size_t offer,
	double ret[SHARES]);

void node_plan_begin(struct node_plan *d, const struct pack_shape *shape);
bool node_plan_add(struct packer *p, struct node_plan *d, uint32_t workload);

/* Fills it with what of p->left fits, the largest first. p->left stays as it is. */
void node_plan_fill(struct packer *p, struct node_plan *d);

/* What a node of that shape takes now: sets its .ratio. */
void pack_rate_shape(struct packer *p, uint32_t shape, struct node_plan *d);

/* With the shapes of @use alone; opens nodes behind those that are open. */
int pack_solve_greedy(struct packer *p, const uint32_t *use, size_t n_use,
	struct error *err) MUST_USE;
int pack_improve_plan(struct packer *p, struct error *err) MUST_USE;
/*
 * The best that can be with these shapes, of which there are enough: up to PACK_EXACT_MAX replicas are left. @ask:
 * pack_may_continue() may say that it is to end; then nothing is opened.
 */
int pack_solve_exact(struct packer *p, const uint32_t *use, size_t n_use, bool ask,
	struct error *err) MUST_USE;
int64_t pack_compute_bound(const struct packer *p);

/* Kinds of nodes that the search chooses from: those that are likely to serve, .all, and some of them, .use. */
struct pack_kinds {
	uint32_t *all, *use;
	size_t n, n_use;
};

int pack_kinds_choose(struct pack_kinds *k, const struct packer *p, struct error *err) MUST_USE;
void pack_kinds_fini(struct pack_kinds *k);
void pack_kinds_add(struct pack_kinds *k, uint32_t shape); /* to .use, once */
void pack_kinds_draw(struct pack_kinds *k, size_t n, uint64_t *state);

/* Pseudo-random, below @below. */
uint64_t pack_draw_random(uint64_t *state, uint64_t below);

int memo_new(struct packer *p, struct error *err) MUST_USE;
/* Whether these can be on one GPU of such a node together. */
bool memo_check_fit(struct packer *p, const struct pack_shape *s, const uint32_t *workloads,
	uint32_t n);

bool pack_may_continue(struct packer *p, double done, int64_t nano_per_hour);
int pack_open_add(struct packer *p, const struct node_plan *d, struct error *err) MUST_USE;
int64_t pack_open_price(const struct packer *p);
