/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The interface between view-sample.c, which builds views, and view-nodes.c, which has the nodes. A node begins a
 * GPU, then its devices, each with its replicas, its usage in the view's order, and its end, which makes the sums
 * consistent. Thread: any.
 */
#include "support/view-sample.h"

struct sample_maker {
	struct view *v;
	uint64_t gpu_price; /* nano-units per hour of one GPU; 0: no price */
	uint64_t memory;    /* of the GPU that is built */
};

struct sample_place {
	const char *profile;
	uint32_t gi, ci, start, size, memory_start, memory_size;
};

struct sample_replica {
	const char *resource;  /* NULL: the device's */
	uint32_t share;        /* millionths of the device */
	uint64_t memory_limit; /* 0: none */
};

struct sample_use_row {
	const char *namespace_, *pod, *container;
	const char *resource;     /* NULL: the device's */
	uint32_t n_used_replicas; /* 0: one */
	uint32_t memory_mib;
	uint32_t received; /* millionths of the GPU */
	uint64_t allocated_s, ended_s;
};

struct view_gpu *sample_gpu(struct sample_maker *m, const char *name, uint64_t memory);
struct view_device *sample_device_of_gpu(struct sample_maker *m, enum view_mode mode,
	const char *resource);
struct view_device *sample_device_mig(struct sample_maker *m, enum view_mode mode,
	const char *resource, const struct sample_place *at);
void sample_replicas(struct sample_maker *m, uint32_t n, const struct sample_replica *replicas);
struct view_use *sample_use(struct sample_maker *m, const struct sample_use_row *row);
void sample_slice(struct sample_maker *m, struct view_use *c, const struct view_slice *from);
void sample_device_end(struct sample_maker *m, uint32_t busy);
void sample_resources(struct sample_maker *m);

/* view-nodes.c: fills the GPUs of @kind. */
void sample_node(struct sample_maker *m, enum view_sample_kind kind);
