/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that read results which bench has saved. */
#include "tools/bench/report/report.h"

#include "lib/base/text.h"
#include "lib/base/fd.h"
#include "lib/report/table.h"
#include "tools/bench/compare/compare.h"
#include "tools/bench/report/figures.h"
#include "tools/cli/bench/bench.h"
#include "tools/cli/cmd.h"
#include "tools/cli/output.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- gpuslice bench report: a result as an HTML page --- */

/* Sorted by name. */
static const struct option_def report_options[] = {
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
	.options = report_options,
	.n_options = ARRAY_LEN(report_options),
	.run = run_bench_report,
};

/* --- gpuslice bench compare: decides from two results whether a change passed --- */

#define LIMITS_MAX 32
#define CELL_MAX   64

/* Sorted by name. */
static const struct option_def compare_options[] = {
	{ .name = "output",
		.letter = 'o',
		.type = OPTION_STR,
		.arg = "FORM",
		.def = "text",
		.help = "text or json" },
	{ .name = "slo",
		.type = OPTION_LIST,
		.arg = "LIMIT",
		.help = "as p99_ms=20, min_rate=100, max_slowdown=1.3, or p99=5% and rate=5%: no worse than that; "
			"default: rate=5%,p99=5%" },
};

int bench_file_read(struct bench_result *ret, const char *path, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(BENCH_FILE_MAX);

	if (file_read(path, &b, err) < 0)
		return -1;
	return bench_result_read(ret, buf_str(&b), b.len, path, err);
}

/* One side of the comparison: a result file, and the mode that follows '#' in the argument. */
struct compare_side {
	char path[PATH_MAX];
	enum bench_mode mode;
	struct bench_result result;
};

static void side_fini(struct compare_side *s)
{
	bench_result_fini(&s->result);
}

static int read_side(struct compare_side *s, const char *word, struct error *err)
{
	const char *hash = strrchr(word, '#');
	size_t len = hash ? (size_t)(hash - word) : strlen(word);

	s->mode = hash ? bench_mode_of(hash + 1) : BENCH_MODES;
	if (hash && s->mode == BENCH_MODES)
		return error_set(err, ERR_INVALID, "'%.80s': no mode '%.40s'", word, hash + 1);
	if (len >= sizeof(s->path))
		return error_set(err, ERR_INVALID, "'%.80s...': the name is too long", word);
	memcpy(s->path, word, len);
	s->path[len] = '\0';
	return bench_file_read(&s->result, s->path, err);
}

static int parse_slo_limits(struct compare_limit *ret, size_t *n, const struct strv *words,
	struct error *err)
{
	if (words->n > LIMITS_MAX)
		return error_set(err, ERR_LIMIT, "--slo: expected at most %d limits",
			LIMITS_MAX);
	for (*n = 0; *n < words->n; ++*n)
		if (compare_limit_parse(&ret[*n], words->v[*n], err) < 0)
			return error_prefix(err, "--slo");
	return 0;
}

/* --- text output --- */

static void value_text(char *buf, enum compare_measure m, double v)
{
	if (!(v > 0))
		(void)snprintf(buf, CELL_MAX, "-");
	else if (m == COMPARE_RATE)
		(void)snprintf(buf, CELL_MAX, "%.*f/s", v < 10 ? 2 : v < 100 ? 1 : 0, v);
	else if (m == COMPARE_SLOWDOWN)
		(void)snprintf(buf, CELL_MAX, "%.2fx", v);
	else
		(void)bench_print_ns(v, buf);
}

/* As value_text(), with more digits if the text would equal that of the limit that the value misses. */
static void format_distinct_value(char *buf, const struct compare_limit *l, double v)
{
	static const char *const
		units[COMPARE_MEASURES] = { [COMPARE_RATE] = "/s", [COMPARE_SLOWDOWN] = "x" };
	char limit[CELL_MAX];

	value_text(buf, l->measure, v);
	value_text(limit, l->measure, l->value);
	if (l->relative || v == l->value || strcmp(buf, limit) != 0)
		return;
	if (units[l->measure])
		(void)snprintf(buf, CELL_MAX, "%.7g%s", v, units[l->measure]);
	else
		(void)snprintf(buf, CELL_MAX, "%.7g ms", v / 1e6);
}

static void limit_text(char *buf, const struct compare_limit *l)
{
	char value[CELL_MAX];

	if (l->relative) {
		(void)snprintf(buf, CELL_MAX, "%s%g%%", l->measure == COMPARE_RATE ? "-" : "+",
			100 * l->value);
		return;
	}
	value_text(value, l->measure, l->value);
	(void)snprintf(buf, CELL_MAX, "%s %.40s",
		l->measure == COMPARE_RATE ? ">=" : "<=", value);
}

