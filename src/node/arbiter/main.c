/* SPDX-License-Identifier: Apache-2.0 */

/* gpuslice-arbiter: options, signals, the loop. */
#include "abi/slice-dir.h"
#include "node/arbiter/arbiter.h"
#include "lib/base/paths.h"
#include "lib/base/option.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_def option_defs[] = {
	{ .name = "state-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_STATE_DIR" },
		.arg = "DIR",
		.def = SLICE_STATE_DIR,
		.help = "where the directory of slices is" },
	{ .name = "run-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_RUN_DIR" },
		.arg = "DIR",
		.def = DEFAULT_RUN_DIR,
		.help = "where the control socket and the book of grants are" },
	{ .name = "procfs",
		.type = OPTION_STR,
		/* Not GPUSLICE_PROCFS, which the agent has too: in the agent this may be only the driver's list. */
		.arg = "DIR",
		.def = ARBITER_PROCFS,
		.help = "where procfs is mounted, of the node's PID namespace" },
	LOG_OPTIONS,
};

struct arbiter_program {
	uv_loop_t loop;
	uv_signal_t signals[3];
	struct arbiter *arbiter;
};

static const int signal_numbers[] = { SIGHUP, SIGINT, SIGTERM };

static void on_arbiter_signal(uv_signal_t *s, int number)
{
	struct arbiter_program *p = s->data;

	if (number == SIGHUP) {
		arbiter_reload(p->arbiter);
		return;
	}
	log_info("stopping", LOG_INT("signal", number));
	uv_stop(&p->loop);
}

static int print_arbiter_help(void)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(16384);

	buf_puts(&b,
		"Usage: gpuslice-arbiter [OPTION]...\n"
		"Grants the memory of the node's slices to their processes, and gives them\n"
		"their turns on the GPUs. gpusliced starts it; either can be restarted without\n"
		"the other, and without the pods.\n\n");
	options_help(&b, option_defs, ARRAY_LEN(option_defs));
	buf_puts(&b, "\nSIGHUP looks at all slices again.\n");
	return fputs(buf_str(&b), stdout) < 0 || fflush(stdout) != 0;
}

static int read_dir_option(char *ret, const struct options *o, const char *name,
	const char *def, struct error *err)
{
	const char *value = option_str(o, name, def);

	if (!*value || strlen(value) >= PATH_MAX)
		return error_set(err, ERR_INVALID, "--%s: expected a directory, found '%.64s'",
			name, value);
	memcpy(ret, value, strlen(value) + 1);
	return 0;
}

static int run_arbiter_loop(struct arbiter_program *p, const struct options *o,
	struct error *err)
{
	struct arbiter_options options;
	struct error why = ERROR_INIT;

	if (o->args.n > 0)
		return error_set(err, ERR_INVALID,
			"unexpected argument '%s'; --help shows the usage", o->args.v[0]);
	/* The value may come from the agent's environment. Slices need the arbiter, so an invalid value does not
	 * stop it. */
	if (log_option_setup(o, &why) < 0)
		log_error("option ignored, its value is invalid", LOG_STR("reason", why.msg));
	if (read_dir_option(options.state_dir, o, "state-dir", SLICE_STATE_DIR, err) < 0 ||
		read_dir_option(options.run_dir, o, "run-dir", DEFAULT_RUN_DIR, err) < 0 ||
		read_dir_option(options.procfs, o, "procfs", ARBITER_PROCFS, err) < 0)
		return -1;
	if (arbiter_start(&p->arbiter, &p->loop, &options, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(signal_numbers); i++) {
		(void)uv_signal_init(&p->loop, &p->signals[i]);
		p->signals[i].data = p;
		(void)uv_signal_start(&p->signals[i], on_arbiter_signal, signal_numbers[i]);
	}
	(void)uv_run(&p->loop, UV_RUN_DEFAULT);
	for (size_t i = 0; i < ARRAY_LEN(signal_numbers); i++)
		uv_close((uv_handle_t *)&p->signals[i], NULL);
	arbiter_stop(p->arbiter);
	return 0;
}

static void fini_arbiter_options(struct options *o)
{
	options_fini(o);
}

int main(int argc, char **argv)
{
	CLEANUP(fini_arbiter_options) struct options o = { 0 };
	struct error err = ERROR_INIT;
	struct arbiter_program p = { .arbiter = NULL };
	int r;

	/* A peer that disconnects is an error of that write and must not kill the arbiter. */
	(void)signal(SIGPIPE, SIG_IGN);
	r = options_parse(&o, option_defs, ARRAY_LEN(option_defs), argc, argv, 0, NULL, &err);
	if (r == OPTIONS_HELP)
		return print_arbiter_help();
	if (r == OPTIONS_VERSION)
		return printf("gpuslice-arbiter %s\n", GPUSLICE_VERSION) < 0;
	if (r == 0) {
		(void)uv_loop_init(&p.loop);
		r = run_arbiter_loop(&p, &o, &err);
		/* Closed handles need one more round of the loop. */
		(void)uv_run(&p.loop, UV_RUN_DEFAULT);
		(void)uv_loop_close(&p.loop);
		arbiter_free(p.arbiter);
	}
	if (r < 0) {
		log_error("gpuslice-arbiter ends", LOG_STR("reason", err.msg));
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
