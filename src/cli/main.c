/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "cli/cmd.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sorted by name. */
static const struct cmd *const commands[] = {
	&cmd_cdi,
	&cmd_config,
	&cmd_demo,
	&cmd_kubelet,
	&cmd_labels,
	&cmd_sim,
	&cmd_status,
	&cmd_validate,
};

static int show_usage(FILE *to)
{
	(void)fprintf(to,
		"Usage: gpuslice COMMAND [OPTION]...\n\n"
		"GPU slicing for Kubernetes: look at a node, check its configuration, try it out.\n\n"
		"Commands:\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		(void)fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
	(void)fprintf(to,
		"\n'gpuslice COMMAND --help' shows the options of a command. See gpuslice(1).\n");
	return to == stdout ? EXIT_SUCCESS : 2;
}

static int show_help(const struct cmd *cmd)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64 * 1024);

	buf_printf(&b, "Usage: gpuslice %s%s%s\n\n%c%s.\n\n", cmd->name, *cmd->usage ? " " : "",
		cmd->usage, cmd->summary[0] & ~0x20, cmd->summary + 1);
	if (cmd->description)
		buf_printf(&b, "%s\n", cmd->description);
	options_help(&b, cmd->options, cmd->n_options);
	return fputs(buf_str(&b), stdout) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void options_finip(struct options *o)
{
	options_fini(o);
}

static int report(const struct cmd *cmd, const struct error *err)
{
	(void)fprintf(stderr, "gpuslice %s: %s\n", cmd->name, err->msg);
	return error_class(err->code)->exit_code;
}

static int run(const struct cmd *cmd, int argc, char **argv)
{
	CLEANUP(options_finip) struct options o = { 0 };
	struct error err = ERROR_INIT;
	int r = options_parse(&o, cmd->options, cmd->n_options, argc, argv, cmd->option_flags,
		NULL, &err);

	if (r == OPTIONS_HELP)
		return show_help(cmd);
	if (r == OPTIONS_VERSION)
		return printf("gpuslice %s\n", GPUSLICE_VERSION) < 0;
	if (r == 0)
		r = cmd->run(cmd, &o, &err);
	if (r < 0)
		return report(cmd, &err);
	/* Output that did not arrive (full disk) is a failure too. */
	if (fflush(stdout) != 0)
		return EXIT_FAILURE;
	return r;
}

int main(int argc, char **argv)
{
	(void)signal(SIGPIPE, SIG_IGN);
	log_setup(LOG_WARN, LOG_TEXT);
	if (argc < 2)
		return show_usage(stderr);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		for (size_t i = 0; argc > 2 && i < ARRAY_LEN(commands); i++) {
			if (!strcmp(argv[2], commands[i]->name))
				return show_help(commands[i]);
		}
		return show_usage(stdout);
	}
	if (!strcmp(argv[1], "--version"))
		return printf("gpuslice %s\n", GPUSLICE_VERSION) < 0;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (!strcmp(argv[1], commands[i]->name))
			return run(commands[i], argc - 1, argv + 1);
	}
	(void)fprintf(stderr, "gpuslice: unknown command '%s'; 'gpuslice --help' lists them\n",
		argv[1]);
	return 2;
}
