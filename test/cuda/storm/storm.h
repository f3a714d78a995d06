/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The processes that cuda-storm starts. Each prints "ready" and ends its work with a line of counts;
 * then it keeps its context until its standard input ends. */
#include "cuda/driver.h"

struct storm_options {
	const char *argv0;
	int ordinal;
	unsigned int threads, seconds;
	uint64_t largest; /* bytes of one allocation */
	uint64_t seed;
	bool managed;
};

/* Threads that allocate and free by all ways at once. Returns the exit status. */
int storm_worker(const struct storm_options *o);

/* A process of another slice: works on memory of its own and checks it; for each line on its
 * standard input it prints how many rounds it has done and how many bytes were wrong. */
int storm_tenant(const struct storm_options *o);
