/* SPDX-License-Identifier: Apache-2.0 */
#include "bench-world.h"
#include "support/test.h"

#include "lib/base/parse.h"
#include "tools/bench/report/model.h"
#include "tools/bench/report/figures.h"
#include "tools/bench/report/report.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define TAGS_MAX       64
#define NAME_MAX_BYTES 32

static const enum bench_mode modes[] = { BENCH_EXCLUSIVE, BENCH_TIME_SLICING, BENCH_FAIR_SHARE,
	BENCH_MPS };

struct world {
	struct bench_result r;
	const struct bench_result *before;
	struct buf page;
};

static void world_fini(struct world *w)
{
	bench_result_fini(&w->r);
	buf_fini(&w->page);
}

static struct noise quiet(unsigned int runs)
{
	return (struct noise){ .state = 7,
		.mean_ns = 4e6,
		.within = 0.02,
		.between = 0.002,
		.runs = runs,
		.blocks = 10,
		.units = 20 };
}

static void world_init(struct world *w, unsigned int runs)
{
	struct noise n = quiet(runs);

	*w = (struct world){ .page = BUF_INIT(BENCH_REPORT_MAX) };
	noise_result(&w->r, &n, modes, ARRAY_LEN(modes));
	for (size_t i = 0; i < w->r.n_rows; i++)
		w->r.rows[i].scenario = i ? "4 burn" : "alone";
}

static size_t count_text(const struct world *w, const char *text)
{
	size_t n = 0;

	for (const char *p = buf_str(&w->page); (p = strstr(p, text)); p += strlen(text))
		n++;
	return n;
}

static bool has_text(const struct world *w, const char *text)
{
	return count_text(w, text) > 0;
}

/* --- what every page must be --- */

/* The page has @word as a word of its own, in upper or lower case. */
static bool has_word(const char *page, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = page; *p; p++)
		if (!strncasecmp(p, word, len) && !isalnum((unsigned char)p[len]) &&
			(p == page || !isalnum((unsigned char)p[-1]))) {
			print_message("# %.80s\n", p > page + 40 ? p - 40 : page);
			return true;
		}
	return false;
}