static void add_change(struct table *t, const struct compare_line *l)
{
	struct interval i = l->change_interval;
	double change = 100 * (l->change - 1), low = 100 * (i.low - 1),
	       high = 100 * (i.high - 1);
	double limit = !l->limit->relative
			       ? NAN
			       : 100 * (l->limit->measure == COMPARE_RATE ? -l->limit->value
									  : l->limit->value);

	if (isnan(l->change))
		table_add(t, "-");
	else if (!isfinite(i.low) || !isfinite(i.high))
		table_addf(t, "%+.*f%% (one repetition)", digits_to_differ(change, limit, 1),
			change);
	else
		table_addf(t, "%+.*f%% (%+.*f to %+.*f)", digits_to_differ(change, limit, 1),
			change, digits_to_differ(low, limit, 1), low,
			digits_to_differ(high, limit, 1), high);
}

static void add_row_names(struct table *t, const struct compare_line *l)
{
	table_add(t, l->a->scenario);
	if (l->a->mode == l->b->mode)
		table_add(t, l->a->mode_name);
	else
		table_addf(t, "%s, %s", l->a->mode_name, l->b->mode_name);
	if (isnan(l->b->weight))
		table_addf(t, "%u %s", l->b->replicas, l->b->workload);
	else
		table_addf(t, "%s, weight %g", l->b->workload, l->b->weight);
}

static void add_compare_line(struct table *t, const struct compare_line *l)
{
	char cell[CELL_MAX];

	add_row_names(t, l);
	table_add(t, compare_measure_names[l->limit->measure]);
	value_text(cell, l->limit->measure, l->was.value);
	table_add(t, cell);
	format_distinct_value(cell, l->limit, l->is.value);
	table_add(t, cell);
	add_change(t, l);
	limit_text(cell, l->limit);
	table_add(t, cell);
	table_add(t, compare_verdict_names[l->verdict]);
}

static size_t count_compare_verdicts(const struct compare *c, enum compare_verdict v)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += c->lines[i].verdict == v;
	return n;
}

static void print_side(struct buf *b, const char *name, const struct compare_side *s)
{
	const struct bench_head *h = &s->result.head;

	buf_printf(b, "%s %s: %s%s, driver %s, %s\n", name, s->path,
		h->simulated ? "SIMULATED " : "", h->gpu, h->driver, h->made);
}

/* Notes workloads whose kernels differ in size: their rows are not of the same work. */
static void print_sizes(struct buf *b, const struct bench_result *before,
	const struct bench_result *after)
{
	for (size_t i = 0; i < after->n_sizes; i++) {
		const struct bench_size *s = &after->sizes[i],
					*was = bench_size_of(before, s->workload);

		if (was && (was->rounds != s->rounds ||
				   was->multiprocessors != s->multiprocessors))
			buf_printf(b,
				"A kernel of %s is %+.1f%% of work after; 'gpuslice bench --like %s' "
				"takes what there was before.\n",
				s->workload,
				100 * ((double)s->rounds * s->multiprocessors /
						      (double)was->rounds /
						      was->multiprocessors -
					      1),
				"BEFORE");
	}
}

/* Cost of a million units of work if the row's pods pay for the whole GPU. NaN: no price is known. */
static double get_cost_per_million(const struct compare_line *l, const struct estimate *rate,
	const struct compare_side *s)
{
	double usd = s->result.head.usd_per_hour;

	if (l->limit->measure != COMPARE_RATE || !(usd > 0) || !(rate->value > 0))
		return NAN;
	return usd / 3600 / rate->value * 1e6;
}

static void print_costs(struct buf *b, const struct compare *c,
	const struct compare_side *before, const struct compare_side *after)
{
	static const char *const heads[] = { "USD OF A MILLION", "MODE", "PODS", "BEFORE",
		"AFTER", "CHANGE", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };

	table_init(&t, heads);
	for (size_t i = 0; i < c->n; i++) {
		const struct compare_line *l = &c->lines[i];
		double was = get_cost_per_million(l, &l->was, before),
		       is = get_cost_per_million(l, &l->is, after);

		if (isnan(was) || isnan(is))
			continue;
		add_row_names(&t, l);
		table_addf(&t, "%.3g", was);
		table_addf(&t, "%.3g", is);
		table_addf(&t, "%+.1f%%", 100 * (is / was - 1));
	}
	if (table_has_rows(&t)) {
		buf_putc(b, '\n');
		table_print(&t, b);
	}
}

static void print_failed_checks(struct buf *b, const struct bench_result *before,
	const struct bench_result *after)
{
	const struct bench_isolation *isolation = compare_failed_check(before, after, NULL);

	for (; isolation; isolation = compare_failed_check(before, after, isolation + 1))
		buf_printf(b, "Isolation: %s, %s passed before and fails now: %s\n",
			isolation->name, isolation->mode_name, isolation->what);
}

