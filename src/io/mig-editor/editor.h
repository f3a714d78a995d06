/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads and changes the MIG layout of a node through NVML: what `gpuslice mig` does. The agent runs
 * that program as a child, so that a driver that hangs or crashes costs it nothing, and a person
 * can run the same command.
 *
 *	read the node ─▶ plan each GPU (model/mig/plan.h) ─▶ refuse, or do the steps, GPU by GPU
 *	                                                  └─▶ a step fails: plan back to what it was
 *
 * All plans are made before the first step is done, so that what cannot be placed, and what is in
 * use, is refused while nothing has changed. One editor at a time works on a node (io/mig-editor/lock.h).
 * Killed at any point, it leaves instances that the next run takes as they are and goes on from.
 * Thread: one. Blocks as long as the driver does.
 */
#include "model/mig/config/config.h"
#include "model/mig/plan.h"

#include <signal.h>

struct mig_editor; /* an open NVML, and what was read of the node */

/* @nvml: path or SONAME of the library, see nvml_find(). Initialises NVML. */
int mig_editor_open(struct mig_editor **ret, const char *nvml, struct error *err) MUST_USE;
struct mig_editor *mig_editor_close(struct mig_editor *e); /* returns NULL */
DEFINE_CLEANUP(struct mig_editor *, mig_editor_close)

/* Calls of NVML functions so far. */
uint64_t mig_editor_calls(const struct mig_editor *e);

/* Processes that do not count as clients: who asks ends them before anything is changed. @pids stays there. */
void mig_editor_ignore(struct mig_editor *e, const uint32_t *pids, uint32_t n);

/*
 * Reads all GPUs; one that cannot be read has .fault. *ret is the editor's, and stays current while
 * it works. @clients: who uses them as well, for .busy.
 */
int mig_editor_read(struct mig_editor *e, bool clients, const struct mig_node **ret,
	struct error *err) MUST_USE;

/* Processes on GPU @index after a read with clients: sees each (gi and ci may be UINT32_MAX). */
void mig_editor_each_client(const struct mig_editor *e, uint32_t index,
	void (*visit)(void *arg, uint32_t gi, uint32_t ci, uint32_t pid), void *arg);

/* The name of GPU @index as NVML says it, for people; "" if it does not. */
void mig_editor_gpu_name(struct mig_editor *e, uint32_t index, char *ret, size_t cap);

/* UUIDs of the MIG devices of GPU @index. */
struct mig_device_id {
	uint32_t gi, ci;
	char uuid[96];
};
int mig_editor_device_ids(struct mig_editor *e, uint32_t index,
	struct mig_device_id ret[MIG_GIS_MAX * MIG_CIS_MAX], uint32_t *ret_n,
	struct error *err) MUST_USE;

enum mig_result {
	MIG_RESULT_SAME,    /* was as wanted */
	MIG_RESULT_CHANGED, /* is as wanted now */
	MIG_RESULT_PENDING, /* the mode waits for a reset */
	MIG_RESULT_SKIPPED, /* left alone, or not come to; the reason says why */
	MIG_RESULT_FAILED,  /* refused, or neither as wanted nor as it was */
	MIG_RESULT_UNDONE,  /* failed, and is what it was before */
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
 * What to do, who says it and who hears of it. .get_desired and .reset have to be there; the rest may be
 * NULL. .reset and .hook return < 0 with @err set.
 */
struct mig_apply {
	bool mode_only, skip_reset, force, dry_run;
	const volatile sig_atomic_t *stop; /* not 0: end after the step that is being done */

	/* 0: *ret is wanted; 1: leave the GPU alone, and @err says why; < 0: it cannot be. A layout
	 * with .n 0 is not known yet: nothing but .enabled counts then. */
	int (*get_desired)(void *arg, const struct mig_node_gpu *g, struct mig_desired *ret,
		struct error *err);
	/* Whether a hook has commands, and running them. */
	bool (*has_hook)(void *arg, enum mig_hook_point p);
	int (*hook)(void *arg, enum mig_hook_point p, struct error *err);
	/* Resets the GPUs of these PCI addresses. NVML is shut down. */
	int (*reset)(void *arg, const char *const *bus_ids, uint32_t n, struct error *err);

	/* Before the first step of any GPU; again for a GPU whose plan could not be known then. */
	void (*planned)(void *arg, const struct mig_node_gpu *g, const struct mig_plan *plan);
	/* Before each step, the n-th of @of. Of undoing: @undo. */
	void (*step)(void *arg, const struct mig_node_gpu *g, const struct mig_step *s,
		uint32_t n, uint32_t of, bool undo);
	void (*resetting)(void *arg, const struct mig_node_gpu *g);
	/* How it ended; @why does not name the GPU, and is NULL where all is well. */
	void (*gpu)(void *arg, const struct mig_node_gpu *g, enum mig_result result,
		const struct error *why);
	void (*note)(void *arg, const char *text);
	void *arg;
};

#define MIG_APPLY_PENDING 1 /* done, but that a mode waits for a reset */

/*
 * Makes the node what is wanted, from what was read just before, or else reads it. Returns 0 or MIG_APPLY_PENDING (with the reason in @err); < 0: the
 * first thing that went wrong, and each GPU's result was told. ERR_UNAVAILABLE: an instance in use
 * would have to go; ERR_LIMIT: it cannot be placed; ERR_CANCELLED: stopped.
 */
int mig_editor_apply(struct mig_editor *e, const struct mig_apply *a,
	struct error *err) MUST_USE;
