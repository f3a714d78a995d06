/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tells how a change of MIG goes on, as it happens: lines for people, or one JSON object a line for
 * programs (docs/mig.md). Thread: main.
 */
#include "io/mig-editor/editor.h"

#include <stdio.h>

struct mig_progress {
	FILE *to; /* NULL: nothing is told */
	bool json;
	bool dry_run; /* the plan's steps are all there is to tell */
};

void mig_progress_planned(struct mig_progress *p, const struct mig_node_gpu *g,
	const struct mig_plan *plan);
void mig_progress_step(struct mig_progress *p, const struct mig_node_gpu *g,
	const struct mig_step *s, uint32_t n, uint32_t of, bool undo);
void mig_progress_resetting(struct mig_progress *p, const struct mig_node_gpu *g);
void mig_progress_gpu(struct mig_progress *p, const struct mig_node_gpu *g,
	enum mig_result result, const struct error *why);
void mig_progress_hook(struct mig_progress *p, const char *name, const char *command);
void mig_progress_note(struct mig_progress *p, const char *text);

/* The last line. @code: name of an error class, or "reset-required"; "" if @ok. */
void mig_progress_end(struct mig_progress *p, bool ok, const char *code, const char *reason,
	uint64_t nvml_calls);
