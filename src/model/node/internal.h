/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What GPUs and MIG devices of a node have in common. Inside src/model/node only.
 * Thread: any (pure).
 */
#include "model/node/node.h"

#define NODE_NONE UINT32_MAX /* no position */

/* One GPU of the next state, with its positions in the old state and in the new inventory. */
struct node_entry {
	struct node_gpu gpu;
	uint32_t old, seen; /* positions; UINT32_MAX: none */
};

/* Sets .fault and .reason (a copy, cut to its room) of @g, and clears .nvml_code. */
void node_set_gpu_fault(struct gpu *g, enum gpu_fault fault, const char *reason);
/* The persisted state of a GPU or MIG device that is new in this run; NULL: none. Borrowed from @n. */
const struct node_persisted *node_find_persisted(const struct node *n, const char *uuid,
	const char *profile);
/* @persisted: NULL, or the state to begin with. */
void node_start_health(struct health *h, const struct health_policy *p,
	const struct node_persisted *persisted, uint64_t now_ns);

/* --- MIG devices --- */

/* The MIG devices of the next state, under construction. */
struct node_migs {
	struct gpu_mig *mig; /* room for all known and seen devices */
	struct health *health;
	uint32_t n;
};

/*
 * Makes the MIG devices of the next state from @places, the GPUs of that state in their order. ERR_NOMEM: *to has
 * nothing to free.
 */
int node_make_migs(struct node_migs *to, const struct node *n, const struct health_policy *p,
	const struct inventory *seen, const struct node_entry *places, uint32_t n_places,
	uint64_t now_ns, struct error *err) MUST_USE;

/* Probes the health of all MIG devices. True if a health changed. */
bool node_probe_migs(struct node *n, const struct health_policy *p, uint64_t now_ns);

/* Whether the lists of MIG devices differ. */
bool node_migs_changed(const struct inventory *a, const struct inventory *b);

/* The position of the first MIG device of the GPU at position @gpu or later. The list is sorted by GPU. */
uint32_t node_first_mig(const struct inventory *inv, uint32_t gpu);

/* Removes the MIG devices of GPU @i, and renumbers the GPUs of the later devices. */
void node_forget_migs(struct node *n, uint32_t i);
