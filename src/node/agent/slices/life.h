/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a slice still lives. A container's mounts name its slice for as long as the kubelet may start
 * that container, again after a reboot too, and a container does not start whose mounts are gone. So it
 * stays while the kubelet mentions it, a pod holds its devices, or a process of it is known:
 *
 *	the kubelet's checkpoint names it        lives
 *	superseded, and the checkpoint does not  goes when no process is left
 *	superseded, no checkpoint to be read     the same after @keep
 *	a pod holds its devices                  lives
 *	it is not known whether one does         lives
 *	no pod has held them for @keep           goes when no process is left
 *
 * Before one goes it is looked whether any process has it mounted all the same (slices/mounts.h): the
 * kubelet's notes may have been deleted under containers that run.
 *
 * While the arbiter cannot say whether a process is left, it takes @keep once more.
 * Thread: any (pure).
 */
#include "node/agent/slices/store.h"
#include "model/pods/pods.h"

enum slice_life_answer { SLICE_LIFE_UNKNOWN, SLICE_LIFE_NO, SLICE_LIFE_YES };

struct slice_life_facts {
	enum slice_life_answer named;     /* in the kubelet's checkpoint */
	enum slice_life_answer allocated; /* by a pod, says PodResources */
	enum slice_life_answer busy;      /* has a process, says the arbiter */
};

/* Keeps the slice's clock; true: it goes. */
bool slice_life_ends(struct stored_slice *s, const struct slice_life_facts *f, uint64_t now_ns,
	uint64_t keep_ns);

/* The first device of the list that is one of the slice's; NULL: none. Borrowed. */
const struct pod_device *slice_holder(const struct slice_file *f,
	const struct pod_devices *list);

/*
 * "/slices/<id>" wherever it stands in a text, as in /proc/PID/mountinfo of who has that slice mounted.
 * Adds the ids to @ret.
 */
int slice_ids_in(struct strv *ret, const char *text, size_t len, struct error *err) MUST_USE;

/*
 * Which slices the kubelet's checkpoint of its device manager names, a file that is private to the kubelet: it
 * is searched for ids and not understood otherwise. Adds them to @ret. < 0: it is none, or not as it was.
 */
#define SLICE_CHECKPOINT     "kubelet_internal_checkpoint" /* in the plugins' directory */
#define SLICE_CHECKPOINT_MAX (64 << 20)
int slice_checkpoint_ids(struct strv *ret, const char *text, size_t len,
	struct error *err) MUST_USE;
