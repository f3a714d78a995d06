/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Converts the answers of a step's pods into rows of a result. Pure. Thread: any. */
#include "tools/bench/suite/suite.h"

/* The answer of one pod. */
struct collect_pod {
	uint32_t tenants; /* index of its kind in the scenario */
	double weight;    /* NaN: no weights */
	size_t n_blocks;
	struct hist *blocks; /* NULL: the pod failed, and .error has the reason */
	const char *error;   /* valid as long as the result */
};

struct collect_step {
	const struct suite *suite;
	const struct suite_step *step;
	double seconds, sm_share, mem_limit_mib; /* NaN: no limit */
	struct bench_gpu gpu;
	size_t n;
	const struct collect_pod *pods;
	const char *doubt; /* of struct bench_run; NULL: none */
};

/*
 * Reads the final output of gpuslice-load into @n empty @blocks. ERR_INVALID, also if gpuslice-load reports its
 * own error.
 */
int collect_read(struct hist *blocks, size_t n, const char *line, size_t len,
	struct error *err) MUST_USE;

/* Adds a step as new rows, or as a repetition of existing rows. ERR_NOMEM, ERR_LIMIT. */
int collect_add(struct bench_result *r, const struct collect_step *s,
	struct error *err) MUST_USE;

/* The scenario name of a step; "alone" in mode exclusive. Valid as long as the suite. */
const char *collect_scenario(const struct suite *s, const struct suite_step *step);
