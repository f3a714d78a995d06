/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finished units of work, counted in blocks of time: the data of one repetition of a result. Times are ns of the
 * monotonic clock. Thread: one.
 */
#include "tools/bench/stats/hist.h"

#include <jansson.h>

#define COUNT_BLOCKS_MAX 1000

struct count {
	uint64_t from_ns, to_ns; /* only units that end in this window count */
	size_t n;
	struct hist *blocks; /* .n equal blocks of the window */
	uint64_t units;
};

/* ERR_NOMEM. */
int count_init(struct count *c, uint64_t from_ns, uint64_t to_ns, size_t blocks,
	struct error *err) MUST_USE;
void count_fini(struct count *c);

/* A unit ended at @at_ns and took @took_ns. */
void count_add_unit(struct count *c, uint64_t at_ns, uint64_t took_ns);

/* {"blocks": [{"times": [class, count, ...], "sum_ns": ...}, ...]}. New reference. NULL: no memory. */
json_t *count_json(const struct count *c);
/* {"counts": [...]}: only the number of units of each block. New reference. NULL: no memory. */
json_t *count_short_json(const struct count *c);
