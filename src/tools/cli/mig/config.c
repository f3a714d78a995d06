/* SPDX-License-Identifier: Apache-2.0 */

/* gpuslice mig assert, checkpoint, export, generate-config: compare the node with files, or write
 * files. */
#include "tools/cli/mig/mig.h"
#include "tools/cli/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTION_FORMAT                                                                  \
	{                                                                              \
		.name = "output-format", .letter = 'o', .type = OPTION_STR,            \
		.env = { "MIG_PARTED_OUTPUT_FORMAT" }, .arg = "FORMAT", .def = "yaml", \
		.help = "yaml or json"                                                 \
	}

static int open_and_read(struct mig_editor **e, const struct options *o,
	const struct mig_node **node, struct error *err)
{
	return mig_tool_open(e, o, err) < 0
		       ? -1
		       : mig_editor_read(*e, /* clients= */ false, node, err);
}

/* A file that lacks a GPU would be wrong, so the editor must have read all GPUs. */
static int check_faults(const struct mig_node *node, struct error *err)
{
	for (uint32_t i = 0; i < node->n; i++) {
		if (!node->gpus[i].fault.code)
			continue;
		error_copy(err, &node->gpus[i].fault);
		return error_prefix(err, "GPU %u cannot be read", i);
	}
	return 0;
}

/* assert */

static int load_selected_config(struct mig_configs **ret, const struct mig_config **config,
	const struct options *o, struct error *err)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;

	if (mig_configs_load(ret, option_str(o, "config-file", ""), &warnings, err) < 0)
		return error_prefix(err, "error parsing config file");
	mig_tool_notes(&warnings);
	if (mig_configs_select(*ret, option_str(o, "selected-config", NULL), config, err) < 0)
		return error_prefix(err, "error selecting MIG config");
	return 0;
}

static int run_assert(const struct cmd *cmd, const struct options *o, struct error *err)
{
	static const char *const needed[] = { "config-file", NULL };
	CLEANUP(mig_configs_freep) struct mig_configs *configs = NULL;
	CLEANUP(mig_editor_closep) struct mig_editor *e = NULL;
	bool mode_only = option_bool(o, "mode-only", false);
	const struct mig_config *config;
	struct error why = ERROR_INIT;
	const struct mig_node *node;

	if (mig_tool_require(cmd, o, needed, err) < 0 ||
		load_selected_config(&configs, &config, o, err) < 0)
		return -1;
	if (option_bool(o, "valid-config", false)) {
		puts("Selected MIG configuration is valid");
		return 0;
	}
	if (open_and_read(&e, o, &node, err) < 0)
		return -1;
	if (!mig_config_assert(config, node, mode_only, &why))
		return error_set(err, ERR_NOT_FOUND,
			"assertion failure: selected configuration not currently applied: %s",
			why.msg);
	puts(mode_only ? "Selected MIG mode settings from configuration currently applied"
		       : "Selected MIG configuration currently applied");
	return 0;
}

static const struct option_def assert_options[] = {
	{ .name = "config-file",
		.letter = 'f',
		.type = OPTION_STR,
		.env = { "MIG_PARTED_CONFIG_FILE" },
		.arg = "FILE",
		.help = "configs by name; - is standard input" },
	MIG_OPTION_DEBUG(MIG_UNUSED),
	MIG_OPTION_DRIVER_ROOT("where the driver's files are"),
	{ .name = "mode-only",
		.letter = 'm',
		.type = OPTION_BOOL,
		.env = { "MIG_PARTED_MODE_CHANGE_ONLY" },
		.help = "look only whether MIG is on or off" },
	MIG_OPTION_NVML,
	{ .name = "selected-config",
		.letter = 'c',
		.type = OPTION_STR,
		.env = { "MIG_PARTED_SELECTED_CONFIG" },
		.arg = "NAME",
		.help = "which of them; may be left out if there is one" },
	{ .name = "valid-config",
		.letter = 'a',
		.type = OPTION_BOOL,
		.env = { "MIG_PARTED_VALID_CONFIG" },
		.help = "look only whether the file and the name are good, without a GPU" },
};

const struct cmd mig_cmd_assert = {
	.name = "mig assert",
	.usage = "-f FILE [-c NAME] [-m] [-a]",
	.summary = "say by the exit status whether a config is applied",
	.options = assert_options,
	.n_options = ARRAY_LEN(assert_options),
	.exit_code = EXIT_FAILURE,
	.run = run_assert,
};

/* export and generate-config */

static char *to_text(const struct mig_configs *c, bool json)
{
	return json ? mig_configs_to_json(c) : mig_configs_to_yaml(c);
}

