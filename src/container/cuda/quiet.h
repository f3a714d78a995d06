/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Around driver calls of our own that a program did not make. While a thread captures a stream in the
 * global or thread-local mode, calls that might wait are refused (900) and spoil its capture, in the
 * global mode by any thread: even the reading of a pool's attribute does (H100, driver 580.159.04).
 * A thread in the relaxed mode may make them, beside its own captures and those of others. The mode
 * is a word of the calling thread; exchanging it is always allowed.
 */
#include "container/cuda/driver.h"

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
