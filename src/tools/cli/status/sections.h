/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sections of `gpuslice status` in files of their own. They append to @b. Pure; thread: any. */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <jansson.h>
#include <stdbool.h>

/* The profiles of the GPUs in the list. Nothing if no GPU has profiles. */
int status_render_profiles(struct buf *b, const json_t *gpus, bool colour,
	struct error *err) MUST_USE;

/* The slices of running containers. Nothing if there are none. */
int status_render_limits(struct buf *b, const json_t *slices, bool colour,
	struct error *err) MUST_USE;

/* How many quanta of the fair-share scheduler each slice had on a GPU, and why they ended. Nothing
 * if no slice uses the scheduler. */
int status_render_quanta(struct buf *b, const json_t *slices, bool colour,
	struct error *err) MUST_USE;

/* The MPS daemons; @gpus has their devices. Nothing if there are none. */
int status_render_mps(struct buf *b, const json_t *mps, const json_t *gpus, bool colour,
	struct error *err) MUST_USE;
