/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Assigns the processes on a device to the containers that hold the device. The container of a process is
 *
 *	1. the container in whose slice the arbiter knows the process,
 *	2. else the container that /proc names,
 *	3. else the only container of the process's pod on that device.
 *
 * Memory and time of a process without a container are the rest of the device.
 *
 * A container without a process has used nothing only if the owner of every process on its device is known. The
 * owner of a process is not known, and neither is the container's usage, if
 *
 *	1. the agent has a PID namespace of its own: NVML lists only the processes of the caller's namespace;
 *	2. NVML names a process that /proc does not show: the process has ended since, or is hidden from the
 *	   agent;
 *	3. the container of the process's pod, or the pod of the process's container, is not known yet.
 *
 * A container that alone holds its device then gets the device's own figures.
 *
 * Thread: loop.
 */
#include "node/agent/monitoring/internal.h"

/* Assigns NVML's figures of devices and processes to the containers of the round. */
void monitoring_assign_usage(struct monitoring *mon, struct monitoring_round *r);
/*
 * Called after the charges are counted. If nothing better is known, a container that alone holds a device gets the
 * device's memory.
 */
void monitoring_assign_sole_usage(struct monitoring *mon, struct monitoring_round *r);
