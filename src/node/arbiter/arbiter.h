/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * gpuslice-arbiter: serves the slices of this node. The arbiter listens on each slice's socket (abi/slice-wire.h)
 * and grants memory. It reports status and gets NVML's figures on the control socket (abi/arbiter-control.h).
 *
 * The arbiter serves without an agent, and it can be killed at any moment. The grants are in a file of the run
 * directory (node/arbiter/grants/journal.h), and processes keep what they have. The next arbiter finds the pages
 * in the processes that it may look into. The other pages come when their processes register again.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <limits.h>
#include <uv.h>

#define ARBITER_PROCFS "/proc"

struct arbiter;

struct arbiter_options {
	char state_dir[PATH_MAX]; /* contains SLICES_DIR */
	char run_dir[PATH_MAX];
	char procfs[PATH_MAX];
};

/*
 * The caller runs the loop, and once more after arbiter_stop(), so that handles close. On failure, *ret may be a
 * stopped arbiter; the loop must run before arbiter_free() in this case too.
 */
int arbiter_start(struct arbiter **ret, uv_loop_t *loop, const struct arbiter_options *o,
	struct error *err) MUST_USE;
void arbiter_reload(struct arbiter *a); /* scans all slices again */
/* Closes all connections and files. Gates, grants and records stay as they are, for the next arbiter. */
void arbiter_stop(struct arbiter *a);
void arbiter_free(struct arbiter *a); /* after the loop has run out; NULL: nothing */
