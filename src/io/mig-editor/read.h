/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads NVML into struct mig_node_gpu, with as few calls as possible. A GPU without room for more
 * instances is not queried for more. The default compute instance is queried first. Inside
 * src/io/mig-editor only. Thread: one.
 */
#include "io/mig-editor/session.h"

#define MIG_PIDS_MAX 16 /* processes listed by pid; further ones are only counted */

struct mig_client {
	uint32_t gi, ci; /* NVML_NO_INSTANCE: on the whole GPU */
	uint32_t pid;
};

/* A GPU and its NVML handles. .gi and .ci have the order of .pub->state. */
struct mig_gpu {
	struct mig_node_gpu *pub;
	struct mig_product *product; /* NULL: not MIG-capable, or not readable */
	nvmlDevice_t d;
	nvmlGpuInstance_t gi[MIG_GIS_MAX];
	nvmlComputeInstance_t ci[MIG_GIS_MAX][MIG_CIS_MAX];
	uint32_t n_clients; /* processes on the GPU, after mig_read_clients() */
	struct mig_client clients[MIG_PIDS_MAX];
};

/* Reads identity, mode and layout; with MIG on the instances too. */
int mig_read_gpu(struct mig_session *s, struct mig_gpu *g, uint32_t index,
	struct error *err) MUST_USE;

/* Reads mode and instances again, of a GPU that was read before. Clears .busy. */
int mig_read_state(struct mig_session *s, struct mig_gpu *g, struct error *err) MUST_USE;

/* Reads the layout, if it is not known yet. Returns 0 also if it stays unknown (.n 0). */
int mig_read_layout(struct mig_session *s, struct mig_gpu *g, struct error *err) MUST_USE;

/* Gets a new handle of the same GPU, after NVML was initialized again. */
int mig_read_handle(struct mig_session *s, struct mig_gpu *g, struct error *err) MUST_USE;

/* Reads the processes that use the GPU: fills .clients, and .busy of compute instances. */
int mig_read_clients(struct mig_session *s, struct mig_gpu *g, struct error *err) MUST_USE;

/*
 * The CI profile with @slices slices in the GI @gi of profile @profile. Queries @gi if the product
 * does not know. NULL with @err: there is none, or the query failed.
 */
const struct mig_ci_kind *mig_read_ci_kind(struct mig_session *s, struct mig_product *product,
	uint32_t profile, nvmlGpuInstance_t gi, uint32_t slices, struct error *err);
