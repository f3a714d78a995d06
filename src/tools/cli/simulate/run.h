/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What `gpuslice simulate` and `gpuslice plan --trace` do with their options. Thread: main. */
#include "lib/base/option.h"

#include <stdbool.h>

/*
 * Compares placement policies on a trace and prints the result. @o has the options mix, nodes, policy, seed, seeds and
 * trace. Returns 0, < 0, or after an interrupt the exit status of ERR_CANCELLED; the finished runs are then printed.
 */
int simulate_run(const struct options *o, bool json, struct error *err) MUST_USE;
