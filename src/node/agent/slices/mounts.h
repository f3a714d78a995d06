/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which slices are mounted anywhere, by what the kernel says of each mount namespace: that of a container that
 * runs has its slice, whatever the kubelet has forgotten.
 * Thread: any. Blocks: on procfs, some 20 us for each process and 100 us for each container; SLICE_MOUNTS_NS at most.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#define SLICE_MOUNTS_NS      (UINT64_C(5) * 1000000000)
#define SLICE_MOUNTS_PARTIAL 1

/*
 * Adds the ids to @ret, perhaps several times. Sees what the agent may see: the node's processes with hostPID and
 * SYS_PTRACE. Those that it may not look into are left out. Of a namespace with more mounts than fit its bounds
 * (1 MiB of text, 50 ms) the beginning counts: a container's own mounts come first, then what it has mounted itself.
 * SLICE_MOUNTS_PARTIAL: there was such a namespace. ERR_TIMEOUT: SLICE_MOUNTS_NS did not suffice for all processes; what was found
 * until then is in @ret.
 */
int slice_mounts_find(struct strv *ret, const char *procfs, struct error *err) MUST_USE;
