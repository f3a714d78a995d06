/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the next pod goes: one decision at a time, on a cluster with pods that request whole GPUs or a fraction of
 * one. Decisions are pure: no clock, no file. All quantities are whole numbers: processors and GPUs in
 * thousandths, memory in MiB.
 *
 * Thread: any; a cluster and the policies made for it belong to one thread.
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

/* The request of a pod. */
struct place_pod {
	uint64_t models; /* bit m: may run on GPUs of model m */
	uint32_t cpu_milli, memory_mib;
	uint32_t gpus;
	/* Of each GPU: PLACE_WHOLE, or less if .gpus is 1; 0 if .gpus is 0. */
	uint32_t gpu_milli;
};

/* The free resources of a node. */
struct place_node {
	uint32_t cpu_milli, memory_mib;
	uint16_t model;
	uint16_t gpus;
	uint16_t free_milli[PLACE_GPUS_MAX];
};

/* .gpu: the GPU with the fraction; PLACE_NO_GPU: whole GPUs, the first free ones, or none. */
struct place_choice {
	size_t node;
	uint32_t gpu;
};

/* Whether the free resources of @n suffice for @p, and its model is allowed. */
bool place_fits(const struct place_node *n, const struct place_pod *p);

/* Takes the request of @p, which fits. */
void place_allocate(struct place_node *n, const struct place_pod *p, uint32_t gpu);

/* Requested or free GPU of one node, thousandths. */
uint32_t place_get_demand(const struct place_pod *p);
uint32_t place_get_free(const struct place_node *n);

/* The GPU with the least free that has room for @p; PLACE_NO_GPU if @p requests no fraction. */
uint32_t place_tightest(const struct place_node *n, const struct place_pod *p);

/* --- mixes --- */

/* A kind of pod, and how often it arrives. */
struct place_type {
	struct place_pod pod;
	double weight; /* > 0; only the ratios matter */
};

/* Sorts @types and merges equal ones; returns the number left. */
size_t place_types_merge(struct place_type *types, size_t n);

/* --- policies --- */

struct place_policy;

/* The input of a policy. */
struct place_setting {
	const struct place_node *nodes; /* borrowed; each decision reads them */
	size_t n_nodes;
	const struct place_type *types; /* the expected mix, read once; may be empty */
	size_t n_types;
	uint64_t seed; /* for random policies */
};

/* Best first. */
extern const char *const place_policy_names[];
extern const size_t place_n_policies;

/* ERR_NOT_FOUND: no policy @name; the text lists the policies. */
int place_policy_new(struct place_policy **ret, const char *name, const struct place_setting *s,
	struct error *err) MUST_USE;
struct place_policy *place_policy_free(struct place_policy *p); /* returns NULL */
DEFINE_CLEANUP(struct place_policy *, place_policy_free)

/* False: @pod fits on no node. The caller then calls place_allocate() and place_notify_change(). */
bool place_decide(struct place_policy *p, const struct place_pod *pod,
	struct place_choice *ret);

/* Node @i has changed since the policy last read it. */
void place_notify_change(struct place_policy *p, size_t i);
