/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The answer to "status" (abi/arbiter-control.h). Thread: loop. Blocks: for the figures of the scheduler
 * thread.
 */

struct arbiter;

/*
 * The status as JSON text. @id: the ID of the only slice in it, which may be unknown; NULL: all slices. Stores
 * the refusals of these slices (slices/slice.h). The caller owns the text: free(). NULL: no memory, or more
 * than CONTROL_ANSWER_MAX. The answer never lacks a part.
 */
char *status_render_json(struct arbiter *a, const char *id);
