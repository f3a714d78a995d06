/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A profile for the planner: a file of the form gpuslice/plan/v1 (docs/plan.md) with one workload. Pure. Thread: any. */
#include "lib/base/buf.h"
#include "tools/bench/profile/profile.h"

/* One figure of a profile, as the file and as tables name it. */
struct profile_figure {
	const char *key; /* of the file; NULL: only for people */
	const char *words;
	const char *unit; /* "%": a share, which people see in percent */
	size_t at;        /* of its struct profile_value */
	bool only_open;   /* of no use but for kind inference-open */
};

#define PROFILE_FIGURES 13
extern const struct profile_figure profile_figures[PROFILE_FIGURES];

const struct profile_value *profile_figure_of(const struct profile *p,
	const struct profile_figure *f);

/* As it is written, in @buf of so many bytes, which is returned. */
#define PROFILE_NUMBER_MAX 32
const char *profile_number(const struct profile_figure *f, double v, char *buf);

/* @comment: lines for the head, without "# "; each ends with "\n". */
void profile_write(struct buf *b, const struct profile *p, const char *comment);
