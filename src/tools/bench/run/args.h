/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The arguments of gpuslice-load for a workload. Pure. Thread: any. */
#include "lib/base/strv.h"
#include "tools/bench/suite/suite.h"

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
/* Arguments that run the user's command, which ends with this process. */
int args_command(struct strv *ret, const char *program, const struct suite_workload *w,
	struct error *err) MUST_USE;
int args_calibrate(struct strv *ret, const char *program, const struct suite_workload *w,
	struct error *err) MUST_USE;
