/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One MPS control daemon under supervision, for the files of this folder only.
 *
 *	DOWN ─▶ MODES ─▶ STARTING ─▶ SETTING ─▶ READY ─▶ DRAINING ─▶ QUITTING ─▶ (DOWN, gone)
 *	 ▲      read and   until it    limits     │ ▲      clients      until it
 *	 │      set        answers                │ │      are left     has ended
 *	 │                              a fault:  ▼ │ all that were hit are gone
 *	 ├──────────────────────────────────── FAULTED
 *	 │                      a server dies:    ▼   a new one is ready
 *	 └── its end, at any time ────────────── SERVER, also before READY if a server may not start
 *	RESTORING: compute modes are put back; from DOWN, when it is not wanted or did not start
 *
 * The daemon is a process of its own session. It outlives the agent, whose next one finds it by daemon.json. What is
 * done next is decided in one place, mps_supervisor_step(), by the state and what is wanted; everything that happens ends there.
 * Only READY and SETTING of one that was READY before can be used by new containers.
 * Thread: loop.
 */
#include "node/agent/mps/clients.h"
#include "node/agent/mps/command.h"
#include "node/agent/mps/log.h"
#include "node/agent/mps/mps.h"
#include "node/agent/mps/daemon-dir.h"
#include "lib/base/log.h"
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

#define MPS_MISSED_MAX 3 /* then a daemon does not answer */

/* What is wanted of a daemon, or what it was told. */
struct mps_spec {
	struct strv uuids;             /* also of those that are lost */
	uint64_t limits[GPU_NODE_MAX]; /* MiB, by position in .uuids; 0: none */
	bool lost[GPU_NODE_MAX];       /* likewise */
	uint32_t percent;              /* 0: nothing was told yet */
	bool exclusive;
};

struct mps_fault {
	bool pending;       /* it is not told to people yet */
	bool found_late;    /* found afterwards: some that were hit may have gone before */
	uint32_t named_pid; /* process that MPS names; 0: none */
	uint64_t ns;        /* monotonic */
};

struct mps_supervisor {
	struct mps *mps;
	struct mps_supervisor *next;
	char key[MPS_KEY_MAX];
	struct mps_daemon_dir dir;
	struct mps_spec desired, applied;
	bool wanted;
	bool was_ready; /* since its process began */
	bool found;     /* it was there before; how it is has not been asked yet */
	bool stopping;  /* the agent ends */
	bool closed;    /* closed, to be freed when this is 0: */
	unsigned handles;
	bool needs_server; /* one could not be started: ready when there is one */
	bool no_multiuser; /* the program knows no -multiuser-server */
	enum mps_state state;
	char why[ERROR_MSG_MAX]; /* it cannot be used; "" when it can */
	char reported_reason
		[ERROR_MSG_MAX]; /* of that what was told to people; "" once it is ready */

	struct mps_process *process; /* NULL: no daemon */
	struct mps_command command;
	/* Of process.c: it has ended. @how: "by signal 9 (Killed)". */
	void (*ended)(struct mps_supervisor *u, const char *how);
	struct child *helper; /* gpuslice-mps mode */
	/* Of compute-mode.c: they are read, set or put back. @why: not @ok. */
	void (*modes_done)(struct mps_supervisor *u, bool ok, const char *why);
	bool modes_are_set; /* by this agent, since the process began or before */
	uint32_t step;      /* of SETTING, and of a check */
	uint32_t missed;    /* questions in a row that had no answer */
	uint32_t servers[MPS_SERVERS_MAX], n_servers;
	uint32_t check_clients[MPS_CLIENTS_MAX],
		n_check_clients; /* clients, while a check goes on */
	bool has_no_client;      /* the last check found no client, and none has come since */

	uv_timer_t timer;
	uv_fs_event_t log_event;
	bool log_watched;
	struct mps_log log;
	uint64_t log_offset;
	uint32_t n_log_clients; /* clients that were looked into for this piece of the log */
	struct log_limit
		report_limit; /* of what the log has one tell: anybody can write there */
	char complaint[ERROR_MSG_MAX]; /* the log's last */
	struct mps_clients clients;
	struct child *identify_child;     /* gpuslice-mps clients; NULL: none runs */
	uint32_t identify_pid;            /* what it was asked; 0: nothing */
	struct mps_unanswered unanswered; /* of those that did not answer */
	struct log_limit identify_log_limit;
	struct mps_fault fault;
	uint64_t fault_report_ns;

