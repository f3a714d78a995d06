/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends one command to an MPS control daemon, as an operator does: runs nvidia-cuda-mps-control with the command
 * on its standard input. A run takes 5 ms. A quitting daemon may never answer, so there is a deadline
 * (MPS_COMMAND_NS).
 * Thread: loop.
 */
#include "lib/proc/child.h"
#include "lib/base/buf.h"
#include "lib/base/strv.h"

#include <limits.h>

#define MPS_COMMAND_NS  (UINT64_C(5) * 1000000000)
#define MPS_ANSWER_MAX  65536
#define MPS_SERVERS_MAX 64
#define MPS_CONTROL     "nvidia-cuda-mps-control"

struct mps_command {
	struct child *child; /* NULL: no command runs */
	struct buf answer;
	void (*done)(void *arg, const char *answer, const struct error *err);
	void *arg;
};

/*
 * Finds the control program: @given if not empty, else in PATH, else below @driver_root. The message of
 * ERR_NOT_FOUND says what to do.
 */
int mps_control_find(char ret[PATH_MAX], const char *given, const char *driver_root,
	struct error *err) MUST_USE;

/*
 * @env: the daemon's. @done gets all lines, each with its "\n"; or NULL and the error. ERR_UNAVAILABLE: there is
 * no daemon. ERR_TIMEOUT: the daemon does not answer. One command at a time.
 */
int mps_command_run(struct mps_command *c, uv_loop_t *loop, const char *program,
	const char *const *env, const char *text,
	void (*done)(void *arg, const char *answer, const struct error *err), void *arg,
	struct error *err) MUST_USE;

/* Stops the command without a callback. */
void mps_command_stop(struct mps_command *c);

/* Reads PIDs, one a line, at most @max. Skips lines that are no PID. */
uint32_t mps_pids_read(uint32_t *ret, uint32_t max, const char *answer);
