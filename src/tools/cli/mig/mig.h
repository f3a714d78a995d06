/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the commands of `gpuslice mig` share. Thread: main. */
#include "io/config/mig/mig.h"
#include "io/mig-editor/editor.h"
#include "tools/cli/cmd.h"

#include <stdio.h>

/* --- commands, options and output --- */

/* The subcommands of `gpuslice mig`. */
extern const struct cmd mig_cmd_apply;
extern const struct cmd mig_cmd_assert;
extern const struct cmd mig_cmd_checkpoint;
extern const struct cmd mig_cmd_export;
extern const struct cmd mig_cmd_generate_config;
extern const struct cmd mig_cmd_list;
extern const struct cmd mig_cmd_restore;
extern const struct cmd mig_cmd_status;

/* Rows of several option tables; the help text is an argument where it differs. */
#define MIG_UNUSED      "accepted as other commands do, without effect"
#define MIG_DEBUG_SHOWS "show what hooks and nvidia-smi print"
#define MIG_OPTION_DEBUG(text)                                       \
	{                                                            \
		.name = "debug", .letter = 'd', .type = OPTION_BOOL, \
		.env = { "MIG_PARTED_DEBUG" }, .help = (text)        \
	}
#define MIG_OPTION_NVML                                                                        \
	{                                                                                      \
		.name = "nvml", .type = OPTION_STR, .env = { "GPUSLICE_NVML" }, .arg = "PATH", \
		.help = "NVML library, instead of the driver's"                                \
	}
#define MIG_OPTION_DRIVER_ROOT(text)                                                 \
	{                                                                            \
		.name = "driver-root", .type = OPTION_STR, .arg = "DIR", .def = "/", \
		.help = (text)                                                       \
	}

/*
 * Checks that the options @names (NULL-terminated) have a value. If not, prints the command's help, as
 * mig-parted does, and returns -1 with mig-parted's error text.
 */
int mig_tool_require(const struct cmd *cmd, const struct options *o, const char *const *names,
	struct error *err) MUST_USE;

/* Opens the NVML library that the options --nvml and --driver-root select. */
int mig_tool_open(struct mig_editor **ret, const struct options *o, struct error *err) MUST_USE;

/* Parses -o: *ret is true for "json", false for @other. Error texts are mig-parted's. */
int mig_tool_json(const struct options *o, const char *other, bool *ret,
	struct error *err) MUST_USE;

/* Prints "note: ..." on standard error, one line for each note. */
void mig_tool_notes(const struct strv *notes);

/* Prints @text and frees it. NULL: ERR_NOMEM. */
int mig_tool_print(char *text, struct error *err) MUST_USE;

/* --- progress --- */

/*
 * Reports the progress of a MIG change as it happens: text lines, or one JSON object per line
 * (docs/mig.md).
 */

struct mig_progress {
	FILE *to; /* NULL: no progress output */
	bool json;
	bool dry_run; /* report the steps of the plan only */
};

/* The plan of a GPU: its number of steps, and the MIG devices that stay. With .dry_run also each step. */
void mig_progress_planned(struct mig_progress *p, const struct mig_node_gpu *g,
	const struct mig_plan *plan);
/* Step @n of @of. @undo: the step restores the earlier layout after a failure. */
void mig_progress_step(struct mig_progress *p, const struct mig_node_gpu *g,
	const struct mig_step *s, uint32_t n, uint32_t of, bool undo);
/* The reset of the GPU begins. */
void mig_progress_resetting(struct mig_progress *p, const struct mig_node_gpu *g);
/*
 * The result of a GPU. @why: the reason, or NULL. The text form prints nothing for an unchanged GPU, which is
 * in the plan's line, and nothing for ERR_NOT_FOUND, which has a note.
 */
void mig_progress_gpu(struct mig_progress *p, const struct mig_node_gpu *g,
	enum mig_result result, const struct error *why);
/* Hook @name begins; @command is its command line. */
void mig_progress_hook(struct mig_progress *p, const char *name, const char *command);
/* A note. The text form goes to standard error, also without .to; .json requires .to. */
void mig_progress_note(struct mig_progress *p, const char *text);

/* The last line. @code: the name of an error class, or "reset-required"; "" if @ok. */
void mig_progress_end(struct mig_progress *p, bool ok, const char *code, const char *reason,
	uint64_t nvml_calls);
