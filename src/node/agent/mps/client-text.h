/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds out which pod and devices an MPS client has, from texts in /proc.
 * Thread: any (pure).
 */
#include <stdbool.h>
#include <stddef.h>

#define MPS_DEVICES_VARIABLE "GPUSLICE_MPS_DEVICES" /* device IDs, separated by commas */
#define MPS_DEVICES_MAX      1024
#define MPS_POD_UID_MAX      64

/* The value of @name in an environment of the form of /proc/PID/environ; NULL: not there. Borrowed. */
const char *mps_environ_find(const char *env, size_t len, const char *name);
/* The pod's UID in a text of /proc/PID/cgroup; false: none. */
bool mps_cgroup_pod_uid(const char *text, char ret[MPS_POD_UID_MAX]);
/*
 * The pod's UID in a text of /proc/PID/mountinfo; false: none. For nodes where the kubelet makes no cgroups for
 * pods, or where the runtime's cgroups do not name the pod.
 */
bool mps_mounts_pod_uid(const char *text, char ret[MPS_POD_UID_MAX]);
