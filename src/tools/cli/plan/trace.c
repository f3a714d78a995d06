/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/plan/trace.h"

#include "lib/base/buf.h"
#include "lib/base/time.h"
#include "tools/cli/output.h"
#include "tools/cli/table/table.h"
#include "tools/simulate/place/cutting-stock.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEXT_MAX       (1U << 20)
#define PERCENT        100.0
#define PROGRESS_EVERY (NS_PER_SEC / 5)

/* The results of all runs of one policy. */
struct trace_policy_line {
	const char *policy;
	uint64_t runs;
	double sum[REPLAY_POINTS], squares[REPLAY_POINTS]; /* percent of the cluster's GPUs */
	double least, most; /* percent allocated when pods have asked for all GPUs */
	uint64_t decisions, ns, max_ns;
};

struct trace_job {
	const struct plan_trace *t;
	struct place_trace trace;
	struct trace_policy_line *lines;
	size_t n_lines;
	uint64_t done, all; /* runs */
	uint64_t shown_ns;
	bool terminal;
};

static volatile sig_atomic_t stopped;

static void on_trace_signal(int signal)
{
	(void)signal;
	stopped = 1;
}

static uint32_t full_point(void)
{
	uint32_t i = 0;

	while (replay_points[i] != 100)
		i++;
	return i;
}

/* ---- running ------------------------------------------------------------------------------------ */

static bool on_trace_progress(void *arg)
{
	struct trace_job *j = arg;
	uint64_t now = time_mono_ns();

	if (j->terminal && now - j->shown_ns > PROGRESS_EVERY) {
		j->shown_ns = now;
		(void)fprintf(stderr, "\r%llu of %llu runs ", (unsigned long long)j->done,
			(unsigned long long)j->all);
	}
	return !stopped;
}

static int run_trace_replay(struct trace_job *j, struct trace_policy_line *l, uint64_t seed,
	struct error *err)
{
	struct replay_setting s = { .policy = l->policy,
		.seed = seed,
		.mix = j->t->mix,
		.now_ns = time_mono_ns,
		.go_on = on_trace_progress,
		.arg = j };
	struct replay_result r;
	double full;

	if (place_replay(&r, &j->trace, &s, err) < 0)
		return -1;
	if (r.stopped)
		return 0;
	for (uint32_t i = 0; i < REPLAY_POINTS; i++) {
		double v = PERCENT * r.allocated[i];

		l->sum[i] += v;
		l->squares[i] += v * v;
	}
	full = PERCENT * r.allocated[full_point()];
	l->least = l->runs ? fmin(l->least, full) : full;
	l->most = l->runs ? fmax(l->most, full) : full;
	l->decisions += r.pods;
	l->ns += r.decide_ns;
	l->max_ns = r.decide_max_ns > l->max_ns ? r.decide_max_ns : l->max_ns;
	l->runs++;
	j->done++;
	return 0;
}

/* The outer loop is over seeds: after an interrupt the numbers of runs of two policies differ by at
 * most one. */
static int run_trace_replays(struct trace_job *j, struct error *err)
{
	for (uint64_t k = 0; k < j->t->seeds; k++)
		for (size_t i = 0; i < j->n_lines && !stopped; i++)
			if (run_trace_replay(j, &j->lines[i], j->t->first_seed + k, err) < 0)
				return -1;
	if (j->terminal)
		(void)fprintf(stderr, "\r\033[K");
	return 0;
}

static double get_policy_mean(const struct trace_policy_line *l, uint32_t point)
{
	return l->sum[point] / (double)l->runs;
}

/* The standard deviation of a sample. */
static double get_policy_deviation(const struct trace_policy_line *l, uint32_t point)
{
	double n = (double)l->runs, m = get_policy_mean(l, point);

	return n < 2 ? 0 : sqrt(fmax(0, (l->squares[point] - n * m * m) / (n - 1)));
}

/* ---- fractions of GPUs, without regard to nodes ----------------------------------------------------- */

struct trace_packing {
	uint64_t pods, l2, first_fit, packed;
	double gpus, bound;
};

static int pack_gpu_fractions(struct trace_packing *p, const struct place_trace *t,
	struct error *err)
{
	CLEANUP(freep) struct cutting_demand *demand = calloc(t->n_pods + 1, sizeof(*demand));
	struct cutting_stock c;

	*p = (struct trace_packing){ 0 };
	if (!demand)
		return error_nomem(err);
	for (size_t i = 0; i < t->n_pods; i++) {
		if (t->pods[i].gpus != 1 || t->pods[i].gpu_milli >= PLACE_WHOLE)
			continue;
		demand[p->pods++] = (struct cutting_demand){ t->pods[i].gpu_milli, 1 };
		p->gpus += t->pods[i].gpu_milli / (double)PLACE_WHOLE;
	}
	p->l2 = cutting_stock_l2(demand, p->pods);
	if (cutting_stock_solve(&c, demand, p->pods, err) < 0 ||
		cutting_stock_first_fit(&p->first_fit, demand, p->pods, err) < 0 ||
		cutting_stock_pack(&p->packed, demand, p->pods, err) < 0)
		return -1;
	p->bound = ceil(c.bound - 1e-6); /* tolerance: the accuracy of the solver's prices */
	return 0;
}

/* ---- output ------------------------------------------------------------------------------------------- */

