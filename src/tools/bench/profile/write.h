/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes a profile for the planner: a file in the format gpuslice/plan/v1 (docs/plan.md) with one workload. Pure.
 * Thread: any.
 */
#include "lib/base/buf.h"
#include "tools/bench/profile/profile.h"

/* One figure of a profile, with its names in files and tables. */
struct profile_figure {
	const char *key; /* in the file; NULL: only in tables */
	const char *words;
	const char *unit; /* "%": the value is a share, and tables show percent */
	size_t at;        /* offset of its struct profile_value */
	bool only_open;   /* only for kind inference-open */
};

#define PROFILE_FIGURES 13
extern const struct profile_figure profile_figures[PROFILE_FIGURES];

const struct profile_value *profile_figure_of(const struct profile *p,
	const struct profile_figure *f);

/* Formats the value as in the file into @buf of PROFILE_NUMBER_MAX bytes. Returns @buf. */
#define PROFILE_NUMBER_MAX 32
const char *profile_number(const struct profile_figure *f, double v, char *buf);

/* @comment: lines for the head, without "# ". Each line ends with "\n". */
void profile_write(struct buf *b, const struct profile *p, const char *comment);
