/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Functions and options that the commands of `gpuslice mig` share. Thread: main. */
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
