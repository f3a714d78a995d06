/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A result as a report goes through it: scenarios, of each the kinds of pods that met in it, of each the modes, of each
 * its rows. Rows that nobody measured are left out. What shows that several pods of a kind have rows of their own, as by
 * weight, is joined once more for what asks about the kind. Pure. Thread: any.
 */
#include "tools/bench/report/figures.h"

struct report_row {
	const struct bench_row *row;
	struct bench_figures f;
};

struct report_mode {
	enum bench_mode mode;
	const char *name;
	const struct report_row *rows;
	size_t n;
	/* All pods of the kind in this mode: the row, if there is one, else .joined. */
	const struct bench_row *all;
	struct bench_row joined;
	struct bench_figures f; /* of .all */
};

struct report_kind {
	const char *workload;
	uint32_t replicas;
	double offered;                 /* units per second of all; NaN: as many as they can */
	const struct report_row *alone; /* one pod of it alone; NULL: not measured */
	const struct report_mode *modes;
	size_t n;
};

struct report_scenario {
	const char *name;
	bool compares; /* has another mode than exclusive */
	const struct report_kind *kinds;
	size_t n;
	const struct report_row *rows; /* of all kinds, in their order */
	size_t n_rows;
};

struct bench_report_model {
	const struct bench_result *r;
	struct report_scenario *scenarios;
	struct report_kind *kinds;
	struct report_mode *modes;
	struct report_row *rows;
	size_t n_scenarios, n_kinds, n_modes, n_rows;
};

/* @r must outlive *ret, which the caller ends. ERR_NOMEM. */
int report_make(struct bench_report_model *ret, const struct bench_result *r,
	struct error *err) MUST_USE;
void report_fini(struct bench_report_model *p);

/* The share of the kind's work that pod @i of a mode's .all is to have, in units of the smallest: its weight, or 1. */
double report_weight(const struct report_mode *m, size_t i);

/* The same kind and mode in another result; NULL: it is not there, or @p is NULL. */
const struct report_mode *report_find(const struct bench_report_model *p, const char *scenario,
	const char *workload, enum bench_mode mode);

/* Whether the mode's figures may be held against others': it has done something, without errors, and
 * nothing disturbed it. */
bool report_counts(const struct report_mode *m);
