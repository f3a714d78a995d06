/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the agents of a plan's nodes accept its sharing configs. Thread: any; prints to standard error.
 */
#include "tools/plan/make/make.h"

/*
 * Reads the sharing configs among @files as `gpuslice config check` does, each on a node of its pool: with the GPUs
 * that the plan expects there. The plan promises that all of it is offered and that programs start, so each mistake,
 * warning and note is printed as an error. ERR_INVALID: there is one.
 */
int plan_prove(const struct make_files *files, const struct pools *pools,
	struct error *err) MUST_USE;
