/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The connection to the device daemon (testbed/sim/cuda/wire.h), made at the first need. Callers hold the lock;
 * results are CUresults.
 */
#include "testbed/sim/cuda/lib.h"
#include "testbed/sim/cuda/wire.h"
#include "testbed/sim/device/client/client.h"

/* Connects, unless there is a connection. */
CUresult gpu_connect(void);

struct sim_device *gpu_client(void);           /* only after gpu_connect() */
struct sim_device_page *gpu_daemon_page(void); /* the same */
void gpu_forget(void);                         /* in the child of a fork */

CUresult gpu_call(struct sim_device_request q, struct sim_device_reply *r, int send_fd,
	int *recv_fd);

CUresult gpu_info(const struct sim_cuda_device *d, uint64_t *free_bytes, uint64_t *total);
