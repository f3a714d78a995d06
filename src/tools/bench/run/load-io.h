/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the runner and gpuslice-load tell each other: the arguments for a workload, and the answers of a step's pods,
 * which become rows of a result. Pure. Thread: any.
 */
#include "lib/base/strv.h"
#include "tools/bench/suite/suite.h"

/* --- arguments of gpuslice-load --- */

#define ARGS_PARTS 20 /* blocks of a repetition */

/* Kernel size of a workload on one GPU. The runner measures it once without other pods, so that it is the
 * same in all modes. */
struct args_size {
	uint64_t rounds;          /* of kernel "burn"; 0: not measured yet */
	uint32_t multiprocessors; /* of the whole GPU; under MPS a program may see fewer */
};

/* @program: first argument. ERR_NOMEM. */
int args_run(struct strv *ret, const char *program, const struct suite_workload *w,
	const struct args_size *size, uint64_t seed, struct error *err) MUST_USE;
/* Arguments that run the user's command, which ends with this process. ERR_NOMEM. */
int args_command(struct strv *ret, const char *program, const struct suite_workload *w,
	struct error *err) MUST_USE;
/* Arguments that measure the kernel size of @w. ERR_NOMEM. */
int args_calibrate(struct strv *ret, const char *program, const struct suite_workload *w,
	struct error *err) MUST_USE;

/* --- answers of pods --- */

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