/* Lists rows and isolation tests that only @before has, after an empty line. */
static void print_lost(struct buf *b, const struct bench_result *before,
	const struct bench_result *after)
{
	const struct bench_row *row = compare_find_lost_row(before, after, NULL);
	const struct bench_isolation *isolation = compare_find_lost_check(before, after, NULL);

	buf_putc(b, '\n');
	for (; row; row = compare_find_lost_row(before, after, row + 1))
		buf_printf(b, "Inconclusive: %s, %s, %s was measured before and is not now\n",
			row->scenario, row->mode_name, row->workload);
	for (; isolation; isolation = compare_find_lost_check(before, after, isolation + 1))
		buf_printf(b,
			"Inconclusive: isolation test %s, %s %s before and is not known now\n",
			isolation->name, isolation->mode_name,
			isolation->passed ? "passed" : "failed");
}

/* Prints what disturbed a row, once for each pair of rows. */
static void print_compare_doubts(struct buf *b, const struct compare *c)
{
	buf_putc(b, '\n');
	for (size_t i = 0; i < c->n; i++) {
		const struct compare_line *l = &c->lines[i];

		if (*l->doubt && (!i || l[-1].a != l->a))
			buf_printf(b, "Inconclusive: %s, %s: %s\n", l->a->scenario,
				l->a->workload, l->doubt);
	}
}

static void print_compare_text(struct buf *b, const struct compare *c,
	const struct compare_side *before, const struct compare_side *after)
{
	bool lost = before->mode == BENCH_MODES && c->only_a + c->lost_checks;
	static const char *const heads[] = { "SCENARIO", "MODE", "PODS", "MEASURE", "BEFORE",
		"AFTER", "CHANGE (95 %)", "LIMIT", "VERDICT", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };

	print_side(b, "before", before);
	print_side(b, "after ", after);
	if (strcmp(before->result.head.gpu, after->result.head.gpu) != 0)
		buf_puts(b, "The GPUs are not of one model: what changed may be that.\n");
	print_sizes(b, &before->result, &after->result);
	buf_putc(b, '\n');
	table_init(&t, heads);
	for (size_t i = 0; i < c->n; i++)
		add_compare_line(&t, &c->lines[i]);
	table_print(&t, b);
	print_costs(b, c, before, after);
	if (c->failed_checks) {
		buf_putc(b, '\n');
		print_failed_checks(b, &before->result, &after->result);
	}
	if (lost)
		print_lost(b, &before->result, &after->result);
	if (c->doubtful_rows)
		print_compare_doubts(b, c);
	buf_printf(b, "\n%s: %zu pass, %zu fail, %zu inconclusive",
		compare_verdict_names[c->verdict], count_compare_verdicts(c, COMPARE_PASS),
		count_compare_verdicts(c, COMPARE_FAIL),
		count_compare_verdicts(c, COMPARE_INCONCLUSIVE));
	if (c->failed_rows)
		buf_printf(b, "; %zu row%s with errors that were not there before",
			c->failed_rows, c->failed_rows == 1 ? "" : "s");
	if (c->failed_checks)
		buf_printf(b, "; %zu isolation test%s that passed before", c->failed_checks,
			c->failed_checks == 1 ? "" : "s");
	if (c->lost_checks)
		buf_printf(b, "; %zu isolation test%s known only before", c->lost_checks,
			c->lost_checks == 1 ? "" : "s");
	if (c->only_a + c->only_b)
		buf_printf(b, "; %zu row%s only before, %zu only after", c->only_a,
			c->only_a == 1 ? "" : "s", c->only_b);
	buf_putc(b, '\n');
	if (c->verdict == COMPARE_INCONCLUSIVE)
		buf_puts(b,
			c->doubtful_rows ? "Measure again without what disturbed it.\n"
			: lost           ? "Measure again, with all that was measured before.\n"
			       : "More repetitions, or longer ones, would make the intervals smaller.\n");
}

/* --- JSON output --- */

