/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The lock by which one editor at a time changes a node. The lock ends with its process. Thread:
 * any. */
#include "lib/base/error.h"

#include <signal.h>
#include <stdint.h>

/*
 * Waits up to @wait_ns for RUN_DIR/mig.lock; makes a missing directory. Returns the descriptor that
 * holds the lock; the caller closes it. ERR_EXISTS: another process holds the lock, and the text has
 * its pid if known. ERR_CANCELLED: *@stop is not 0 (@stop may be NULL).
 */
int mig_lock_acquire(const char *run_dir, uint64_t wait_ns, const volatile sig_atomic_t *stop,
	struct error *err) MUST_USE;
