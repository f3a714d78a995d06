/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Questions to one MPS daemon, one at a time. Each answer leads to mps_supervisor_step().
 *
 * For the files of this folder only. Thread: loop.
 */
#include "node/agent/mps/clients.h"
#include "node/agent/mps/watch.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct mps_supervisor;

/* A check asks for the servers, and then for the status and the clients of each. */
struct mps_check {
	uint64_t began_ns;      /* of the present check, or of the last one */
	uint64_t done_ns;       /* end of the last complete check; 0: none */
	struct mps_hints hints; /* those that the present check is to confirm */
	uint32_t clients[MPS_CLIENTS_MAX];
	uint32_t n_clients; /* found by the present check */
	bool has_no_client; /* the last check found no client, and the log has reported none since */
	bool has_server_fault; /* a server has the status FAULT, by the last check */
};

/* @done: called with the answer or the error, not after mps_command_stop(). @fmt: one command of the daemon. */
void mps_supervisor_query(struct mps_supervisor *sup,
	void (*done)(void *arg, const char *answer, const struct error *err), const char *fmt,
	...) PRINTF(3, 4);
/* Sends the next of the limits, by .step. False: all are sent. */
bool mps_limits_set_next(struct mps_supervisor *sup);
/* Begins a check (struct mps_check). */
void mps_supervisor_check(struct mps_supervisor *sup);
