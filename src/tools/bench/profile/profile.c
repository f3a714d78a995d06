/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/profile/profile.h"

#include "lib/base/units.h"
#include "tools/bench/report/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BURST_NS  UINT64_C(1000000000) /* minimum period for a busy share */
#define U_BW_MIN  0.05                 /* below this share of the bandwidth, u_bw is 0 */
#define SHARE_EPS 1e-6
#define NEAR      0.1    /* relative difference of covered launches that counts as equal */
#define DIGITS    1000.0 /* rounding of shares whose written values must not sum to more than 1 */

static struct profile_value make_unknown_value(const char *how)
{
	return (struct profile_value){ NAN, NAN, PROFILE_DERIVED, how };
}

static struct profile_value make_known_value(double v, enum profile_origin origin,
	const char *how)
{
	return (struct profile_value){ v, NAN, origin, how };
}

static struct profile_value with_interval(const struct estimate *e, const char *how)
{
	struct interval i = estimate_interval(e);
	double half = isfinite(i.high) && e->value > 0 ? (i.high - i.low) / 2 / e->value : NAN;

	return (struct profile_value){ e->value, half, PROFILE_MEASURED, how };
}

/* --- times of a step --- */

/* The row of a mode and share. NULL: no row, or a row with errors. */
static const struct bench_row *find_profile_row(const struct profile_facts *f,
	enum bench_mode m, double share)
{
	for (size_t i = 0; i < f->result->n_rows; i++) {
		const struct bench_row *row = &f->result->rows[i];
		uint64_t errors = 0;

		if (row->mode != m ||
			(m == BENCH_MPS_LIMITED && fabs(row->sm_share - share) > SHARE_EPS))
			continue;
		for (size_t k = 0; k < row->n; k++)
			errors += row->runs[k].errors;
		return row->n && !errors ? row : NULL;
	}
	return NULL;
}

/* Seconds of a unit, from gpuslice-load or the user's program. NaN: unknown. */
static int estimate_unit_time(struct estimate *ret, const struct profile_facts *f,
	enum bench_mode m, double share, struct error *err)
{
	bool timed = !f->silent && !(f->open && f->intervals);
	const struct bench_row *row = timed ? find_profile_row(f, m, share) : NULL;

	*ret = (struct estimate){ .value = NAN };
	if (!row)
		return 0;
	if (bench_row_estimate(ret, row, ESTIMATE_MEAN, err) < 0)
		return -1;
	ret->value = ret->value > 0 ? ret->value / 1e9 : NAN;
	ret->error /= 1e9;
	return 0;
}

/* Mean time of @launches launches, over all windows of a mode and share. NaN: unknown. */
static double time_of_launches(const struct profile_facts *f, enum bench_mode m, double share,
	double launches)
{
	double seconds = 0, n = 0;

	for (size_t i = 0; i < f->n_windows; i++) {
		const struct profile_window *w = &f->windows[i];
		const struct profile_sample *first, *last;

		if (w->mode != m || fabs(w->sm_share - share) > SHARE_EPS || w->n_samples < 2)
			continue;
		first = &w->samples[0];
		last = &w->samples[w->n_samples - 1];
		seconds += (double)(last->at_ns - first->at_ns) / 1e9;
		n += (double)(last->launches + last->copies - first->launches - first->copies);
	}
	return n > 0 && launches > 0 ? seconds / n * launches : NAN;
}

/* --- SM sensitivity --- */

double profile_fit_u(const struct profile_point *points, size_t n)
{
	double above = 0, below = 0;

	for (size_t i = 0; i < n; i++) {
		/* Model: stretch = 1 + u x. The weights make the errors relative. */
		double x = 1 / points[i].sm_share - 1, y = points[i].stretch;

		above += x / y * (1 - 1 / y);
		below += x / y * (x / y);
	}
	return below > 0 ? fmin(1, fmax(0, above / below)) : NAN;
}

/* The stretch at @share, from the times of units, else from launches. NaN: not measured. */
static int get_stretch_at(double *ret, const struct profile_facts *f, double share,
	struct error *err)
{
	struct estimate whole, part;

