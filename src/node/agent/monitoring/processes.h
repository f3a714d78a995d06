/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which pod and container the processes on the GPUs are of, as /proc says (node/agent/monitoring/cgroup.h). A process
 * is read once; in later looks only its start time, since numbers of processes come again. One that is
 * of no pod is read again, as it may be on its way into its container. One that has ended stays known for
 * MONITORING_ENDED_ROUNDS: NVML tells its last time after its end.
 * Reading has bounds for each process and for each round of looks (lib/base/procfs.h). A process over its own bounds is
 * not read again for MONITORING_OVERSIZE_ROUNDS looks, so that it does not use up the round of the others.
 * Thread: one at a time. Blocks: on /proc, but for monitoring_processes_find().
 */
#include "node/agent/monitoring/cgroup.h"
#include "lib/base/procfs.h"

#include <stdint.h>

#define MONITORING_ENDED_ROUNDS    2
#define MONITORING_OVERSIZE_ROUNDS 12

struct monitoring_process {
	uint32_t pid;
	uint64_t start; /* /proc/PID/stat, 22 */
	bool readable;  /* /proc says whether it is of a pod; else .uid means nothing */
	char uid[MONITORING_UID_MAX];             /* "": of no pod */
	char container[MONITORING_CONTAINER_MAX]; /* "": not known */
	bool read_this_round;  /* since monitoring_processes_begin(), and it ran */
	uint8_t missed_rounds; /* looks since it was last seen running */
	uint8_t oversize_rounds; /* looks until it is read again; > 0: its files are over their bounds */
	bool truncated; /* they were when they were read last: they are read again after that */
	bool over_budget; /* the round's bounds did not suffice for it */
	bool logged;      /* for the caller: that this is so has been logged */
};

struct monitoring_processes {
	struct monitoring_process *v; /* by pid */
	size_t n;
	char procfs[256];
	struct procfs_budget budget; /* of this round */
};

void monitoring_processes_init(struct monitoring_processes *p,
	const char *procfs); /* NULL: /proc */
void monitoring_processes_fini(struct monitoring_processes *p);

/* A round of looks begins, with new bounds. */
void monitoring_processes_begin(struct monitoring_processes *p);
/* Borrowed until the next look. NULL: there is no such process, nor was one lately; or no memory. */
const struct monitoring_process *monitoring_processes_read(struct monitoring_processes *p,
	uint32_t pid);
/* The same without reading: as of the last look. */
const struct monitoring_process *monitoring_processes_find(const struct monitoring_processes *p,
	uint32_t pid);
/* Forgets those that have not been seen for a while. */
void monitoring_processes_end(struct monitoring_processes *p);
