/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is to be done on one GPU, and how far that is. Errors do not name the GPU: who tells them
 * does. Inside src/io/mig-editor only. Thread: one.
 */
#include "io/mig-editor/internal.h"
#include "io/mig-editor/step.h"

struct mig_job {
	struct mig_gpu *g;
	struct mig_desired desired;
	struct mig_state before; /* to go back to */
	struct mig_plan plan;    /* of the state as it was read last */
	struct mig_created made;
	uint32_t next;    /* step of the plan */
	uint32_t past;    /* steps of earlier plans that were done */
	bool has_desired; /* else it is left alone */
	bool blind;       /* its profiles are told when MIG is on: planned then */
	bool checked;     /* who uses it was looked at */
	bool undoing;     /* the plan leads back */
	bool touched;     /* a step was done */
	bool waits;       /* its mode, for a reset */
	bool announced;   /* the plan was told, with all its steps */
	bool ended;       /* the result was told */
};

/* Whether there are steps left, and the mode step among them (NULL: none). */
bool mig_job_has_steps(const struct mig_job *j);
const struct mig_step *mig_job_mode_step(const struct mig_job *j);

/* Asks what is wanted. 1: nothing, and @err says why. */
int mig_job_request_desired(struct mig_job *j, const struct mig_apply *a,
	struct error *err) MUST_USE;

/*
 * Plans from the state that was read last. Until .checked nothing counts as in use; of what is, the
 * refusal names the processes.
 */
int mig_job_plan(struct mig_job *j, const struct mig_apply *a, struct error *err) MUST_USE;

/* Reads the GPU again and plans. */
int mig_job_refresh(struct mig_job *j, struct mig_editor *e, const struct mig_apply *a,
	struct error *err) MUST_USE;

#define MIG_JOB_STOPPED 1

/*
 * Does the steps that are left; @mode_only: up to the one that sets the mode. 0: they are done
 * (.waits: the mode waits); MIG_JOB_STOPPED: somebody wants us to stop; errors name the step.
 */
int mig_job_run(struct mig_job *j, struct mig_editor *e, const struct mig_apply *a,
	bool mode_only, struct error *err) MUST_USE;

/* Whether the GPU is what was wanted, by reading it again. */
int mig_job_verify(struct mig_job *j, struct mig_editor *e, const struct mig_apply *a,
	struct error *err) MUST_USE;

/* Turns the job round: it leads to what was before, and is planned so. */
int mig_job_start_undo(struct mig_job *j, struct mig_editor *e, const struct mig_apply *a,
	struct error *err) MUST_USE;
