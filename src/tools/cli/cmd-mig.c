/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpuslice mig: the partition editor, with the commands, options, texts and exit statuses of
 * nvidia-mig-parted. A link named nvidia-mig-parted to this program serves the scripts made for that
 * program.
 */
#include "tools/cli/mig/mig.h"

#include "io/nvml/nvml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what the commands share --- */

int mig_tool_require(const struct cmd *cmd, const struct options *o, const char *const *names,
	struct error *err)
{
	char list[256] = "";
	size_t len = 0;

	for (; *names; names++) {
		const char *value = option_str(o, *names, NULL);

		if ((!value || !*value) && len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
				len ? ", " : "", *names);
	}
	if (!len)
		return 0;
	(void)cmd_help(cmd);
	(void)fflush(stdout);
	return error_set(err, ERR_INVALID, "missing required flags '%s'", list);
}

int mig_tool_open(struct mig_editor **ret, const struct options *o, struct error *err)
{
	char path[PATH_MAX];

	if (nvml_find(path, option_str(o, "nvml", NULL), option_str(o, "driver-root", NULL),
		    err) < 0)
		return -1;
	return mig_editor_open(ret, path, err);
}

int mig_tool_json(const struct options *o, const char *other, bool *ret, struct error *err)
{
	const char *word = option_str(o, "output-format", other);

	if (strcmp(word, "json") != 0 && strcmp(word, other) != 0)
		return error_set(err, ERR_INVALID, "unrecognized 'output-format': %s", word);
	*ret = !strcmp(word, "json");
	return 0;
}

void mig_tool_notes(const struct strv *notes)
{
	for (size_t i = 0; i < notes->n; i++)
		(void)fprintf(stderr, "note: %s\n", notes->v[i]);
}

int mig_tool_print(char *text, struct error *err)
{
	int r;

	if (!text)
		return error_nomem(err);
	r = fputs(text, stdout) < 0 || fflush(stdout) != 0
		    ? error_sys(err, errno, "write to standard output")
		    : 0;
	free(text);
	return r;
}

/* --- the command --- */

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
