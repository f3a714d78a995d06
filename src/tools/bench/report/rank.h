/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ranks the modes for a kind of pods: the best mode, and the modes without a significant difference from the best.
 * Modes with errors or disturbances, and mode exclusive, are not ranked. Pure. Thread: any.
 */
#include "tools/bench/report/model.h"

enum rank_by {
	RANK_WORK,    /* units per second */
	RANK_LATENCY, /* p99; only for modes in which all pods are entitled to equal shares */
};

const struct estimate *rank_value(const struct report_mode *m, enum rank_by by);
bool rank_has(const struct report_mode *m, enum rank_by by);
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
