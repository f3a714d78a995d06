/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/cmd.h"
#include "tools/cli/plan/run.h"
#include "tools/cli/simulate/run.h"

/*
 * gpuslice plan: what to buy and how to slice it, from profiles of workloads. With --trace it does what
 * gpuslice simulate does.
 */

#define SEED 42

/* Sorted by name. */
static const struct option_def options[] = {
	{ .name = "mix",
		.type = OPTION_STR,
		.arg = "WORD",
		.def = "known",
		.help = "with --trace: as in gpuslice simulate" },
	{ .name = "nodes",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "with --trace: the cluster's nodes, as CSV" },
	{ .name = "output",
		.letter = 'o',
		.type = OPTION_STR,
		.arg = "FORM",
		.def = "text",
		.help = "text, json, markdown or html; with --trace text or json" },
	{ .name = "policy",
		.type = OPTION_LIST,
		.arg = "NAME",
		.help = "with --trace: as in gpuslice simulate" },
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
		.help = "the same seed gives the same plan" },
	{ .name = "seeds",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "10",
		.help = "with --trace: as in gpuslice simulate" },
	{ .name = "trace",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "compare policies on the pods of FILE, as gpuslice simulate does" },
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
	if (trace) {
		if (reject_plan_options(o, of_plan, ARRAY_LEN(of_plan), "not for --trace",
			    err) < 0)
			return -1;
		if (o->args.n)
			return error_set(err, ERR_INVALID,
				"unexpected argument '%s' beside --trace", o->args.v[0]);
		return simulate_run(o, r.form == PLAN_AS_JSON, err);
	}
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
		"With --trace it is the same as gpuslice simulate: see 'gpuslice simulate --help'.\n"
		"\n"
		"  gpuslice plan examples/plan/four-on-p3.yaml\n"
		"  gpuslice plan workloads.yaml policy.yaml --prices our-prices.yaml -o json\n"
		"  gpuslice plan workloads.yaml -o html >plan.html\n"
		"  gpuslice plan workloads.yaml --write plan && less plan/00-README.md\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.run = run_plan_command,
};
