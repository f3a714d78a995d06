/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which pod and container the processes on the GPUs are of, as /proc says (agent/see/cgroup.h). A process
 * is read once; in later looks only its start time, since numbers of processes come again. One that is
 * of no pod is read again, as it may be on its way into its container. One that has ended stays known for
 * SEE_PROCESS_ENDED_LOOKS: NVML tells its last time after its end.
 * Thread: one at a time. Blocks: on /proc.
 */
#include "agent/see/cgroup.h"

#include <stdint.h>

#define SEE_PROCESS_ENDED_LOOKS 2

struct see_process {
	uint32_t pid;
	uint64_t start;        /* /proc/PID/stat, 22 */
	bool readable;         /* /proc says whether it is of a pod; else .uid means nothing */
	char uid[SEE_UID_MAX]; /* "": of no pod */
	char container[SEE_CONTAINER_MAX]; /* "": not known */
	bool looked;                       /* since see_processes_begin(), and it ran */
	uint8_t missed;                    /* looks since it was last seen running */
};

struct see_processes {
	struct see_process *v; /* by pid */
	size_t n;
	char procfs[256];
};

void see_processes_init(struct see_processes *p, const char *procfs); /* NULL: /proc */
void see_processes_fini(struct see_processes *p);

void see_processes_begin(struct see_processes *p);
/* Borrowed until the next look. NULL: there is no such process, nor was one lately; or no memory. */
const struct see_process *see_processes_look(struct see_processes *p, uint32_t pid);
/* Forgets those that have not been seen for a while. */
void see_processes_end(struct see_processes *p);
