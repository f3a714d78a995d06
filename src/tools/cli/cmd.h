/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A command of the tool is a value: one file, one `const struct cmd`, and one row in the sorted table
 * in main.c. The help, the man page check and the completion read the same fields.
 */
#include "lib/base/option.h"

struct cmd {
	const char *name;        /* "config check": the command "config" with an argument */
	const char *usage;       /* "[--json]" */
	const char *summary;     /* one line, no full stop */
	const char *description; /* paragraphs and examples for --help; NULL: none */
	const struct option_def *options;
	size_t n_options;
	unsigned option_flags; /* enum options_flags */
	/* Subcommands, such as "mig apply"; NULL at the end; NULL: none. Without .alone, a .run that
	 * is not NULL runs before the subcommand, for the options before it. */
	const struct cmd *const *commands;
	bool alone;    /* with .commands: .run is the command without a subcommand */
	int exit_code; /* of every failure; 0: by the kind of error (tools/cli/exit-status.h) */
	/* Returns 0, an exit status > 0 after it has printed the reason, or < 0 with @err set. */
	int (*run)(const struct cmd *cmd, const struct options *o, struct error *err);
};

/* Prints the text of --help. Returns an exit status. */
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