static void check_entity(const char *p)
{
	static const char *const known[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#39;" };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (!strncmp(p, known[i], strlen(known[i])))
			return;
	fail_msg("not escaped: %.60s", p);
}

/* The end of a tag: attributes have quotes in pairs, and no '<' outside of text. */
static const char *tag_end(const char *p)
{
	bool quoted = false;

	for (const char *at = p + 1; *at; at++) {
		if (*at == '"')
			quoted = !quoted;
		else if (*at == '<')
			fail_msg("a tag within a tag: %.60s", p);
		else if (*at == '>' && !quoted)
			return at;
	}
	fail_msg("no end of a tag: %.60s", p);
	return p;
}

struct open_tags {
	size_t n;
	char name[TAGS_MAX][NAME_MAX_BYTES];
};

static void check_tag(struct open_tags *t, const char *p, const char *end)
{
	bool closes = p[1] == '/';
	const char *name = p + 1 + closes;
	size_t len = strcspn(name, " />\n");

	assert_in_range(len, 1, NAME_MAX_BYTES - 1);
	if (end[-1] == '/')
		return;
	if (!closes) {
		assert_in_range(t->n, 0, TAGS_MAX - 1);
		(void)snprintf(t->name[t->n++], NAME_MAX_BYTES, "%.*s", (int)len, name);
		return;
	}
	assert_in_range(t->n, 1, TAGS_MAX);
	t->n--;
	if (strlen(t->name[t->n]) != len || strncmp(t->name[t->n], name, len) != 0)
		fail_msg("<%s> is closed by %.40s", t->name[t->n], p);
}

/* Tags are balanced, text is escaped, and there is no figure that is none. */
static void check_page(const struct world *w)
{
	static const char doctype[] = "<!DOCTYPE html>";
	const char *page = buf_str(&w->page);
	struct open_tags t = { .n = 0 };

	assert_false(strncmp(page, doctype, strlen(doctype)));
	for (const char *p = page + strlen(doctype); *p; p++) {
		const char *end;

		if (*p == '&')
			check_entity(p);
		if (*p != '<')
			continue;
		end = tag_end(p);
		check_tag(&t, p, end);
		p = end;
	}
	assert_int_equal(t.n, 0);
	assert_false(has_word(page, "nan"));
	assert_false(has_word(page, "inf"));
	assert_null(strstr(page, "<script"));
	assert_null(strstr(page, "(null)"));
	for (const char *p = page; (p = strstr(p, "://")); p += 3)
		assert_false(strncmp(p - 4, "http://www.w3.org/2000/svg", 26));
}

static void make_report_page(struct world *w)
{
	struct error err = ERROR_INIT;

	buf_clear(&w->page);
	assert_ok(bench_report(&w->page, &w->r, w->before, &err), &err);
	check_page(w);
}

/* --- tests --- */

static void page__has_tables_and_plots_of_each_scenario(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w, 3);
	make_report_page(&w);
	assert_true(has_text(&w, "<h2>4 burn</h2>"));
	assert_true(has_text(&w, "<h2>One pod alone, which the others are held against</h2>"));
	assert_true(has_text(&w, "Throughput of 4 burn in 4 burn"));
	assert_true(has_text(&w, "Times of units of 4 burn in 4 burn"));
	assert_int_equal(count_text(&w, "<title id=\"t"), 2 + 3); /* shares of three modes */
	assert_true(has_text(&w, "Shares of 4 burn in 4 burn, time-slicing"));
	assert_true(has_text(&w, "How it was measured"));
	assert_false(has_text(&w, "<h2>Isolation</h2>"));
	assert_false(has_text(&w, "<h2>Notes</h2>"));
}

/* An unknown figure has no column; a known figure has one. */
static void table__has_only_columns_with_a_known_figure(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w, 3);
	make_report_page(&w);
	assert_true(has_text(&w, ">power W<"));
	assert_false(has_text(&w, ">DRAM active<"));
	assert_false(has_text(&w, ">model error<"));
	assert_false(has_text(&w, ">USD per million<"));
	w.r.rows[2].runs[1].gpu.dram_active = 0.125;
	w.r.rows[1].planned_s = 8e-3;
	w.r.rows[1].planned_rate = 900;
	w.r.head.usd_per_hour = 3;
	make_report_page(&w);
	assert_true(has_text(&w, ">DRAM active<"));
	assert_true(has_text(&w, ">12.5%<"));
	assert_true(has_text(&w, ">model mean<"));
	assert_true(has_text(&w, ">8.00 ms<"));
	assert_true(has_text(&w, ">+100.") || has_text(&w, ">+99."));
	assert_true(has_text(&w, ">USD per million<"));
	assert_true(has_text(&w, "class=\"planned\""));
}

static const char hostile[] = "<b onclick=\"x\">&'\x01</b></title></svg></style>\xc3\xa4";

static void set_hostile_texts(struct bench_result *r, struct bench_isolation *check,
	const char **note)
{
	struct bench_head *h = &r->head;
	const char **texts[] = { &h->made, &h->version, &h->command, &h->kernel, &h->driver,
		&h->cuda, &h->gpu, &h->uuid, &h->compute_mode, &h->cpu, &h->price_source,
		&check->name, &check->mode_name, &check->what, &check->unit, note };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		*texts[i] = hostile;
	for (size_t i = 0; i < r->n_rows; i++) {
		r->rows[i].scenario = r->rows[i].workload = r->rows[i].mode_name = hostile;
		r->rows[i].runs[0].errors = i == 1;
		r->rows[i].runs[0].error = hostile;
	}
	r->checks = calloc(1, sizeof(*r->checks));
	r->notes = calloc(1, sizeof(*r->notes));
	assert_true(r->checks && r->notes);
	*r->checks = *check;
	*r->notes = *note;
	r->n_checks = r->n_notes = 1;
}

