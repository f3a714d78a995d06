/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The only output of the interception libraries: one line to stderr ("gpuslice: ...") when they cannot do their
 * work. Each library prints it once for each cause. Tools parse the output of programs, so nothing that works
 * has a line. Thread: any. Not async-signal-safe. Allocates nothing.
 */
#include <stdint.h>

enum warn_cause {
	WARN_NO_DRIVER,    /* the driver's library is absent */
	WARN_NO_ARBITER,   /* the arbiter does not answer: no grants beyond the present ones */
	WARN_NOT_ADMITTED, /* the arbiter refused this process */
	WARN_BAD_PAGE,
	WARN_NEW_NAMES, /* more new names of the driver than space for them */
	WARN_NO_ALLOC_TABLE,
	WARN_NOT_SCHEDULED, /* no gate holds the process's work */
	WARN_NO_MPS,        /* the slice runs under MPS, but this process does not */
	WARN_CAUSES
};

void warn_once(enum warn_cause cause, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
