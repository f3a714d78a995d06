/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Does one step of a plan through NVML. Inside src/io/mig-editor only. Thread: one. */
#include "model/mig/plan.h"
#include "io/mig-editor/read.h"

/* Handles of the GPU instances that the steps of one plan made, by step. */
struct mig_created {
	nvmlGpuInstance_t gi[MIG_STEPS_MAX];
};

#define MIG_STEP_PENDING 1 /* the mode is set but waits for a reset */

/*
 * Does step @i of @plan. The plan is from g->pub->state of the last read. The step updates only the
 * mode there. Returns 0 or MIG_STEP_PENDING. Errors name the step and the remedy.
 */
int mig_step_apply(struct mig_session *s, struct mig_gpu *g, const struct mig_plan *plan,
	uint32_t i, struct mig_created *made, struct error *err) MUST_USE;
