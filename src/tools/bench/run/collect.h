/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the pods of a step said, as rows of a result. Pure. Thread: any. */
#include "tools/bench/suite/suite.h"

/* What one pod said. */
struct collect_pod {
	uint32_t tenants; /* of the scenario: position */
	double weight;    /* NaN: none */
	size_t n_blocks;
	struct hist *blocks; /* NULL: it failed, and .error says how */
	const char *error;   /* lives as long as the result */
};

struct collect_step {
	const struct suite *suite;
	const struct suite_step *step;
	double seconds, sm_share, mem_limit_mib; /* NaN: none */
	struct bench_gpu gpu;
	size_t n;
	const struct collect_pod *pods;
	const char *doubt; /* of struct bench_run; NULL: none */
};

/*
 * Reads what gpuslice-load printed at its end into @blocks, of which there are @n, all empty. ERR_INVALID, also for
 * what it said about its failure.
 */
int collect_read(struct hist *blocks, size_t n, const char *line, size_t len,
	struct error *err) MUST_USE;

/* Adds a step's rows, or its repetitions to those that are there. ERR_NOMEM, ERR_LIMIT. */
int collect_add(struct bench_result *r, const struct collect_step *s,
	struct error *err) MUST_USE;

/* The name of a step's scenario: of the mode exclusive "1 burn". Static for as long as the suite. */
const char *collect_scenario(const struct suite *s, const struct suite_step *step);
