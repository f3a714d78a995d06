/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the run directory to one agent. Only another agent's lock (ERR_EXISTS) ends this agent, also if it is found
 * late. A run directory that cannot be written is a degraded component, and the agent serves its devices.
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

/*
 * Takes the lock, unless this agent has it, and waits up to @wait_ns for another agent to release it. 0: it is taken,
 * or the directory cannot be written, which is reported. < 0: ERR_EXISTS.
 */
int run_lock_take(struct run_lock *l, uint64_t wait_ns, struct error *err) MUST_USE;

/* Retries a failed lock, or a lost one. Another agent's lock ends this agent. */
void run_lock_retry(struct run_lock *l);

/* Nothing happens if this agent has no lock. */
void run_lock_release(struct run_lock *l);
