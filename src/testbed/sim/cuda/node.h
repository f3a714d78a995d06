/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The simulated node that the process runs on, as cuInit() finds it, and the connection to the daemon that is its
 * GPUs (testbed/sim/cuda/wire.h), which is made at the first need. Callers hold the lock; results are CUresults.
 * Thread: any that holds the lock.
 */
#include "testbed/sim/cuda/lib.h"
#include "testbed/sim/cuda/wire.h"
#include "testbed/sim/device/client/client.h"

/* Fills sim_cuda.devices and sim_cuda.driver_version. */
CUresult node_open(void);

/* The connection, and its page. Only after a gpu_call(). */
struct sim_device *gpu_client(void);
struct sim_device_page *gpu_daemon_page(void);
void gpu_forget(void); /* in the child of a fork */

/*
 * Connects at the first call, then as sim_device_call(). @r NULL: the answer is not needed. *recv_fd is -1
 * after an error.
 */
CUresult gpu_call(struct sim_device_request request, struct sim_device_reply *r, int send_fd,
	int *recv_fd);

/* Free and total memory of the device in bytes, as cuMemGetInfo() reports them. */
CUresult gpu_info(const struct sim_cuda_device *d, uint64_t *free_bytes, uint64_t *total);
