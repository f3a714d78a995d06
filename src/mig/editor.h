/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads and changes the MIG layout of a node through NVML: what `gpuslice mig` does. The agent runs
 * that program as a child, so that a driver that hangs or crashes costs it nothing, and a person
 * can run the same command.
 *
 *	read the node ─▶ plan each GPU (core/mig/plan.h) ─▶ refuse, or do the steps, GPU by GPU
 *	                                                  └─▶ a step fails: plan back to what it was
 *
 * All plans are made before the first step is done, so that what cannot be placed, and what is in
 * use, is refused while nothing has changed. One editor at a time works on a node (a lock file).
 * Killed at any point, it leaves instances that the next run takes as they are and goes on from.
 * Thread: one. Blocks as long as the driver does.
 */
#include "core/mig/config.h"
#include "core/mig/plan.h"
#include "gpu/nvml.h"

/* Reads all GPUs; one that cannot be read has .fault. NVML is initialised. */
int mig_read_node(const struct nvml *nvml, struct mig_node *ret, struct error *err) MUST_USE;
void mig_node_fini(struct mig_node *node);

enum mig_result { MIG_RESULT_SAME, MIG_RESULT_CHANGED, MIG_RESULT_PENDING, MIG_RESULT_SKIPPED,
	MIG_RESULT_FAILED, MIG_RESULT_UNDONE };

/* Told as it goes. Each may be NULL. */
struct mig_progress {
	/* Before the first step of any GPU: what will be done. */
	void (*planned)(void *arg, const struct mig_node_gpu *g, const struct mig_plan *plan);
	void (*step)(void *arg, const struct mig_node_gpu *g, const struct mig_step *s);
	void (*gpu)(void *arg, const struct mig_node_gpu *g, enum mig_result result,
		const struct error *why);
	void (*note)(void *arg, const char *text);
	void *arg;
};
