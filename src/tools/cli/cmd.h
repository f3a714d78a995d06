/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A command of the tool is a value: one file, one `const struct cmd`, one row in the sorted table
 * in main.c. Help, man page check and completion read the same fields.
 */
#include "lib/base/option.h"

struct cmd {
	const char *name;        /* "config check" is the command "config" with an argument */
	const char *usage;       /* "[--json]" */
	const char *summary;     /* one line, no full stop */
	const char *description; /* more for --help: paragraphs, examples; NULL: none */
	const struct option_def *options;
	size_t n_options;
	unsigned option_flags; /* enum options_flags */
	/* Ends with NULL: commands of its own, named "mig apply"; .run is then never called, but for
	 * the options before the command, if there are any. NULL: none. */
	const struct cmd *const *commands;
	bool alone;    /* with .commands: .run is what the command does without one of them */
	int exit_code; /* of every failure; 0: by the kind of error (tools/cli/exit-status.h) */
	/* Returns 0, an exit code > 0 that it has explained itself, or < 0 with @err set. */
	int (*run)(const struct cmd *cmd, const struct options *o, struct error *err);
};

/* Prints what --help prints. Returns an exit code. */
int cmd_help(const struct cmd *cmd);

extern const struct cmd cmd_bench;
extern const struct cmd cmd_cdi;
extern const struct cmd cmd_config;
extern const struct cmd cmd_cost;
extern const struct cmd cmd_demo;
extern const struct cmd cmd_kubelet;
extern const struct cmd cmd_labels;
extern const struct cmd cmd_mig;
extern const struct cmd cmd_plan;
extern const struct cmd cmd_profile;
extern const struct cmd cmd_sim;
extern const struct cmd cmd_status;
extern const struct cmd cmd_top;
extern const struct cmd cmd_validate;
