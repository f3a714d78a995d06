/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Times in classes, so that millions of them are few numbers: exact below 128 ns, then 128 classes to each
 * doubling. What lies in a class is within 0.4 % of the class's middle, which stands for it.
 *
 * Times are nanoseconds. Thread: any, one at a time for each object.
 */
#include "lib/base/error.h"

#include <stddef.h>
#include <stdint.h>

#define HIST_BITS    7
#define HIST_OCTAVES 38 /* up to 4.9 hours; what is longer counts as that */
#define HIST_CLASSES (HIST_OCTAVES << HIST_BITS)

unsigned int hist_class(uint64_t ns);
/* The middle of a class; @class is less than HIST_CLASSES. */
double hist_middle(unsigned int class);

/* For collecting. All zero: empty. About 20 KiB. */
struct hist {
	uint64_t n;
	double sum_ns;     /* of the times themselves */
	uint32_t from, to; /* all others are 0; to is behind the last one */
	uint32_t counts[HIST_CLASSES];
};

void hist_clear(struct hist *h);
void hist_add(struct hist *h, uint64_t ns);
/* The least time that at least the share @q, 0 to 1, of all are not above; 0 of none. */
double hist_quantile(const struct hist *h, double q);
double hist_mean(const struct hist *h); /* 0 of none */

/* For keeping: only classes that are not empty, in order. All zero: empty. */
struct hist_class_count {
	uint32_t class, count;
};

struct hist_packed {
	uint64_t n;
	double sum_ns;
	uint32_t classes;
	struct hist_class_count *class; /* .classes of them */
};

/* ERR_MEMORY. The caller owns *ret. */
int hist_pack(struct hist_packed *ret, const struct hist *h, struct error *err) MUST_USE;
void hist_packed_fini(struct hist_packed *p);
/* @h and what @more holds. */
void hist_join(struct hist *h, const struct hist *more);
/* @h and what @p holds. */
void hist_merge(struct hist *h, const struct hist_packed *p);