	uint64_t since_ns;    /* in this state */
	uint64_t started_ns;  /* the process, or when it was found */
	uint64_t start_at_ns; /* DOWN: not before */
	uint64_t checked_ns;
	uint32_t failures; /* in a row */
	uint64_t faults, server_deaths;
	uint64_t deaths; /* of the daemon, while it was wanted */
};

/* supervisor.c */
struct mps_supervisor *mps_supervisor_new(struct mps *m, const char *root, const char *key,
	struct error *err);
/* Closes what it has; the memory goes with mps_supervisor_free(), once the loop has run. */
void mps_supervisor_close(struct mps_supervisor *u);
void mps_supervisor_free(struct mps_supervisor *u);
/* The agent ends: it is closed when all is put back. A daemon with clients goes on. */
void mps_supervisor_stop(struct mps_supervisor *u);
/* Something happened: does what is next. */
void mps_supervisor_step(struct mps_supervisor *u);
/* A question had no answer: asked again soon, until it is clear that the daemon hangs. */
void mps_supervisor_count_missed(struct mps_supervisor *u, const struct error *why);
/* It failed: the process, if there is one, is killed; tried again later. */
void mps_supervisor_fail(struct mps_supervisor *u, const char *fmt, ...) PRINTF(2, 3);
void mps_supervisor_enter(struct mps_supervisor *u, enum mps_state state, const char *why);
/* It can be used from now on. */
void mps_supervisor_set_ready(struct mps_supervisor *u);
/* A server could not be started; @what: "was not ready in time". */
void mps_supervisor_no_server(struct mps_supervisor *u, const char *what);
bool mps_supervisor_is_usable(const struct mps_supervisor *u);
/* Whether the daemon, which runs, was started with the device: a server never finds another one. */
bool mps_supervisor_has_device(const struct mps_supervisor *u, const char *uuid);
/* By the daemon's own answer. The log alone does not show it: processes of clients can write there. */
bool mps_supervisor_is_unused(const struct mps_supervisor *u);
const char *mps_state_name(enum mps_state s);
/* query.c: one question at a time; each answer leads to mps_supervisor_step(). */
void mps_supervisor_query(struct mps_supervisor *u,
	void (*done)(void *arg, const char *answer, const struct error *err), const char *fmt,
	...) PRINTF(3, 4);
/* Tells it the next of its limits, by .step; false: there is nothing more to tell. */
bool mps_limits_set_next(struct mps_supervisor *u);
/* Asks who its servers and their clients are. */
void mps_supervisor_check(struct mps_supervisor *u);
/* env.c: the environment of the daemon and of commands for it. Yours: free() the list and each text; NULL: no memory. */
char **mps_supervisor_env(const struct mps_supervisor *u);
void mps_env_free(char **env);
/* Whether daemon and clients share a /dev/shm, as with older drivers. */
bool mps_needs_shm(const struct mps *m);

/* compute-mode.c: compute modes. Each ends with .modes_done(), unless it says no. */
int mps_modes_read(struct mps_supervisor *u, struct error *err) MUST_USE;
int mps_modes_set(struct mps_supervisor *u, struct error *err) MUST_USE;
int mps_modes_restore(struct mps_supervisor *u, struct error *err) MUST_USE; /* some of them */
void mps_modes_forget(struct mps_supervisor *u); /* those, as they are put back */

/* process.c */
int mps_process_start(struct mps_supervisor *u, struct error *err);
/* Takes over the process that daemon.json names; false: there is none. */
bool mps_process_adopt(struct mps_supervisor *u);
void mps_process_kill(
	struct mps_supervisor *u); /* with its servers; its end is told as always */
void mps_process_leave(struct mps_supervisor *u); /* is not watched any more, and goes on */
pid_t mps_process_pid(const struct mps_supervisor *u);

/* watch.c: the log, clients and faults. */
void mps_watch_start(struct mps_supervisor *u);
void mps_watch_stop(struct mps_supervisor *u);
bool mps_watch_read(struct mps_supervisor *u); /* true: there is more, read it soon */
void mps_watch_truncate_log(struct mps_supervisor *u);
/* identify.c: asks who the clients are that have come, if that is not under way. */
void mps_identify_next(struct mps_supervisor *u);
void mps_identify_stop(struct mps_supervisor *u);

/* Clients that are connected end with @what, which is said to their pods. */
void mps_watch_report_lost(struct mps_supervisor *u, const char *reason, const char *what);
/* A fault is being handled that nobody saw: all clients were hit. */
void mps_watch_assume_fault(struct mps_supervisor *u);
/* A fault whose story is complete is told, or with @now whatever there is. True: it is not yet. */
bool mps_watch_report_fault(struct mps_supervisor *u, bool now);
