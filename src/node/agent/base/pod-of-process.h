/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the pod and the container of a process, from what /proc says of the process. The kubelet names cgroups by
 * the pod's UID:
 *
 *	cgroupfs  /kubepods/burstable/pod1b9c…-…-…/9f86d08…
 *	systemd   /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b9c…_…_….slice/
 *	          cri-containerd-9f86d08….scope
 *
 * The UID of a static pod has 32 digits without separators. The kubelet also mounts files from its directory into
 * each container, "…/pods/UID/containers/NAME/ID" among them. The mounts count where the
 * cgroup has no pod. With cgroupsPerQOS: false the kubelet makes no cgroup. A containerd in a sandbox of its own
 * makes none either.
 *
 * Trust. A tenant controls a part of both: a process may use cgroups and mounts of its own below the kubelet's.
 * So the first match counts, which is the kubelet's.
 * Thread: any (pure).
 */
#include <stdbool.h>
#include <stddef.h>

#define POD_UID_MAX       64
#define POD_CONTAINER_MAX 64 /* a DNS label */

/* The pod's UID, with '-', from the text of /proc/PID/cgroup; false: the process is in no pod. */
bool pod_uid_from_cgroup(const char *text, size_t len, char ret[POD_UID_MAX]);

/* The pod's UID from the text of /proc/PID/mountinfo, by the files that the kubelet makes only for containers;
 * false: it names no pod. */
bool pod_uid_from_mounts(const char *text, size_t len, char ret[POD_UID_MAX]);

/* The container of pod @uid, from the text of /proc/PID/mountinfo; false: not named there. */
bool pod_container_from_mounts(const char *text, size_t len, const char *uid,
	char ret[POD_CONTAINER_MAX]);
