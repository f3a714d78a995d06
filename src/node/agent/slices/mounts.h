/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The slices that are mounted anywhere, from the mounts of each mount namespace. A running container has its slice
 * mounted, whatever the kubelet has forgotten.
 *
 * Thread: any. Blocks: on procfs, about 20 us per process and 100 us per container; at most SLICE_MOUNTS_NS.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#define SLICE_MOUNTS_NS      (UINT64_C(5) * 1000000000)
#define SLICE_MOUNTS_PARTIAL 1

/*
 * Adds the IDs to @ret, possibly several times. Processes that the agent may not look into are left out; with
 * hostPID and SYS_PTRACE it sees all processes of the node. Of a namespace with more mounts than its bounds (1 MiB
 * of text, 50 ms) only the first mounts count: the container runtime's mounts come before those that the container
 * made. SLICE_MOUNTS_PARTIAL: there was such a namespace. ERR_TIMEOUT: SLICE_MOUNTS_NS was too short for all
 * processes; @ret has the IDs found until then.
 */
int slice_mounts_find(struct strv *ret, const char *procfs, struct error *err) MUST_USE;
