/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/simulate/run.h"

#include "lib/base/buf.h"
#include "lib/base/time.h"
#include "tools/cli/output.h"
#include "lib/report/table.h"
#include "tools/simulate/simulate.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SEED           42
#define SEEDS          10
#define SEEDS_MAX      1000
#define TEXT_MAX       (1U << 20)
#define PROGRESS_EVERY (NS_PER_SEC / 5)

static const char *const mixes[] = { [REPLAY_KNOWN] = "known", [REPLAY_LEARNED] = "learned" };

/* --- running --- */

struct simulate_progress {
	uint64_t shown_ns;
	bool terminal;
};

static volatile sig_atomic_t stopped;

static void on_simulate_signal(int signal)
{
	(void)signal;
	stopped = 1;
}

static bool on_simulate_progress(void *arg, uint64_t done, uint64_t runs)
{
	struct simulate_progress *p = arg;
	uint64_t now = time_mono_ns();

	if (p->terminal && now - p->shown_ns > PROGRESS_EVERY) {
		p->shown_ns = now;
		(void)fprintf(stderr, "\r%llu of %llu runs ", (unsigned long long)done,
			(unsigned long long)runs);
	}
	return !stopped;
}

static int compare_on_trace(struct simulate_result *ret, const struct place_trace *t,
	const struct simulate_setting *setting, struct error *err)
{
	struct simulate_progress p = { .terminal = isatty(STDERR_FILENO) == 1 };
	struct simulate_setting s = *setting;

	s.now_ns = time_mono_ns;
	s.go_on = on_simulate_progress;
	s.arg = &p;
	if (simulate_compare_policies(ret, t, &s, err) < 0)
		return -1;
	if (p.terminal)
		(void)fprintf(stderr, "\r\033[K");
	return 0;
}

/* --- output --- */

static void print_policies(struct buf *b, const struct simulate_result *r)
{
	static const char *const heads[] = { "POLICY", "AT 80 %", "90 %", "95 %", "100 %", "SD",
		"110 %", "120 %", "RUNS", "A DECISION", "SLOWEST", NULL };
	static const uint32_t columns[] = { 1, 2, 3, 4, 5, 6 };
	CLEANUP(table_fini) struct table table = { .columns = 0 };

	table_init(&table, heads);
	for (size_t i = 0; i < r->n_policies; i++) {
		const struct simulate_policy *p = &r->policies[i];

		if (!p->runs)
			continue;
		table_add(&table, p->name);
		for (size_t k = 0; k < ARRAY_LEN(columns); k++) {
			table_addf(&table, "%.2f", simulate_get_mean(p, columns[k]));
			if (replay_points[columns[k]] == 100)
				table_addf(&table, "%.2f",
					simulate_get_deviation(p, columns[k]));
		}
		table_addf(&table, "%llu", (unsigned long long)p->runs);
		table_addf(&table, "%.0f us",
			(double)p->decide_ns / 1e3 / (double)p->decisions);
		table_addf(&table, "%.2f ms", (double)p->decide_max_ns / 1e6);
	}
	table_print(&table, b);
}

static void print_simulate_text(struct buf *b, const struct place_trace *t,
	const struct simulate_setting *s, const struct simulate_result *r)
{
	const struct simulate_packing *p = &r->packing;

	buf_printf(b, "%zu nodes with %llu GPUs, %zu pods; %s mix\n\n", t->n_nodes,
		(unsigned long long)t->gpus, t->n_pods, mixes[s->mix]);
	buf_puts(b,
		"GPUs allocated, in % of all, when pods have asked for so many (mean of all runs):\n\n");
	print_policies(b, r);
	if (!p->pods)
		return;
	buf_printf(b,
		"\nParts of GPUs alone: %llu pods ask for %.1f GPUs. No packing needs fewer than %.0f (%llu by\n"
		"L2); first-fit decreasing needs %llu, the best that was found %llu.\n",
		(unsigned long long)p->pods, p->gpus, p->bound, (unsigned long long)p->l2,
		(unsigned long long)p->first_fit, (unsigned long long)p->packed);
}

