/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who a client is, by the texts that /proc has of it.
 * Thread: any (pure).
 */
#include <stdbool.h>
#include <stddef.h>

#define MPS_DEVICES_VARIABLE "GPUSLICE_MPS_DEVICES" /* device IDs, with commas between */
#define MPS_DEVICES_MAX      1024
#define MPS_POD_UID_MAX      64

/* The value of NAME in an environment as /proc/PID/environ has it; NULL: not there. Borrowed. */
const char *mps_environ_find(const char *env, size_t len, const char *name);
/* The UID of the pod in a text of /proc/PID/cgroup; false: none. */
bool mps_cgroup_pod_uid(const char *text, char ret[MPS_POD_UID_MAX]);
/* The same from /proc/PID/mountinfo: a kubelet may make no control groups for pods, or a runtime none that tell. */
bool mps_mounts_pod_uid(const char *text, char ret[MPS_POD_UID_MAX]);
