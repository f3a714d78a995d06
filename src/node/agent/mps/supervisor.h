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
#include "node/agent/mps/log.h"
#include "node/agent/mps/mps.h"
#include "node/agent/mps/daemon-dir.h"
#include "node/agent/mps/spec.h"
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

#define MPS_MISSED_MAX  3    /* then the daemon counts as hung */
#define MPS_TICK_MAX_MS 1000 /* between two steps */

struct mps_fault {
	bool pending;       /* not reported yet, nor dropped */
	bool confirmed;     /* by an answer of the daemon */
	bool found_late;    /* found by a question: clients that were hit may be gone */
	uint32_t named_pid; /* the process that MPS names; 0: none */
	uint64_t ns;        /* ns of the monotonic clock */
};

/*
 * What lines of the log claim about servers. Client processes can write to the log, so a claim leads to a question
 * only, and the daemon's answer decides.
 */
struct mps_hints {
	uint32_t ready_pid;  /* a server became ready that is not among .servers; 0: none */
	bool server_exited;  /* a server ended */
	uint32_t exited_pid; /* the same, of .servers; 0: none of these */
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
	bool closed;    /* freed when this is 0: */
	unsigned handles;
	bool needs_server; /* a server failed to start: READY only with a server */
	bool no_multiuser; /* the program does not know -multiuser-server */
	enum mps_state state;
	char why[ERROR_MSG_MAX];             /* why the daemon is unusable; "": usable */
	char reported_reason[ERROR_MSG_MAX]; /* the reason reported last; "" once READY */

	struct mps_process *process; /* NULL: no daemon */
	struct mps_command command;
	/* Called by process.c after the process's end. @how: "by signal 9 (Killed)". */
	void (*ended)(struct mps_supervisor *u, const char *how);
	struct child *helper; /* gpuslice-mps mode */
	/* Called by compute-mode.c: the modes are read, set or restored, or with @ok false @why not. */
	void (*modes_done)(struct mps_supervisor *u, bool ok, const char *why);
	bool modes_are_set; /* or being set; of an adopted daemon: daemon.json has modes */
	uint32_t step;      /* within SETTING or a check */
	uint32_t missed;    /* questions in a row without an answer */
	uint32_t servers[MPS_SERVERS_MAX], n_servers;
	uint32_t check_clients[MPS_CLIENTS_MAX],
		n_check_clients; /* clients found by the present check */
	bool has_no_client;      /* the last check found no client, and the log none since */
	bool has_server_fault;   /* a server has the status FAULT, by the last check */
	bool fault_is_over;      /* FAULTED, and a check since has found no such server */
	uint64_t check_began_ns; /* of the present check, or of the last one */
	struct mps_hints hints, checked_hints; /* new ones, and those of the present check */
	uint64_t hint_check_at_ns;             /* no earlier check because of a hint */
	uint32_t hint_checks;                  /* in a row that changed nothing */

	uv_timer_t timer;
	uv_fs_event_t log_event;
	bool log_watched;
	struct mps_log log;
	uint64_t log_offset;
	uint32_t n_log_clients; /* clients added for the present piece of the log */
	struct log_limit
		report_limit; /* limits the reports caused by the log, which client processes can write */
	char complaint[ERROR_MSG_MAX]; /* last one of the log */
	struct mps_clients clients;
	struct child *identify_child;     /* gpuslice-mps clients; NULL: not running */
	uint32_t identify_pid;            /* the question under way; 0: none */
	struct mps_unanswered unanswered; /* questions without an answer */
	struct log_limit identify_log_limit;
	struct mps_fault fault;
	uint64_t fault_report_ns;

	uint64_t since_ns;    /* start of the present state */
	uint64_t started_ns;  /* start of the process, or its adoption */
	uint64_t start_at_ns; /* no earlier start, or change of compute modes */
	uint64_t checked_ns;
	uint32_t failures; /* in a row */
	uint64_t faults, server_deaths;
	uint64_t deaths; /* of the daemon, while it was desired */
};

/* supervisor.c */
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
/* server.c: the next action in the state SERVER. */
void mps_server_next(struct mps_supervisor *sup);
/* query.c: one question at a time; each answer leads to mps_supervisor_step(). */
void mps_supervisor_query(struct mps_supervisor *sup,
	void (*done)(void *arg, const char *answer, const struct error *err), const char *fmt,
	...) PRINTF(3, 4);
/* Sends the next of the limits, by .step; false: there is no further one. */
bool mps_limits_set_next(struct mps_supervisor *sup);
/* Asks for the servers and their clients. */
void mps_supervisor_check(struct mps_supervisor *sup);
/*
 * process.c: the environment of the daemon and of its commands. The caller owns it: mps_env_free(). NULL: no memory.
 */
char **mps_supervisor_env(const struct mps_supervisor *sup);
void mps_env_free(char **env);
/* Whether daemon and clients need a common /dev/shm, as with older drivers. */
bool mps_needs_shm(const struct mps *m);

/* compute-mode.c: each call that returns 0 ends with .modes_done(). */
int mps_modes_read(struct mps_supervisor *sup, struct error *err) MUST_USE;
int mps_modes_set(struct mps_supervisor *sup, struct error *err) MUST_USE;
int mps_modes_restore(struct mps_supervisor *sup, struct error *err) MUST_USE; /* one group */
void mps_modes_forget(struct mps_supervisor *sup);                             /* that group */

/* process.c */
int mps_process_start(struct mps_supervisor *sup, struct error *err);
/* Takes over the running process that the pid file names; false: there is none. */
bool mps_process_adopt(struct mps_supervisor *sup);
void mps_process_kill(struct mps_supervisor *sup);  /* and its servers; .ended() follows */
void mps_process_leave(struct mps_supervisor *sup); /* which goes on unwatched */
pid_t mps_process_pid(const struct mps_supervisor *sup);

/* watch.c: the log, clients and faults. */
void mps_watch_start(struct mps_supervisor *sup);
void mps_watch_stop(struct mps_supervisor *sup);
bool mps_watch_read(struct mps_supervisor *sup); /* true: there is more to read soon */
void mps_watch_truncate_log(struct mps_supervisor *sup);

/*
 * The log against the daemon's answers. A check goes through these in order:
 *
 * 1. mps_watch_needs_check(): a line of the log claims something, and a check because of it may begin now. The
 *    pause between such checks doubles up to the one of usual checks, until one of them changes the state.
 * 2. mps_watch_begin_check(): takes the claims that the check is to confirm.
 * 3. mps_watch_check_servers(): the daemon has answered .servers. Handles the death of a server that it had listed
 *    before, that the log reports, and that it does not list any more.
 * 4. mps_watch_end_check(): the daemon has answered clients and .has_server_fault. Confirms or drops a fault.
 */
bool mps_watch_needs_check(const struct mps_supervisor *sup);
void mps_watch_begin_check(struct mps_supervisor *sup);
void mps_watch_check_servers(struct mps_supervisor *sup);
void mps_watch_end_check(struct mps_supervisor *sup, bool has_server_fault);

/* identify.c: asks for the identity of the next client, unless a question is under way. */
void mps_identify_next(struct mps_supervisor *sup);
void mps_identify_stop(struct mps_supervisor *sup);

/* Reports to the pods of connected clients that these end with @what. */
void mps_watch_report_lost(struct mps_supervisor *sup, const char *reason, const char *what);
/* Reports a confirmed fault whose lines are complete, with @now any fault. True: the report has to wait. */
bool mps_watch_report_fault(struct mps_supervisor *sup, bool now);