static void page__escapes_all_texts(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct bench_isolation check = { .known = true, .value = 1 };
	const char *note;

	(void)state;
	world_init(&w, 2);
	set_hostile_texts(&w.r, &check, &note);
	make_report_page(&w);
	assert_false(has_text(&w, "<b onclick"));
	assert_true(has_text(&w,
		"<li>&lt;b onclick=&quot;x&quot;&gt;&amp;&#39;\xef\xbf\xbd&lt;/b&gt;"));
	assert_int_equal(count_text(&w, "</title>\n<style>"), 1);
	assert_int_equal(count_text(&w, "</style>"), 1);
}

static void page__is_marked_as_simulated_everywhere(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w, 2);
	make_report_page(&w);
	assert_true(has_text(&w, "<title>SIMULATED - GPU sharing benchmark"));
	assert_true(has_text(&w, "<strong>SIMULATED</strong>"));
	assert_true(has_text(&w, "class=\"paper\" aria-hidden=\"true\">SIMULATED<"));
	assert_true(count_text(&w, "<svg ") > 0);
	assert_int_equal(count_text(&w, "class=\"watermark mid\""), count_text(&w, "<svg "));
	w.r.head.simulated = false;
	make_report_page(&w);
	assert_false(has_text(&w, "SIMULATED"));
}

static void checks__pass_fail_or_are_inconclusive(void **state)
{
	static const struct bench_isolation checks[] = {
		{ "memory limit", "turns", "refused at 1024 MiB", true, true, 1.5, "MiB over" },
		{ "noisy neighbour", "mps", "p99 is 9 times", false, true, NAN, "" },
		{ "fault", "mig", "no MIG here", false, false, INFINITY, "" },
	};
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w, 2);
	w.r.checks = calloc(ARRAY_LEN(checks), sizeof(*checks));
	assert_non_null(w.r.checks);
	memcpy(w.r.checks, checks, sizeof(checks));
	w.r.n_checks = ARRAY_LEN(checks);
	make_report_page(&w);
	assert_true(has_text(&w, "<h2>Isolation</h2>"));
	assert_true(has_text(&w,
		"<td class=\"passed\">PASS</td><td class=\"amount\">1.5 MiB over<"));
	assert_true(has_text(&w, "<td class=\"failed\">FAIL</td><td class=\"amount\"></td>"));
	assert_true(has_text(&w, "<td class=\"open\">inconclusive</td>"));
	assert_true(has_text(&w, "no MIG here"));
	assert_true(has_text(&w, "turns</span>: passes; "));
	assert_true(has_text(&w,
		"mps</span>: noisy neighbour <strong class=\"failed\">fails</strong>."));
}

/* Only errors in one mode: the page shows and reports them, and the other modes do not suffer. */
static void page__reports_failures(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct bench_row *row;

	(void)state;
	world_init(&w, 2);
	row = &w.r.rows[3];
	for (size_t i = 0; i < row->n; i++) {
		struct bench_run *run = &row->runs[i];

		for (size_t k = 0; k < run->n_blocks; k++)
			hist_packed_fini(&run->blocks[k].times);
		memset(run->units, 0, run->n_pods * run->n_blocks * sizeof(*run->units));
		run->errors = 4;
		run->error = i ? "no room <here>" : "cuInit: no device";
	}
	make_report_page(&w);
	assert_true(has_text(&w, "cuInit: no device<br/>no room &lt;here&gt;"));
	assert_true(has_text(&w, "<td class=\"failed\">8</td>"));
	assert_true(has_text(&w, "<strong>Errors</strong> under "));
	assert_true(has_text(&w, "<td class=\"failed\">errors</td>"));
	assert_int_equal(count_text(&w, ">mps</text>"), 1); /* a bar of nothing, and no curve */
	assert_false(has_text(&w, "Shares of 4 burn in 4 burn, mps"));
	/* All modes fail: no mode is best. */
	for (size_t i = 0; i < w.r.n_rows; i++)
		w.r.rows[i].runs[0].errors = 1;
	make_report_page(&w);
	assert_true(has_text(&w, "nothing was measured without errors"));
}

