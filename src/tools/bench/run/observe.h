/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Observes running processes through NVML, without any effect on them. */
#include "tools/bench/profile/profile.h"
#include "io/nvml/monitor/monitor.h"

#include <sys/types.h>

#define OBSERVATION_POLL_MS 500

struct observation_options {
	const struct gpu_monitor_options *monitor;
	const char *gpu; /* UUID; NULL: the first GPU with such a process */
	pid_t pid;       /* the process and its descendants; 0: .pod instead */
	const char *pod; /* UID of a pod: the processes in its cgroups */
	double seconds;
};

struct bench_observation {
	char gpu[GPU_UUID_MAX];
	size_t n;         /* samples with an observed process on the GPU */
	size_t processes; /* maximum number of observed processes at a time */
	bool alone;       /* no other process was on the GPU */
	double busy, busiest, sm_active, dram; /* shares of time; NaN (.busiest: 0): unknown */
	uint64_t peak_bytes;                   /* bytes, with contexts; 0: unknown */
	bool stopped;                          /* ended early by a signal */
};

/* Blocks for .seconds. ERR_CANCELLED: SIGINT or SIGTERM. ERR_NOT_FOUND: no observed process on a GPU.
 * Thread: one. */
int observation_run(struct bench_observation *ret, const struct observation_options *o,
	struct error *err) MUST_USE;

/*
 * Whether the text of /proc/PID/cgroup belongs to the pod with this UID. Cgroup drivers keep '-' in the UID or
 * write '_'.
 */
bool observation_is_pod(const char *cgroup, const char *uid);

/* Writes the observed figures. The rest of the profile is unknown. */
void observation_write_profile(struct profile *ret, const struct bench_observation *o,
	const char *name, const char *kind);
