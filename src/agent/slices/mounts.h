/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which slices are mounted anywhere, by what the kernel says of each mount namespace: that of a container that
 * runs has its slice, whatever the kubelet has forgotten.
 * Thread: any. Blocks: on procfs, some 20 us for each process and 100 us for each container.
 */
#include "base/error.h"
#include "base/strv.h"

/*
 * Adds the ids to @ret, perhaps several times. Sees what the agent may see: the node's processes with hostPID and
 * SYS_PTRACE. Those that it may not look into are left out.
 */
int slice_mounts_find(struct strv *ret, const char *procfs, struct error *err) MUST_USE;
