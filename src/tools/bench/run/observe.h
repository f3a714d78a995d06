/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Processes that run already, by what NVML says of them: they are not touched. */
#include "tools/bench/profile/profile.h"
#include "io/nvml/monitor/monitor.h"

#include <sys/types.h>

#define OBSERVATION_POLL_MS 500

struct observation_options {
	const struct gpu_monitor_options *monitor;
	const char *gpu; /* UUID; NULL: the first one on which it is seen */
	pid_t pid;       /* it and what it has started; 0: */
	const char *pod; /* UID of a pod: what is in its cgroups */
	double seconds;
};

struct bench_observation {
	char gpu[GPU_UUID_MAX];
	size_t n;                              /* looks in which it had the GPU */
	size_t processes;                      /* of it there, most at a time */
	bool alone;                            /* nobody else was there */
	double busy, busiest, sm_active, dram; /* of the time; NaN: not known */
	uint64_t peak_bytes;                   /* bytes, with contexts; 0: not known */
	bool stopped;                          /* before its time, by a signal */
};

/* Blocks for .seconds. ERR_CANCELLED: SIGINT or SIGTERM; ERR_NOT_FOUND: it was on no GPU. Thread: one. */
int observation_run(struct bench_observation *ret, const struct observation_options *o,
	struct error *err) MUST_USE;

/* Whether the text of /proc/PID/cgroup is of the pod with this UID: cgroup drivers write its '-' as '_' or as it is. */
bool observation_is_pod(const char *cgroup, const char *uid);

/* Of what was seen; the rest of the profile is not known. */
void observation_write_profile(struct profile *ret, const struct bench_observation *o,
	const char *name, const char *kind);