	if (estimate_unit_time(&whole, f, BENCH_MPS_LIMITED, 1, err) < 0 ||
		estimate_unit_time(&part, f, BENCH_MPS_LIMITED, share, err) < 0)
		return -1;
	*ret = part.value / whole.value;
	if (isnan(*ret))
		*ret = time_of_launches(f, BENCH_MPS_LIMITED, share, 1) /
		       time_of_launches(f, BENCH_MPS_LIMITED, 1, 1);
	return 0;
}

static int add_points(struct profile *p, const struct profile_facts *f, struct error *err)
{
	for (size_t i = 0; i < f->result->n_rows && p->n_points < PROFILE_POINTS_MAX; i++) {
		const struct bench_row *row = &f->result->rows[i];
		double stretch;

		if (row->mode != BENCH_MPS_LIMITED || row->sm_share > 1 - SHARE_EPS)
			continue;
		if (get_stretch_at(&stretch, f, row->sm_share, err) < 0)
			return -1;
		if (isfinite(stretch) && stretch > 0)
			p->points[p->n_points++] =
				(struct profile_point){ row->sm_share, stretch, NAN };
	}
	return 0;
}

/* u of an open workload needs the times of requests. The times between requests are unsuitable. */
static void set_u(struct profile *p, const struct profile_facts *f)
{
	double u = round(profile_fit_u(p->points, p->n_points) * DIGITS) / DIGITS;

	if (f->open && (f->silent || f->intervals)) {
		p->u = make_unknown_value(
			"nothing says how long a request takes with less: drive it closed, with --kind batch");
		p->n_points = 0; /* the points show how often requests arrive */
	} else if (isnan(u))
		p->u = make_unknown_value("needs MPS, with --shares");
	else
		p->u = make_known_value(u, PROFILE_MEASURED,
			"under MPS with fewer multiprocessors");
	for (size_t i = 0; i < p->n_points; i++)
		p->points[i].fitted = 1 - u + u / p->points[i].sm_share;
}

/* --- GPU figures --- */

/* Share of the time in which the workload had work on the GPU, by the arbiter's accounts. NaN: unknown. */
static double compute_charged_share(const struct profile_facts *f)
{
	double ns = 0, charged_ns = 0;

	for (size_t i = 0; i < f->n_windows; i++) {
		const struct profile_window *w = &f->windows[i];

		if (w->mode != BENCH_FAIR_SHARE || w->n_samples < 2)
			continue;
		ns += (double)(w->samples[w->n_samples - 1].at_ns - w->samples[0].at_ns);
		charged_ns += (double)(w->samples[w->n_samples - 1].charged_ns -
				       w->samples[0].charged_ns);
	}
	return ns > 0 ? fmin(1, charged_ns / ns) : NAN;
}

/* The busiest second divided by the mean. With so few seconds, the maximum represents the 99th percentile. */
static struct profile_value burst_of(const struct profile_facts *f)
{
	double max = 0, mean = compute_charged_share(f);

	for (size_t i = 0; i < f->n_windows; i++) {
		const struct profile_window *w = &f->windows[i];
		size_t from = 0;

		for (size_t k = 1; w->mode == BENCH_FAIR_SHARE && k < w->n_samples; k++) {
			uint64_t ns = w->samples[k].at_ns - w->samples[from].at_ns;

			if (ns < BURST_NS)
				continue;
			max = fmax(max, (double)(w->samples[k].charged_ns -
						 w->samples[from].charged_ns) /
						(double)ns);
			from = k;
		}
	}
	if (!(mean > 0) || !(max > 0))
		return make_unknown_value("needs --seconds of 2 or more");
	return make_known_value(fmax(1, fmin(1, max) / mean), PROFILE_DERIVED,
		"busiest second by the mean, not minutes");
}

