/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the commands of `gpuslice mig` share. Thread: main. */
#include "tools/cli/cmd.h"
#include "io/config/mig/mig.h"
#include "io/mig-editor/editor.h"

extern const struct cmd mig_cmd_apply;
extern const struct cmd mig_cmd_assert;
extern const struct cmd mig_cmd_checkpoint;
extern const struct cmd mig_cmd_export;
extern const struct cmd mig_cmd_generate_config;
extern const struct cmd mig_cmd_list;
extern const struct cmd mig_cmd_restore;
extern const struct cmd mig_cmd_status;

/* Rows that many option tables have, with the help that is true there. */
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
 * Checks that the options @names (NULL-terminated) have a value; else prints the command's help, as
 * mig-parted does, and returns -1 with its text.
 */
int mig_tool_require(const struct cmd *cmd, const struct options *o, const char *const *names,
	struct error *err) MUST_USE;

/* Opens the NVML that the options --nvml and --driver-root name. */
int mig_tool_open(struct mig_editor **ret, const struct options *o, struct error *err) MUST_USE;

/* -o: true for "json", false for @other. Errors have mig-parted's words. */
int mig_tool_json(const struct options *o, const char *other, bool *ret,
	struct error *err) MUST_USE;

/* "note: ..." on standard error, a line each. */
void mig_tool_notes(const struct strv *notes);

/* Prints @text, which is freed; NULL is lack of memory. */
int mig_tool_print(char *text, struct error *err) MUST_USE;