static void page__shows_no_interval_of_one_repetition(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w, 3);
	make_report_page(&w);
	assert_true(has_text(&w, "± "));
	assert_true(has_text(&w, "class=\"whisker\""));
	world_fini(&w);
	world_init(&w, 1);
	make_report_page(&w);
	assert_false(has_text(&w, "± 0"));
	assert_false(has_text(&w, "class=\"whisker\""));
	assert_true(has_text(&w, "There was one repetition"));
	assert_false(has_text(&w, "(not to be told from"));
	assert_true(has_text(&w, "Most work under "));
}

static void page__is_valid_without_results(void **state)
{
	CLEANUP(world_fini) struct world w = { .page = BUF_INIT(BENCH_REPORT_MAX) };
	struct noise n = quiet(2);

	(void)state;
	make_report_page(&w);
	assert_true(has_text(&w, "Nothing was measured."));
	/* A row without a measurement, and runs without blocks and pods. */
	noise_result(&w.r, &n, modes, ARRAY_LEN(modes));
	for (size_t i = 0; i < w.r.n_rows; i++)
		for (size_t k = 0; k < w.r.rows[i].n; k++) {
			struct bench_run *run = &w.r.rows[i].runs[k];

			for (size_t m = 0; m < run->n_blocks; m++)
				hist_packed_fini(&run->blocks[m].times);
			run->n_blocks = run->n_pods = 0;
		}
	make_report_page(&w);
	for (size_t k = 0; k < w.r.rows[3].n; k++) {
		free(w.r.rows[3].runs[k].blocks);
		free(w.r.rows[3].runs[k].units);
	}
	w.r.rows[3].n = 0;
	make_report_page(&w);
	w.r.head.interrupted = true;
	make_report_page(&w);
	assert_true(has_text(&w, "<strong>Interrupted.</strong>"));
}

/* A file may have any number. */
static void page__survives_figures_beyond_all_bounds(void **state)
{
	static const double figures[] = { 0, -1, 1e-320, 1e308, 1.7e308, INFINITY, NAN };
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w, 2);
	for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
		double v = figures[i];

		for (size_t k = 0; k < w.r.n_rows; k++) {
			struct bench_row *row = &w.r.rows[k];

			row->planned_s = row->planned_rate = row->sm_share = v;
			row->weight = k == 1 ? v : NAN;
			row->offered = k == 2 ? v : NAN;
			row->runs[0].gpu = (struct bench_gpu){ v, v, v, v, v, v };
			row->runs[0].blocks[0].seconds = v > 0 ? v : 0;
			row->runs[0].blocks[1].times.sum_ns = v > 0 ? v : 0;
			row->runs[1].seconds = v > 0 ? v : 1e-300;
		}
		w.r.head.usd_per_hour = w.r.head.seconds = w.r.head.warmup_s = v;
		w.r.head.memory_mib = w.r.head.multiprocessors = w.r.head.power_limit_w = v;
		make_report_page(&w);
	}
}

static void make_weights(struct bench_result *r)
{
	struct noise n = quiet(3);

	*r = (struct bench_result){ .head = { .gpu = "G", .repetitions = 3 },
		.n_rows = 4,
		.rows = calloc(4, sizeof(*r->rows)) };
	assert_non_null(r->rows);
	for (size_t i = 0; i < 4; i++) {
		/* Blocks are equally long, as they are when pods share a GPU. */
		n.mean_ns = i ? 12e6 / (double)i : 2e6;
		n.units = i ? 10 * (unsigned int)i : 60;
		noise_row(&r->rows[i], &n, i ? BENCH_FAIR_SHARE_WEIGHTED : BENCH_EXCLUSIVE, 1);
		r->rows[i].scenario = i ? "3 burn" : "alone";
		r->rows[i].pods = i ? 3 : 1;
		if (i)
			r->rows[i].weight = (double)i;
	}
}

