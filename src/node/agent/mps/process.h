/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process of one MPS control daemon. It runs in a session of its own and outlives the agent.
 *
 * For the files of this folder only. Thread: loop.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <sys/types.h>

struct mps;
struct mps_supervisor;

/*
 * The environment of the daemon and of its commands. The caller owns it: mps_env_free(). NULL: no memory.
 */
char **mps_supervisor_env(const struct mps_supervisor *sup);
void mps_env_free(char **env);
/* Whether daemon and clients need a common /dev/shm, as with older drivers. */
bool mps_needs_shm(const struct mps *m);

/* Starts the daemon. On failure there is no process. .ended() follows its end. */
int mps_process_start(struct mps_supervisor *sup, struct error *err);
/* Takes over the running process that the pid file names. False: there is none. */
bool mps_process_adopt(struct mps_supervisor *sup);
/* Kills the daemon and its servers. .ended() follows. */
void mps_process_kill(struct mps_supervisor *sup);
/* Leaves the daemon running and forgets it, without .ended(). */
void mps_process_leave(struct mps_supervisor *sup);
/* 0: no daemon runs. */
pid_t mps_process_pid(const struct mps_supervisor *sup);
