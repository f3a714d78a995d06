/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which pod and container a process is of, by what /proc says of it. The kubelet names cgroups by the pod's UID:
 *
 *	cgroupfs  /kubepods/burstable/pod1b9c…-…-…/9f86d08…
 *	systemd   /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b9c…_…_….slice/cri-containerd-9f86d08….scope
 *
 * (static pods: 32 digits without separators), and mounts files into each container from the kubelet's directory,
 * "…/pods/UID/containers/NAME/ID" among them. Where the control group says nothing (the kubelet makes none with
 * cgroupsPerQOS: false, and containerd none in a sandbox of its own), the mounts do. Both are tenants' to a degree: a
 * process may live in cgroups and mounts of its own below. So the first match counts, which is the kubelet's.
 * Thread: any (pure).
 */
#include <stdbool.h>
#include <stddef.h>

#define MONITORING_UID_MAX       64
#define MONITORING_CONTAINER_MAX 64 /* a DNS label */

/* The pod's UID, with '-', from the text of /proc/PID/cgroup; false: it is of none. */
bool monitoring_cgroup_pod(const char *text, size_t len, char ret[MONITORING_UID_MAX]);

/* The same from the text of /proc/PID/mountinfo: by the files that the kubelet makes for containers alone. */
bool monitoring_mounts_pod(const char *text, size_t len, char ret[MONITORING_UID_MAX]);

/* The container of the pod @uid, from the text of /proc/PID/mountinfo; false: it does not say. */
bool monitoring_mounts_container(const char *text, size_t len, const char *uid,
	char ret[MONITORING_CONTAINER_MAX]);
