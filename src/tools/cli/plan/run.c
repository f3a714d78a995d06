/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/plan/run.h"

#include "lib/base/buf.h"
#include "lib/base/time.h"
#include "tools/cli/exit-status.h"
#include "tools/cli/output.h"
#include "tools/cli/plan/view/report/report.h"
#include "tools/cli/plan/view/summary.h"
#include "tools/cli/plan/view/text.h"
#include "tools/cli/plan/write.h"
#include "io/price/load.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define TEXT_MAX       (256U << 20)
#define PROGRESS_EVERY (NS_PER_SEC / 5)

static volatile sig_atomic_t stopped;

static void on_plan_signal(int signal)
{
	(void)signal;
	stopped = 1;
}

struct progress {
	bool terminal;
	uint64_t shown_ns;
};

static bool on_plan_progress(void *arg, double done, int64_t nano_per_hour)
{
	struct progress *p = arg;
	uint64_t now = time_mono_ns();
	char money[PLAN_MONEY_MAX];

	if (p->terminal && now - p->shown_ns > PROGRESS_EVERY) {
		p->shown_ns = now;
		(void)fprintf(stderr, "\r%3.0f %%, %s an hour so far ", done * 100,
			plan_money(nano_per_hour, true, money));
	}
	return !stopped;
}

/* Whether some workload has an SLO and a place where the planner cannot predict its times. */
static bool is_unknown(const struct plan_answer *a)
{
	for (size_t i = 0; i < a->in->n_workloads; i++)
		if (plan_slo_unknown(a, i))
			return true;
	return false;
}

static int read_plan_inputs(struct plan_input *in, const struct strv *files, struct error *err)
{
	for (size_t i = 0; i < files->n; i++)
		if (plan_input_read(in, files->v[i], err) < 0)
			return -1;
	return plan_input_end(in, err);
}

/* Warns about a stale price among the offers of the plan. One warning is enough: the shipped prices
 * have one date. */
static void warn_stale(const struct plan_answer *a)
{
	char warning[PRICE_WARNING_MAX];

	for (size_t i = 0; i < a->plan.n_nodes; i++) {
		const struct plan_offer *o = a->plan.nodes[i].offer;
		const struct price p = { .type = o->type,
			.region = o->region,
			.source = o->source,
			.stamp = o->stamp };

		if (!o->nano_per_hour ||
			!price_is_stale(&p, time_wall_ns() / NS_PER_SEC, warning))
			continue;
		(void)fprintf(stderr, "warning: %s\n", warning);
		return;
	}
}

static int write_form(struct buf *text, const struct plan_answer *a, const struct plan_run *r,
	struct error *err)
{
	char created[TIME_RFC3339_MAX];

	time_rfc3339(time_wall_ns(), created);
	switch (r->form) {
	case PLAN_AS_TEXT:
		plan_text(text, a);
		return 0;
	case PLAN_AS_JSON:
		return plan_json(text, a, r->seed, err);
	case PLAN_AS_MARKDOWN:
		plan_report(text, a, &page_markdown, created);
		return 0;
	case PLAN_AS_HTML:
		plan_report(text, a, &page_html, created);
		return 0;
	}
	return 0;
}

int plan_run(const struct plan_run *r, struct error *err)
{
	CLEANUP(plan_input_freep) struct plan_input *in = NULL;
	CLEANUP(price_catalogue_freep) struct price_catalogue *prices = NULL;
	CLEANUP(plan_answer_freep) struct plan_answer *a = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);
	CLEANUP(strv_fini) struct strv warnings = { .v = NULL };
	struct progress p = { .terminal = isatty(STDERR_FILENO) == 1 };
	struct answer_setting s = { PACK_BUDGET, PACK_BUDGET_EACH, r->seed, on_plan_progress,
		&p };
	struct sigaction sa = { .sa_handler = on_plan_signal };

	if (plan_input_new(&in, err) < 0 || read_plan_inputs(in, r->files, err) < 0 ||
		price_catalogue_load_all(&prices, r->prices, r->amounts, &warnings, err) < 0)
		return -1;
	for (size_t i = 0; i < warnings.n; i++)
		(void)fprintf(stderr, "warning: %s\n", warnings.v[i]);
	(void)sigaction(SIGINT, &sa, NULL);
	if (plan_answer_new(&a, in, prices, &s, err) < 0)
		return -1;
	if (p.terminal)
		(void)fprintf(stderr, "\r\033[K");
	warn_stale(a);
	if (write_form(&text, a, r, err) < 0)
		return -1;
	if (!buf_ok(&text))
		return error_nomem(err);
	if (output_write(r->output, buf_str(&text), text.len, err) < 0)
		return -1;
	if (r->write && plan_write(a, r->write, err) < 0)
		return -1;
	if (a->plan.stopped)
		return error_class(ERR_CANCELLED)->exit_code;
	if (a->plan.n_unplaced)
		return EXIT_FINDING;
	return is_unknown(a) ? EXIT_INCONCLUSIVE : 0;
}
