/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What one MPS control daemon has on disk, below the MPS root:
 *
 *	ROOT/KEY/pipe/         CUDA_MPS_PIPE_DIRECTORY; containers have it mounted
 *	ROOT/KEY/log/mps.log   the log of the daemon and its servers
 *	ROOT/KEY/shm/          /dev/shm of daemon and clients, with drivers that need one
 *	ROOT/KEY/daemon.json   that there is, or may be, a daemon; the devices that it was started with; what compute
 *	                       modes its GPUs had before
 *	ROOT/KEY/pid, lock     whose it is (mps/daemon-lock.h)
 *
 * By that the next agent finds a daemon that runs, and a compute mode that was left behind. `pipe` itself is
 * never taken away: a container names it for as long as the kubelet may start it again.
 * Thread: loop. Blocks: on small files.
 */
#include "node/agent/mps/daemon-lock.h"
#include "lib/base/strv.h"
#include "model/mps/mps.h"

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#define MPS_LOG_FILE "mps.log"

/* A GPU whose compute mode was changed, and what it was. */
struct mps_saved_mode {
	char uuid[GPU_UUID_MAX];
	uint32_t before; /* as NVML numbers them */
};

struct mps_daemon_dir {
	char dir[PATH_MAX], pipe[PATH_MAX], log_dir[PATH_MAX], log[PATH_MAX], shm[PATH_MAX];
	struct strv
		devices; /* CUDA_VISIBLE_DEVICES of the daemon's start: the UUIDs that it has */
	struct mps_saved_mode *modes;
	uint32_t n_modes;
};

/* The paths; nothing is looked at. ERR_LIMIT: too long, also for sockets in .pipe. */
int mps_daemon_dir_init(struct mps_daemon_dir *p, const char *root, const char *key,
	struct error *err) MUST_USE;
void mps_daemon_dir_fini(struct mps_daemon_dir *p);

/*
 * Makes what is missing. ERR_PERMISSION: a directory is somebody
 * else's, or others could write to it; nothing is changed then.
 */
int mps_daemon_dir_make(struct mps_daemon_dir *p, struct error *err) MUST_USE;

/* Reads and writes daemon.json. No file: no devices, no modes. */
int mps_daemon_dir_load(struct mps_daemon_dir *p, struct error *err) MUST_USE;
int mps_daemon_dir_save(const struct mps_daemon_dir *p, struct error *err) MUST_USE;

/*
 * The daemon is gone: empties .pipe and takes the rest away. < 0: not now, somebody is about to start one, or there are
 * modes to restore.
 */
int mps_daemon_dir_clear(struct mps_daemon_dir *p, struct error *err) MUST_USE;

/* Keys of what lies below @root with a daemon.json. */
int mps_daemon_dirs_find(struct strv *ret, const char *root, struct error *err) MUST_USE;

/*
 * Roots below which daemons of this agent, and of those before it, may lie: a list in @run_dir, since a config that
 * goes takes its root with it. mps_root_save() adds one before anything is made there.
 */
int mps_roots_load(struct strv *ret, const char *run_dir, struct error *err) MUST_USE;
int mps_root_save(const char *run_dir, const char *root, struct error *err) MUST_USE;
