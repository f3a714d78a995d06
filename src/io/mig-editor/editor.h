/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads and changes the MIG layout of a node through NVML, for `gpuslice mig`. The agent runs that
 * program as a child: a driver that hangs or crashes then does not stop the agent. A person can run
 * the same command.
 *
 *	read the node ─▶ plan each GPU (model/mig/plan.h) ─▶ refuse, or do the steps, GPU by GPU
 *	                                                  └─▶ a step fails: plan back to the state before
 *
 * Order. The editor makes all plans before the first step. So it refuses an impossible layout, and
 * instances in use, while nothing has changed. apply.c has the whole order.
 *
 * Exclusion. One editor at a time works on a node (io/mig-editor/lock.h).
 *
 * Crash safety. An editor may be killed at any point. The next run reads the instances that are left
 * as the actual state, and continues from there.
 * Thread: one. Blocks as long as the driver does.
 */
#include "model/mig/config/config.h"
#include "model/mig/plan.h"

#include <signal.h>

struct mig_editor; /* an open NVML, and the state of the node */

/* @nvml: path or SONAME of the library, see nvml_find(). Initializes NVML. */
int mig_editor_open(struct mig_editor **ret, const char *nvml, struct error *err) MUST_USE;
struct mig_editor *mig_editor_close(struct mig_editor *e); /* returns NULL */
DEFINE_CLEANUP(struct mig_editor *, mig_editor_close)

/* Number of NVML calls so far. */
uint64_t mig_editor_calls(const struct mig_editor *e);

/* Processes that do not count as clients: the caller ends them before a change. The editor borrows
 * @pids until its end. */
void mig_editor_ignore(struct mig_editor *e, const uint32_t *pids, uint32_t n);

/*
 * Reads all GPUs; a GPU that cannot be read has .fault. *ret belongs to the editor, which keeps it
 * current during a change. @clients: also reads the processes that use the GPUs, for .busy.
 */
int mig_editor_read(struct mig_editor *e, bool clients, const struct mig_node **ret,
	struct error *err) MUST_USE;

/* Visits each process on GPU @index, after a read with clients. @gi and @ci may be UINT32_MAX. At
 * most 16 processes. */
void mig_editor_each_client(const struct mig_editor *e, uint32_t index,
	void (*visit)(void *arg, uint32_t gi, uint32_t ci, uint32_t pid), void *arg);

/* The name of GPU @index from NVML, for display; "" if NVML reports none. */
void mig_editor_gpu_name(struct mig_editor *e, uint32_t index, char *ret, size_t cap);

struct mig_device_id {
	uint32_t gi, ci;
	char uuid[96];
};
/* Reads the UUIDs of the MIG devices of GPU @index, after mig_editor_read(). *ret_n: their number, valid also
 * after an error. */
int mig_editor_device_ids(struct mig_editor *e, uint32_t index,
	struct mig_device_id ret[MIG_GIS_MAX * MIG_CIS_MAX], uint32_t *ret_n,
	struct error *err) MUST_USE;

enum mig_result {
	MIG_RESULT_SAME,    /* unchanged: was as desired */
	MIG_RESULT_CHANGED, /* changed to the desired state */
	MIG_RESULT_PENDING, /* the mode waits for a reset */
	MIG_RESULT_SKIPPED, /* left alone, or not reached; @why has the reason */
	MIG_RESULT_FAILED,  /* refused, or neither as desired nor as before */
	MIG_RESULT_UNDONE,  /* failed, and restored to the state before */
	MIG_RESULT_COUNT_,
};

const char *mig_result_name(enum mig_result r); /* "same"; static */

enum mig_hook_point {
	MIG_HOOK_APPLY_START,
	MIG_HOOK_PRE_APPLY_MODE,
	MIG_HOOK_PRE_APPLY_CONFIG,
	MIG_HOOK_APPLY_EXIT,
};

const char *mig_hook_point_name(enum mig_hook_point p); /* "apply-start"; static */

/*
 * What to do, the source of the desired state, and the receiver of reports. .get_desired and .reset
 * are required; the other callbacks may be NULL. .reset and .hook return < 0 with @err set.
 */
struct mig_apply {
	bool mode_only, skip_reset, force, dry_run;
	const volatile sig_atomic_t *stop; /* other than 0: end after the present step */

	/* 0: *ret is the desired state. 1: leave the GPU alone, @err has the reason. < 0:
	 * impossible. The layout of @g may be unknown (.n 0): then only .enabled of *ret counts. */
	int (*get_desired)(void *arg, const struct mig_node_gpu *g, struct mig_desired *ret,
		struct error *err);
	/* Whether a hook has commands; runs them. */
	bool (*has_hook)(void *arg, enum mig_hook_point p);
	int (*hook)(void *arg, enum mig_hook_point p, struct error *err);
	/* Resets the GPUs with these PCI addresses. NVML is shut down during the call. */
	int (*reset)(void *arg, const char *const *bus_ids, uint32_t n, struct error *err);

	/* Reports a plan before the first step of any GPU; again for a GPU whose profiles were not
	 * known then. */
	void (*planned)(void *arg, const struct mig_node_gpu *g, const struct mig_plan *plan);
	/* Reports each step, the @n-th of @of, before it. @undo: the step restores the state before. */
	void (*step)(void *arg, const struct mig_node_gpu *g, const struct mig_step *s,
		uint32_t n, uint32_t of, bool undo);
	void (*resetting)(void *arg, const struct mig_node_gpu *g);
	/* Reports the result. @why does not name the GPU; NULL: no failure. */
	void (*gpu)(void *arg, const struct mig_node_gpu *g, enum mig_result result,
		const struct error *why);
	void (*note)(void *arg, const char *text);
	void *arg;
};

#define MIG_APPLY_PENDING 1 /* done, except that a mode waits for a reset */

/*
 * Changes the node to the desired state. Uses the state of a mig_editor_read() just before, or else
 * reads the node. Reports the result of each GPU. Returns 0, or MIG_APPLY_PENDING with the reason in
 * @err. < 0: the first failure; among others ERR_UNAVAILABLE: an instance in use would have to go;
 * ERR_LIMIT: the layout cannot be placed; ERR_CANCELLED: stopped.
 */
int mig_editor_apply(struct mig_editor *e, const struct mig_apply *a,
	struct error *err) MUST_USE;
