/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Proves that the agents of a plan's nodes accept the plan's sharing configs. Thread: any; prints to
 * standard error. */
#include "tools/plan/make/make.h"

/*
 * Reads the sharing configs among @files as `gpuslice config check` does. Each config is checked on a
 * node of its pool, with the GPUs that the plan expects there. The plan promises that everything is
 * offered and that programs start. So each mistake, warning and note is printed as an error.
 * ERR_INVALID: at least one was printed.
 */
int plan_prove(const struct make_files *files, const struct pools *pools,
	struct error *err) MUST_USE;
