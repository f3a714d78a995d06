/* SPDX-License-Identifier: Apache-2.0 */
/* gpuslice bench: measures ways of sharing a GPU and compares them. */
#include "lib/base/buf.h"
#include "lib/base/paths.h"
#include "lib/base/parse.h"
#include "tools/bench/isolation/isolation.h"
#include "tools/bench/stats/arrivals.h"
#include "tools/cli/bench/bench.h"
#include "tools/cli/cmd.h"
#include "tools/cli/output.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- options of bench and profile --- */

int bench_read_seconds(double *ret, const struct options *o, const char *name, double min,
	struct error *err)
{
	const char *text = option_str(o, name, NULL);

	if (text && (!parse_double(text, ret) || !(*ret >= min) || *ret > 3600))
		return error_set(err, ERR_INVALID,
			"--%s: expected %g to 3600 seconds, found '%.40s'", name, min, text);
	return 0;
}

int bench_check_save(const char *option, const char *path, struct error *err)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	char dir[PATH_MAX] = ".";

	if (!path)
		return 0;
	if (slash)
		(void)snprintf(dir, sizeof(dir), "%.*s",
			slash == path ? 1 : (int)(slash - path), path);
	if (access(dir, W_OK | X_OK) < 0)
		return error_sys(err, errno, "--%s: write in '%s'", option, dir);
	return 0;
}

/* --- the command --- */

#define OUTPUT_MAX (512U << 20)

/* Sorted by name. */
static const struct option_def options[] = {
	{ .name = "allow-mig",
		.type = OPTION_BOOL,
		.help = "also mode mig, for which the GPU is cut as each scenario wants, and given back as it was" },
	{ .name = "arrivals",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "the workload 'trace': requests come as in this file, such as Azure's LLM inference traces" },
	{ .name = "calibration",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "also write what sharing costs on this GPU, for gpuslice plan" },
	{ .name = "checks",
		.type = OPTION_LIST,
		.arg = "LIST",
		.help = "isolation tests: memory, neighbour, fault, recovery, or none; default: all, or none with "
			"--scenario, --command or --arrivals" },
	{ .name = "command",
		.type = OPTION_STR,
		.arg = "LINE",
		.help = "the workload 'command': a program that prints a line for each unit of its work" },
	{ .name = "gpu",
		.type = OPTION_STR,
		.arg = "GPU",
		.def = "0",
		.help = "the GPU to measure, by index or UUID" },
	{ .name = "like",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "give kernels as much work as in this result, so that both can be compared" },
	{ .name = "mode",
		.type = OPTION_LIST,
		.arg = "MODE",
		.help = "exclusive, time-slicing, turns, turns-weighted, turns-latency, mps, mps-limited, "
			"mig; default: all, but mig only with --allow-mig" },
	BENCH_OPTION_MPS_CONTROL,
	BENCH_OPTION_NODE,
	BENCH_OPTION_NVML,
	{ .name = "output",
		.letter = 'o',
		.type = OPTION_STR,
		.arg = "FORM",
		.def = "text",
		.help = "text, csv or json" },
	{ .name = "pattern",
		.type = OPTION_STR,
		.arg = "REGEX",
		.help = "which lines of --command count; default: each" },
	{ .name = "price",
		.type = OPTION_STR,
		.arg = "AMOUNT",
		.help = "what the GPU costs an hour, or the instance type that it is in, such as p5.4xlarge" },
	{ .name = "prices",
		.type = OPTION_LIST,
		.arg = "FILE",
		.help = "prices for --price, as of gpuslice plan" },
	{ .name = "procfs",
		.type = OPTION_STR,
		.env = { "GPUSLICE_PROCFS" },
		.arg = "DIR",
		.def = "/proc",
		.help = "where the capabilities of MIG instances are read" },
	{ .name = "profile",
		.type = OPTION_LIST,
		.arg = "FILE",
		.help = "profiles of the workloads, by gpuslice profile: also say what the planner predicts" },
	{ .name = "region",
		.type = OPTION_STR,
		.arg = "REGION",
		.help = "of the instance type of --price" },
	{ .name = "repetitions",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "3",
		.help = "of everything" },
	{ .name = "report",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "also write the result as an HTML page with plots" },
	{ .name = "run-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_RUN_DIR" },
		.arg = "DIR",
		.def = DEFAULT_RUN_DIR,
		.help = "for --allow-mig: where the lock of MIG's editor is, and what the GPU was" },
	{ .name = "save",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "also keep the result as JSON, for gpuslice bench compare and report" },
	{ .name = "scenario",
		.type = OPTION_LIST,
		.arg = "PODS",
		.help = "what meets on the GPU, as in '4 burn' or 'latency + 3 burn'" },
	{ .name = "seconds",
		.type = OPTION_STR,
		.arg = "S",
		.def = "2.5",
		.help = "each repetition measures for so long" },
	{ .name = "seed",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "1",
		.help = "of what is random" },
	{ .name = "startup",
		.type = OPTION_STR,
		.arg = "S",
		.def = "600",
		.help = "a program that has done no unit after so long is given up" },
	{ .name = "warmup",
		.type = OPTION_STR,
		.arg = "S",
		.def = "0.5",
		.help = "each repetition runs for so long before that" },
};

