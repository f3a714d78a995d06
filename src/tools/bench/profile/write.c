/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/profile/write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
