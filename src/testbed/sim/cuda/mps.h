/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process as a client of the simulated MPS (testbed/sim/mps/wire.h). As with the real driver, MPS is off,
 * without any report, if no daemon answers in the pipe directory. Callers hold the lock.
 * Thread: any that holds the lock.
 */
#include "testbed/sim/cuda/lib.h"

struct sim_device_request;

/*
 * cuInit() requests a server, and blocks until there is one. Without MPS: success, and mps_on() stays false. If
 * there is a daemon but it provides no server: 805, 807 or 808.
 */
CUresult mps_connect(void);
bool mps_on(void);
void mps_forget(void); /* in the child of a fork */

/* Keeps those of the *n devices in @all that the server has, in the server's order. */
void mps_filter(struct sim_cuda_device *all, unsigned *n);

/* The multiprocessors of a device that the process may have. */
uint32_t mps_width_of(const struct sim_cuda_device *d);

/*
 * The server's part of a request that makes a context. *fd is the connection for the context, open until
 * mps_leave(); -1: without MPS. A process whose context had a fault gets no further one.
 */
CUresult mps_context(const struct sim_cuda_device *d, struct sim_device_request *request,
	int *fd);
void mps_leave(int *fd, CUresult error); /* @error: the error of the context */