static void print_trace_text(struct buf *b, const struct trace_job *j,
	const struct trace_packing *p)
{
	static const char *const heads[] = { "POLICY", "AT 80 %", "90 %", "95 %", "100 %", "SD",
		"110 %", "120 %", "RUNS", "A DECISION", "SLOWEST", NULL };
	static const uint32_t columns[] = { 1, 2, 3, 4, 5, 6 };
	CLEANUP(table_fini) struct table table = { .columns = 0 };

	buf_printf(b, "%zu nodes with %llu GPUs, %zu pods; %s mix\n\n", j->trace.n_nodes,
		(unsigned long long)j->trace.gpus, j->trace.n_pods,
		j->t->mix == REPLAY_KNOWN ? "known" : "learned");
	buf_puts(b,
		"GPUs allocated, in % of all, when pods have asked for so many (mean of all runs):\n\n");
	table_init(&table, heads);
	for (size_t i = 0; i < j->n_lines; i++) {
		const struct trace_policy_line *l = &j->lines[i];

		if (!l->runs)
			continue;
		table_add(&table, l->policy);
		for (size_t k = 0; k < ARRAY_LEN(columns); k++) {
			table_addf(&table, "%.2f", get_policy_mean(l, columns[k]));
			if (replay_points[columns[k]] == 100)
				table_addf(&table, "%.2f", get_policy_deviation(l, columns[k]));
		}
		table_addf(&table, "%llu", (unsigned long long)l->runs);
		table_addf(&table, "%.0f us", (double)l->ns / 1e3 / (double)l->decisions);
		table_addf(&table, "%.2f ms", (double)l->max_ns / 1e6);
	}
	table_print(&table, b);
	if (!p->pods)
		return;
	buf_printf(b,
		"\nParts of GPUs alone: %llu pods ask for %.1f GPUs. No packing needs fewer than %.0f (%llu by\n"
		"L2); first-fit decreasing needs %llu, the best that was found %llu.\n",
		(unsigned long long)p->pods, p->gpus, p->bound, (unsigned long long)p->l2,
		(unsigned long long)p->first_fit, (unsigned long long)p->packed);
}

static json_t *render_policy_json(const struct trace_policy_line *l)
{
	json_t *points = json_array();

	for (uint32_t i = 0; i < REPLAY_POINTS; i++)
		(void)json_array_append_new(points,
			json_pack("{s:i, s:f, s:f}", "askedPct", (int)replay_points[i],
				"allocatedPct", get_policy_mean(l, i), "sd",
				get_policy_deviation(l, i)));
	return json_pack("{s:s, s:I, s:o, s:f, s:f, s:f, s:f}", "policy", l->policy, "runs",
		(json_int_t)l->runs, "points", points, "leastPct", l->least, "mostPct", l->most,
		"decisionUs", (double)l->ns / 1e3 / (double)l->decisions, "slowestUs",
		(double)l->max_ns / 1e3);
}

static int print_trace_json(struct buf *b, const struct trace_job *j,
	const struct trace_packing *p, struct error *err)
{
	json_t *lines = json_array(), *root;
	char *text;

	for (size_t i = 0; i < j->n_lines; i++)
		if (j->lines[i].runs)
			(void)json_array_append_new(lines, render_policy_json(&j->lines[i]));
	root = json_pack(
		"{s:s, s:I, s:I, s:I, s:s, s:b, s:{s:I, s:f, s:f, s:I, s:I, s:I}, s:o}",
		"schema", "gpuslice/placement/v1", "nodes", (json_int_t)j->trace.n_nodes,
		"gpus", (json_int_t)j->trace.gpus, "pods", (json_int_t)j->trace.n_pods, "mix",
		j->t->mix == REPLAY_KNOWN ? "known" : "learned", "complete", j->done == j->all,
		"parts", "pods", (json_int_t)p->pods, "gpus", p->gpus, "bound", p->bound, "l2",
		(json_int_t)p->l2, "firstFitDecreasing", (json_int_t)p->first_fit, "packed",
		(json_int_t)p->packed, "policies", lines);
	text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
	json_decref(root);
	if (!text)
		return error_nomem(err);
	buf_printf(b, "%s\n", text);
	free(text);
	return 0;
}

static void trace_job_fini(struct trace_job *j)
{
	place_trace_fini(&j->trace);
	free(j->lines);
}

static int trace_job_init(struct trace_job *j, struct error *err)
{
	const struct strv *asked = j->t->policies;
	struct sigaction sa = { .sa_handler = on_trace_signal };

	j->n_lines = asked->n ? asked->n : place_n_policies;
	j->lines = calloc(j->n_lines, sizeof(*j->lines));
	if (!j->lines)
		return error_nomem(err);
	for (size_t i = 0; i < j->n_lines; i++)
		j->lines[i].policy = asked->n ? asked->v[i] : place_policy_names[i];
	j->all = j->n_lines * j->t->seeds;
	j->terminal = isatty(STDERR_FILENO) == 1;
	(void)sigaction(SIGINT, &sa, NULL);
	return place_trace_nodes(&j->trace, j->t->nodes, err) < 0 ||
			       place_trace_pods(&j->trace, j->t->pods, err) < 0
		       ? -1
		       : 0;
}

int plan_trace_run(const struct plan_trace *t, struct error *err)
{
	CLEANUP(trace_job_fini) struct trace_job j = { .t = t };
	CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);
	struct trace_packing parts;

	if (trace_job_init(&j, err) < 0 || run_trace_replays(&j, err) < 0 ||
		pack_gpu_fractions(&parts, &j.trace, err) < 0)
		return -1;
	if (t->json && print_trace_json(&text, &j, &parts, err) < 0)
		return -1;
	if (!t->json)
		print_trace_text(&text, &j, &parts);
	if (output_write(NULL, buf_str(&text), text.len, err) < 0)
		return -1;
	if (!stopped)
		return 0;
	(void)fprintf(stderr, "interrupted: %llu of %llu runs are in it\n",
		(unsigned long long)j.done, (unsigned long long)j.all);
	return error_class(ERR_CANCELLED)->exit_code;
}
