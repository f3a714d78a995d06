/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the next pod goes: one decision at a time, on a cluster whose pods ask for whole GPUs or for a
 * part of one. Whole decisions are pure; nothing here reads a clock or a file.
 *
 * All quantities are whole numbers: processors and GPUs in thousandths, memory in MiB.
 * Thread: any; a cluster and what is made for it belong to one thread.
 */
#include "lib/base/cleanup.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLACE_WHOLE      1000 /* thousandths of one GPU */
#define PLACE_GPUS_MAX   16   /* of one node */
#define PLACE_MODELS_MAX 64   /* of GPUs in one cluster: a bit each */
#define PLACE_NODES_MAX  100000
#define PLACE_TYPES_MAX  20000 /* of pods in one mix */
#define PLACE_ANY_MODEL  UINT64_MAX
#define PLACE_NO_GPU     UINT32_MAX

/* What a pod asks for. */
struct place_pod {
	uint64_t models; /* bit m: may run on GPUs of model m */
	uint32_t cpu_milli, memory_mib;
	uint32_t gpus;
	uint32_t
		gpu_milli; /* of each: PLACE_WHOLE, or less where .gpus is 1; 0 where it is 0 */
};

/* What is free on a node. */
struct place_node {
	uint32_t cpu_milli, memory_mib;
	uint16_t model;
	uint16_t gpus;
	uint16_t free_milli[PLACE_GPUS_MAX];
};

/* .gpu: which GPU has the part; PLACE_NO_GPU: whole ones, the first that are free, or none. */
struct place_choice {
	size_t node;
	uint32_t gpu;
};

bool place_fits(const struct place_node *n, const struct place_pod *p);

/* Takes what @p asks for, which fits. */
void place_allocate(struct place_node *n, const struct place_pod *p, uint32_t gpu);

/* What of one node's GPUs is asked for or free, in thousandths. */
uint32_t place_get_demand(const struct place_pod *p);
uint32_t place_get_free(const struct place_node *n);

/* The GPU with the least free that has room for @p; PLACE_NO_GPU for pods that ask for no part. */
uint32_t place_tightest(const struct place_node *n, const struct place_pod *p);

/* ---- mixes ------------------------------------------------------------------------------------ */

/* A kind of pod, and how often it comes. */
struct place_type {
	struct place_pod pod;
	double weight; /* > 0; only the ratios count */
};

/* Adds up the equal ones among @types, sorted; returns how many are left. */
size_t place_types_merge(struct place_type *types, size_t n);

/* ---- policies --------------------------------------------------------------------------------- */

struct place_policy;

/* What a policy is made from. */
struct place_setting {
	const struct place_node *nodes; /* borrowed, and looked at in each decision */
	size_t n_nodes;
	const struct place_type
		*types; /* the mix that is expected: read once; none is a mix too */
	size_t n_types;
	uint64_t seed; /* of those that draw */
};

/* The names, best first, and one sentence about each. */
struct place_policy_info {
	const char *name, *about;
};
extern const struct place_policy_info place_policies[];
extern const size_t place_n_policies;

/* ERR_NOT_FOUND: no policy @name, and which there are. */
int place_policy_new(struct place_policy **ret, const char *name, const struct place_setting *s,
	struct error *err) MUST_USE;
struct place_policy *place_policy_free(struct place_policy *p); /* returns NULL */
DEFINE_CLEANUP(struct place_policy *, place_policy_free)

/* False: @pod fits on no node. The caller takes it with place_allocate() and says so. */
bool place_decide(struct place_policy *p, const struct place_pod *pod,
	struct place_choice *ret);

/* Node @i is not what it was when the policy last looked. */
void place_notify_change(struct place_policy *p, size_t i);
