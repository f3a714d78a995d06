/* SPDX-License-Identifier: Apache-2.0 */
/* The program gpuslice: finds the command, parses its options, runs it, and reports its error (cmd.h). */
#include "lib/base/log.h"
#include "lib/base/time.h"
#include "tools/cli/cmd.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sorted by name. */
static const struct cmd *const commands[] = {
	&cmd_bench,
	&cmd_cdi,
	&cmd_config,
	&cmd_cost,
	&cmd_demo,
	&cmd_kubelet,
	&cmd_labels,
	&cmd_mig,
	&cmd_plan,
	&cmd_profile,
	&cmd_sim,
	&cmd_simulate,
	&cmd_status,
	&cmd_top,
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
	return to == stdout ? EXIT_SUCCESS : error_class(ERR_INVALID)->exit_code;
}

/* The name of a command inside another: "apply" of "mig apply". */
static const char *last_word(const struct cmd *cmd)
{
	const char *space = strrchr(cmd->name, ' ');

	return space ? space + 1 : cmd->name;
}

int cmd_help(const struct cmd *cmd)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64 * 1024);

	buf_printf(&b, "Usage: gpuslice %s%s%s\n\n%c%s.\n\n", cmd->name, *cmd->usage ? " " : "",
		cmd->usage, cmd->summary[0] & ~0x20, cmd->summary + 1);
	if (cmd->description)
		buf_printf(&b, "%s\n", cmd->description);
	if (cmd->commands)
		buf_puts(&b, "Commands:\n");
	for (size_t i = 0; cmd->commands && cmd->commands[i]; i++)
		buf_printf(&b, "  %-15s %s\n", last_word(cmd->commands[i]),
			cmd->commands[i]->summary);
	if (cmd->commands)
		buf_putc(&b, '\n');
	options_help(&b, cmd->options, cmd->n_options);
	(void)fputs(buf_str(&b), stdout); /* the caller checks whether the output arrives */
	return EXIT_SUCCESS;
}

static int show_version(void)
{
	printf("gpuslice %s\n", GPUSLICE_VERSION);
	return EXIT_SUCCESS;
}

static void options_finip(struct options *o)
{
	options_fini(o);
}

/* Set if the program runs under the name of NVIDIA's program: scripts for that program read its log. */
#define MIG_PARTED "nvidia-mig-parted"

static bool as_mig_parted;

/* Stands for the program without a command: usage and version. */
static const struct cmd whole = { .name = "" };

/* The status that a shell reports for a program that SIGPIPE ended. */
#define STATUS_OUTPUT_CLOSED (128 + SIGPIPE)

/* Whether the reader of standard output is gone, as with `| head -1`. An error text would then have
 * no reader. */
static bool is_output_closed(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP));
}

static int report_cmd_error(const struct cmd *cmd, const struct error *err)
{
	char now[TIME_RFC3339_MAX];

	if ((err->sys == EPIPE || err->code == ERR_CANCELLED) && is_output_closed())
		return STATUS_OUTPUT_CLOSED;
	time_rfc3339(time_wall_ns(), now);
	if (as_mig_parted)
		(void)fprintf(stderr, "time=\"%.19sZ\" level=fatal msg=\"%c%s\"\n", now,
			toupper((unsigned char)err->msg[0]), err->msg[0] ? err->msg + 1 : "");
	else
		(void)fprintf(stderr, "gpuslice%s%s: %s\n", *cmd->name ? " " : "", cmd->name,
			err->msg);
	return cmd->exit_code ? cmd->exit_code : error_class(err->code)->exit_code;
}

/* Lost output (for instance on a full disk) is a failure, whether a line or the end of it is lost. */
static int check_output_arrived(const struct cmd *cmd, int r)
{
	struct error err = ERROR_INIT;
	int status;

	if (fflush(stdout) != 0)
		(void)error_sys(&err, errno, "write to standard output");
	else if (ferror(stdout))
		(void)error_set(&err, ERR_IO,
			"write to standard output: some of it did not arrive");
	else
		return r;
	status = is_output_closed() ? STATUS_OUTPUT_CLOSED : report_cmd_error(cmd, &err);
	/* A finding takes precedence. EXIT_INCONCLUSIVE does not: the unknown part is in the lost
	 * output. */
	return r && r != EXIT_INCONCLUSIVE ? r : status;
}

