/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The desired state of one GPU, and the progress to it. Errors do not name the GPU: the function that
 * reports them does. Inside src/io/mig-editor only. Thread: one.
 */
#include "model/mig/plan.h"
#include "io/mig-editor/internal.h"

/* Handles of the GPU instances that the steps of one plan made, by step. */
struct mig_created {
	nvmlGpuInstance_t gi[MIG_STEPS_MAX];
};

struct mig_job {
	struct mig_gpu *g;
	struct mig_desired desired;
	struct mig_state before; /* target of an undo */
	struct mig_plan plan;    /* from the state of the last read */
	struct mig_created made;
	uint32_t next;    /* next step of the plan */
	uint32_t past;    /* completed steps of earlier plans */
	bool has_desired; /* false: the GPU is left alone */
	bool blind;       /* reports its profiles only with MIG on; planned then */
	bool checked;     /* the clients were read */
	bool undoing;     /* the plan leads to .before */
	bool touched;     /* a step was started */
	bool waits;       /* the mode waits for a reset */
	bool announced;   /* the complete plan was reported */
	bool ended;       /* the result was reported */
};

/* Whether there are steps left; the mode step among them (NULL: none). */
bool mig_job_has_steps(const struct mig_job *j);
const struct mig_step *mig_job_mode_step(const struct mig_job *j);

/* Requests the desired state. 1: leave the GPU alone, @err has the reason. < 0: impossible. */
int mig_job_request_desired(struct mig_job *j, const struct mig_apply *a,
	struct error *err) MUST_USE;

/*
 * Plans from the state of the last read. Until .checked no instance counts as in use. A refusal
 * because of a client names the processes.
 */
int mig_job_plan(struct mig_job *j, const struct mig_apply *a, struct error *err) MUST_USE;

/* Reads the GPU again and plans. */
int mig_job_refresh(struct mig_job *j, struct mig_editor *e, const struct mig_apply *a,
	struct error *err) MUST_USE;

#define MIG_JOB_STOPPED 1

/*
 * Does the remaining steps; @mode_only: up to the step that sets the mode. 0: done (.waits: the mode
 * waits). MIG_JOB_STOPPED: .stop of struct mig_apply is set. Errors name the step.
 */
int mig_job_run(struct mig_job *j, struct mig_editor *e, const struct mig_apply *a,
	bool mode_only, struct error *err) MUST_USE;

/* Reads the GPU again and compares it with the desired state. */
int mig_job_verify(struct mig_job *j, struct mig_editor *e, const struct mig_apply *a,
	struct error *err) MUST_USE;

/* Makes the state before the run the desired one, and plans. */
int mig_job_start_undo(struct mig_job *j, struct mig_editor *e, const struct mig_apply *a,
	struct error *err) MUST_USE;
