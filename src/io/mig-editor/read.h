/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From NVML to struct mig_node_gpu, with as few calls as the answer needs: a GPU that is full of
 * instances found so far is not asked for more, and the default compute instance is looked for
 * first. Inside src/io/mig-editor only. Thread: one.
 */
#include "io/mig-editor/session.h"

#define MIG_PIDS_MAX 16 /* processes that are told by number; more are only counted */

struct mig_client {
	uint32_t gi, ci; /* NVML_NO_INSTANCE: of the whole GPU */
	uint32_t pid;
};

/* A GPU and NVML's handles of it; those of instances stand as in .gpu->state. */
struct mig_gpu {
	struct mig_node_gpu *pub;
	struct mig_product *product; /* NULL: not MIG-capable, or could not be read */
	nvmlDevice_t d;
	nvmlGpuInstance_t gi[MIG_GIS_MAX];
	nvmlComputeInstance_t ci[MIG_GIS_MAX][MIG_CIS_MAX];
	uint32_t n_clients; /* processes on it, after mig_read_clients() */
	struct mig_client clients[MIG_PIDS_MAX];
};

/* Identity, mode and layout; the instances too if MIG is on. */
int mig_read_gpu(struct mig_session *s, struct mig_gpu *g, uint32_t index,
	struct error *err) MUST_USE;

/* The mode and the instances again, for a GPU that was read before. .busy is false after it. */
int mig_read_state(struct mig_session *s, struct mig_gpu *g, struct error *err) MUST_USE;

/* The layout, if it is not known yet. 0: it may still be unknown (.n 0). */
int mig_read_layout(struct mig_session *s, struct mig_gpu *g, struct error *err) MUST_USE;

/* A new handle of the same GPU, after NVML was initialised again. */
int mig_read_handle(struct mig_session *s, struct mig_gpu *g, struct error *err) MUST_USE;

/* Who uses the GPU: fills .clients and .busy of compute instances. */
int mig_read_clients(struct mig_session *s, struct mig_gpu *g, struct error *err) MUST_USE;

/*
 * The CI profile for @slices slices in the GI @gi of profile @profile, which is asked if the product
 * does not know. NULL with @err: it has none.
 */
const struct mig_ci_kind *mig_read_ci_kind(struct mig_session *s, struct mig_product *product,
	uint32_t profile, nvmlGpuInstance_t gi, uint32_t slices, struct error *err);
