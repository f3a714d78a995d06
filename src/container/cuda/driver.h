/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The driver's functions, as its ABI declares them. This library defines those marked as hooks in
 * container/loader/cuda.txt. REAL() calls any of them in the driver; between quiet_begin() and quiet_end() if the
 * call is the hook's own.
 */
#include "abi/cuda-functions.h"
#include "container/loader/forward.h"

#define DECLARE(name, params) CUresult name params;
CUDA_FUNCTIONS(DECLARE)
#undef DECLARE

/*
 * A pair around driver calls that the hooks make on their own account.
 *
 * While a thread captures a stream in the global or thread-local mode, the driver refuses calls that might wait
 * (900) and invalidates the capture. In the global mode this holds for calls of any thread. Even the read of a
 * pool's attribute counts (H100, driver 580.159.04). A thread in the relaxed mode may make such calls, beside its
 * own captures and those of other threads. The mode is a word of the calling thread, and its exchange is always
 * allowed.
 */
#define CAPTURE_MODE_RELAXED 2U

static inline unsigned int quiet_begin(void)
{
	unsigned int mode = CAPTURE_MODE_RELAXED;

	if (REAL(cuThreadExchangeStreamCaptureMode)(&mode))
		mode = CAPTURE_MODE_RELAXED; /* a driver without captures */
	return mode;
}

static inline void quiet_end(unsigned int mode)
{
	if (mode != CAPTURE_MODE_RELAXED)
		(void)REAL(cuThreadExchangeStreamCaptureMode)(&mode);
}
