/* SPDX-License-Identifier: Apache-2.0 */

/*
 * gpuslice mig: the partition editor, with the commands, options, texts and exit statuses of
 * nvidia-mig-parted. A link named nvidia-mig-parted to this program serves the scripts made for that
 * program.
 */
#include "tools/cli/mig/tool.h"

#include <stdio.h>
#include <stdlib.h>

static const struct option_def options[] = { MIG_OPTION_DEBUG(MIG_DEBUG_SHOWS) };

static const struct cmd *const commands[] = { &mig_cmd_apply, &mig_cmd_assert,
	&mig_cmd_checkpoint, &mig_cmd_export, &mig_cmd_generate_config, &mig_cmd_list,
	&mig_cmd_restore, &mig_cmd_status, NULL };

/* `mig --debug apply` equals `mig apply --debug`: this function sets the variable that the command
 * reads. */
static int run_mig(const struct cmd *cmd, const struct options *o, struct error *err)
{
	(void)cmd;
	if (option_get(o, "debug")->source == OPTION_FROM_ARGS &&
		setenv("MIG_PARTED_DEBUG", option_bool(o, "debug", false) ? "true" : "false",
			/* overwrite= */ 1) < 0)
		return error_nomem(err);
	return 0;
}

const struct cmd cmd_mig = {
	.name = "mig",
	.usage = "[--debug] COMMAND [OPTION]...",
	.summary = "show and change how the GPUs of this node are cut by MIG",
	.description =
		"Takes NVIDIA's mig-parted configs. A change touches only the GPUs that differ, and of\n"
		"these only the instances that cannot stay; all is planned, and refused if it cannot be,\n"
		"before anything is destroyed.\n"
		"\n"
		"  gpuslice mig status\n"
		"  gpuslice mig apply -f config.yaml -c all-balanced --dry-run\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.option_flags = OPTIONS_STOP_AT_ARG,
	.commands = commands,
	.exit_code = EXIT_FAILURE,
	.run = run_mig,
};
