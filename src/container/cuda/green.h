/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Green contexts, and the primary context that each lives in. A marker of that one is behind the work of its
 * green contexts too, and an event that is made while a green context is current is the primary one's and
 * outlives the green one (H100, driver 580). So markers and events know primary contexts alone.
 * The driver says which one it is (cuStreamGetCtx_v2 of stream 0), but spoils a capture by that; so it is noted.
 * Thread: any.
 */
#include "container/cuda/driver.h"

void green_made(CUgreenCtx green, CUcontext primary);
/* Before it is destroyed: the next one may have its handle. */
void green_leaves(CUgreenCtx green);

/* The context that @context lives in: itself, unless it is a green one. */
CUcontext green_primary(CUcontext context);
