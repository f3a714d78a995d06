/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which pod and container the processes on the GPUs are of, as /proc says (node/agent/monitoring/cgroup.h). A process
 * is read once; in later looks only its start time, since numbers of processes come again. One that is
 * of no pod is read again, as it may be on its way into its container. One that has ended stays known for
 * SEE_PROCESS_ENDED_LOOKS: NVML tells its last time after its end.
 * Reading has bounds for each process and for each round of looks (lib/base/procfs.h). A process over its own bounds is
 * not read again for SEE_PROCESS_CUT_LOOKS looks, so that it does not use up the round of the others.
 * Thread: one at a time. Blocks: on /proc, but for see_processes_find().
 */
#include "node/agent/monitoring/cgroup.h"
#include "lib/base/procfs.h"

#include <stdint.h>

#define SEE_PROCESS_ENDED_LOOKS 2
#define SEE_PROCESS_CUT_LOOKS   12

struct see_process {
	uint32_t pid;
	uint64_t start;        /* /proc/PID/stat, 22 */
	bool readable;         /* /proc says whether it is of a pod; else .uid means nothing */
	char uid[SEE_UID_MAX]; /* "": of no pod */
	char container[SEE_CONTAINER_MAX]; /* "": not known */
	bool looked;                       /* since see_processes_begin(), and it ran */
	uint8_t missed;                    /* looks since it was last seen running */
	uint8_t cut;  /* looks until it is read again; > 0: its files are over their bounds */
	bool in_part; /* they were when they were read last: they are read again after that */
	bool late;    /* the round's bounds did not suffice for it */
	bool told;    /* for the caller: that this is so has been logged */
};

struct see_processes {
	struct see_process *v; /* by pid */
	size_t n;
	char procfs[256];
	struct procfs_budget budget; /* of this round */
};

void see_processes_init(struct see_processes *p, const char *procfs); /* NULL: /proc */
void see_processes_fini(struct see_processes *p);

/* A round of looks begins, with new bounds. */
void see_processes_begin(struct see_processes *p);
/* Borrowed until the next look. NULL: there is no such process, nor was one lately; or no memory. */
const struct see_process *see_processes_look(struct see_processes *p, uint32_t pid);
/* The same without reading: as of the last look. */
const struct see_process *see_processes_find(const struct see_processes *p, uint32_t pid);
/* Forgets those that have not been seen for a while. */
void see_processes_end(struct see_processes *p);
