/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Gives the directory of an MPS daemon one owner at a time.
 *
 *	DIR/lock         locked for moments
 *	DIR/daemon.json  exists while a daemon may be started here (mps/daemon-dir.h)
 *	DIR/pid          "PID TICKS": the daemon and its start time, which identify the process
 *
 * 1. The agent writes daemon.json and starts gpuslice-mps.
 * 2. gpuslice-mps waits for DIR/lock.
 * 3. Under the lock gpuslice-mps checks that no process of DIR/pid runs and that daemon.json exists. It then
 *    writes its own PID and start time to DIR/pid.
 * 4. gpuslice-mps releases the lock and becomes the daemon by exec, with the same PID.
 * 5. To give the directory up, the agent takes the lock without waiting and removes pid, daemon.json and lock,
 *    unless a daemon runs.
 *
 * So a directory has at most one daemon, at whatever step an agent is killed, and the next agent finds that
 * daemon.
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
	pid_t pid;      /* 0: no owner */
	uint64_t ticks; /* start time, as in /proc/PID/stat */
};

/* The process that owns @dir now; .pid 0: not known, or the process has ended. */
struct mps_lock_owner mps_lock_find_owner(const char *dir);

/*
 * Makes the calling process the owner of @dir, and empties pipe and shm there. ERR_EXISTS: another owner runs.
 * ERR_NOT_FOUND: there is no daemon.json. Waits for the lock.
 */
int mps_lock_take(const char *dir, struct error *err) MUST_USE;

/*
 * Removes pid, daemon.json and lock, so that no daemon is started in @dir. < 0: not now; a daemon runs, or another
 * process has the lock.
 */
int mps_lock_drop(const char *dir, struct error *err) MUST_USE;

/* Whether the process @owner still runs. */
bool mps_lock_owner_is_alive(const struct mps_lock_owner *owner);

/* When process @pid started, in clock ticks; 0: there is none, or a zombie. */
uint64_t mps_process_start_ticks(pid_t pid);

/*
 * Removes everything in @path and follows no link. What takes longer than @most_ns stays under names that a daemon
 * does not use, so that a new daemon finds its own names free.
 */
void dir_empty(const char *path, uint64_t most_ns);
#define DIR_EMPTY_LOOP_NS (20 * UINT64_C(1000000)) /* in the agent: blocks its loop */
