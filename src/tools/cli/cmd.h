/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A command of the tool is a value: a file of its own with one `const struct cmd`, declared at the end of this
 * header, named in the sorted table in main.c and in meson.build. The help and the check of the man page read its
 * fields.
 * Thread: main.
 */
#include "lib/base/option.h"

/*
 * Exit statuses of every command, as in gpuslice(1):
 *	0         success, and no finding
 *	1         the command did its work, and the answer is no: EXIT_FINDING
 *	2 to 12   the command could not do its work, by the kind of error (lib/base/error.c); 2 is wrong usage
 *	          or invalid input
 *	13        the command did its work, and some of the answer is unknown: EXIT_INCONCLUSIVE
 *	70        a bug (lib/base/error.c)
 *
 * SIGPIPE ends a command whose output the reader has closed, as usual. `gpuslice mig` replaces
 * nvidia-mig-parted, so all its failures have that program's status 1: struct cmd has .exit_code for this.
 */
#define EXIT_FINDING      1
#define EXIT_INCONCLUSIVE 13

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
	int exit_code; /* of every failure; 0: by the kind of error */
	/* Returns 0, an exit status > 0 after it has printed the reason, or < 0 with @err set. */
	int (*run)(const struct cmd *cmd, const struct options *o, struct error *err);
};

/* Prints the text of --help. Returns an exit status. */
int cmd_help(const struct cmd *cmd);

/* All commands of the tool, sorted by name. */
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
extern const struct cmd cmd_simulate;
extern const struct cmd cmd_status;
extern const struct cmd cmd_top;
extern const struct cmd cmd_validate;
