/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the files of gpuslice relative to this program, installed or in a build tree. Thread: any. */
#include "lib/base/error.h"

#include <limits.h>
#include <stdbool.h>

struct environment_paths {
	char load[PATH_MAX], arbiter[PATH_MAX];
	char cuda[PATH_MAX], nvml[PATH_MAX]; /* the interception libraries */
	char sim[2 * PATH_MAX]; /* directories of the simulator, for LD_LIBRARY_PATH; "" */
	char sim_mps[PATH_MAX]; /* MPS control program of the simulator */
};

/* ERR_NOT_FOUND. @simulated: the simulator's files are required too. */
int environment_paths_find(struct environment_paths *p, bool simulated,
	struct error *err) MUST_USE;
