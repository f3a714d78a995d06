/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A view as JSON: what the agent answers below /api/v1, and what `gpuslice top` and the status page read. The
 * keys are the members of struct view and of its parts, in camelCase; docs/api.md describes each key. Each struct
 * has one table of rows, so that a test can compare docs/api.md with it. Memory grows with the view only.
 * Thread: any that holds a reference.
 */
#include "node/view/view.h"

enum view_part {
	VIEW_PART_NODE,      /* all, except the points of the last hour */
	VIEW_PART_GPUS,      /* the GPUs, with all below them */
	VIEW_PART_PODS,      /* uses by pod, with sums */
	VIEW_PART_RESOURCES, /* what the agent offers to the kubelet */
	VIEW_PART_HISTORY,   /* the points of the last hour */
	VIEW_PART_COUNT_,
};
const char *view_part_path(enum view_part part); /* "/api/v1/node" */

/* One line of JSON with a line feed at its end; the caller frees it. NULL: out of memory. */
char *view_json(const struct view *v, enum view_part part, size_t *ret_len) MUST_USE;
