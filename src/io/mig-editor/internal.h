/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the files of the editor. Inside src/io/mig-editor only. Thread: one. */
#include "model/mig/config/config.h"
#include "io/nvml/nvml.h"
#include "io/mig-editor/editor.h"

/* --- one NVML session --- */

/* The open library, the number of calls, and the known facts of each product. So of eight GPUs of one product
 * the editor queries the profiles once. */

/* NVML's enumerators to try; NVML reports where they end. */
#define MIG_NUMBERS_MAX  64
#define MIG_PRODUCTS_MAX 16
#define MIG_CI_KINDS_MAX 16 /* CI profiles of one GI profile */

struct mig_ci_kind {
	uint32_t number, id, slices, multiprocessors;
};

/* The CI profiles of one GI profile. NVML reports them for a GI only, and there may be none yet. */
struct mig_ci_kinds {
	bool known; /* all of them; otherwise at most the one over the whole GI */
	uint32_t n;
	struct mig_ci_kind kinds[MIG_CI_KINDS_MAX]; /* in the order of numbers */
};

struct mig_product {
	struct mig_pci pci;
	struct mig_layout layout; /* .n 0: unknown, as GPUs may not report it with MIG off */
	struct mig_ci_kinds ci[MIG_PROFILES_MAX]; /* by position in the layout */
};

struct mig_session {
	struct nvml nvml;
	bool up; /* nvmlInit_v2() was called */
	uint64_t calls;
	const uint32_t *ignored; /* processes that do not count as clients; borrowed */
	uint32_t n_ignored;
	uint32_t n_products;
	struct mig_product products[MIG_PRODUCTS_MAX];
};

/* Calls NVML and counts the call. */
#define MIG_CALL(s, name, ...) ((s)->calls++, (s)->nvml.name(__VA_ARGS__))

/* MIG_CALL(), as 0 or -1: a result other than SUCCESS fills @err. */
#define MIG_TRY(s, err, name, ...) \
	mig_session_result((s), (err), NVML_CALL_##name, MIG_CALL(s, name, __VA_ARGS__))

/* 0 for SUCCESS. Else -1, and @err names the @call and @r. For MIG_TRY(). */
int mig_session_result(const struct mig_session *s, struct error *err, enum nvml_call call,
	nvmlReturn_t r) MUST_USE;

/* Initializes NVML for the open library, and counts the call. */
int mig_session_start(struct mig_session *s, struct error *err) MUST_USE;
void mig_session_stop(struct mig_session *s); /* keeps the library, ends all handles */

/* --- reading --- */

/* Reads NVML into struct mig_node_gpu, with as few calls as possible. A GPU without room for more instances is
 * not queried for more. The default compute instance is queried first. */

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

/* --- the editor --- */

struct mig_editor {
	struct mig_session session;
	struct mig_node node;
	struct mig_gpu *gpus; /* in the order of node.gpus */
	bool fresh;           /* the node was read, and no step followed */
};

/* Reads the mode and the instances of GPU @g again; with @clients its processes as well. < 0: @err
 * is set, .fault of the GPU is not. */
int mig_editor_refresh_gpu(struct mig_editor *e, struct mig_gpu *g, bool clients,
	struct error *err) MUST_USE;

/* Starts NVML again and gets new handles of all GPUs; a failure for one GPU sets its .fault. The
 * caller reads the instances again. */
int mig_editor_restart(struct mig_editor *e, struct error *err) MUST_USE;