enum bench_format { AS_TEXT, AS_CSV, AS_JSON, FORMS };
static const char *const forms[FORMS] = { "text", "csv", "json" };

static int read_form(enum bench_format *ret, const struct options *o, struct error *err)
{
	const char *word = option_str(o, "output", "text");

	for (unsigned int i = 0; i < FORMS; i++)
		if (!strcmp(word, forms[i])) {
			*ret = (enum bench_format)i;
			return 0;
		}
	return error_set(err, ERR_INVALID,
		"--output: expected text, csv or json, found '%.40s'", word);
}

static int read_modes(struct suite *s, const struct strv *words, bool allow_mig,
	struct error *err)
{
	if (words->n)
		s->modes = 0;
	else if (allow_mig)
		s->modes |= 1U << BENCH_MIG;
	for (size_t i = 0; i < words->n; i++) {
		enum bench_mode m = bench_mode_of(words->v[i]);

		if (m == BENCH_MODES)
			return error_set(err, ERR_INVALID,
				"--mode: no mode '%.40s'; --help names them", words->v[i]);
		s->modes |= 1U << m;
	}
	if (allow_mig && !(s->modes & 1U << BENCH_MIG))
		return error_set(err, ERR_INVALID,
			"--allow-mig is for the mode mig, which --mode leaves out");
	return 0;
}

/* Checks the file once here; otherwise each pod would report its error. */
static int check_arrivals(const char *path, struct error *err)
{
	CLEANUP(freep) struct flow_arrival *list = NULL;
	size_t n;

	return arrivals_read(&list, &n, path, err);
}

static int read_suite(struct suite *s, struct suite_workload *room, const struct options *o,
	struct error *err)
{
	const struct strv *scenarios = &option_get(o, "scenario")->list;
	uint64_t repetitions = option_uint(o, "repetitions", 3);

	suite_defaults(s);
	if (option_str(o, "command", NULL) && option_str(o, "arrivals", NULL))
		return error_set(err, ERR_INVALID,
			"expected --command or --arrivals, found both");
	if (option_str(o, "arrivals", NULL)) {
		if (check_arrivals(option_str(o, "arrivals", NULL), err) < 0)
			return -1;
		suite_trace(s, room, option_str(o, "arrivals", NULL));
	}
	if (option_str(o, "command", NULL))
		suite_command(s, room, option_str(o, "command", NULL),
			option_str(o, "pattern", NULL));
	else if (option_str(o, "pattern", NULL))
		return error_set(err, ERR_INVALID, "--pattern is for --command");
	if (scenarios->n)
		s->n_scenarios = 0;
	for (size_t i = 0; i < scenarios->n; i++)
		if (suite_add(s, scenarios->v[i], err) < 0)
			return -1;
	if (!repetitions || repetitions > BENCH_RUNS_MAX)
		return error_set(err, ERR_INVALID,
			"--repetitions: expected 1 to %d, found %llu", BENCH_RUNS_MAX,
			(unsigned long long)repetitions);
	s->repetitions = (uint32_t)repetitions;
	s->seed = option_uint(o, "seed", 1);
	if (bench_read_seconds(&s->seconds, o, "seconds", 0.1, err) < 0 ||
		bench_read_seconds(&s->startup_s, o, "startup", 0.1, err) < 0 ||
		bench_read_seconds(&s->warmup_s, o, "warmup", 0, err) < 0)
		return -1;
	return read_modes(s, &option_get(o, "mode")->list, option_bool(o, "allow-mig", false),
		err);
}

