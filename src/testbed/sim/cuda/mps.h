/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process as a client of the simulated MPS (testbed/sim/mps/wire.h). As the real driver does: where the pipe directory
 * has no daemon that answers, there is no MPS, and nobody is told. With the lock.
 */
#include "testbed/sim/cuda/lib.h"

struct sim_device_request;

/*
 * Asks for a server, at cuInit(); waits for one. Without MPS: success, and mps_on() stays false. Where there is a
 * daemon and no server to be had: 805, 807 or 808.
 */
CUresult mps_connect(void);
bool mps_on(void);
void mps_forget(void); /* in the child of a fork */

/* The server's GPUs, in its order: keeps those of @all, of which there are *n. */
void mps_filter(struct sim_cuda_device *all, unsigned *n);

/* The multiprocessors of a device that the process may have. */
uint32_t mps_width_of(const struct sim_cuda_device *d);

/*
 * Before a context is made: fills in what it needs of the server. The connection for it is kept in *fd until it is
 * destroyed (mps_leave()); -1: without MPS. A process whose context was hit by a fault gets none any more.
 */
CUresult mps_context(const struct sim_cuda_device *d, struct sim_device_request *q, int *fd);
void mps_leave(int *fd, CUresult error); /* @error: what the context had failed with */
