/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A view as JSON, as the agent answers it below /api/v1 and `gpuslice top` and the status page read it. docs/api.md says what
 * each key means; the keys are the members of struct view and its parts in camelCase, with one table of rows
 * for each struct, so that a test can hold the documentation against it. Memory grows with the view only.
 * Thread: any that holds a reference.
 */
#include "node/view/view.h"

enum view_part {
	VIEW_PART_NODE,      /* all but the points of the last hour */
	VIEW_PART_GPUS,      /* of that the GPUs, with all below them */
	VIEW_PART_PODS,      /* the uses by pod, with their sums */
	VIEW_PART_RESOURCES, /* what the kubelet is offered */
	VIEW_PART_HISTORY,   /* the points of the last hour */
	VIEW_PART_COUNT_,
};
const char *view_part_path(enum view_part part); /* "/api/v1/node" */

/* One line of JSON with a line feed at its end, yours; NULL: no memory. */
char *view_json(const struct view *v, enum view_part part, size_t *ret_len) MUST_USE;
