/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A result as a tree for a report: scenarios, their kinds of pods, their modes, and their rows. Rows without a
 * measurement are omitted. If pods of a kind have separate rows, as with weights, .joined combines these rows. And
 * which mode is best for a kind of pods. Pure. Thread: any.
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
	/* All pods of the kind in this mode: the single row, else .joined. */
	const struct bench_row *all;
	struct bench_row joined;
	struct bench_figures f; /* of .all */
};

struct report_kind {
	const char *workload;
	uint32_t replicas;
	double offered; /* requested units per second of all pods; NaN: as many as possible */
	const struct report_row *alone; /* one pod of the kind alone; NULL: not measured */
	const struct report_mode *modes;
	size_t n;
};

struct report_scenario {
	const char *name;
	bool compares; /* has a mode other than exclusive */
	const struct report_kind *kinds;
	size_t n;
	const struct report_row *rows; /* of all kinds, in the order of .kinds */
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

/* @r must outlive *@ret. The caller frees *@ret by report_fini(). ERR_NOMEM. */
int report_make(struct bench_report_model *ret, const struct bench_result *r,
	struct error *err) MUST_USE;
void report_fini(struct bench_report_model *model);

/* The weight of pod @i of a mode's .all; 1 without weights. */
double report_weight(const struct report_mode *m, size_t i);

/*
 * Finds the kind of @workload in @scenario and @mode, for a comparison of two results. NULL: not found, or @model is NULL.
 */
const struct report_mode *report_find(const struct bench_report_model *model,
	const char *scenario, const char *workload, enum bench_mode mode);

/* Whether the mode's figures are comparable with other modes: some units, no errors, no disturbance. */
bool report_counts(const struct report_mode *m);

/* --- rank --- */

/*
 * Ranks the modes for a kind of pods: the best mode, and the modes without a significant difference from the best.
 * Modes with errors or disturbances, and mode exclusive, are not ranked.
 */

enum rank_by {
	RANK_WORK,    /* units per second */
	RANK_LATENCY, /* p99; only for modes in which all pods are entitled to equal shares */
};

/*
 * Whether the mode has a rank: not exclusive, report_counts(), and a figure above 0. RANK_LATENCY also requires
 * a single row.
 */
bool rank_has(const struct report_mode *m, enum rank_by by);
/* The number of modes of @k with rank_has(). */
size_t rank_count(const struct report_kind *k, enum rank_by by);

/* NULL: no mode has a rank. */
const struct report_mode *rank_best(const struct report_kind *k, enum rank_by by);
const struct report_mode *rank_worst(const struct report_kind *k, enum rank_by by);

/* Whether the mode serves the requested rate, within the statistical error. */
bool rank_is_served(const struct report_kind *k, const struct report_mode *m);

/* Whether the mode has an interval, which needs two repetitions. */
bool rank_is_sure(const struct report_mode *m, enum rank_by by);
/* Whether the interval of the ratio contains 1, so that neither mode is significantly better. */
bool rank_is_same(const struct report_mode *a, const struct report_mode *b, enum rank_by by);
