/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The log of one MPS daemon: reads it, keeps the list of clients, and reports faults.
 *
 * Client processes can write to the log. A line is therefore a hint that leads to a check (query.h), and the daemon's
 * answer decides. A check goes through these calls in order:
 *
 * 1. mps_watch_needs_check(): a line of the log claims something, and a check because of it may begin now. The
 *    pause between such checks doubles up to the one of usual checks, until one of them changes the state.
 * 2. mps_watch_begin_check(): takes the claims that the check is to confirm.
 * 3. mps_watch_check_servers(): the daemon has answered .servers. Handles the death of a server that it had listed
 *    before, that the log reports, and that it does not list any more.
 * 4. mps_watch_end_check(): the daemon has answered clients and whether a server has a fault. Confirms or drops a
 *    fault.
 *
 * For the files of this folder only. Thread: loop.
 */
#include "node/agent/mps/log.h"
#include "lib/base/error.h"
#include "lib/base/log.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct mps_supervisor;

struct mps_fault {
	bool pending;    /* not reported yet, nor dropped */
	bool confirmed;  /* by an answer of the daemon */
	bool found_late; /* found by a check: clients that were hit may have ended before it */
	uint32_t named_pid; /* the process that MPS names; 0: none */
	uint64_t ns;        /* ns of the monotonic clock */
};

/* What lines of the log claim about servers. */
struct mps_hints {
	uint32_t ready_pid;  /* a server became ready that is not among .servers; 0: none */
	bool server_exited;  /* a server ended */
	uint32_t exited_pid; /* a server that ended and is among .servers; 0: none */
};

struct mps_watch {
	uv_fs_event_t event;
	bool open; /* .event is watched */
	struct mps_log log;
	uint64_t offset;               /* the log is read up to here */
	uint32_t n_added;              /* clients added by the present mps_watch_read() */
	struct log_limit report_limit; /* of the reports caused by the log */
	char complaint[ERROR_MSG_MAX]; /* the last one of the log */
	struct mps_hints hints;        /* not checked yet */
	uint64_t check_at_ns;          /* no earlier check because of a hint */
	uint32_t vain_checks; /* checks because of hints, in a row, that changed nothing */
	struct mps_fault fault;
	bool fault_is_over; /* the state is FAULTED, and a check since then found no server with a fault */
	uint64_t report_at_ns; /* of .fault */
};

/*
 * Opens the log: from its beginning for a daemon that is being started, from its end for one that was adopted. A log
 * that cannot be watched is read at each tick of the supervisor.
 */
void mps_watch_start(struct mps_supervisor *sup);
void mps_watch_stop(struct mps_supervisor *sup);
/* Reads the next piece of the log. True: there is more to read soon. */
bool mps_watch_read(struct mps_supervisor *sup);
/* Truncates a log that is long and read. */
void mps_watch_truncate_log(struct mps_supervisor *sup);

bool mps_watch_needs_check(const struct mps_supervisor *sup);
void mps_watch_begin_check(struct mps_supervisor *sup);
void mps_watch_check_servers(struct mps_supervisor *sup);
void mps_watch_end_check(struct mps_supervisor *sup, bool has_server_fault);

/* Reports to the pods of connected clients that these end with @what. */
void mps_watch_report_lost(struct mps_supervisor *sup, const char *reason, const char *what);
/* Reports a confirmed fault whose lines are complete, with @now any fault. True: the report has to wait. */
bool mps_watch_report_fault(struct mps_supervisor *sup, bool now);
