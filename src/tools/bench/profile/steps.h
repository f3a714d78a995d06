/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The steps of a program, from what it launches: a training or an inference launches the same kernels again and
 * again, so a step is the shortest run of launches that repeats. Pure. Thread: any.
 */
#include "lib/base/error.h"

#include <stddef.h>
#include <stdint.h>

#define PROFILE_LAUNCHES_MAX 32768 /* that are looked at: it takes the square of them */

struct profile_launch {
	uint64_t at_ns;
	uint32_t kind; /* alike are the same kernel with as many blocks (abi/launch-log.h) */
};

struct profile_steps {
	size_t launches; /* of a step; 0: nothing repeats, or too few were seen */
	size_t n;        /* steps that were seen, all of them whole */
	double mean_s;   /* from one begin to the next */
	double cv;       /* of that */
	double span_s;   /* from its first launch to its last, mean */
};

/* @l in the order in which they were launched. */
struct profile_steps profile_steps_find(const struct profile_launch *l, size_t n);