static json_t *render_compare_number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *render_compare_line_json(const struct compare_line *l,
	const struct compare_side *before, const struct compare_side *after)
{
	return json_pack(
		"{s:s, s:s, s:s, s:s, s:i, s:o, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o}",
		"scenario", l->a->scenario, "mode", l->a->mode_name, "modeAfter",
		l->b->mode_name, "workload", l->a->workload, "replicas", (int)l->b->replicas,
		"weight", render_compare_number(l->b->weight), "measure",
		compare_measure_names[l->limit->measure], "relative", (int)l->limit->relative,
		"limit", render_compare_number(l->limit->value), "before",
		render_compare_number(l->was.value), "after",
		render_compare_number(l->is.value), "change",
		render_compare_number(l->change - 1), "changeLow",
		render_compare_number(l->change_interval.low - 1), "changeHigh",
		render_compare_number(l->change_interval.high - 1), "usdPerMillionBefore",
		render_compare_number(get_cost_per_million(l, &l->was, before)),
		"usdPerMillionAfter",
		render_compare_number(get_cost_per_million(l, &l->is, after)), "verdict",
		compare_verdict_names[l->verdict], "doubt",
		*l->doubt ? json_string(l->doubt) : json_null());
}

static int print_compare_json(struct buf *b, const struct compare *c,
	const struct compare_side *before, const struct compare_side *after, struct error *err)
{
	json_auto_t *lines = json_array(), *o = NULL;
	char *text;

	for (size_t i = 0; lines && i < c->n; i++)
		(void)json_array_append_new(lines,
			render_compare_line_json(&c->lines[i], before, after));
	o = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:O}", "verdict",
		compare_verdict_names[c->verdict], "rowsInDoubt", (json_int_t)c->doubtful_rows,
		"rowsWithErrors", (json_int_t)c->failed_rows, "checksFailed",
		(json_int_t)c->failed_checks, "checksLost", (json_int_t)c->lost_checks,
		"rowsOnlyBefore", (json_int_t)c->only_a, "rowsOnlyAfter", (json_int_t)c->only_b,
		"lines", lines);
	text = o && json_array_size(lines) == c->n ? json_dumps(o, JSON_INDENT(2)) : NULL;
	if (!text)
		return error_nomem(err);
	buf_puts(b, text);
	buf_putc(b, '\n');
	free(text);
	return 0;
}

static int run_bench_compare(const struct cmd *cmd, const struct options *o, struct error *err)
{
	CLEANUP(side_fini) struct compare_side before = { .mode = BENCH_MODES };
	CLEANUP(side_fini) struct compare_side after = { .mode = BENCH_MODES };
	CLEANUP(compare_fini) struct compare c = { .n = 0 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64 << 20);
	struct compare_limit limits[LIMITS_MAX];
	struct compare_options how = { .limits = limits };
	const char *form = option_str(o, "output", "text");
	bool json = !strcmp(form, "json");

	(void)cmd;
	if (!json && strcmp(form, "text") != 0)
		return error_set(err, ERR_INVALID,
			"--output: expected text or json, found '%.40s'", form);
	if (o->args.n != 2)
		return error_set(err, ERR_INVALID,
			"expected two results, before and after, found %zu", o->args.n);
	if (parse_slo_limits(limits, &how.n_limits, &option_get(o, "slo")->list, err) < 0 ||
		read_side(&before, o->args.v[0], err) < 0 ||
		read_side(&after, o->args.v[1], err) < 0)
		return -1;
	how.mode_a = before.mode;
	how.mode_b = after.mode;
	if ((how.mode_a == BENCH_MODES) != (how.mode_b == BENCH_MODES))
		return error_set(err, ERR_INVALID,
			"expected a mode behind '#' of both results, or of none");
	if (compare_make(&c, &before.result, &after.result, &how, err) < 0)
		return -1;
	if (json && print_compare_json(&b, &c, &before, &after, err) < 0)
		return -1;
	if (!json)
		print_compare_text(&b, &c, &before, &after);
	if (!buf_ok(&b))
		return error_nomem(err);
	if (output_write(NULL, buf_str(&b), b.len, err) < 0)
		return -1;
	return c.verdict == COMPARE_FAIL           ? EXIT_FINDING
	       : c.verdict == COMPARE_INCONCLUSIVE ? EXIT_INCONCLUSIVE
						   : 0;
}

const struct cmd cmd_bench_compare = {
	.name = "bench compare",
	.usage = "BEFORE[#MODE] AFTER[#MODE] [OPTION]...",
	.summary = "say whether a change passed, from two results",
	.description =
		"Each row of both results against each limit: passed if the whole interval of 95 % keeps it,\n"
		"failed if the whole interval breaks it, else inconclusive, as is a row or an isolation test that\n"
		"only BEFORE has. With a mode behind each file, rows of the one mode are compared with those of\n"
		"the other; both may be in one file. Exit status 0: all passed; 1: something failed; 13: nothing\n"
		"failed, but something is inconclusive.\n"
		"\n"
		"  gpuslice bench compare before.json after.json --slo p99=10%,rate=5%\n"
		"  gpuslice bench compare bench.json#time-slicing bench.json#turns-latency --slo p99_ms=2\n",
	.options = compare_options,
	.n_options = ARRAY_LEN(compare_options),
	.run = run_bench_compare,
};