static int set_gpu(struct profile *p, const struct profile_facts *f, struct error *err)
{
	const struct bench_row *row = find_profile_row(f, BENCH_EXCLUSIVE, 1);
	struct bench_figures figures;
	double counted = compute_charged_share(f);

	p->busy = make_unknown_value("neither NVML nor the runtime says");
	p->sm_active = p->dram =
		make_unknown_value("this GPU does not say (GPM: Hopper or newer)");
	if (!row)
		row = find_profile_row(f, BENCH_FAIR_SHARE, 1);
	if (row) {
		if (bench_figures_make(&figures, f->result, row, err) < 0)
			return -1;
		if (figures.gpu.busy >= 0)
			p->busy = make_known_value(fmin(1, figures.gpu.busy), PROFILE_MEASURED,
				"NVML: a kernel was there");
		if (figures.gpu.sm_active >= 0)
			p->sm_active = make_known_value(fmin(1, figures.gpu.sm_active),
				PROFILE_MEASURED, "GPM");
		if (figures.gpu.dram_active >= 0)
			p->dram = make_known_value(fmin(1, figures.gpu.dram_active),
				PROFILE_MEASURED, "GPM");
	}
	if (!(p->busy.v >= 0) && counted >= 0)
		p->busy = make_known_value(counted, PROFILE_MEASURED,
			"the runtime: work was in flight");
	p->burst = burst_of(f);
	return 0;
}

/*
 * Work that waits for memory does not take longer with fewer multiprocessors. In a MIG device it takes longer, as
 * the device has less bandwidth.
 */
static void set_u_bw(struct profile *p)
{
	double rest = 1 - p->u.v, share = p->dram.v / p->busy.v;

	if (!isfinite(p->u.v) || !isfinite(share))
		p->u_bw = make_unknown_value("needs u, and DRAM activity");
	else
		p->u_bw = make_known_value(
			share < U_BW_MIN ? 0 : floor(fmin(rest, share) * DIGITS) / DIGITS,
			PROFILE_DERIVED, "DRAM activity by busy, of what u leaves");
}

static void set_memory(struct profile *p, const struct profile_facts *f)
{
	uint64_t peak = 0, overhead = 0;
	bool known_overhead = false;

	for (size_t i = 0; i < f->n_windows; i++) {
		const struct profile_window *w = &f->windows[i];

		for (size_t k = 0; k < w->n_samples; k++) {
			if (w->samples[k].peak > peak)
				peak = w->samples[k].peak;
			if (w->samples[k].overhead_known && w->samples[k].overhead > overhead)
				overhead = w->samples[k].overhead;
			known_overhead = known_overhead || w->samples[k].overhead_known;
		}
	}
	p->mem_peak_mib = p->context_mib = make_unknown_value("the runtime saw no allocation");
	if (!peak)
		return;
	if (overhead > peak)
		overhead = peak;
	p->mem_peak_mib = make_known_value((double)(peak - overhead) / MIB, PROFILE_MEASURED,
		"the runtime: peak, without contexts");
	if (known_overhead)
		p->context_mib = make_known_value((double)overhead / MIB, PROFILE_MEASURED,
			"the runtime: contexts and code");
}

/* --- steps --- */

/*
 * Whether the steps of @a cover more launches. If both cover about as many, the longer steps win, as part of a
 * step can also repeat.
 */
static bool covers_more(const struct profile_steps *a, const struct profile_steps *b)
{
	double in_a = (double)a->n * (double)a->launches,
	       in_b = (double)b->n * (double)b->launches;

	if (fabs(in_a - in_b) > NEAR * fmax(in_a, in_b))
		return in_a > in_b;
	return a->launches > b->launches;
}

/* Selects the observed window whose steps cover the most launches. */
static void find_steps(struct profile *p, const struct profile_facts *f)
{
	for (size_t i = 0; i < f->n_windows; i++) {
		const struct profile_window *w = &f->windows[i];
		struct profile_steps s;

		if (w->mode != BENCH_FAIR_SHARE)
			continue;
		s = profile_steps_find(w->launches, w->n_launches);
		if (covers_more(&s, &p->steps))
			p->steps = s;
	}
}

