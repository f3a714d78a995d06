/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One step of a plan, done through NVML. Inside src/io/mig-editor only. Thread: one. */
#include "model/mig/plan.h"
#include "io/mig-editor/read.h"

/* Handles of the GPU instances that the steps of one plan have made, by step. */
struct mig_created {
	nvmlGpuInstance_t gi[MIG_STEPS_MAX];
};

#define MIG_STEP_PENDING 1 /* the mode is set but waits for a reset */

/*
 * Does step @i of @plan, which was made of g->pub->state as it was read last: that is not updated,
 * but for the mode. Returns 0 or MIG_STEP_PENDING; errors name the step and say what helps.
 */
int mig_step_apply(struct mig_session *s, struct mig_gpu *g, const struct mig_plan *plan,
	uint32_t i, struct mig_created *made, struct error *err) MUST_USE;
