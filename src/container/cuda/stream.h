/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the hooks ask about a stream. @own: stream 0 is the calling thread's own (_ptsz). No function here
 * spoils a capture. Thread: any. */
#include "container/cuda/driver.h"

/* The stream captures, or may capture: a call on it takes no memory now. */
bool stream_captures(CUstream stream, bool own);

/* The device that runs the stream's work. Returns the driver's error if there is no context. */
CUresult stream_device(CUstream stream, bool own, CUdevice *ret);

#define STREAM_WAIT_MS 1000
/*
 * Waits until @stream has done all its work, at most STREAM_WAIT_MS. Memory that was freed in stream order can be
 * trimmed after that. False: not done, or the stream captures. The wait is bounded because the stream may wait for
 * something that the calling thread does next.
 */
bool stream_wait_idle(CUstream stream, bool own);
