/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Supervises one MPS control daemon. For the files of this folder only.
 *
 *	DOWN ─▶ MODES ─▶ STARTING ─▶ SETTING ─▶ READY ─▶ DRAINING ─▶ QUITTING ─▶ (DOWN, gone)
 *	 ▲      read and   until it    limits     │ ▲      clients      until it
 *	 │      set        answers                │ │      are left     has ended
 *	 │                              a fault:  ▼ │ all that were hit are gone
 *	 ├──────────────────────────────────── FAULTED
 *	 │                      a server dies:    ▼   a new one is ready
 *	 └── its end, at any time ────────────── SERVER, also before READY if a server may not start
 *	RESTORING: compute modes are restored. From DOWN, if the agent ends, or the daemon is not desired, is not
 *	exclusive any more, or failed to start. From READY, if it is not exclusive any more.
 *
 * The daemon is a process in a session of its own and outlives the agent. The next agent finds the daemon by
 * daemon.json and pid. Every event ends in mps_supervisor_step(), which alone decides the next action, from the
 * state and the desired daemon.
 *
 * New containers can use a READY daemon. They can also use one in SETTING, MODES or RESTORING that was READY
 * before.
 *
 * Thread: loop.
 */
#include "node/agent/mps/clients.h"
#include "node/agent/mps/command.h"
#include "node/agent/mps/daemon-dir.h"
#include "node/agent/mps/identify.h"
#include "node/agent/mps/mps.h"
#include "node/agent/mps/query.h"
#include "node/agent/mps/spec.h"
#include "node/agent/mps/watch.h"
#include "lib/base/time.h"

#include <uv.h>

struct mps;

enum mps_state {
	MPS_DOWN,
	MPS_MODES,
	MPS_STARTING,
	MPS_SETTING,
	MPS_READY,
	MPS_FAULTED,
	MPS_SERVER,
	MPS_DRAINING,
	MPS_QUITTING,
	MPS_RESTORING,
};

#define MPS_MISSED_MAX  3    /* then the daemon counts as hung */
#define MPS_TICK_MAX_MS 1000 /* between two steps */

/* Since the agent has the supervisor. */
struct mps_counts {
	uint64_t faults, server_deaths;
	uint64_t daemon_deaths; /* while the daemon was desired */
};

struct mps_supervisor {
	struct mps *mps;
	struct mps_supervisor *next;
	char key[MPS_KEY_MAX];
	struct mps_daemon_dir dir;
	struct mps_spec desired, applied;
	bool wanted;
	bool was_ready; /* since its process started */
	bool served;    /* a daemon of this supervisor was READY */
	bool found;     /* adopted; its servers have not been asked for a fault yet */
	bool stopping;  /* the agent ends */
	bool closed;    /* freed once .handles is 0 */
	unsigned handles;
	bool needs_server; /* a server failed to start: READY only with a server */
	bool no_multiuser; /* the program does not know -multiuser-server */
	enum mps_state state;
	char why[ERROR_MSG_MAX];             /* why the daemon is unusable; "": usable */
	char reported_reason[ERROR_MSG_MAX]; /* the reason reported last; "" once READY */

	struct mps_process *process; /* NULL: no daemon */
	struct mps_command command;
	/* Called by process.c after the process's end. @how: "by signal 9 (Killed)". */
	void (*ended)(struct mps_supervisor *sup, const char *how);
	struct child *helper; /* gpuslice-mps mode */
	/* Called by compute-mode.c: the modes are read, set or restored, or with @ok false @why not. */
	void (*modes_done)(struct mps_supervisor *sup, bool ok, const char *why);
	bool modes_are_set; /* or being set; of an adopted daemon: daemon.json has modes */
	uint32_t step;      /* within SETTING or a check */
	uint32_t missed;    /* questions in a row without an answer */
	uint32_t servers[MPS_SERVERS_MAX], n_servers;
	struct mps_clients clients;
	struct mps_check check;
	struct mps_watch watch;
	struct mps_identify identify;

	uv_timer_t timer;
	uint64_t since_ns;    /* start of the present state */
	uint64_t started_ns;  /* start of the process, or its adoption */
	uint64_t start_at_ns; /* no earlier start, or change of compute modes */
	uint32_t failures;    /* in a row */
	struct mps_counts counts;
};

struct mps_supervisor *mps_supervisor_new(struct mps *m, const char *root, const char *key,
	struct error *err);
/*
 * Closes timers, files and children. The caller frees the memory by mps_supervisor_free(), once the loop has run.
 */
void mps_supervisor_close(struct mps_supervisor *sup);
void mps_supervisor_free(struct mps_supervisor *sup);
/* For the agent's end: closes the supervisor when all is restored. A daemon with clients goes on. */
void mps_supervisor_stop(struct mps_supervisor *sup);
/* Does the next action. Called after each event. */
void mps_supervisor_step(struct mps_supervisor *sup);
/* Does the next action after @ms, or sooner. */
void mps_supervisor_arm(struct mps_supervisor *sup, uint64_t ms);
/* Counts a question without an answer. Asks again soon, until the daemon counts as hung. */
void mps_supervisor_count_missed(struct mps_supervisor *sup, const struct error *why);
/* Handles a failure: kills the process, if there is one. The supervisor retries later. */
void mps_supervisor_fail(struct mps_supervisor *sup, const char *fmt, ...) PRINTF(2, 3);
void mps_supervisor_enter(struct mps_supervisor *sup, enum mps_state state, const char *why);
/* Makes the daemon usable. */
void mps_supervisor_set_ready(struct mps_supervisor *sup);
bool mps_supervisor_is_usable(const struct mps_supervisor *sup);
/* Whether the running daemon was started with the device. Its servers never find another device. */
bool mps_supervisor_has_device(const struct mps_supervisor *sup, const char *uuid);
/*
 * Whether the daemon's last answer has no client, and none came since. The log alone does not prove that: client
 * processes can write to it.
 */
bool mps_supervisor_is_unused(const struct mps_supervisor *sup);
const char *mps_state_name(enum mps_state s);
