/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One editor at a time changes a node. The lock ends with its process. Thread: any. */
#include "lib/base/error.h"

#include <signal.h>
#include <stdint.h>

/*
 * Waits up to @wait_ns for RUN_DIR/mig.lock, and makes the directory if it is missing. Returns the
 * descriptor that holds it (yours: close()). ERR_EXISTS: the text says which process has it.
 * ERR_CANCELLED: *@stop became other than 0 (may be NULL).
 */
int mig_lock_acquire(const char *run_dir, uint64_t wait_ns, const volatile sig_atomic_t *stop,
	struct error *err) MUST_USE;
