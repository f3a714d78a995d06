/* SPDX-License-Identifier: Apache-2.0 */
/* The output of `gpuslice profile`. */
#include "lib/base/buf.h"
#include "lib/report/table.h"
#include "tools/bench/profile/profile.h"
#include "tools/bench/report/figures.h"
#include "tools/cli/cmd.h"
#include "tools/cli/output.h"
#include "tools/cli/profile/profile.h"
#include "tools/plan/gpus/gpus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_profile_value(struct table *t, const struct profile_figure *f,
	const struct profile_value *v)
{
	char cell[BENCH_NUMBER_MAX];

	if (isnan(v->v))
		table_add(t, "-");
	else if (!strcmp(f->unit, "%"))
		table_addf(t, "%.*f %%", v->v < 0.1 ? 2 : 1, 100 * v->v);
	else if (!strcmp(f->unit, "s"))
		table_add(t, bench_print_ns(v->v * 1e9, cell));
	else
		table_addf(t, "%s%s%s", profile_number(f, v->v, cell), *f->unit ? " " : "",
			f->unit);
	if (isnan(v->v) || isnan(v->half))
		table_add(t, "");
	else
		table_addf(t, "%.1f%%", 100 * v->half);
}

void profile_table(struct buf *b, const struct profile *p)
{
	static const char *const heads[] = { "FIGURE", "VALUE", "+-", "KEY", "HOW", NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };

	table_init(&t, heads);
	for (size_t i = 0; i < PROFILE_FIGURES; i++) {
		const struct profile_figure *f = &profile_figures[i];
		const struct profile_value *v = profile_figure_of(p, f);

		if (f->only_open && strcmp(p->kind, "inference-open") != 0)
			continue;
		table_add(&t, f->words);
		add_profile_value(&t, f, v);
		table_add(&t, f->key ? f->key : "");
		table_add(&t, v->how);
	}
	buf_putc(b, '\n');
	table_print(&t, b);
}

/* The output of `gpuslice profile`. */

static void print_profile_head(struct buf *b, const struct bench_result *r,
	const struct profile_request *request, const struct suite *s)
{
	buf_printf(b, "gpuslice profile -- %s\n", request->shown);
	buf_printf(b, "%s%s, driver %s, CUDA %s, %s, %u x %g s\n",
		r->head.simulated ? "SIMULATED: " : "", r->head.gpu, r->head.driver,
		r->head.cuda, r->head.made, s->repetitions, s->seconds);
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
	buf_puts(b,
		"\nWith fewer multiprocessors a step takes, of its time with all of them:\n");
	for (size_t i = 0; i < p->n_points; i++)
		buf_printf(b, "  %3.0f%% of them: x %.2f measured, x %.2f by u (%+.1f %%)\n",
			100 * p->points[i].sm_share, p->points[i].stretch, p->points[i].fitted,
			100 * (p->points[i].fitted / p->points[i].stretch - 1));
}

/*
 * Lists requested figures that are missing, one clause each; nothing if the profile is complete.
 * Figures that only few GPUs have (active multiprocessors, memory bandwidth) do not count: the planner
 * has defaults for them.
 */
static void list_missing(struct buf *b, const struct profile *p,
	const struct profile_request *request)
{
	const struct {
		const char *key;
		const struct profile_value *value;
	} needed[] = { { "t_solo", &p->t_solo }, { "busy", &p->busy },
		{ "mem_peak_mib", &p->mem_peak_mib } };

	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		if (!isfinite(needed[i].value->v))
			buf_printf(b, "%sno %s (%s)", b->len ? "; " : "", needed[i].key,
				needed[i].value->how);
	if (p->n_points < request->n_shares)
		buf_printf(b, "%sa time with %zu of %zu --shares", b->len ? "; " : "",
			p->n_points, request->n_shares);
	if (*p->problem)
		buf_printf(b, "%s%s", b->len ? "; " : "", p->problem);
}

static void print_profile_text(struct buf *b, const struct profile *p,
	const struct bench_result *r, const struct profile_request *request,
	const struct suite *s, const char *missing)
{
	print_profile_head(b, r, request, s);
	profile_table(b, p);
	print_steps(b, p);
	for (size_t i = 0; i < r->n_notes; i++)
		buf_printf(b, "\nNote: %s\n", r->notes[i]);
	if (*missing)
		buf_printf(b, "\nNot all could be measured: %s\n", missing);
	if (*p->doubt)
		buf_printf(b, "\nInconclusive, measure again: %s\n", p->doubt);
	if (request->save_path)
		buf_printf(b, "\nThe profile is in %s: gpuslice plan %s\n", request->save_path,
			request->save_path);
}

static int write_yaml(struct buf *b, const struct profile *p, const struct bench_result *r,
	const struct profile_request *request, const struct suite *s, struct error *err)
{
	CLEANUP(buf_fini) struct buf head = BUF_INIT(PROFILE_OUTPUT_MAX);

	print_profile_head(&head, r, request, s);
	if (!buf_ok(&head))
		return error_nomem(err);
	profile_write(b, p, buf_str(&head));
	return buf_ok(b) ? 0 : error_nomem(err);
}

const char *profile_gpu(const char *gpu)
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

/* A failed output does not stop the other. */
int profile_out(const struct profile_request *request, const struct buf *yaml,
	const struct buf *text, struct error *err)
{
	const struct buf *shown = request->yaml ? yaml : text;
	int kept = 0;

	if (request->save_path &&
		output_write(request->save_path, buf_str(yaml), yaml->len, err) < 0)
		kept = error_prefix(err, "--save");
	return output_write(NULL, buf_str(shown), shown->len, kept < 0 ? NULL : err) < 0 ? -1
											 : kept;
}

int profile_show(const struct bench_result *r, const struct bench_windows *w,
	const struct profile_request *request, const struct suite *s, struct error *err)
{
	CLEANUP(buf_fini) struct buf yaml = BUF_INIT(PROFILE_OUTPUT_MAX);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(PROFILE_OUTPUT_MAX);
	const struct profile_facts facts = { .name = request->name,
		.kind = request->kind,
		.open = !strcmp(request->kind, "inference-open"),
		.silent = request->silent,
		.intervals = *request->command != '\0',
		.result = r,
		.windows = w->window,
		.n_windows = w->n };
	CLEANUP(buf_fini) struct buf missing = BUF_INIT(PROFILE_OUTPUT_MAX);
	struct profile p;

	if (profile_make(&p, &facts, err) < 0)
		return -1;
	if (!isfinite(p.t_solo.v) && !isfinite(p.launches.v) && !isfinite(p.mem_peak_mib.v))
		return error_set(err, ERR_UNAVAILABLE,
			"nothing could be measured%s%.200s; the program has to run for longer than --warmup and "
			"--seconds together, %g s",
			*p.problem ? ": " : "", p.problem, s->warmup_s + s->seconds);
	p.gpu = profile_gpu(r->head.gpu);
	if (write_yaml(&yaml, &p, r, request, s, err) < 0)
		return -1;
	list_missing(&missing, &p, request);
	print_profile_text(&text, &p, r, request, s, buf_str(&missing));
	if (!buf_ok(&missing) || !buf_ok(&text))
		return error_nomem(err);
	if (profile_out(request, &yaml, &text, err) < 0)
		return -1;
	if (missing.len && request->yaml)
		(void)fprintf(stderr, "Not all could be measured: %s\n", buf_str(&missing));
	return missing.len || *p.doubt ? EXIT_INCONCLUSIVE : 0;
}
