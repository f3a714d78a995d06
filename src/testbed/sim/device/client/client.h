/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process's connection to the simulated GPUs of its node (testbed/sim/cuda/wire.h), for the simulated
 * libcuda.so.1 and for tests. Needs libc only.
 *
 * Threads. Any; a mutex serializes requests. Commands do not wait for requests.
 *
 * Fork. The child calls sim_device_forget(), and may then connect for itself. The daemon frees what the parent has
 * when both processes have ended, as with the driver's files.
 */
#include "lib/base/error.h"
#include "testbed/sim/cuda/wire.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define SIM_ENV_GPU "GPUSLICE_SIM_GPU" /* path of the daemon's program */

struct sim_device {
	int fd;                       /* -1: not connected */
	struct sim_device_page *page; /* NULL: not connected */
	uint32_t tag;
	pthread_mutex_t mutex; /* one request at a time */
};

#define SIM_DEVICE_INIT                                                              \
	{                                                                            \
		.fd = -1, .page = NULL, .tag = 0, .mutex = PTHREAD_MUTEX_INITIALIZER \
	}

/*
 * Connects to the daemon of the node in @dir, and starts the daemon if none runs. If several processes try at
 * once, one starts it and the others wait. @dir is the directory of sim_state_dir(), and its state must exist.
 *
 * Without SIM_ENV_GPU the function looks for the daemon's program relative to a file: the library that contains
 * the address @beside, or this program if @beside is NULL. Installed, the path is ../../../libexec/gpuslice; in a
 * build tree ../device.
 *
 * The daemon is no child of the process, sends it no SIGCHLD, and has none of its descriptors.
 */
int sim_device_connect(struct sim_device *d, const char *dir, const void *beside,
	struct error *err) MUST_USE;

/* Closes the connection: the daemon frees all that the process had. A cleanup function. */
void sim_device_close(struct sim_device *d);

/* In the child of a fork: drops the connection without ending the parent's. */
void sim_device_forget(struct sim_device *d);

/*
 * Sends one request and waits for its answer; fills in .tag. @send_fd, unless -1, goes along and stays the
 * caller's. *recv_fd is the received descriptor (the caller's, close-on-exec) or -1; if @recv_fd is NULL it is
 * closed. Returns the answer's status, a CUresult. 999: the daemon is gone; all later calls return it too.
 */
uint32_t sim_device_call(struct sim_device *d, struct sim_device_request *request,
	struct sim_device_reply *r, int send_fd, int *recv_fd);

/*
 * Sends @n commands, one-way. Blocks while the daemon's socket buffer is full. The caller keeps the order of each
 * stream's numbers, and at most SIM_DEVICE_QUEUE_MAX commands in one. False: the daemon is gone.
 */
bool sim_device_submit(struct sim_device *d, const struct sim_device_command *commands,
	size_t n) MUST_USE;

/* Reports that a HOST command is done. One-way. */
bool sim_device_host_done(struct sim_device *d, uint32_t stream, uint64_t seq) MUST_USE;

/*
 * Waits until *completed is at least @value, or until @deadline_ns of the monotonic clock (UINT64_MAX: none).
 * *completed and *waiters are of one stream or event cell. False: the deadline passed, or the daemon is gone.
 */
bool sim_device_wait(struct sim_device *d, _Atomic uint64_t *completed,
	_Atomic uint32_t *waiters, uint64_t value, uint64_t deadline_ns);

/* Waits until page.host_word differs from @seen, the deadline passes, or the daemon is gone. */
void sim_device_wait_host(struct sim_device *d, uint32_t seen, uint64_t deadline_ns);
