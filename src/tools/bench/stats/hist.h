/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Histogram of times, so that millions of times take few numbers. Classes are exact below 128 ns. Above, each
 * doubling has 128 classes. Each time is within 0.4 % of the middle of its class, which represents the time. And
 * units of work, counted in blocks with such a histogram each.
 *
 * Times are nanoseconds. Thread: any, one at a time for each object.
 */
#include "lib/base/error.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define HIST_BITS    7
#define HIST_OCTAVES 38 /* up to 4.9 hours; longer times count in the last class */
#define HIST_CLASSES (HIST_OCTAVES << HIST_BITS)

/* The class of a time: 0 to HIST_CLASSES - 1. */
unsigned int hist_class(uint64_t ns);
/* Middle of a class, ns. @class is less than HIST_CLASSES. */
double hist_middle(unsigned int class);

/* For collecting. All zero: empty. About 20 KiB. */
struct hist {
	uint64_t n;
	double sum_ns;     /* of the exact times */
	uint32_t from, to; /* used classes: .from to .to - 1; other counts are 0 */
	uint32_t counts[HIST_CLASSES];
};

/* Makes @h empty. Resets only the used classes, so @h must be valid. */
void hist_clear(struct hist *h);
/* Adds one time. 32 bits count the times of a class. */
void hist_add(struct hist *h, uint64_t ns);
/* The least time such that at least the share @q (0 to 1) of all times do not exceed it. 0 if empty. */
double hist_quantile(const struct hist *h, double q);
double hist_mean(const struct hist *h); /* 0 if empty */

/* For storage: only classes that are not empty, in order. All zero: empty. */
struct hist_class_count {
	uint32_t class, count;
};

struct hist_packed {
	uint64_t n;
	double sum_ns;
	uint32_t classes;
	struct hist_class_count *class; /* .classes elements */
};

/* The caller owns *@ret. ERR_NOMEM. */
int hist_pack(struct hist_packed *ret, const struct hist *h, struct error *err) MUST_USE;
void hist_packed_fini(struct hist_packed *p);
/* Adds @more to @h. */
void hist_join(struct hist *h, const struct hist *more);
/* Adds @p to @h. */
void hist_merge(struct hist *h, const struct hist_packed *p);

/* --- counted units --- */

/*
 * Finished units of work, counted in blocks of time: the data of one repetition of a result. Times are ns of the
 * monotonic clock.
 */

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