static int parse_checks_option(unsigned int *ret, const struct options *o, struct error *err)
{
	const struct strv *words = &option_get(o, "checks")->list;
	bool asked = option_str(o, "command", NULL) || option_str(o, "arrivals", NULL) ||
		     option_get(o, "scenario")->list.n;

	*ret = asked ? 0 : ISOLATION_TESTS_ALL;
	return words->n ? isolation_tests_parse(ret, words, err) : 0;
}

static int write_json(struct buf *b, const struct bench_result *r, struct error *err)
{
	json_auto_t *o = NULL;
	char *text;

	if (bench_result_write(&o, r, err) < 0)
		return -1;
	/* With all digits: a report made from the file must equal the report made by this run. */
	text = json_dumps(o, JSON_COMPACT);
	if (!text)
		return error_nomem(err);
	buf_puts(b, text);
	buf_putc(b, '\n');
	free(text);
	return 0;
}

static int write_bench_result(const struct bench_result *r, enum bench_format form,
	const char *path, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(OUTPUT_MAX);
	int result = form == AS_JSON  ? write_json(&b, r, err)
		     : form == AS_CSV ? bench_print_csv(&b, r, err)
				      : bench_print_text(&b, r, err);

	if (result < 0)
		return -1;
	if (!buf_ok(&b))
		return error_nomem(err);
	return output_write(path, buf_str(&b), b.len, err);
}

/* A failed output does not stop the others. @err has the first error. */
static int print_all(const struct bench_result *r, enum bench_format form, const char *save,
	const char *report, struct error *err)
{
	int kept = save ? write_bench_result(r, AS_JSON, save, err) : 0;
	int drawn = report ? bench_report_write(report, r, NULL, kept < 0 ? NULL : err) : 0;
	int shown = write_bench_result(r, form, NULL, kept < 0 || drawn < 0 ? NULL : err);

	return kept < 0 || drawn < 0 || shown < 0 ? -1 : 0;
}

static int set_price(struct bench_head *ret, struct strv *texts, const struct options *o,
	struct error *err)
{
	const char *price = option_str(o, "price", NULL);

	if (!price && (option_get(o, "prices")->list.n || option_str(o, "region", NULL)))
		return error_set(err, ERR_INVALID, "--prices and --region are for --price");
	return price ? bench_price(ret, texts, price, &option_get(o, "prices")->list,
			       option_str(o, "region", NULL), err)
		     : 0;
}

static int save_calibration(const char *path, const struct bench_result *r, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64 * 1024);

	if (!path)
		return 0;
	if (bench_write_calibration(&b, r, err) < 0)
		return error_prefix(err, "--calibration");
	return buf_ok(&b) ? output_write(path, buf_str(&b), b.len, err) : error_nomem(err);
}

/* Whether a disturbance affected a figure or prevented its measurement, or an isolation test has no
 * result. */
static bool is_inconclusive(const struct bench_result *r)
{
	bool unknown = r->head.inconclusive;

	for (size_t i = 0; i < r->n_rows; i++)
		unknown = unknown || bench_row_failed(&r->rows[i]);
	for (size_t i = 0; i < r->n_checks; i++)
		unknown = unknown || !r->checks[i].known;
	return unknown;
}

static bool needs_mig_partition(const struct suite *s)
{
	for (size_t i = 0; i < s->n_scenarios; i++)
		if (suite_has(s, &s->scenarios[i], BENCH_MIG))
			return true;
	return false;
}