static int run_cmd(const struct cmd *cmd, int argc, char **argv);

/* The arguments after the options of @cmd are a subcommand. */
static int run_inner(const struct cmd *cmd, const struct options *o, struct error *err)
{
	const char *word = o->args.n ? o->args.v[0] : NULL;

	if (!word)
		return error_set(err, ERR_INVALID,
			"which command? 'gpuslice %s --help' lists them", cmd->name);
	if (cmd->run && !cmd->alone && cmd->run(cmd, o, err) < 0)
		return -1;
	for (size_t i = 0; cmd->commands[i]; i++) {
		if (!strcmp(word, last_word(cmd->commands[i])))
			return run_cmd(cmd->commands[i], (int)o->args.n, o->args.v);
	}
	return error_set(err, ERR_INVALID,
		"unknown command '%.40s'; 'gpuslice %s --help' lists them", word, cmd->name);
}

static int run_cmd(const struct cmd *cmd, int argc, char **argv)
{
	CLEANUP(options_finip) struct options o = { 0 };
	struct error err = ERROR_INIT;
	int r = options_parse(&o, cmd->options, cmd->n_options, argc, argv, cmd->option_flags,
		NULL, &err);
	bool inner = cmd->commands && !(cmd->alone && r == 0 && !o.args.n);

	if (r == OPTIONS_HELP)
		return check_output_arrived(cmd, cmd_help(cmd));
	if (r == OPTIONS_VERSION)
		return check_output_arrived(cmd, show_version());
	if (r == 0)
		r = inner ? run_inner(cmd, &o, &err) : cmd->run(cmd, &o, &err);
	if (r < 0)
		return report_cmd_error(cmd, &err);
	return inner ? r : check_output_arrived(cmd, r);
}

/* `gpuslice help mig apply` */
static const struct cmd *find_inner(const struct cmd *cmd, const char *word)
{
	for (size_t i = 0; word && cmd->commands && cmd->commands[i]; i++) {
		if (!strcmp(word, last_word(cmd->commands[i])))
			return cmd->commands[i];
	}
	return cmd;
}

/*
 * Opens /dev/null for each standard descriptor that the caller has closed. Otherwise the next open
 * file, such as a lock or a device of the driver, would get that descriptor and the program's output.
 * The direction is the wrong one, so that reading or writing still fails.
 */
static void open_standard_fds(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
	}
}

/*
 * Ends by SIGPIPE if the output was closed, as other programs at the end of a pipe do. While a command
 * works, the process ignores SIGPIPE: a command that changes a node must finish, whatever happens to
 * its output.
 */
static int end_quietly(int status)
{
	if (status == STATUS_OUTPUT_CLOSED) {
		(void)signal(SIGPIPE, SIG_DFL);
		(void)raise(SIGPIPE);
	}
	return status;
}

static int dispatch_cmd(int argc, char **argv)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;

	as_mig_parted = argc > 0 && !strcmp(slash ? slash + 1 : argv[0], MIG_PARTED);
	if (as_mig_parted)
		return run_cmd(&cmd_mig, argc, argv);
	if (argc < 2)
		return show_usage(stderr);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		for (size_t i = 0; argc > 2 && i < ARRAY_LEN(commands); i++) {
			if (!strcmp(argv[2], commands[i]->name))
				return check_output_arrived(commands[i],
					cmd_help(find_inner(commands[i], argv[3])));
		}
		return check_output_arrived(&whole, show_usage(stdout));
	}
	if (!strcmp(argv[1], "--version"))
		return check_output_arrived(&whole, show_version());
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (!strcmp(argv[1], commands[i]->name))
			return run_cmd(commands[i], argc - 1, argv + 1);
	}
	(void)fprintf(stderr, "gpuslice: unknown command '%s'; 'gpuslice --help' lists them\n",
		argv[1]);
	return error_class(ERR_INVALID)->exit_code;
}

int main(int argc, char **argv)
{
	open_standard_fds();
	(void)signal(SIGPIPE, SIG_IGN);
	log_setup(LOG_WARN, LOG_TEXT);
	return end_quietly(dispatch_cmd(argc, argv));
}