static json_t *render_policy_json(const struct simulate_policy *p)
{
	json_t *points = json_array();

	for (uint32_t i = 0; i < REPLAY_POINTS; i++)
		(void)json_array_append_new(points,
			json_pack("{s:i, s:f, s:f}", "askedPct", (int)replay_points[i],
				"allocatedPct", simulate_get_mean(p, i), "sd",
				simulate_get_deviation(p, i)));
	return json_pack("{s:s, s:I, s:o, s:f, s:f, s:f, s:f}", "policy", p->name, "runs",
		(json_int_t)p->runs, "points", points, "leastPct", p->least, "mostPct", p->most,
		"decisionUs", (double)p->decide_ns / 1e3 / (double)p->decisions, "slowestUs",
		(double)p->decide_max_ns / 1e3);
}

static int print_simulate_json(struct buf *b, const struct place_trace *t,
	const struct simulate_setting *s, const struct simulate_result *r, struct error *err)
{
	const struct simulate_packing *p = &r->packing;
	json_t *policies = json_array(), *root;
	char *text;

	for (size_t i = 0; i < r->n_policies; i++)
		if (r->policies[i].runs)
			(void)json_array_append_new(policies,
				render_policy_json(&r->policies[i]));
	root = json_pack(
		"{s:s, s:I, s:I, s:I, s:s, s:b, s:{s:I, s:f, s:f, s:I, s:I, s:I}, s:o}",
		"schema", "gpuslice/placement/v1", "nodes", (json_int_t)t->n_nodes, "gpus",
		(json_int_t)t->gpus, "pods", (json_int_t)t->n_pods, "mix", mixes[s->mix],
		"complete", r->done == r->runs, "parts", "pods", (json_int_t)p->pods, "gpus",
		p->gpus, "bound", p->bound, "l2", (json_int_t)p->l2, "firstFitDecreasing",
		(json_int_t)p->first_fit, "packed", (json_int_t)p->packed, "policies",
		policies);
	text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
	json_decref(root);
	if (!text)
		return error_nomem(err);
	buf_printf(b, "%s\n", text);
	free(text);
	return 0;
}

/* --- the command --- */

static int read_simulate_setting(struct simulate_setting *s, const struct options *o,
	struct error *err)
{
	int mix = option_choice(o, "mix", mixes, ARRAY_LEN(mixes), err);

	if (mix < 0)
		return -1;
	if (!option_str(o, "trace", NULL) || !option_str(o, "nodes", NULL))
		return error_set(err, ERR_INVALID,
			"expected --trace FILE with pods and --nodes FILE with the nodes for them");
	*s = (struct simulate_setting){ .policies = &option_get(o, "policy")->list,
		.seeds = option_uint(o, "seeds", SEEDS),
		.first_seed = option_uint(o, "seed", SEED),
		.mix = (enum replay_mix)mix };
	if (!s->seeds || s->seeds > SEEDS_MAX)
		return error_set(err, ERR_INVALID, "--seeds: expected 1 to %d, found %llu",
			SEEDS_MAX, (unsigned long long)s->seeds);
	return 0;
}

int simulate_run(const struct options *o, bool json, struct error *err)
{
	CLEANUP(place_trace_fini) struct place_trace trace = { 0 };
	CLEANUP(simulate_result_fini) struct simulate_result result = { 0 };
	CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);
	struct sigaction sa = { .sa_handler = on_simulate_signal };
	struct simulate_setting setting;

	if (read_simulate_setting(&setting, o, err) < 0)
		return -1;
	(void)sigaction(SIGINT, &sa, NULL);
	if (place_trace_nodes(&trace, option_str(o, "nodes", NULL), err) < 0 ||
		place_trace_pods(&trace, option_str(o, "trace", NULL), err) < 0 ||
		compare_on_trace(&result, &trace, &setting, err) < 0)
		return -1;
	if (json && print_simulate_json(&text, &trace, &setting, &result, err) < 0)
		return -1;
	if (!json)
		print_simulate_text(&text, &trace, &setting, &result);
	if (output_write(NULL, buf_str(&text), text.len, err) < 0)
		return -1;
	if (!stopped)
		return 0;
	(void)fprintf(stderr, "interrupted: %llu of %llu runs are in it\n",
		(unsigned long long)result.done, (unsigned long long)result.runs);
	return error_class(ERR_CANCELLED)->exit_code;
}
