/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which mode is best for a kind of pods, and which others cannot be told from it. Modes with errors, and one pod alone, are
 * not held against others. Pure. Thread: any. */
#include "tools/bench/report/model.h"

enum rank_by {
	RANK_WORK,    /* units per second */
	RANK_LATENCY, /* p99; only of modes where all pods are to get the same */
};

const struct estimate *rank_value(const struct report_mode *m, enum rank_by by);
bool rank_has(const struct report_mode *m, enum rank_by by);
size_t rank_count(const struct report_kind *k, enum rank_by by);

/* NULL: no mode can be ranked. */
const struct report_mode *rank_best(const struct report_kind *k, enum rank_by by);
const struct report_mode *rank_worst(const struct report_kind *k, enum rank_by by);

/* Whether the mode does what is asked of the kind, as far as can be told. */
bool rank_is_served(const struct report_kind *k, const struct report_mode *m);

/* Whether intervals say anything at all: not of one repetition. */
bool rank_is_sure(const struct report_mode *m, enum rank_by by);
/* Whether the interval of the ratio leaves open which of both is better. */
bool rank_is_same(const struct report_mode *a, const struct report_mode *b, enum rank_by by);
