/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the hooks ask of a stream. @own: stream 0 is the calling thread's own (_ptsz). None of it
 * spoils a capture. Thread: any.
 */
#include "container/cuda/driver.h"

/* Captures, or may: what is called on it now takes no memory now. */
bool stream_captures(CUstream stream, bool own);

/* The device that a stream's work runs on; an error of the driver where there is no context. */
CUresult stream_device(CUstream stream, bool own, CUdevice *ret);

/*
 * Waits until @stream has done all its work, at most STREAM_WAIT_MS: what was freed in its order can
 * be trimmed after that. False: not done, or it captures. It is bounded as the stream may be waiting
 * for something that this very thread is to do next.
 */
#define STREAM_WAIT_MS 1000
bool stream_wait_idle(CUstream stream, bool own);
