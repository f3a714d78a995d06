/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds out which devices an MPS client has, from its environment. base/pod-of-process.h finds its pod.
 * Thread: any (pure).
 */
#include <stdbool.h>
#include <stddef.h>

#define MPS_DEVICES_VARIABLE "GPUSLICE_MPS_DEVICES" /* device IDs, separated by commas */
#define MPS_DEVICES_MAX      1024

/* The value of @name in an environment of the form of /proc/PID/environ; NULL: not there. Borrowed. */
const char *mps_environ_find(const char *env, size_t len, const char *name);
