/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/cmd.h"
#include "tools/cli/plan/run.h"
#include "tools/cli/plan/trace.h"

/*
 * gpuslice plan: what to buy and how to slice it, from profiles of workloads. With --trace: how
 * policies of pod placement compare on a trace.
 */

#define SEED      42
#define SEEDS     10
#define SEEDS_MAX 1000

/* Sorted by name. */
static const struct option_def options[] = {
	{ .name = "mix",
		.type = OPTION_STR,
		.arg = "WORD",
		.def = "known",
		.help = "what policies know of the pods to come: known, or learned as they come" },
	{ .name = "nodes",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "the cluster's nodes, as CSV" },
	{ .name = "output",
		.letter = 'o',
		.type = OPTION_STR,
		.arg = "FORM",
		.def = "text",
		.help = "text, json, markdown or html; of a trace text or json" },
	{ .name = "policy",
		.type = OPTION_LIST,
		.arg = "NAME",
		.help = "value, fgd, best-fit, first-fit, random; default: all" },
	{ .name = "price",
		.type = OPTION_LIST,
		.arg = "TYPE=AMOUNT",
		.help = "what an instance type costs an hour; TYPE/spot=AMOUNT: on the spot market" },
	{ .name = "prices",
		.type = OPTION_LIST,
		.arg = "FILE",
		.help = "prices over the shipped ones: a catalogue, or a file of AWS's" },
	{ .name = "seed",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "42",
		.help = "the same seed gives the same plan; of a trace that of the first run" },
	{ .name = "seeds",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "10",
		.help = "runs of each policy, each with its own order of pods" },
	{ .name = "trace", .type = OPTION_STR, .arg = "FILE", .help = "the pods, as CSV" },
	{ .name = "translate",
		.type = OPTION_BOOL,
		.help = "print what Provisioners of Karpenter are as NodePools, with notes" },
	{ .name = "write",
		.type = OPTION_STR,
		.arg = "DIR",
		.help = "also write the objects to apply: configs, Karpenter's objects, patches" },
};

static const char *const forms[] = { [PLAN_AS_TEXT] = "text",
	[PLAN_AS_JSON] = "json",
	[PLAN_AS_MARKDOWN] = "markdown",
	[PLAN_AS_HTML] = "html" };
static const char *const mixes[] = { [REPLAY_KNOWN] = "known", [REPLAY_LEARNED] = "learned" };

static int run_trace(const struct options *o, uint64_t seed, bool json, struct error *err)
{
	struct plan_trace t = { .nodes = option_str(o, "nodes", NULL),
		.pods = option_str(o, "trace", NULL),
		.policies = &option_get(o, "policy")->list,
		.seeds = option_uint(o, "seeds", SEEDS),
		.first_seed = seed,
		.json = json };
	int mix;

	if (o->args.n)
		return error_set(err, ERR_INVALID, "unexpected argument '%s' beside --trace",
			o->args.v[0]);
	mix = option_choice(o, "mix", mixes, ARRAY_LEN(mixes), err);
	if (mix < 0)
		return -1;
	t.mix = mix;
	if (!t.pods || !t.nodes)
		return error_set(err, ERR_INVALID,
			"expected --trace FILE with pods and --nodes FILE with the nodes for them");
	if (!t.seeds || t.seeds > SEEDS_MAX)
		return error_set(err, ERR_INVALID, "--seeds: expected 1 to %d, found %llu",
			SEEDS_MAX, (unsigned long long)t.seeds);
	return plan_trace_run(&t, err);
}

/* Refuses options that have no meaning in this form of the command. */
static int reject_plan_options(const struct options *o, const char *const *names, size_t n,
	const char *why, struct error *err)
{
	for (size_t i = 0; i < n; i++)
		if (option_get(o, names[i])->source != OPTION_UNSET)
			return error_set(err, ERR_INVALID, "--%s is %s", names[i], why);
	return 0;
}

static int run_plan_command(const struct cmd *cmd, const struct options *o, struct error *err)
{
	static const char *const of_trace[] = { "mix", "policy", "seeds" };
	static const char *const of_plan[] = { "price", "prices", "translate", "write" };
	static const char *const of_prices[] = { "output", "price", "prices", "seed", "write" };
	bool trace = option_str(o, "trace", NULL) || option_str(o, "nodes", NULL);
	struct plan_run r = { .files = &o->args,
		.prices = &option_get(o, "prices")->list,
		.amounts = &option_get(o, "price")->list,
		.write = option_str(o, "write", NULL),
		.seed = option_uint(o, "seed", SEED) };
	int form = option_choice(o, "output", forms,
		trace ? PLAN_AS_MARKDOWN : ARRAY_LEN(forms), err);

	(void)cmd;
	if (form < 0)
		return -1;
	r.form = (enum plan_form)form;
	if (trace)
		return reject_plan_options(o, of_plan, ARRAY_LEN(of_plan), "not for --trace",
			       err) < 0
			       ? -1
			       : run_trace(o, r.seed, r.form == PLAN_AS_JSON, err);
	if (reject_plan_options(o, of_trace, ARRAY_LEN(of_trace), "for --trace", err) < 0)
		return -1;
	if (!r.files->n)
		return error_set(err, ERR_INVALID,
			"expected files that say what is to be planned, or --trace and --nodes");
	if (!option_bool(o, "translate", false))
		return plan_run(&r, err);
	if (reject_plan_options(o, of_prices, ARRAY_LEN(of_prices), "not for --translate",
		    err) < 0)
		return -1;
	return plan_translate(r.files, err);
}

const struct cmd cmd_plan = {
	.name = "plan",
	.usage = "FILE... [OPTION]... | --trace FILE --nodes FILE [OPTION]...",
	.summary = "say what GPUs to buy and how to slice them, and what that saves and costs",
	.description =
		"From profiles of workloads, or Kubernetes manifests, and prices: the cheapest instances on\n"
		"which all of them have place, what each will feel and pay, and what everybody having a GPU of\n"
		"their own would cost. Exit status 1: something has no place; 13: it cannot be said whether\n"
		"some SLO is met. Ctrl-C shows the best plan so far.\n"
		"\n"
		"With --trace it compares policies that place pods on GPUs: the pods of a trace come in random\n"
		"order until they ask for 120 % of the cluster's GPUs, and each goes where the policy says; one\n"
		"that fits nowhere is gone, none leaves. Both files name their columns in the first line, as\n"
		"those of Alibaba's cluster-trace-gpu-v2023 do.\n"
		"\n"
		"  gpuslice plan examples/plan/four-on-p3.yaml\n"
		"  gpuslice plan workloads.yaml policy.yaml --prices our-prices.yaml -o json\n"
		"  gpuslice plan workloads.yaml -o html >plan.html\n"
		"  gpuslice plan workloads.yaml --write plan && less plan/00-README.md\n"
		"  gpuslice plan --nodes nodes.csv --trace pods.csv --policy value,best-fit --mix learned\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.run = run_plan_command,
};
