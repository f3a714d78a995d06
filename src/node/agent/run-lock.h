/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the run directory to one agent. A run directory that cannot be written or does not exist keeps no device from
 * being served. A second agent does: ERR_EXISTS, also if it is found late.
 * Thread: loop.
 */
#include "node/agent/base/loop.h"
#include "node/agent/base/report.h"

struct run_lock {
	const char *dir; /* borrowed, like the others */
	const struct reporter *reporter;
	struct failure *failure;
	int fd; /* < 0: not locked */
};

/* Takes the lock, and waits up to @wait_ns for another agent to release it. No effect while the lock is held. */
int run_lock_take(struct run_lock *l, uint64_t wait_ns, struct error *err) MUST_USE;

/* Retries a failed lock, or a lost one. Another agent's lock ends this agent. */
void run_lock_retry(struct run_lock *l);

void run_lock_release(struct run_lock *l);
