/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/top/view/screen/internal.h"

#include "lib/base/time.h"
#include "tools/cli/top/view/figures.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NARROW   60 /* columns */
#define LOW      16 /* lines; a lower screen has only one head line */
#define PART_MAX 320

/* Formats "2026-11-25T12:00:00.000Z" for the head. The text comes from another process. */
static void format_sample_time(char *ret, size_t cap, const char *wall, bool narrow)
{
	if (strlen(wall) < 19 || wall[10] != 'T')
		(void)snprintf(ret, cap, "%.24s", wall);
	else if (narrow)
		(void)snprintf(ret, cap, "%.8s", wall + 11);
	else
		(void)snprintf(ret, cap, "%.10s %.8s UTC", wall, wall + 11);
}

/* Adds a part after two blanks if it fits as a whole. The first part of a line is always added, cut
 * if necessary. */
static void add_head_part(struct canvas *c, enum canvas_style style, const char *text)
{
	if (c->column == 0) {
		canvas_add(c, style, text);
	} else if (width_measure_text(text, c->utf8) + 2 <= canvas_left(c)) {
		canvas_add(c, CANVAS_PLAIN, "  ");
		canvas_add(c, style, text);
	}
}

static void add_head_partf(struct canvas *c, enum canvas_style style, const char *fmt, ...)
	PRINTF(3, 4);
static void add_head_partf(struct canvas *c, enum canvas_style style, const char *fmt, ...)
{
	char text[PART_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_head_part(c, style, text);
}

static void add_stale_part(struct canvas *c, const struct top_model *m,
	const struct top_state *s)
{
	char since[TIME_RFC3339_MAX], age[TIME_AGE_MAX];

	time_rfc3339(s->unavailable_since_wall_ns, since);
	time_age(s->now_wall_ns > s->unavailable_since_wall_ns
			 ? s->now_wall_ns - s->unavailable_since_wall_ns
			 : 0,
		age);
	canvas_addf(c, CANVAS_BAD, "%s since %.8s UTC (%s): %s", m ? "STALE" : "NO ANSWER",
		since + 11, age, s->why.msg);
	canvas_end_line(c);
}

/* A low screen shows only the first problem. */
static void draw_problem_line(struct canvas *c, const struct top_state *s, const char *what,
	const char *why)
{
	if (!*why || (s->height && s->height < LOW && c->lines > 1))
		return;
	canvas_add(c, CANVAS_WARN, what);
	canvas_add(c, CANVAS_PLAIN, ": ");
	canvas_add(c, CANVAS_PLAIN, why);
	canvas_end_line(c);
}

static void second_line(struct canvas *c, const struct top_model *m)
{
	char money[FIGURE_MAX];

	add_head_partf(c, CANVAS_PLAIN, "Driver %s",
		*m->driver_version ? m->driver_version : "unknown");
	add_head_partf(c, CANVAS_PLAIN, "CUDA %s",
		*m->cuda_version ? m->cuda_version : "unknown");
	if (m->config_generation != TOP_UNKNOWN)
		add_head_partf(c, CANVAS_PLAIN, "Config %" PRIu64 "%s%s", m->config_generation,
			*m->config_sharing ? ", " : "", m->config_sharing);
	if (m->n_gpus > 0 || m->nvml_up)
		add_head_partf(c, CANVAS_PLAIN, "%zu GPU%s", m->n_gpus,
			m->n_gpus == 1 ? "" : "s");
	else
		add_head_part(c, CANVAS_PLAIN, "GPUs unknown");
	if (m->priced)
		add_head_partf(c, CANVAS_PLAIN, "%s %s/h",
			figure_money(money, m->price_nano_per_hour), m->currency);
	canvas_end_line(c);
}

void screen_head(struct canvas *c, const struct top_model *m, const struct top_state *s)
{
	bool narrow = c->width < NARROW;
	char when[PART_MAX];

	if (m) {
		format_sample_time(when, sizeof(when), m->wall_time, narrow);
		add_head_part(c, CANVAS_BOLD, when);
		add_head_part(c, CANVAS_BOLD, *m->node ? m->node : m->hostname);
		add_head_partf(c, CANVAS_PLAIN, "gpuslice %s",
			*m->agent_version ? m->agent_version : "unknown");
	} else {
		add_head_part(c, CANVAS_BOLD, "gpuslice top");
	}
	if (s->paused)
		add_head_part(c, CANVAS_WARN, "paused");
	canvas_end_line(c);
	if (m && !(s->height && s->height < LOW))
		second_line(c, m);
	if (s->unavailable)
		add_stale_part(c, m, s);
	if (!m)
		return;
	if (!m->nvml_up)
		draw_problem_line(c, s, "NVML is not usable",
			*m->nvml_error ? m->nvml_error : "starting");
	draw_problem_line(c, s, "Config refused, the one before stays", m->config_error);
	if (m->n_warnings > 1)
		draw_problem_line(c, s, "Warnings, the first", m->warning);
	else if (m->n_warnings)
		draw_problem_line(c, s, "Warning", m->warning);
	if (m->n_degraded) {
		(void)snprintf(when, sizeof(when), "Degraded, %.64s", m->degraded);
		draw_problem_line(c, s, when, m->degraded_reason);
	}
	if (!m->holders_known)
		draw_problem_line(c, s, "Pods are not known",
			*m->holders_error ? m->holders_error
					  : "the kubelet has not answered yet");
}