static int set_solo(struct profile *p, const struct profile_facts *f, struct error *err)
{
	struct estimate bare, seen;
	struct interval i;

	if (estimate_unit_time(&bare, f, BENCH_EXCLUSIVE, 1, err) < 0 ||
		estimate_unit_time(&seen, f, BENCH_FAIR_SHARE, 1, err) < 0)
		return -1;
	p->overhead = make_unknown_value(
		"only what prints a line for each step (--pattern) has a time without the runtime");
	if (bare.value > 0 && seen.value > 0) {
		struct estimate ratio = estimate_ratio(&bare, &seen);

		i = estimate_ratio_interval(&bare, &seen);
		p->overhead = make_known_value(ratio.value - 1, PROFILE_MEASURED,
			"steps with the runtime and its log, by steps without");
		p->overhead.half = isfinite(i.high) ? (i.high - i.low) / 2 : NAN;
	}
	if (bare.value > 0)
		p->t_solo = with_interval(&bare, "alone, without the runtime");
	else if (seen.value > 0)
		p->t_solo = with_interval(&seen, "alone, under the runtime");
	else if (!p->steps.launches)
		p->t_solo = make_unknown_value(
			"no steps were found in what it launches: give --pattern");
	else if (f->open)
		p->t_solo = make_known_value(
			fmax(p->steps.span_s, p->busy.v >= 0 ? p->busy.v * p->steps.mean_s : 0),
			PROFILE_DERIVED, "a step's launches and GPU time, by what repeats");
	else
		p->t_solo = make_known_value(
			time_of_launches(f, BENCH_FAIR_SHARE, 1, (double)p->steps.launches),
			PROFILE_MEASURED, "from step to step, by what repeats in its launches");
	return 0;
}

static void set_arrivals(struct profile *p, const struct profile_facts *f)
{
	const struct bench_row *row = find_profile_row(f, BENCH_EXCLUSIVE, 1);
	double rate = 0;

	p->rate = p->arrival_cv =
		make_unknown_value("only requests arrive: --kind inference-open");
	if (!f->open)
		return;
	p->rate = p->arrival_cv =
		make_unknown_value("no requests were found in what it launches");
	if (p->steps.launches && p->steps.mean_s > 0) {
		p->rate = make_known_value(1 / p->steps.mean_s, PROFILE_MEASURED,
			"by what repeats in its launches");
		p->arrival_cv = make_known_value(p->steps.cv, PROFILE_MEASURED,
			"of what comes between two");
	}
	if (f->silent)
		row = NULL;
	for (size_t i = 0; row && i < row->n; i++)
		for (size_t k = 0; k < row->runs[i].n_blocks; k++)
			rate += (double)row->runs[i].blocks[k].times.n / row->runs[i].seconds /
				(double)row->n;
	if (rate > 0)
		p->rate =
			make_known_value(rate, PROFILE_MEASURED, "alone, without the runtime");
}

static const char *problem_of(const struct bench_result *r)
{
	for (size_t i = 0; i < r->n_rows; i++)
		for (size_t k = 0; k < r->rows[i].n; k++)
			if (r->rows[i].runs[k].errors)
				return r->rows[i].runs[k].error;
	return "";
}

int profile_make(struct profile *ret, const struct profile_facts *f, struct error *err)
{
	double launches;

	*ret = (struct profile){ .name = f->name,
		.kind = f->kind,
		.gpu = f->result->head.gpu,
		.problem = problem_of(f->result),
		.doubt = bench_first_doubt(f->result) };
	find_steps(ret, f);
	if (set_gpu(ret, f, err) < 0 || set_solo(ret, f, err) < 0 ||
		add_points(ret, f, err) < 0)
		return -1;
	set_u(ret, f);
	set_u_bw(ret);
	set_memory(ret, f);
	set_arrivals(ret, f);
	launches = 1 / time_of_launches(f, BENCH_FAIR_SHARE, 1, 1);
	ret->launches = isfinite(launches) ? make_known_value(launches, PROFILE_MEASURED,
						     "kernels, graphs, copies: the runtime")
					   : make_unknown_value("the runtime saw none");
	return 0;
}

/* --- as text --- */

#define AT(field) offsetof(struct profile, field)