/* Numbers from behind @after on, whatever is between them. Returns where they end. */
static const char *read_numbers(double *ret, size_t n, const char *text, const char *after)
{
	const char *p = strstr(text, after);

	assert_non_null(p);
	p += strlen(after);
	for (size_t i = 0; i < n; i++) {
		char word[32];
		size_t len;

		p += strcspn(p, "0123456789-");
		len = strspn(p, "0123456789-.");
		(void)snprintf(word, sizeof(word), "%.*s", (int)len, p);
		assert_true(parse_double(word, &ret[i]));
		p += len;
	}
	return p;
}

static bool is_near(double a, double b)
{
	return fabs(a - b) < 0.6;
}

/* One bar of stacked sections, with sizes by weight. */
static void check_bar_parts(const char *page)
{
	double all = 0, end = 0, v[4], first = 0;

	for (size_t i = 0; i < 3; i++) {
		page = read_numbers(v, 4, page, "class=\"bar m3\""); /* x, y, width, height */
		assert_true(v[2] > 5);
		assert_true(!i || is_near(v[0], end));
		first = i ? first : v[2];
		assert_true(fabs(v[2] / first - (double)(i + 1)) < 0.15);
		end = v[0] + v[2];
		all += v[2];
	}
	assert_true(all > 200); /* of 304 that exist: one pod alone does a little more */
}

static void pods_of_different_weights__are_joined(void **state)
{
	CLEANUP(world_fini) struct world w = { .page = BUF_INIT(BENCH_REPORT_MAX) };
	CLEANUP(report_fini) struct bench_report_model model = { .n_rows = 0 };
	struct error err = ERROR_INIT;
	const struct report_mode *m;

	(void)state;
	make_weights(&w.r);
	assert_ok(report_make(&model, &w.r, &err), &err);
	assert_int_equal(model.n_scenarios, 2);
	assert_string_equal(model.scenarios[0].name,
		"3 burn"); /* what compares nothing is last */
	assert_int_equal(model.scenarios[0].n, 1);
	assert_int_equal(model.scenarios[0].kinds[0].n, 1);
	m = &model.scenarios[0].kinds[0].modes[0];
	assert_int_equal(m->n, 3);
	assert_int_equal(m->all->replicas, 3);
	assert_int_equal(m->all->runs[0].n_pods, 3);
	assert_true(report_weight(m, 2) == 3);
	assert_int_equal(m->all->runs[1].blocks[4].times.n,
		w.r.rows[1].runs[1].blocks[4].times.n + w.r.rows[2].runs[1].blocks[4].times.n +
			w.r.rows[3].runs[1].blocks[4].times.n);
	assert_int_equal(m->all->runs[2].units[2 * 10 + 5], w.r.rows[3].runs[2].units[5]);
	make_report_page(&w);
	assert_true(has_text(&w, " weights 1, 2, 3 gave 1"));
	assert_true(has_text(&w, "<td>weight 3</td>"));
	assert_true(has_text(&w, "Shares of 3 burn in 3 burn, turns-weighted"));
	assert_true(has_text(&w, ">w2<"));
	check_bar_parts(buf_str(&w.page));
}

static void add_times(struct hist *h, uint64_t ns, unsigned int n)
{
	while (n--)
		hist_add(h, ns);
}

