/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside src/tools/plan/pack only. Thread: the owner's of the packer. */
#include "tools/plan/pack/pack.h"

/* A kind of node. */
struct pack_shape {
	const struct plan_offer *offer;
	uint32_t config; /* one class of GPUs with one way of sharing */
	enum plan_mode mode;
	uint32_t slots;
	/* Nano per hour: of a node, of each GPU, millicore and MiB. */
	double price, per_gpu, per_cpu, per_memory;
	double ratio; /* worth of the replicas for the price, at the last fill */
};

/* A node during filling, or a full one. */
struct pack_node {
	const struct pack_shape *shape;
	uint32_t cpu_milli, memory_mib; /* free on the host */
	uint32_t n;
	uint32_t n_on_gpu[PLAN_NODE_GPUS_MAX]; /* tenants of each GPU */
	float load[PLAN_NODE_GPUS_MAX];        /* sum of their sizes; a full GPU is about 1 */
	uint32_t workloads[PLAN_NODE_GPUS_MAX][PLAN_PODS_MAX];
	double worth;
};

/* Open nodes, in as few bytes as possible. */
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
	uint32_t *class; /* of each offer: offers with the same GPUs share a class */
	double *slot; /* of workload w on class c, [c * workloads + w]: the smallest share of a GPU that it can have */
	size_t n_configs;
	float *size; /* of workload w in config c, [c * workloads + w]: 1 / replicas on a GPU; > 1: does not fit */
	double *worth; /* of a replica of each workload: its lowest cost among its own kind */
	uint32_t **order; /* of each config: workloads that fit, the largest first */
	size_t *n_order;
	uint32_t **fill; /* the workloads to fill nodes from: .order, or a part of it */
	size_t *n_fill;
	double max_cost_ratio; /* limit for a replica's cost on a node, in multiples of its worth */
	double *first_ratio;    /* of each shape, before any replica was placed */
	uint32_t *unplaced;     /* replicas of each workload without a place */
	uint32_t *unused_nodes; /* of each offer */
	uint64_t *memo;
	uint64_t fit_cost; /* cost of all fit checks so far */
	struct pack_open *open;
	size_t n_open, room_open;
	bool stopped;
};

extern const uint32_t
	pack_mps_min_replicas; /* smallest number of replicas of a GPU under MPS */

/*
 * Fills the members of @p about shapes, classes, configs, sizes, worth and orders from p->s, p->fit and
 * p->unused_nodes. The caller frees them, also after an error. ERR_NOMEM.
 */
int pack_shapes_make(struct packer *p, struct error *err) MUST_USE;

/* The positions of all shapes; the caller frees the array. NULL: ERR_NOMEM. */
uint32_t *pack_shapes_all(const struct packer *p, struct error *err) MUST_USE;

/* Removes workloads without unplaced replicas from .order. */
void pack_shapes_compact(struct packer *p);

/* The cost of a replica on nodes of @s that hold only such replicas: INFINITY if it does not fit. */
double pack_compute_cost(const struct packer *p, const struct pack_shape *s, uint32_t workload);

/* Makes @plan an empty node of @shape, which must outlive it. */
void pack_node_begin(struct pack_node *plan, const struct pack_shape *shape);

/* Fills @plan with replicas of p->unplaced that fit, the largest first. p->unplaced stays unchanged. */
void pack_node_fill(struct packer *p, struct pack_node *plan);

/* Fills a node of that shape now, and sets the .ratio of the shape. */
void pack_rate_shape(struct packer *p, uint32_t shape, struct pack_node *plan);

/*
 * Places p->unplaced on nodes of the @n_use shapes @use alone. Appends the nodes to p->open and lowers p->unplaced.
 * Prefers the nodes that take the most worth for their price. ERR_NOMEM.
 */
int pack_solve_greedy(struct packer *p, const uint32_t *use, size_t n_use,
	struct error *err) MUST_USE;
/*
 * Makes a first plan and searches for a cheaper one, until the budget is spent or the caller stops. p->open has
 * the best plan found. ERR_NOMEM.
 */
int pack_improve_plan(struct packer *p, struct error *err) MUST_USE;
/*
 * The optimum with these shapes, without limits, for at most PACK_EXACT_MAX unplaced replicas. @ask:
 * pack_may_continue() can end the search; then no node is opened.
 */
int pack_solve_exact(struct packer *p, const uint32_t *use, size_t n_use, bool ask,
	struct error *err) MUST_USE;
/*
 * A lower bound for the price per hour, in nano-units, of any plan that places the same replicas as p->open. 0
 * if no replica is placed.
 */
int64_t pack_compute_bound(const struct packer *p);

/*
 * Whether one replica of each of the @n @workloads fits together on one GPU of a node of shape @s. A workload may
 * repeat. Caches the answer; raises p->fit_cost.
 */
bool pack_check_fit(struct packer *p, const struct pack_shape *s, const uint32_t *workloads,
	uint32_t n);

/*
 * Reports the progress @done, 0 to 1, and the present price to the setting's .go_on. False: the caller wants to
 * stop, now or earlier (p->stopped).
 */
bool pack_may_continue(struct packer *p, double done, int64_t nano_per_hour);
/* Appends a copy of @plan to p->open. ERR_NOMEM. */
int pack_open_add(struct packer *p, const struct pack_node *plan, struct error *err) MUST_USE;
/* The price of p->open, nano-units per hour; saturates at PRICE_SUM_MAX. */
int64_t pack_open_price(const struct packer *p);
