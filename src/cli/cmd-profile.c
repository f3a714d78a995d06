/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/parse.h"
#include "bench/profile/write.h"
#include "cli/bench/options.h"
#include "cli/bench/print.h"
#include "cli/bench/session.h"
#include "cli/cmd.h"
#include "cli/output.h"
#include "plan/gpus/gpus.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* gpuslice profile: what one workload is to the planner. */

#define OUTPUT_MAX  (1U << 20)
#define NAME_MAX_   63
#define COMMAND_MAX 4096

/* Sorted by name. */
static const struct option_def options[] = {
	{ .name = "gpu",
		.type = OPTION_STR,
		.arg = "GPU",
		.def = "0",
		.help = "the GPU to measure on, by index or UUID" },
	{ .name = "kind",
		.type = OPTION_STR,
		.arg = "KIND",
		.def = "inference-closed",
		.help = "inference-open (requests come whatever becomes of those before), inference-closed, "
			"batch or train" },
	{ .name = "mps-control",
		.type = OPTION_STR,
		.env = { "GPUSLICE_MPS_CONTROL" },
		.arg = "PATH",
		.help = "the MPS control program" },
	{ .name = "name",
		.type = OPTION_STR,
		.arg = "NAME",
		.help = "of the workload in the profile; default: the program's" },
	{ .name = "node",
		.type = OPTION_STR,
		.arg = "MODEL",
		.help = "run on a simulated node of this model, such as h100-1" },
	{ .name = "nvml",
		.type = OPTION_STR,
		.env = { "GPUSLICE_NVML" },
		.arg = "PATH",
		.help = "the NVML library to ask, instead of the driver's" },
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
	{ .name = "repetitions",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "2",
		.help = "of everything" },
	{ .name = "save",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "also keep the profile as YAML, for gpuslice plan" },
	{ .name = "seconds",
		.type = OPTION_STR,
		.arg = "S",
		.def = "5",
		.help = "each repetition measures for so long" },
	{ .name = "shares",
		.type = OPTION_LIST,
		.arg = "PERCENT",
		.def = "100,50,25",
		.help = "parts of the multiprocessors to run it with, under MPS; none: do not" },
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

static const char *const kinds[] = { "inference-open", "inference-closed", "batch", "train" };

struct asked {
	const char *kind, *save;
	char name[NAME_MAX_ + 1], command[COMMAND_MAX], shown[COMMAND_MAX];
	bool yaml, silent;
};

/* ---- what is asked ---------------------------------------------------------------------------------------------- */

static int read_words(struct asked *a, const struct options *o, struct error *err)
{
	const char *form = option_str(o, "output", "text");
	bool known = false;

	a->kind = option_str(o, "kind", "inference-closed");
	a->save = option_str(o, "save", NULL);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		known = known || !strcmp(a->kind, kinds[i]);
	if (!known)
		return error_set(err, ERR_INVALID,
			"--kind: expected inference-open, inference-closed, batch or train, found '%.40s'",
			a->kind);
	a->yaml = !strcmp(form, "yaml");
	if (!a->yaml && strcmp(form, "text") != 0)
		return error_set(err, ERR_INVALID, "--output: expected text or yaml, found '%.40s'",
			form);
	return 0;
}

/* Letters, digits, '.', '_' and '-', so that it is a name everywhere. */
static int set_name(struct asked *a, const char *name, bool given, struct error *err)
{
	const char *slash = strrchr(name, '/');
	size_t n = 0;

	if (!given && slash)
		name = slash + 1;
	for (; *name && n < NAME_MAX_; name++) {
		bool fits = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
			    (*name >= '0' && *name <= '9') || strchr("._-", *name);

		if (!fits && given)
			return error_set(err, ERR_INVALID,
				"--name: expected letters, digits, '.', '_' and '-', found '%.40s'",
				name);
		a->name[n++] = *name;
		if (!fits)
			a->name[n - 1] = '-';
	}
	if (!n || (*name && given))
		return error_set(err, ERR_INVALID, "--name: expected 1 to %d characters",
			NAME_MAX_);
	return 0;
}

/* As a shell reads it, each word in quotes. */
static int join_words(char *to, size_t room, const struct strv *words, bool quoted,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(room);

	buf_puts(&b, quoted ? "exec" : "");
	for (size_t i = 0; i < words->n; i++) {
		buf_puts(&b, quoted || i ? " " : "");
		if (!quoted) {
			buf_puts(&b, words->v[i]);
			continue;
		}
		buf_putc(&b, '\'');
		for (const char *c = words->v[i]; *c; c++)
			if (*c == '\'')
				buf_puts(&b, "'\\''");
			else
				buf_putc(&b, *c);
		buf_putc(&b, '\'');
	}
	if (!buf_ok(&b) || b.len >= room)
		return error_set(err, ERR_LIMIT, "the command: expected less than %zu bytes", room);
	memcpy(to, buf_str(&b), b.len + 1);
	return 0;
}

static int find_builtin(struct suite *s, const char *name, uint32_t *ret, struct error *err)
{
	for (uint32_t i = 0; i < s->n_workloads; i++)
		if (!strcmp(s->workloads[i].name, name)) {
			*ret = i;
			return 0;
		}
	return error_set(err, ERR_INVALID, "--workload: no workload '%.40s'; there are: burn, small, "
					   "bandwidth, decode, latency, requests",
		name);
}

static int read_program(struct asked *a, struct suite *s, struct suite_workload *room,
	uint32_t *ret, const struct options *o, struct error *err)
{
	const char *builtin = option_str(o, "workload", NULL), *name = option_str(o, "name", NULL);
	const char *pattern = option_str(o, "pattern", NULL);

	if (builtin && (o->args.n || pattern))
		return error_set(err, ERR_INVALID, "--workload is instead of a program");
	if (builtin) {
		(void)snprintf(a->shown, sizeof(a->shown), "--workload %.40s", builtin);
		return find_builtin(s, builtin, ret, err) < 0
			       ? -1
			       : set_name(a, name ? name : builtin, name != NULL, err);
	}
	if (!o->args.n)
		return error_set(err, ERR_INVALID,
			"expected a program, as in gpuslice profile -- python3 infer.py, or --workload");
	if (join_words(a->command, sizeof(a->command), &o->args, true, err) < 0 ||
		join_words(a->shown, sizeof(a->shown), &o->args, false, err) < 0 ||
		set_name(a, name ? name : o->args.v[0], name != NULL, err) < 0)
		return -1;
	suite_command(s, room, a->command, pattern);
	*ret = (uint32_t)s->n_workloads - 1;
	a->silent = !pattern;
	room[*ret].silent = a->silent;
	return 0;
}

static int read_shares(double *shares, size_t *n, const struct options *o, struct error *err)
{
	static const double usual[] = { 1, 0.5, 0.25 };
	const struct strv *words = &option_get(o, "shares")->list;

	*n = 0;
	if (!words->n) {
		memcpy(shares, usual, sizeof(usual));
		*n = ARRAY_LEN(usual);
		return 0;
	}
	if (words->n == 1 && !strcmp(words->v[0], "none"))
		return 0;
	shares[(*n)++] = 1; /* the others are held against it */
	for (size_t i = 0; i < words->n; i++) {
		uint32_t percent;

		if (!parse_u32(words->v[i], &percent) || !percent || percent > 100)
			return error_set(err, ERR_INVALID,
				"--shares: expected percentages from 1 to 100, or none, found '%.40s'",
				words->v[i]);
		if (percent == 100)
			continue;
		if (*n == PROFILE_POINTS_MAX)
			return error_set(err, ERR_LIMIT, "--shares: expected at most %d",
				PROFILE_POINTS_MAX - 1);
		shares[(*n)++] = percent / 100.0;
	}
	return 0;
}

static int read_suite(struct suite *s, struct suite_workload *room, struct asked *a,
	const struct options *o, struct error *err)
{
	uint64_t repetitions = option_uint(o, "repetitions", 2);
	double shares[PROFILE_POINTS_MAX];
	uint32_t workload = 0;
	size_t n;

	suite_defaults(s);
	if (read_program(a, s, room, &workload, o, err) < 0 ||
		read_shares(shares, &n, o, err) < 0)
		return -1;
	if (!repetitions || repetitions > 100)
		return error_set(err, ERR_INVALID, "--repetitions: expected 1 to 100, found %llu",
			(unsigned long long)repetitions);
	s->repetitions = (uint32_t)repetitions;
	s->seconds = 5;
	s->warmup_s = a->silent ? 10 : 2;
	if (bench_read_seconds(&s->seconds, o, "seconds", 0.5, err) < 0 ||
		bench_read_seconds(&s->warmup_s, o, "warmup", 0, err) < 0)
		return -1;
	return suite_profile(s, workload, shares, n, err);
}

/* ---- what comes out ------------------------------------------------------------------------------------------- */

static void print_head(struct buf *b, const struct bench_result *r, const struct asked *a,
	const struct suite *s)
{
	buf_printf(b, "gpuslice profile -- %s\n", a->shown);
	buf_printf(b, "%s%s, driver %s, CUDA %s, %s, %u x %g s\n",
		r->head.simulated ? "SIMULATED: " : "", r->head.gpu, r->head.driver, r->head.cuda,
		r->head.made, s->repetitions, s->seconds);
}

static void print_steps(struct buf *b, const struct profile *p)
{
	if (p->steps.launches)
		buf_printf(b,
			"\nSteps: %zu launches repeat, %zu times in what was looked at, %.4g s from one to the "
			"next (variation %.2f).\n",
			p->steps.launches, p->steps.n, p->steps.mean_s, p->steps.cv);
	if (!p->n_points)
		return;
	buf_puts(b, "\nWith fewer multiprocessors a step takes, of its time with all of them:\n");
	for (size_t i = 0; i < p->n_points; i++)
		buf_printf(b, "  %3.0f%% of them: x %.2f measured, x %.2f by u (%+.1f %%)\n",
			100 * p->points[i].sm_share, p->points[i].stretch, p->points[i].fitted,
			100 * (p->points[i].fitted / p->points[i].stretch - 1));
}

static void print_text(struct buf *b, const struct profile *p, const struct bench_result *r,
	const struct asked *a, const struct suite *s)
{
	print_head(b, r, a, s);
	bench_print_profile(b, p);
	print_steps(b, p);
	for (size_t i = 0; i < r->n_notes; i++)
		buf_printf(b, "\nNote: %s\n", r->notes[i]);
	if (*p->problem)
		buf_printf(b, "\nNot all could be measured: %s\n", p->problem);
	if (a->save)
		buf_printf(b, "\nThe profile is in %s: gpuslice plan %s\n", a->save, a->save);
}

static int write_yaml(struct buf *b, const struct profile *p, const struct bench_result *r,
	const struct asked *a, const struct suite *s, struct error *err)
{
	CLEANUP(buf_fini) struct buf head = BUF_INIT(OUTPUT_MAX);

	print_head(&head, r, a, s);
	if (!buf_ok(&head))
		return error_nomem(err);
	profile_write(b, p, buf_str(&head));
	return buf_ok(b) ? 0 : error_nomem(err);
}

/* The planner's name of the GPU; "": it does not know it. */
static const char *catalogue_name(const char *gpu)
{
	char label[128];
	const struct plan_gpu *g;

	(void)snprintf(label, sizeof(label), "%s", gpu);
	for (char *c = label; *c; c++)
		if (*c == ' ')
			*c = '-';
	g = plan_gpu_find(label);
	return g ? g->name : "";
}

static int show(const struct bench_result *r, const struct bench_windows *w,
	const struct asked *a, const struct suite *s, struct error *err)
{
	CLEANUP(buf_fini) struct buf yaml = BUF_INIT(OUTPUT_MAX);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(OUTPUT_MAX);
	const struct profile_facts facts = { .name = a->name,
		.kind = a->kind,
		.open = !strcmp(a->kind, "inference-open"),
		.silent = a->silent,
		.result = r,
		.windows = w->window,
		.n_windows = w->n };
	struct profile p;

	if (profile_make(&p, &facts, err) < 0)
		return -1;
	p.gpu = catalogue_name(r->head.gpu);
	if (write_yaml(&yaml, &p, r, a, s, err) < 0)
		return -1;
	print_text(&text, &p, r, a, s);
	if (!buf_ok(&text))
		return error_nomem(err);
	if (a->save && output_write(a->save, buf_str(&yaml), yaml.len, err) < 0)
		return error_prefix(err, "--save");
	return a->yaml ? output_write(NULL, buf_str(&yaml), yaml.len, err)
		       : output_write(NULL, buf_str(&text), text.len, err);
}

static int run(const struct cmd *cmd, const struct options *o, struct error *err)
{
	CLEANUP(freep) struct suite *suite = calloc(1, sizeof(*suite));
	CLEANUP(freep) struct asked *a = calloc(1, sizeof(*a));
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
	if (!suite || !a || !windows)
		return error_nomem(err);
	if (read_words(a, o, err) < 0 || read_suite(suite, room, a, o, err) < 0 ||
		bench_check_save(a->save, err) < 0)
		return -1;
	result = bench_session_run(&r, &texts, &s, err);
	if (result == 0 && r.head.interrupted)
		result = error_set(err, ERR_CANCELLED, "interrupted");
	if (result == 0)
		result = show(&r, windows, a, suite, err);
	bench_windows_fini(windows);
	return result;
}

const struct cmd cmd_profile = {
	.name = "profile",
	.usage = "[OPTION]... -- PROGRAM [ARG...]",
	.summary = "measure what a program needs of a GPU, for gpuslice plan",
	.description =
		"Starts the program, unchanged, alone on the GPU: as it is, then in a slice of its own where the\n"
		"runtime counts what it launches, then under MPS with parts of the multiprocessors. Says how long\n"
		"a step takes, how busy the GPU is, how much memory it holds, and what it would feel with less.\n"
		"\n"
		"  gpuslice profile --pattern '^step' --save train.yaml -- python3 -u train.py\n"
		"  gpuslice profile --kind inference-open -- ./server\n"
		"  gpuslice profile --node h100-1 --workload decode --seconds 1\n"
		"  gpuslice plan train.yaml\n",
	.options = options,
	.n_options = ARRAY_LEN(options),
	.option_flags = OPTIONS_STOP_AT_ARG,
	.run = run,
};
