/* SPDX-License-Identifier: Apache-2.0 */
/* gpusliced: options, signals and the limit of descriptors; then the loop with the agent (agent.h). */
#include "node/agent/agent.h"

#include "node/agent/options.h"
#include "lib/base/fd.h"
#include "lib/base/option.h"

#include <signal.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#define AGENT_FDS_MAX 16384
#define AGENT_FDS_MIN 48 /* about 30 are open with one resource and a kubelet */

struct agent_program {
	uv_loop_t loop;
	uv_signal_t signals[4];
	struct agent *agent;
};

static const int signal_numbers[] = { SIGHUP, SIGINT, SIGTERM, SIGQUIT };

static void on_agent_signal(uv_signal_t *s, int number)
{
	struct agent_program *p = s->data;

	log_info(number == SIGHUP ? "reloading" : "stopping", LOG_INT("signal", number));
	if (number == SIGHUP)
		agent_reload(p->agent);
	else
		uv_stop(&p->loop);
}

/*
 * Signals stay pending until the loop handles them, so that the agent stops in order. Children do not inherit the
 * mask.
 */
static void block_agent_signals(bool hold)
{
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(signal_numbers); i++)
		(void)sigaddset(&set, signal_numbers[i]);
	(void)pthread_sigmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static int print_agent_help(const struct option_def *defs, size_t n)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64 * 1024);

	buf_puts(&b, "Usage: gpusliced [OPTION]...\n\n"
		     "The gpuslice node agent: discovers the node's GPUs, divides them as the\n"
		     "config says and serves the slices to the kubelet.\n\n");
	options_help(&b, defs, n);
	buf_puts(&b,
		"\nA value is taken from the command line, else from the environment, else "
		"from the\nconfig file. SIGHUP reloads the config file. See gpusliced(8).\n");
	return fputs(buf_str(&b), stdout) < 0;
}

/*
 * The system's default limit is for interactive programs. Not as high as possible: child programs close every
 * possible descriptor at their start.
 */
static int raise_agent_fd_limit(struct error *err)
{
	fd_limit_raise(AGENT_FDS_MAX);
	if (fd_has_free(AGENT_FDS_MIN))
		return 0;
	return error_set(err, ERR_LIMIT,
		"at least %d file descriptors must be free; RLIMIT_NOFILE (ulimit -n) is %u",
		AGENT_FDS_MIN, fd_limit());
}

static int run_agent(struct agent_program *p, const struct options *o, struct error *err)
{
	CLEANUP(agent_options_fini) struct agent_options options = { 0 };

	if (o->args.n > 0)
		return error_set(err, ERR_INVALID,
			"unexpected argument '%s'; --help shows the usage", o->args.v[0]);
	if (agent_options_read(&options, o, err) < 0)
		return -1;
	for (size_t i = 0; i < options.warnings.n; i++)
		log_warn("options", LOG_STR("warning", options.warnings.v[i]));
	for (size_t i = 0; i < options.errors.n; i++)
		log_error("option ignored, its value is invalid",
			LOG_STR("reason", options.errors.v[i]));
	block_agent_signals(true);
	if (agent_start(&p->agent, &p->loop, &options, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(signal_numbers); i++) {
		(void)uv_signal_init(&p->loop, &p->signals[i]);
		p->signals[i].data = p;
		(void)uv_signal_start(&p->signals[i], on_agent_signal, signal_numbers[i]);
	}
	block_agent_signals(false);
	(void)uv_run(&p->loop, UV_RUN_DEFAULT);
	if (agent_failure(p->agent)->code != ERR_NONE)
		error_copy(err, agent_failure(p->agent));
	for (size_t i = 0; i < ARRAY_LEN(signal_numbers); i++)
		uv_close((uv_handle_t *)&p->signals[i], NULL);
	p->agent = agent_stop(p->agent);
	return err->code == ERR_NONE ? 0 : -1;
}

static void agent_main_options_finip(struct options *o)
{
	options_fini(o);
}

int main(int argc, char **argv)
{
	CLEANUP(freep) struct option_def *defs = NULL;
	CLEANUP(agent_main_options_finip) struct options o = { 0 };
	struct error err = ERROR_INIT;
	struct agent_program p = { .agent = NULL };
	size_t n = 0;
	int r;

	/* A closed peer is an error of that write, and does not end the agent. */
	(void)signal(SIGPIPE, SIG_IGN);
	defs = agent_options(&n);
	if (!defs)
		return EXIT_FAILURE;
	r = options_parse(&o, defs, n, argc, argv, 0, NULL, &err);
	if (r == OPTIONS_HELP)
		return print_agent_help(defs, n);
	if (r == OPTIONS_VERSION)
		return printf("gpusliced %s\n", GPUSLICE_VERSION) < 0;
	if (r == 0) {
		r = raise_agent_fd_limit(&err);
	}
	if (r == 0) {
		(void)uv_loop_init(&p.loop);
		r = run_agent(&p, &o, &err);
		(void)uv_loop_close(&p.loop);
	}
	if (r < 0) {
		log_error("gpusliced ends", LOG_STR("reason", err.msg));
		return EXIT_FAILURE; /* 1 for every failure, as NVIDIA's plugin does */
	}
	return EXIT_SUCCESS;
}
