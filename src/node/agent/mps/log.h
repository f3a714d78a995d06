/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parses the log of an MPS control daemon: the lines of the daemon and of its servers, as `nvidia-cuda-mps-control
 * -f` writes them (measured with driver 580):
 *
 *	[2026-11-23 17:47:17.605 Server   609] Client {PID: 832, Context ID: 0} connected
 *	[2026-11-23 17:47:17.605 Control   474] Server 609 exited with status 0
 *
 * A fatal fault of one client ends all clients of the GPU. The log reports the fault and the clients that it hit.
 * It does not report which client caused the fault. Sometimes it names a client that "encountered" the fault,
 * which is only the first one that the server examined.
 *
 * The parser skips unknown lines. With a driver that logs less, the agent knows less and works as before.
 *
 * Thread: any (pure).
 */
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define MPS_LOG_LINE_MAX 4096

enum mps_log_kind {
	MPS_LOG_CONNECTED,    /* .pid: first connection of a process */
	MPS_LOG_DISCONNECTED, /* .pid: disconnected process */
	MPS_LOG_FAULT,        /* a server is handling a fatal fault */
	MPS_LOG_NAMED, /* .pid: process that "encountered" the fault; may come before MPS_LOG_FAULT */
	MPS_LOG_CLIENT_FAULTED, /* .pid: process that the fault hit (it has an error set) */
	MPS_LOG_SERVER_READY,   /* .pid */
	MPS_LOG_SERVER_ENDED,   /* .pid: a server that was asked to end */
	MPS_LOG_SERVER_DIED,    /* .pid: a server that was not asked to end */
	MPS_LOG_COMPLAINT,      /* .text: why the daemon or a server failed to do something */
};

struct mps_log_event {
	enum mps_log_kind kind;
	uint32_t pid;
	const char *text; /* borrowed during the call */
};

struct mps_log {
	struct buf line;
	bool lists_faulted; /* the numbers that follow are PIDs of processes that the fault hit */
	uint32_t ending_pid; /* a server that logged "Exiting" */
};

/* The PID that is all of @text; 0: @text is no PID. */
uint32_t mps_pid(const char *text, size_t len);

void mps_log_init(struct mps_log *l);
void mps_log_fini(struct mps_log *l);

/* Parses the next piece of the log, of any length. Calls @on_event for each event, in order. */
void mps_log_feed(struct mps_log *l, const char *data, size_t len,
	void (*on_event)(void *arg, const struct mps_log_event *e), void *arg);
