/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/report.h"

#include "tools/cli/bench/bench.h"
#include "tools/cli/bench/print.h"
#include "tools/cli/output.h"

/* gpuslice bench report: a result as an HTML page. */

/* Sorted by name. */
static const struct option_def options[] = {
	{ .name = "save",
		.letter = 's',
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "write the page there instead of to standard output" },
};

int bench_report_write(const char *path, const struct bench_result *r,
	const struct bench_result *before, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(BENCH_REPORT_MAX);

	if (bench_report(&b, r, before, err) < 0)
		return -1;
	return output_write(path, buf_str(&b), b.len, err);
}

static int run_bench_report(const struct cmd *cmd, const struct options *o, struct error *err)
{
	CLEANUP(bench_result_fini) struct bench_result r = { .n_rows = 0 };
	CLEANUP(bench_result_fini) struct bench_result before = { .n_rows = 0 };
	bool both = o->args.n == 2;

	(void)cmd;
	if (o->args.n != 1 && !both)
		return error_set(err, ERR_INVALID,
			"expected one result of gpuslice bench --save, or two, before and after, found %zu",
			o->args.n);
	if (both && bench_file_read(&before, o->args.v[0], err) < 0)
		return -1;
	if (bench_file_read(&r, o->args.v[both], err) < 0)
		return -1;
	return bench_report_write(option_str(o, "save", NULL), &r, both ? &before : NULL, err);
}

const struct cmd cmd_bench_report = {
	.name = "bench report",
	.usage = "[BEFORE] RESULT [OPTION]...",
	.summary = "make a page with tables and plots of a result, or of two",
	.description =
		"One HTML file that needs nothing else: what each way of sharing gives in words, isolation checks, and\n"
		"for each scenario its table, throughput, the tails of its times, and how its pods shared. It can be\n"
		"printed, and shown without a network. Of two results it is the page of the second, with what changed.\n"
		"\n"
		"  gpuslice bench --save bench.json\n"
		"  gpuslice bench report bench.json --save bench.html\n"
		"  gpuslice bench report before.json after.json --save change.html\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.run = run_bench_report,
};