/* Ten of a hundred units take longer than 1 ms, and one longer than 10 ms: the curve goes through these. */
static void tails__match_the_times(void **state)
{
	static const double expected[] = { 58, 14, 58, 14, 58, 100.7, 202, 100.7, 202, 187.3,
		346, 187.3 };
	CLEANUP(world_fini) struct world w;
	struct error err = ERROR_INIT;
	struct hist h = { 0 };
	double v[ARRAY_LEN(expected)];

	(void)state;
	world_init(&w, 2);
	add_times(&h, 1000000, 90);
	add_times(&h, 10000000, 9);
	add_times(&h, 100000000, 1);
	for (size_t i = 0; i < w.r.n_rows; i++)
		for (size_t k = 0; k < w.r.rows[i].n * 10; k++) {
			struct hist_packed *p = &w.r.rows[i].runs[k / 10].blocks[k % 10].times;

			hist_packed_fini(p);
			if (k % 10 == 0)
				assert_ok(hist_pack(p, &h, &err), &err);
		}
	make_report_page(&w);
	(void)read_numbers(v, ARRAY_LEN(v), buf_str(&w.page), "class=\"curve m2\" d=");
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		if (!is_near(v[i], expected[i]))
			fail_msg("number %zu of the curve is %g, expected %g", i, v[i],
				expected[i]);
}

/* The summary reports no difference between equal modes, and reports real differences. */
static void summary__names_the_best_mode_and_inconclusive_ones(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w, 3);
	make_report_page(&w);
	assert_true(has_text(&w, "(not to be told from "));
	assert_false(has_text(&w, "; least under "));
	for (size_t k = 0; k < w.r.rows[1].n; k++) {
		struct bench_run *run = &w.r.rows[1].runs[k];

		for (size_t i = 0; i < run->n_blocks; i++)
			run->blocks[i].seconds *= 1.1;
		run->seconds *= 1.1;
	}
	make_report_page(&w);
	assert_true(has_text(&w,
		"; least under <span class=\"whole\"><span class=\"key m1\"></span>"
		"<b>time-slicing</b>"));
}

/* For requests at a fixed rate, throughput shows only whether the mode serves them. */
static void summary__names_pods_that_do_not_keep_up(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w, 3);
	for (size_t i = 0; i < w.r.n_rows; i++)
		w.r.rows[i].offered = 100;
	make_report_page(&w);
	assert_true(
		has_text(&w, "The 400 units/s that are asked for are served in every mode."));
	for (size_t i = 0; i < w.r.n_rows; i++)
		w.r.rows[i].offered = 1000;
	make_report_page(&w);
	assert_true(has_text(&w, "Does not keep up under "));
	assert_true(has_text(&w, " of the 4000 units/s that are asked for."));
}

static void add_one_check(struct bench_result *r, bool passed)
{
	r->checks = calloc(1, sizeof(*r->checks));
	assert_non_null(r->checks);
	r->checks[0] = (struct bench_isolation){ "memory", "turns", "", passed, true, 1, "%" };
	r->n_checks = 1;
}

/* The page reports the planted changes and no others. The plots have the earlier figures. */
static void changes__are_reported_where_they_are_significant(void **state)
{
	CLEANUP(world_fini) struct world before, after;
	struct error err = ERROR_INIT;

	(void)state;
	world_init(&before, 3);
	world_init(&after, 3);
	make_report_page(&after);
	assert_false(has_text(&after, "<h2>What changed</h2>"));
	assert_false(has_text(&after, "bar was m"));
	for (size_t k = 0; k < after.r.rows[2].n; k++)
		for (size_t i = 0; i < after.r.rows[2].runs[k].n_blocks; i++)
			after.r.rows[2].runs[k].blocks[i].seconds *= 1.2;
	after.r.rows[3].runs[0].errors = 1;
	after.before = &before.r;
	after.r.head.simulated = false; /* one simulated result is enough */
	add_one_check(&before.r, true);
	add_one_check(&after.r, false);
	make_report_page(&after);
	assert_true(has_text(&after, "<h2>What changed</h2>"));
	assert_true(has_text(&after,
		"<li>Throughput: 0 better, 1 worse, 3 that cannot be told.</li>"));
	assert_true(
		has_text(&after, "<li>p99: 0 better, 0 worse, 4 that cannot be told.</li>"));
	assert_true(has_text(&after, "<td>-16.7% <small>("));
	assert_true(has_text(&after, "errors that were not there before: 1."));
	assert_true(has_text(&after,
		"Passed before and fails now</strong>: memory under turns.</li>"));
	assert_int_equal(count_text(&after, "class=\"bar was m"), 3);
	assert_int_equal(count_text(&after, "class=\"curve was m"), 3);
	assert_true(has_text(&after, "<title>SIMULATED"));
	for (size_t i = 0; i < before.r.n_rows; i++)
		before.r.rows[i].scenario = "another";
	assert_error(bench_report(&after.page, &after.r, &before.r, &err), &err,
		"no row in common");
}

