/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a slice is still needed. A container's mounts name its slice as long as the kubelet may start that
 * container, also after a reboot. A container does not start without its mounts. So the agent keeps a slice while
 * the kubelet's checkpoint names it, a pod holds its devices, or a process of the slice is known:
 *
 *	the kubelet's checkpoint names it         stays.
 *	superseded, the checkpoint does not       removed when it has no process.
 *	superseded, the checkpoint is unreadable  removed after @keep_ns, when it has no process.
 *	a pod holds its devices                   stays.
 *	it is not known whether a pod does        stays.
 *	no pod has held them for @keep_ns         removed when it has no process.
 *
 * Before the agent removes a slice, it searches all processes for a mount of the slice (slices/mounts.h): the
 * kubelet's files may have been deleted while containers run.
 *
 * While the arbiter cannot say whether the slice has a process, the agent waits 2 * @keep_ns.
 *
 * Thread: any (pure).
 */
#include "node/agent/slices/store.h"
#include "model/pods/pods.h"

enum slice_life_answer { SLICE_LIFE_UNKNOWN, SLICE_LIFE_NO, SLICE_LIFE_YES };

struct slice_life_facts {
	enum slice_life_answer named;     /* by the kubelet's checkpoint */
	enum slice_life_answer allocated; /* to a pod, from PodResources */
	enum slice_life_answer busy;      /* has a process, from the arbiter */
};

/* Updates .free_since_ns. True: the slice may be removed. */
bool slice_life_ends(struct stored_slice *s, const struct slice_life_facts *f, uint64_t now_ns,
	uint64_t keep_ns);

/* The first device in @list that belongs to the slice; NULL: none. Borrowed. */
const struct pod_device *slice_holder(const struct slice_file *f,
	const struct pod_devices *list);