static int run_export(const struct cmd *cmd, const struct options *o, struct error *err)
{
	CLEANUP(mig_configs_freep) struct mig_configs *configs = NULL;
	CLEANUP(mig_editor_closep) struct mig_editor *e = NULL;
	const struct mig_node *node;
	bool json;

	(void)cmd;
	if (mig_tool_json(o, "yaml", &json, err) < 0 || open_and_read(&e, o, &node, err) < 0 ||
		check_faults(node, err) < 0 ||
		mig_config_export(&configs, node, option_str(o, "config-label", "current"),
			err) < 0)
		return -1;
	return mig_tool_print(to_text(configs, json), err);
}

static const struct option_def export_options[] = {
	{ .name = "config-label",
		.letter = 'l',
		.type = OPTION_STR,
		.env = { "MIG_PARTED_CONFIG_LABEL" },
		.arg = "NAME",
		.def = "current",
		.help = "the name that the config gets" },
	MIG_OPTION_DEBUG(MIG_UNUSED),
	MIG_OPTION_DRIVER_ROOT("where the driver's files are"),
	MIG_OPTION_NVML,
	OPTION_FORMAT,
};

const struct cmd mig_cmd_export = {
	.name = "mig export",
	.usage = "[-o yaml|json] [-l NAME]",
	.summary = "print what the GPUs are as a config",
	.options = export_options,
	.n_options = ARRAY_LEN(export_options),
	.exit_code = EXIT_FAILURE,
	.run = run_export,
};

static int run_mig_generate(const struct cmd *cmd, const struct options *o, struct error *err)
{
	CLEANUP(mig_configs_freep) struct mig_configs *configs = NULL;
	CLEANUP(mig_editor_closep) struct mig_editor *e = NULL;
	CLEANUP(freep) char *text = NULL;
	const struct mig_node *node;
	bool json;

	(void)cmd;
	if (mig_tool_json(o, "yaml", &json, err) < 0 || open_and_read(&e, o, &node, err) < 0 ||
		check_faults(node, err) < 0 || mig_config_generate(&configs, node, err) < 0)
		return -1;
	text = to_text(configs, json);
	if (!text)
		return error_nomem(err);
	return output_write(option_str(o, "output-file", NULL), text, strlen(text), err);
}

static const struct option_def generate_options[] = {
	MIG_OPTION_DEBUG(MIG_UNUSED),
	MIG_OPTION_DRIVER_ROOT("where the driver's files are"),
	MIG_OPTION_NVML,
	{ .name = "output-file",
		.letter = 'f',
		.type = OPTION_STR,
		.env = { "MIG_PARTED_OUTPUT_FILE" },
		.arg = "FILE",
		.help = "write this file instead of standard output" },
	OPTION_FORMAT,
};

const struct cmd mig_cmd_generate_config = {
	.name = "mig generate-config",
	.usage = "[-f FILE] [-o yaml|json]",
	.summary = "print configs for all that the GPUs can be",
	.options = generate_options,
	.n_options = ARRAY_LEN(generate_options),
	.exit_code = EXIT_FAILURE,
	.run = run_mig_generate,
};

/* checkpoint */

static int run_checkpoint(const struct cmd *cmd, const struct options *o, struct error *err)
{
	static const char *const needed[] = { "checkpoint-file", NULL };
	CLEANUP(mig_checkpoint_freep) struct mig_checkpoint *checkpoint = NULL;
	CLEANUP(mig_editor_closep) struct mig_editor *e = NULL;
	CLEANUP(freep) char *text = NULL;
	const struct mig_node *node;

	if (mig_tool_require(cmd, o, needed, err) < 0 || open_and_read(&e, o, &node, err) < 0 ||
		check_faults(node, err) < 0 || mig_checkpoint_make(&checkpoint, node, err) < 0)
		return -1;
	text = mig_checkpoint_to_json(checkpoint);
	if (!text)
		return error_nomem(err);
	if (output_write(option_str(o, "checkpoint-file", NULL), text, strlen(text), err) < 0)
		return -1;
	puts("MIG configuration checkpointed successfully");
	return 0;
}

static const struct option_def checkpoint_options[] = {
	{ .name = "checkpoint-file",
		.letter = 'f',
		.type = OPTION_STR,
		.env = { "MIG_PARTED_CHECKPOINT_FILE" },
		.arg = "FILE",
		.help = "what to write" },
	MIG_OPTION_DEBUG(MIG_UNUSED),
	MIG_OPTION_DRIVER_ROOT("where the driver's files are"),
	MIG_OPTION_NVML,
};

const struct cmd mig_cmd_checkpoint = {
	.name = "mig checkpoint",
	.usage = "-f FILE",
	.summary = "save what the GPUs are, with the place of each instance",
	.options = checkpoint_options,
	.n_options = ARRAY_LEN(checkpoint_options),
	.exit_code = EXIT_FAILURE,
	.run = run_checkpoint,
};
