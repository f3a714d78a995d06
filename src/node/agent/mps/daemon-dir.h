/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of one MPS control daemon, below the MPS root:
 *
 *	ROOT/KEY/pipe/         CUDA_MPS_PIPE_DIRECTORY; containers mount it
 *	ROOT/KEY/log/mps.log   the log of the daemon and its servers
 *	ROOT/KEY/shm/          /dev/shm of daemon and clients, with drivers that need one;
 *	ROOT/KEY/daemon.json   exists while a daemon runs or may be started; its devices; the compute modes that
 *	                       its GPUs had before;
 *	ROOT/KEY/pid, lock     the owner of the directory (mps/daemon-lock.h)
 *
 * With these files the next agent finds a running daemon and a compute mode that is not restored. The agent never
 * removes `pipe` itself: a container names the directory for as long as the kubelet may restart the container.
 *
 * Thread: loop. Blocks: on small files.
 */
#include "node/agent/mps/daemon-lock.h"
#include "lib/base/strv.h"
#include "model/mps/mps.h"

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#define MPS_LOG_FILE "mps.log"

/* A GPU whose compute mode was changed, and the mode before. */
struct mps_saved_mode {
	char uuid[GPU_UUID_MAX];
	uint32_t before; /* NVML's number */
};

struct mps_daemon_dir {
	char dir[PATH_MAX], pipe[PATH_MAX], log_dir[PATH_MAX], log[PATH_MAX], shm[PATH_MAX];
	struct strv devices; /* CUDA_VISIBLE_DEVICES at the daemon's start: its UUIDs */
	struct mps_saved_mode *modes;
	uint32_t n_modes;
};

/* Sets the paths, without I/O. ERR_LIMIT: a path is too long, also for the sockets in .pipe. */
int mps_daemon_dir_init(struct mps_daemon_dir *dir, const char *root, const char *key,
	struct error *err) MUST_USE;
void mps_daemon_dir_fini(struct mps_daemon_dir *dir);

/*
 * Makes the directories that are missing. .pipe and .shm become the agent's again. ERR_PERMISSION: another
 * directory belongs to another user, or everyone may write there; that directory stays as it is.
 */
int mps_daemon_dir_make(struct mps_daemon_dir *dir, struct error *err) MUST_USE;

/* Reads and writes daemon.json. Without the file there are no devices and no modes. */
int mps_daemon_dir_load(struct mps_daemon_dir *dir, struct error *err) MUST_USE;
int mps_daemon_dir_save(const struct mps_daemon_dir *dir, struct error *err) MUST_USE;

/*
 * Cleans up after a daemon's end: empties .pipe and removes the other files. < 0: not now. A daemon runs,
 * gpuslice-mps has the lock, or there are modes to restore.
 */
int mps_daemon_dir_clear(struct mps_daemon_dir *dir, struct error *err) MUST_USE;

/* The keys below @root that have a daemon.json. */
int mps_daemon_dirs_find(struct strv *ret, const char *root, struct error *err) MUST_USE;

/*
 * The roots that may hold daemons of this agent and of earlier ones: a list in @run_dir, since a removed config
 * takes its root with it. The agent calls mps_root_save() before it makes anything below a root.
 */
int mps_roots_load(struct strv *ret, const char *run_dir, struct error *err) MUST_USE;
int mps_root_save(const char *run_dir, const char *root, struct error *err) MUST_USE;