static int run_bench_command(const struct cmd *cmd, const struct options *o, struct error *err)
{
	CLEANUP(freep) struct suite *suite = calloc(1, sizeof(*suite));
	struct suite_workload room[SUITE_BUILTIN + 1];
	CLEANUP(bench_result_fini) struct bench_result r = { .n_rows = 0 };
	CLEANUP(strv_fini) struct strv texts = STRV_INIT;
	struct bench_session s = { .suite = suite,
		.model = option_str(o, "node", NULL),
		.nvml = option_str(o, "nvml", NULL),
		.procfs = option_str(o, "procfs", NULL),
		.gpu = option_str(o, "gpu", NULL),
		.mps_control = option_str(o, "mps-control", NULL),
		.run_dir = option_str(o, "run-dir", NULL),
		.allow_mig = option_bool(o, "allow-mig", false) };
	CLEANUP(bench_result_fini) struct bench_result like = { .n_rows = 0 };
	const char *save = option_str(o, "save", NULL), *of = option_str(o, "like", NULL),
		   *report = option_str(o, "report", NULL);
	CLEANUP(bench_profiles_freep) struct bench_profiles *profiles = NULL;
	struct bench_head priced = { .usd_per_hour = NAN, .price_source = "" };
	enum bench_format form = AS_TEXT;
	int result;

	(void)cmd;
	if (!suite)
		return error_nomem(err);
	if (read_form(&form, o, err) < 0 || read_suite(suite, room, o, err) < 0 ||
		parse_checks_option(&s.checks, o, err) < 0)
		return -1;
	if (bench_check_save("save", save, err) < 0 ||
		bench_check_save("report", report, err) < 0 ||
		bench_check_save("calibration", option_str(o, "calibration", NULL), err) < 0)
		return -1;
	if (s.allow_mig && !needs_mig_partition(suite))
		return error_set(err, ERR_INVALID,
			"--allow-mig: expected a scenario of two pods or more");
	if (option_get(o, "profile")->list.n &&
		bench_profiles_read(&profiles, &option_get(o, "profile")->list, err) < 0)
		return error_prefix(err, "--profile");
	if (set_price(&priced, &texts, o, err) < 0)
		return -1;
	if (of && bench_file_read(&like, of, err) < 0)
		return -1;
	s.like = of ? &like : NULL;
	result = bench_session_run(&r, &texts, &s, err);
	r.head.usd_per_hour = priced.usd_per_hour;
	r.head.price_source = priced.price_source;
	if (result == 0 && profiles && bench_predict(&r, suite, profiles, err) < 0)
		result = -1;
	if (r.n_rows + r.n_checks && print_all(&r, form, save, report, err) < 0)
		return -1;
	if (result == 0 && !r.head.interrupted &&
		save_calibration(option_str(o, "calibration", NULL), &r, err) < 0)
		return -1;
	if (result == 0 && r.head.interrupted)
		return error_set(err, ERR_CANCELLED, "interrupted");
	if (result == 0 && bench_all_failed(&r))
		return error_set(err, ERR_UNAVAILABLE, "no pod did a unit of work: %.200s",
			bench_all_failed(&r));
	return result == 0 && is_inconclusive(&r) ? EXIT_INCONCLUSIVE : result;
}

static const struct cmd *const commands[] = { &cmd_bench_compare, &cmd_bench_report, NULL };

const struct cmd cmd_bench = {
	.name = "bench",
	.usage =
		"[OPTION]... | compare BEFORE AFTER [OPTION]... | report [BEFORE] RESULT [OPTION]...",
	.summary = "measure ways of sharing a GPU beside each other",
	.description =
		"Runs the same pods alone, by time-slicing, in enforced slices, and under MPS, again and again,\n"
		"and says what each way gives and costs. The GPU should have nothing else to do. Nothing of it\n"
		"is changed but MIG with --allow-mig, and nothing is left behind. Ctrl-C keeps what was measured.\n"
		"Exit status 13: something disturbed a figure, all pods of a row failed, or an isolation test is\n"
		"inconclusive; the rest counts. If no pod of any row did a unit of work, it fails with the first error.\n"
		"\n"
		"  gpuslice bench --save before.json\n"
		"  gpuslice bench --scenario 'latency + 3 burn' --mode exclusive,time-slicing,turns-latency\n"
		"  gpuslice bench --command 'python3 infer.py' --pattern '^step' --scenario '2 command,4 command'\n"
		"  gpuslice bench --profile train.yaml --price p5.4xlarge --command 'python3 -u train.py' --pattern '^step'\n"
		"  gpuslice bench --node h100-1 --seconds 1 --repetitions 2\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.option_flags = OPTIONS_STOP_AT_ARG,
	.commands = commands,
	.alone = true,
	.run = run_bench_command,
};
