/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reports the progress of a MIG change as it happens: text lines, or one JSON object per line
 * (docs/mig.md). Thread: main.
 */
#include "io/mig-editor/editor.h"

#include <stdio.h>

struct mig_progress {
	FILE *to; /* NULL: no progress output */
	bool json;
	bool dry_run; /* report the steps of the plan only */
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

/* The last line. @code: the name of an error class, or "reset-required"; "" if @ok. */
void mig_progress_end(struct mig_progress *p, bool ok, const char *code, const char *reason,
	uint64_t nvml_calls);
