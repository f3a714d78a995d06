/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Asks an MPS control daemon one thing, as a person does: by a run of nvidia-cuda-mps-control with the command on
 * its standard input. It takes 5 ms; a daemon that quits may never answer, so there is a deadline.
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
	struct child *child; /* NULL: none runs */
	struct buf answer;
	void (*done)(void *arg, const char *answer, const struct error *err);
	void *arg;
};

/*
 * Where the control program is: @given, if there is one, else in PATH, else below @driver_root. ERR_NOT_FOUND says
 * what to do.
 */
int mps_control_find(char ret[PATH_MAX], const char *given, const char *driver_root,
	struct error *err) MUST_USE;

/*
 * @env: of the daemon. @done gets all lines, each with its end; or NULL and why: ERR_UNAVAILABLE: there is no
 * daemon, ERR_TIMEOUT: it does not answer. One at a time.
 */
int mps_command_run(struct mps_command *c, uv_loop_t *loop, const char *program,
	const char *const *env, const char *text,
	void (*done)(void *arg, const char *answer, const struct error *err), void *arg,
	struct error *err) MUST_USE;

/* Without a callback. */
void mps_command_stop(struct mps_command *c);

/* Numbers of processes, one a line, at most @max; what is none of these is left out. */
uint32_t mps_pids_read(uint32_t *ret, uint32_t max, const char *answer);
