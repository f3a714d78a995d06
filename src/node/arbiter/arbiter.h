/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * gpuslice-arbiter: serves the slices of this node. It listens on each slice's socket (abi/slice-wire.h),
 * grants memory, and tells and learns the rest on the control socket (abi/arbiter-control.h).
 *
 * It needs no agent to serve, and can be killed at any moment: what is granted stands in a file of the
 * run directory (node/arbiter/grants/journal.h), processes keep what they have, and the next arbiter finds their
 * pages again, by itself where it may look into them, else when they register again.
 */
#include "lib/base/error.h"

#include <limits.h>
#include <uv.h>

#define ARBITER_PROCFS "/proc"

struct arbiter;

struct arbiter_options {
	char state_dir[PATH_MAX]; /* SLICES_DIR is in it */
	char run_dir[PATH_MAX];
	char procfs[PATH_MAX];
};

/*
 * The loop must run for anything to happen; after arbiter_stop() once more, so that handles close. Where it cannot
 * start, *ret may be one that is stopped already; then too the loop runs before arbiter_free().
 */
int arbiter_start(struct arbiter **ret, uv_loop_t *loop, const struct arbiter_options *o,
	struct error *err) MUST_USE;
void arbiter_reload(struct arbiter *a); /* looks at all slices again */
void arbiter_stop(struct arbiter *a);
void arbiter_free(struct arbiter *a); /* after the loop ran out; NULL is none */
