/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/paths.h"
#include "tools/cli/bench/bench.h"
#include "tools/cli/cmd.h"
#include "tools/cli/profile/profile.h"

#include <stdlib.h>

/* gpuslice profile: measures what the planner needs to know about one workload. */

/* Sorted by name. */
static const struct option_def options[] = {
	{ .name = "gpu",
		.type = OPTION_STR,
		.arg = "GPU",
		.def = "0",
		.help = "the GPU to measure on, by index or UUID; --pid and --pod: the first one that it is seen on" },
	{ .name = "kind",
		.type = OPTION_STR,
		.arg = "KIND",
		.def = "inference-closed",
		.help = "inference-open (requests come whatever becomes of those before), inference-closed, "
			"batch or train" },
	BENCH_OPTION_MPS_CONTROL,
	{ .name = "name",
		.type = OPTION_STR,
		.arg = "NAME",
		.help = "of the workload in the profile; default: the program's" },
	BENCH_OPTION_NODE,
	BENCH_OPTION_NVML,
	{ .name = "output",
		.letter = 'o',
		.type = OPTION_STR,
		.arg = "FORM",
		.def = "text",
		.help = "text, or yaml: the profile for gpuslice plan" },
	{ .name = "pattern",
		.type = OPTION_STR,
		.arg = "REGEX",
		.help = "a line that the program prints at the end of each step; default: steps are looked for in "
			"what it launches" },
	{ .name = "pid",
		.type = OPTION_UINT,
		.arg = "PID",
		.help = "only look at a program that runs already, with what it has started" },
	{ .name = "pod",
		.type = OPTION_STR,
		.arg = "NAMESPACE/NAME",
		.help = "only look at a pod of this node, which gpusliced knows" },
	{ .name = "repetitions",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "2",
		.help = "of everything" },
	{ .name = "run-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_RUN_DIR" },
		.arg = "DIR",
		.def = DEFAULT_RUN_DIR,
		.help = "run directory of gpusliced, for --pod" },
	{ .name = "save",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "also keep the profile as YAML, for gpuslice plan" },
	{ .name = "seconds",
		.type = OPTION_STR,
		.arg = "S",
		.def = "5",
		.help = "each repetition measures for so long; --pid and --pod: 30" },
	{ .name = "shares",
		.type = OPTION_LIST,
		.arg = "PERCENT",
		.def = "100,50,25",
		.help = "parts of the multiprocessors to run it with, under MPS; none: do not" },
	{ .name = "startup",
		.type = OPTION_STR,
		.arg = "S",
		.def = "600",
		.help = "a program of which no line has matched --pattern after so long is given up" },
	{ .name = "warmup",
		.type = OPTION_STR,
		.arg = "S",
		.def = "2",
		.help = "each repetition runs for so long before that; default without --pattern: 10, as it begins "
			"with the program" },
	{ .name = "workload",
		.type = OPTION_STR,
		.arg = "NAME",
		.help = "a built-in workload of gpuslice bench, instead of a program" },
};

static int run_profile_command(const struct cmd *cmd, const struct options *o,
	struct error *err)
{
	CLEANUP(freep) struct suite *suite = calloc(1, sizeof(*suite));
	CLEANUP(freep) struct profile_request *request = calloc(1, sizeof(*request));
	CLEANUP(freep) struct bench_windows *windows = calloc(1, sizeof(*windows));
	struct suite_workload room[SUITE_BUILTIN + 1];
	CLEANUP(bench_result_fini) struct bench_result r = { .n_rows = 0 };
	CLEANUP(strv_fini) struct strv texts = STRV_INIT;
	struct bench_session s = { .suite = suite,
		.model = option_str(o, "node", NULL),
		.nvml = option_str(o, "nvml", NULL),
		.gpu = option_str(o, "gpu", NULL),
		.mps_control = option_str(o, "mps-control", NULL),
		.windows = windows };
	int result;

	(void)cmd;
	if (!suite || !request || !windows)
		return error_nomem(err);
	if (profile_read_words(request, o, err) < 0 || profile_read_form(request, o, err) < 0 ||
		bench_check_save("save", request->save_path, err) < 0)
		return -1;
	if (request->pod || request->pid)
		return profile_run_observation(request, o, err);
	if (profile_read_suite(suite, room, request, o, err) < 0)
		return -1;
	result = bench_session_run(&r, &texts, &s, err);
	if (result == 0 && r.head.interrupted)
		result = error_set(err, ERR_CANCELLED, "interrupted");
	if (result == 0)
		result = profile_show(&r, windows, request, suite, err);
	bench_windows_fini(windows);
	return result;
}

const struct cmd cmd_profile = {
	.name = "profile",
	.usage = "[OPTION]... {-- PROGRAM [ARG...] | --pid PID | --pod NAMESPACE/NAME}",
	.summary = "measure what a program needs of a GPU, for gpuslice plan",
	.description =
		"Starts the program, unchanged, alone on the GPU: as it is, then in a slice of its own where the\n"
		"runtime counts what it launches, then under MPS with parts of the multiprocessors. Says how long\n"
		"a step takes, how busy the GPU is, how much memory it holds, and what it would feel with less.\n"
		"What runs already is only looked at.\n"
		"\n"
		"  gpuslice profile --pattern '^step' --save train.yaml -- python3 -u train.py\n"
		"  gpuslice profile --kind inference-open -- ./server\n"
		"  gpuslice profile --pod default/server --seconds 300\n"
		"  gpuslice profile --node h100-1 --workload decode --seconds 1\n"
		"  gpuslice plan train.yaml\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.option_flags = OPTIONS_STOP_AT_ARG,
	.run = run_profile_command,
};
