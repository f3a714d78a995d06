/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the steps of a program in its launches. A training or an inference launches the same kernels again and
 * again, so a step is the shortest sequence of launches that repeats. Pure. Thread: any.
 */
#include "lib/base/error.h"

#include <stddef.h>
#include <stdint.h>

#define PROFILE_LAUNCHES_MAX 32768 /* maximum searched launches; the search time is quadratic */

struct profile_launch {
	uint64_t at_ns;
	uint32_t kind; /* alike: same kernel and number of blocks (abi/launch-log.h) */
};

struct profile_steps {
	size_t launches; /* in a step; 0: nothing repeats, or too few launches */
	size_t n;        /* number of complete steps */
	double mean_s;   /* from one beginning to the next */
	double cv;       /* of the times whose mean is .mean_s */
	double span_s;   /* from the first launch of a step to its last, mean */
};

/* @l: in the order of launches. */
struct profile_steps profile_steps_find(const struct profile_launch *l, size_t n);
