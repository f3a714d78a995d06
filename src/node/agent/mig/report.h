/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What `gpuslice mig apply -o json` prints, line by line: which GPUs the config is about and what of them stays,
 * the present step, and how the run ended. Lines of unknown events are skipped, so that a later tool may print
 * more. A line that is no object, or a known event with other types, is an error: the program is then not the
 * expected tool.
 * Thread: any (pure).
 */
#include "model/gpu/gpu.h"

#include <stddef.h>

#define MIG_LINE_MAX      65536 /* bytes of one line */
#define MIG_LINES_MAX     65536 /* of one run: 256 GPUs with 100 steps each, and more */
#define MIG_REMAINING_MAX 64    /* MIG devices of one GPU */
#define MIG_TEXT_MAX      256

enum mig_mode_change { MIG_MODE_UNCHANGED, MIG_MODE_ON, MIG_MODE_OFF };

struct mig_report_gpu {
	uint32_t index; /* NVML's */
	char uuid[GPU_UUID_MAX];
	uint32_t steps; /* of the last plan; 0: as desired */
	enum mig_mode_change mode;
	uint32_t n_remaining;
	struct {
		uint32_t gi, ci;
	} remaining[MIG_REMAINING_MAX];
	char result[16]; /* "" until it is known; "changed" */
	char reason[MIG_TEXT_MAX];
};

struct mig_report {
	uint32_t n, lines;
	struct mig_report_gpu *gpus;     /* in the order of the plan */
	char current_step[MIG_TEXT_MAX]; /* the last step or hook that began; "" */
	char note[MIG_TEXT_MAX];         /* of the last line, if that was a note; "" */
	bool stepped;                    /* a step has begun */
	bool ended, ok;
	char code[32]; /* error_class name, "reset-required" or "" */
	char reason[MIG_TEXT_MAX];
	uint64_t nvml_calls;
};

/* Takes one line, without its end. */
int mig_report_line(struct mig_report *r, const char *line, size_t len,
	struct error *err) MUST_USE;
void mig_report_fini(struct mig_report *r); /* empty again, for the next run */

/* Whether the config is about this GPU. */
bool mig_report_has(const struct mig_report *r, const char *uuid);

/* Whether any GPU has steps. */
bool mig_report_changes(const struct mig_report *r);
