/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whose the directory of an MPS daemon is. gpuslice-mps takes it for the process that it becomes: under a lock it
 * looks whether another one runs there, and writes down itself. So however an agent is killed around the start of a
 * daemon, there is one for each directory at most, and the next agent finds it.
 *
 *	DIR/lock         held for moments
 *	DIR/daemon.json  there as long as a daemon may be started here (mps/daemon-dir.h)
 *	DIR/pid          "PID TICKS": the daemon, and when it began, by which it is known again
 *
 * Thread: any. Blocks: on small files.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MPS_STATE    "daemon.json"
#define MPS_PID_FILE "pid"
#define MPS_PIPE     "pipe"
#define MPS_SHM      "shm"

struct mps_lock_owner {
	pid_t pid;      /* 0: nobody */
	uint64_t ticks; /* as in /proc/PID/stat */
};

/* Who runs there now; nobody, if that is not known or it has ended. */
struct mps_lock_owner mps_lock_find_owner(const char *dir);

/*
 * Takes @dir for the calling process, and empties its pipe and shm. ERR_EXISTS: another one runs there;
 * ERR_NOT_FOUND: nothing is to be started here any more. Waits for the lock.
 */
int mps_lock_take(const char *dir, struct error *err) MUST_USE;

/* Nothing is to be started there: takes daemon.json away, with pid. < 0: not now, somebody runs or has the lock. */
int mps_lock_drop(const char *dir, struct error *err) MUST_USE;

/* Whether @h still runs. */
bool mps_lock_owner_is_alive(const struct mps_lock_owner *h);

/* When process @pid began; 0: there is none. */
uint64_t mps_process_start_ticks(pid_t pid);

/*
 * Removes all that is in @path, and follows no link. What takes longer than @most_ns stays, under names of ours: a daemon
 * that is started there has its own names free.
 */
void dir_empty(const char *path, uint64_t most_ns);
#define DIR_EMPTY_LOOP_NS (20 * UINT64_C(1000000)) /* by the agent, whose loop waits */
