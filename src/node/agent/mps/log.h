/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the log of an MPS control daemon tells: the daemon's own lines and those of its servers, as
 * `nvidia-cuda-mps-control -f` writes them (measured with driver 580):
 *
 *	[2026-11-23 17:47:17.605 Server   609] Client {PID: 832, Context ID: 0} connected
 *	[2026-11-23 17:47:17.605 Control   474] Server 609 exited with status 0
 *
 * A fatal fault of one client ends all clients of the GPU. The log says that it happened and who is hit. It does
 * not say who it was: sometimes it names a client that "encountered" it, which is the first that was looked at.
 * Lines that are not known are left out; those of another driver that say less cost knowledge, not function.
 * Thread: any (pure).
 */
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define MPS_LOG_LINE_MAX 4096

enum mps_log_kind {
	MPS_LOG_CONNECTED,      /* .pid: a process's first connection */
	MPS_LOG_DISCONNECTED,   /* .pid: has disconnected */
	MPS_LOG_FAULT,          /* a fatal fault is being handled */
	MPS_LOG_NAMED,          /* .pid: "encountered" it; may come before MPS_LOG_FAULT */
	MPS_LOG_CLIENT_FAULTED, /* .pid: of the fault before, has an error set */
	MPS_LOG_SERVER_READY,   /* .pid */
	MPS_LOG_SERVER_ENDED,   /* .pid: of the server, which was asked to end */
	MPS_LOG_SERVER_DIED,    /* .pid: it was not */
	MPS_LOG_COMPLAINT,      /* .text: why something could not be done */
};

struct mps_log_event {
	enum mps_log_kind kind;
	uint32_t pid;
	const char *text; /* borrowed for the call */
};

struct mps_log {
	struct buf line;
	bool lists_faulted;  /* numbers that follow are PIDs of who is hit */
	uint32_t ending_pid; /* a server that said it ends */
};

/* The number of a process that is all of @text; 0: it is none. */
uint32_t mps_pid(const char *text, size_t len);

void mps_log_init(struct mps_log *l);
void mps_log_fini(struct mps_log *l);

/* Takes any piece of the log; calls @on_event for each event, in order. */
void mps_log_feed(struct mps_log *l, const char *data, size_t len,
	void (*on_event)(void *arg, const struct mps_log_event *e), void *arg);
