/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The only words that the libraries ever say: a line to stderr when they cannot do their work, once
 * for each cause, at most 16 a process ("gpuslice: ..."). Tools parse what programs print, so there
 * is no line for anything that works. Thread: any; async-signal-safe: no; allocates nothing.
 */
#include <stdint.h>

enum warn_cause {
	WARN_NO_DRIVER,    /* no real library */
	WARN_NO_ARBITER,   /* it does not answer: what is granted already is all there is */
	WARN_NOT_ADMITTED, /* the arbiter refused this process */
	WARN_BAD_PAGE,
	WARN_NEW_NAMES, /* more unknown names than there is room for */
	WARN_NO_ALLOC_TABLE,
	WARN_NOT_SCHEDULED, /* work is not held */
	WARN_NO_MPS,        /* the slice is to be under MPS, this process is not */
	WARN_CAUSES
};

void warn_once(enum warn_cause cause, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
