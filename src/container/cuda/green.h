/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Green contexts, and the primary context that each lives in.
 *
 * Measured (H100, driver 580): a fence of the primary context is also behind the work of its green contexts. An
 * event made while a green context is current belongs to the primary context and outlives the green one. So fences
 * and events use primary contexts only.
 *
 * The driver can name the primary context (cuStreamGetCtx_v2 of stream 0), but that call spoils a capture. So this
 * module keeps a row for each green context. Thread: any.
 */
#include "container/cuda/driver.h"

/* Notes that @green lives in @primary. Without memory the table prints a warning, and green_primary() does not
 * know the green context. */
void green_made(CUgreenCtx green, CUcontext primary);
/* Call before the green context is destroyed, as a later one may have its handle. */
void green_leaves(CUgreenCtx green);

/* The primary context of a green context; of any other context, @context itself. */
CUcontext green_primary(CUcontext context);
