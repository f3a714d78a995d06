/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/rank.h"

#include <math.h>

#define SERVED 0.98 /* of the requested rate */

const struct estimate *rank_value(const struct report_mode *m, enum rank_by by)
{
	return by == RANK_WORK ? &m->f.rate : &m->f.p99;
}

bool rank_has(const struct report_mode *m, enum rank_by by)
{
	double v = rank_value(m, by)->value;

	return m->mode != BENCH_EXCLUSIVE && report_counts(m) && v > 0 && isfinite(v) &&
	       (by == RANK_WORK || m->n == 1);
}

size_t rank_count(const struct report_kind *k, enum rank_by by)
{
	size_t n = 0;

	for (size_t i = 0; i < k->n; i++)
		n += rank_has(&k->modes[i], by);
	return n;
}

static const struct report_mode *find_extreme_mode(const struct report_kind *k, enum rank_by by,
	bool most)
{
	const struct report_mode *found = NULL;

	for (size_t i = 0; i < k->n; i++) {
		const struct report_mode *m = &k->modes[i];

		if (!rank_has(m, by))
			continue;
		if (!found || (rank_value(m, by)->value > rank_value(found, by)->value) == most)
			found = m;
	}
	return found;
}

const struct report_mode *rank_best(const struct report_kind *k, enum rank_by by)
{
	return find_extreme_mode(k, by, by == RANK_WORK);
}

const struct report_mode *rank_worst(const struct report_kind *k, enum rank_by by)
{
	return find_extreme_mode(k, by, by != RANK_WORK);
}

bool rank_is_served(const struct report_kind *k, const struct report_mode *m)
{
	return m->f.rate.value >= SERVED * k->offered ||
	       (rank_is_sure(m, RANK_WORK) && estimate_interval(&m->f.rate).high >= k->offered);
}

bool rank_is_sure(const struct report_mode *m, enum rank_by by)
{
	return rank_value(m, by)->freedom >= 1;
}

bool rank_is_same(const struct report_mode *a, const struct report_mode *b, enum rank_by by)
{
	struct interval i = estimate_ratio_interval(rank_value(a, by), rank_value(b, by));

	return i.low <= 1 && i.high >= 1;
}
