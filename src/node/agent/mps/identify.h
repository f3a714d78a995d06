/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Asks the helper `gpuslice-mps clients` for the pods of clients, one client at a time (identify.c says in which
 * order). For the files of this folder only. Thread: loop.
 */
#include "node/agent/mps/clients.h"
#include "lib/base/log.h"

struct child;
struct mps_supervisor;

struct mps_identify {
	struct child *child; /* the helper; NULL: not running */
	uint32_t pid;        /* the client that the helper was asked for; 0: none */
	struct mps_unanswered unanswered; /* questions without an answer */
	struct log_limit log_limit;
};

/* Asks for the next client, unless a question is under way. */
void mps_identify_next(struct mps_supervisor *sup);
/* Ends the helper without a callback. */
void mps_identify_stop(struct mps_supervisor *sup);
