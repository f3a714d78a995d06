/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which slices a text names: the kubelet's checkpoint (node/agent/base/kubelet-checkpoint.h), or the mounts of a
 * process.
 *
 * Thread: any (pure).
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <stddef.h>

/*
 * Adds to @ret the ID of each "/slices/<id>" in a text, such as /proc/PID/mountinfo of a process with a mounted
 * slice.
 */
int slice_ids_in(struct strv *ret, const char *text, size_t len, struct error *err) MUST_USE;

/*
 * Adds to @ret the slices that the checkpoint of the kubelet's device manager names. The file is private to the
 * kubelet: this function only searches the Allocate answers in it for IDs. < 0: it is no checkpoint, or its format
 * has changed.
 */
int slice_checkpoint_ids(struct strv *ret, const char *text, size_t len,
	struct error *err) MUST_USE;
