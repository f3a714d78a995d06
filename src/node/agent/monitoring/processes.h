/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the pods and containers of the processes on the GPUs, from /proc (node/agent/base/pod-of-process.h).
 *
 * When a process is read:
 *	1. A new process is read once. In later rounds only its start time is read, since the kernel reuses
 *	   PIDs.
 *	2. A process that is in no pod is read again, as its runtime may be moving the process into a
 *	   container.
 *	3. An ended process is forgotten at the end of the MONITORING_ENDED_ROUNDS-th round in a row that
 *	   misses it. NVML reports the last GPU time of a process after its end.
 *	4. Each process and each round has limits (lib/base/procfs.h). A process beyond its own limits is not
 *	   read for MONITORING_OVERSIZE_ROUNDS rounds, so that it does not use up the round of the others.
 *
 * Thread: one at a time. Blocks on /proc, except monitoring_processes_find().
 */
#include "node/agent/base/pod-of-process.h"
#include "lib/base/procfs.h"

#include <stdint.h>

#define MONITORING_ENDED_ROUNDS    2
#define MONITORING_OVERSIZE_ROUNDS 12

struct monitoring_process {
	uint32_t pid;
	uint64_t start;        /* field 22 of /proc/PID/stat */
	bool readable;         /* /proc says whether it is in a pod; else .uid means nothing */
	char uid[POD_UID_MAX]; /* "": in no pod */
	char container[POD_CONTAINER_MAX]; /* "": not known */
	bool read_this_round;              /* in this round, and the process ran */
	uint8_t missed_rounds;             /* rounds since it last ran */
	uint8_t oversize_rounds; /* rounds until it is read again; > 0: its files exceed the limits */
	bool truncated;          /* its files exceeded the limits at the last read */
	bool over_budget;        /* the limits of the round did not suffice */
	bool logged;             /* for the caller: this fault is logged */
};

struct monitoring_processes {
	struct monitoring_process *v; /* by pid */
	size_t n, room;
	char procfs[256];
	struct procfs_budget budget; /* of this round */
};

/* @procfs: copied; NULL: /proc. */
void monitoring_processes_init(struct monitoring_processes *p, const char *procfs);
void monitoring_processes_fini(struct monitoring_processes *p);

/* Begins a round, with new limits. */
void monitoring_processes_begin(struct monitoring_processes *p);
/* Borrowed until the next read. NULL: no such process, now or in the last rounds; or out of memory. */
const struct monitoring_process *monitoring_processes_read(struct monitoring_processes *p,
	uint32_t pid);
/* The last known state of the process, without reading. NULL: none. Borrowed until the next read. */
const struct monitoring_process *monitoring_processes_find(const struct monitoring_processes *p,
	uint32_t pid);
/* Ends a round: forgets processes that ended. */
void monitoring_processes_end(struct monitoring_processes *p);
