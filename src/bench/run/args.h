/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The words of gpuslice-load for a workload. Pure. Thread: any. */
#include "base/strv.h"
#include "bench/suite/suite.h"

#define ARGS_PARTS 20 /* blocks of a repetition */

/* @program is the first word. ERR_NOMEM. */
int args_run(struct strv *ret, const char *program, const struct suite_workload *w,
	uint64_t rounds, uint64_t seed, struct error *err) MUST_USE;
int args_calibrate(struct strv *ret, const char *program, const struct suite_workload *w,
	struct error *err) MUST_USE;