static void page__of_hundreds_of_rows_has_a_limit(void **state)
{
	CLEANUP(world_fini) struct world w = { .page = BUF_INIT(BENCH_REPORT_MAX) };
	struct noise n = { .state = 3, .mean_ns = 1e6, .runs = 1, .blocks = 2, .units = 8 };
	struct error err = ERROR_INIT;
	struct buf small = BUF_INIT(10000);
	static char names[250][32];

	(void)state;
	w.r.rows = calloc(ARRAY_LEN(names), sizeof(*w.r.rows));
	assert_non_null(w.r.rows);
	for (; w.r.n_rows < ARRAY_LEN(names); w.r.n_rows++) {
		struct bench_row *row = &w.r.rows[w.r.n_rows];

		noise_row(row, &n, BENCH_FAIR_SHARE, 4);
		(void)snprintf(names[w.r.n_rows], sizeof(names[0]), "s%zu", w.r.n_rows / 2);
		row->scenario = names[w.r.n_rows];
		row->mode = w.r.n_rows % 2 ? BENCH_MPS : BENCH_FAIR_SHARE;
		row->mode_name = bench_mode_names[row->mode];
	}
	make_report_page(&w);
	assert_true(has_text(&w, "<h2>s124</h2>"));
	assert_error(bench_report(&small, &w.r, NULL, &err), &err,
		"the report: expected at most");
	assert_int_equal(err.code, ERR_LIMIT);
	buf_fini(&small);
}

static void number__has_about_three_digits(void **state)
{
	static const struct {
		double v;
		const char *text;
	} rows[] = { { 0, "0.00" }, { 9.994, "9.99" }, { 9.996, "10.0" }, { 99.94, "99.9" },
		{ 99.96, "100" }, { -3.14159, "-3.14" }, { 22230.4, "22230" }, { NAN, "-" },
		{ INFINITY, "-" } };
	char buf[BENCH_NUMBER_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_string_equal(bench_print_number(rows[i].v, buf), rows[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(page__has_tables_and_plots_of_each_scenario),
		cmocka_unit_test(table__has_only_columns_with_a_known_figure),
		cmocka_unit_test(page__escapes_all_texts),
		cmocka_unit_test(page__is_marked_as_simulated_everywhere),
		cmocka_unit_test(checks__pass_fail_or_are_inconclusive),
		cmocka_unit_test(page__reports_failures),
		cmocka_unit_test(page__shows_no_interval_of_one_repetition),
		cmocka_unit_test(page__is_valid_without_results),
		cmocka_unit_test(page__survives_figures_beyond_all_bounds),
		cmocka_unit_test(pods_of_different_weights__are_joined),
		cmocka_unit_test(tails__match_the_times),
		cmocka_unit_test(summary__names_the_best_mode_and_inconclusive_ones),
		cmocka_unit_test(summary__names_pods_that_do_not_keep_up),
		cmocka_unit_test(changes__are_reported_where_they_are_significant),
		cmocka_unit_test(page__of_hundreds_of_rows_has_a_limit),
		cmocka_unit_test(number__has_about_three_digits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
