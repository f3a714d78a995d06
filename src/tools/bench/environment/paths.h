/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where our own files are: beside this program, installed or in a build tree. Thread: any. */
#include "lib/base/error.h"

#include <limits.h>
#include <stdbool.h>

struct environment_paths {
	char load[PATH_MAX], arbiter[PATH_MAX];
	char cuda[PATH_MAX], nvml[PATH_MAX]; /* the libraries of the slice runtime */
	char sim[2 * PATH_MAX]; /* directories of the simulator, for LD_LIBRARY_PATH; "" */
	char sim_mps[PATH_MAX]; /* its MPS control program */
};

/* ERR_NOT_FOUND. @simulated: the simulator must be there too. */
int environment_paths_find(struct environment_paths *p, bool simulated,
	struct error *err) MUST_USE;
