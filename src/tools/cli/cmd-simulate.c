/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/cmd.h"
#include "tools/cli/simulate/run.h"

/* gpuslice simulate: how policies that place pods on GPUs compare on a trace of a cluster. */

/* Sorted by name. */
static const struct option_def options[] = {
	{ .name = "mix",
		.type = OPTION_STR,
		.arg = "WORD",
		.def = "known",
		.help = "known or learned, see above" },
	{ .name = "nodes",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "the cluster's nodes, as CSV" },
	{ .name = "output",
		.letter = 'o',
		.type = OPTION_STR,
		.arg = "FORM",
		.def = "text",
		.help = "text or json" },
	{ .name = "policy",
		.type = OPTION_LIST,
		.arg = "NAME",
		.help = "policies, with commas between; default: all" },
	{ .name = "seed",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "42",
		.help = "seed of the first run" },
	{ .name = "seeds",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "10",
		.help = "runs of each policy, 1 to 1000" },
	{ .name = "trace", .type = OPTION_STR, .arg = "FILE", .help = "the pods, as CSV" },
};

static int run_simulate_command(const struct cmd *cmd, const struct options *o,
	struct error *err)
{
	static const char *const forms[] = { "text", "json" };
	int form = option_choice(o, "output", forms, ARRAY_LEN(forms), err);

	(void)cmd;
	if (form < 0)
		return -1;
	if (o->args.n)
		return error_set(err, ERR_INVALID, "unexpected argument '%s'", o->args.v[0]);
	return simulate_run(o, form == 1, err);
}

const struct cmd cmd_simulate = {
	.name = "simulate",
	.usage = "--nodes FILE --trace FILE [OPTION]...",
	.summary = "compare policies that place pods on GPUs, on a trace of pods",
	.description =
		"Would another scheduling policy fit more pods on the GPUs that you have? Each\n"
		"policy places the pods of the trace on the nodes, one pod at a time. The table\n"
		"shows how many of the GPUs are then allocated, and how long a decision takes.\n"
		"It needs no cluster and no GPU. ('gpuslice sim' makes a simulated GPU node.)\n"
		"\n"
		"In each run the pods arrive in another random order, until they have requested\n"
		"120 % of the GPUs. No pod ends, and a pod that fits on no node is dropped.\n"
		"The policies value and fgd expect a mix of pods: that of the whole trace (--mix\n"
		"known), or that of the pods that have arrived so far (--mix learned).\n"
		"\n"
		"Policies:\n"
		"  value      keeps what is worth most to the pods that are expected\n"
		"  fgd        fragmentation gradient descent, as published\n"
		"  best-fit   the node with the least CPU and GPU left, of those that fit\n"
		"  first-fit  the first node that the pod fits on\n"
		"  random     any node that the pod fits on\n"
		"\n"
		"The files name their columns in the first line, as those of Alibaba's\n"
		"cluster-trace-gpu-v2023 do; other columns are ignored:\n"
		"  nodes  cpu_milli, memory_mib, gpu, model\n"
		"  pods   cpu_milli, memory_mib, num_gpu, gpu_milli (1000: a whole GPU), and,\n"
		"         if there is one, gpu_spec (the models a pod may have, as \"T4|G2\")\n"
		"\n"
		"Example: two policies, ten runs each, without knowledge of the trace\n"
		"  gpuslice simulate --nodes nodes.csv --trace pods.csv \\\n"
		"      --policy value,best-fit --mix learned\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.run = run_simulate_command,
};
