/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parts of `gpuslice status` that have files of their own. They append to @b. Pure; thread: any. */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <jansson.h>
#include <stdbool.h>

/* What the GPUs of the list are cut into. Nothing at all where none is. */
int status_render_profiles(struct buf *b, const json_t *gpus, bool colour,
	struct error *err) MUST_USE;

/* The slices of running containers. Nothing at all where there are none. */
int status_render_limits(struct buf *b, const json_t *slices, bool colour,
	struct error *err) MUST_USE;

/* How many quanta of the fair-share scheduler each of them had on a GPU, and why these ended. Nothing at all where
 * none takes part. */
int status_render_quanta(struct buf *b, const json_t *slices, bool colour,
	struct error *err) MUST_USE;

/* The MPS daemons, of which @gpus has the devices. Nothing at all where there are none. */
int status_render_mps(struct buf *b, const json_t *mps, const json_t *gpus, bool colour,
	struct error *err) MUST_USE;