const struct profile_figure profile_figures[PROFILE_FIGURES] = {
	{ "t_solo", "time of a step", "s", AT(t_solo), false },
	{ "busy", "GPU busy", "%", AT(busy), false },
	{ "rate", "requests a second", "", AT(rate), true },
	{ "cv_arrival", "variation of arrivals", "", AT(arrival_cv), true },
	{ "sm_active", "multiprocessors active", "%", AT(sm_active), false },
	{ "dram", "memory bandwidth active", "%", AT(dram), false },
	{ "u", "stretches with fewer multiprocessors", "", AT(u), false },
	{ "u_bw", "stretches with less bandwidth", "", AT(u_bw), false },
	{ "mem_peak_mib", "memory, peak", "MiB", AT(mem_peak_mib), false },
	{ "context_mib", "memory of contexts", "MiB", AT(context_mib), false },
	{ "burst", "busiest second by the mean", "", AT(burst), false },
	{ NULL, "launches a second", "", AT(launches), false },
	{ NULL, "a step takes longer under observation by", "%", AT(overhead), false },
};

const struct profile_value *profile_figure_of(const struct profile *p,
	const struct profile_figure *f)
{
	return (const struct profile_value *)((const char *)p + f->at);
}

static void comment_lines(struct buf *b, const char *comment)
{
	while (*comment) {
		size_t len = strcspn(comment, "\n");

		buf_puts(b, "# ");
		for (size_t i = 0; i < len; i++)
			buf_putc(b, (unsigned char)comment[i] < ' ' ? ' ' : comment[i]);
		buf_putc(b, '\n');
		comment += len + (comment[len] == '\n');
	}
}

const char *profile_number(const struct profile_figure *f, double v, char *buf)
{
	if (!strcmp(f->unit, "MiB"))
		(void)snprintf(buf, PROFILE_NUMBER_MAX, "%.0f",
			ceil(v)); /* rounded up, as less memory does not suffice */
	else if (fabs(v) >= 1000)
		(void)snprintf(buf, PROFILE_NUMBER_MAX, "%.0f", v);
	else
		(void)snprintf(buf, PROFILE_NUMBER_MAX, "%.4g", v);
	return buf;
}

/* A derived value is marked as such. */
static void write_value(struct buf *b, const struct profile_figure *f,
	const struct profile_value *v)
{
	char text[96], number[PROFILE_NUMBER_MAX];
	int len;

	if (v->origin == PROFILE_MEASURED)
		len = snprintf(text, sizeof(text), "  %s: %s", f->key,
			profile_number(f, v->v, number));
	else
		len = snprintf(text, sizeof(text), "  %s: {value: %s, origin: derived}", f->key,
			profile_number(f, v->v, number));
	buf_printf(b, "%-44s%s# %s", text, len < 44 ? "" : " ", v->how);
	if (isfinite(v->half))
		buf_printf(b, "; +-%.1f%%", 100 * v->half);
	buf_putc(b, '\n');
}

void profile_write(struct buf *b, const struct profile *p, const char *comment)
{
	comment_lines(b, comment);
	buf_puts(b, "version: gpuslice/plan/v1\nworkloads:\n");
	buf_printf(b, "- name: \"%s\"\n  kind: %s\n  replicas: 1\n", p->name, p->kind);
	if (*p->doubt)
		buf_printf(b, "  disturbed: \"%s\"\n", p->doubt);
	if (*p->gpu)
		buf_printf(b, "  gpu_ref: %s\n", p->gpu);
	else
		buf_puts(b,
			"  # gpu_ref: not known; the planner's catalogue has no such GPU\n");
	for (size_t i = 0; i < PROFILE_FIGURES; i++) {
		const struct profile_figure *f = &profile_figures[i];
		const struct profile_value *v = profile_figure_of(p, f);

		if (f->key && isfinite(v->v))
			write_value(b, f, v);
		else if (f->key && !(f->only_open && strcmp(p->kind, "inference-open") != 0))
			buf_printf(b, "  # %s: not known; %s\n", f->key, v->how);
	}
}
