/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process's connection to the simulated GPUs of its node (testbed/sim/cuda/wire.h): what the simulated
 * libcuda.so.1 and tests call. libc only.
 *
 * Thread: any; requests of several threads take turns, commands do not wait for them. Fork: the child
 * calls sim_device_forget() and may then connect for itself; what its parent has is freed when both have
 * ended, as with the driver's files.
 */
#include "lib/base/error.h"
#include "testbed/sim/cuda/wire.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define SIM_ENV_GPU \
	"GPUSLICE_SIM_GPU" /* the daemon's program, instead of where it is installed */

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
 * Connects to the daemon of the node in @dir (the directory of sim_state_dir(), whose state must be
 * there), and starts it if nobody has: of several that try at once one does, the others wait.
 * @beside is an address in the caller's own library, from whose place the program is looked for
 * (installed: ../../../libexec/gpuslice, in a build tree: ../device); NULL: only by SIM_ENV_GPU. The daemon is no
 * child of the process, sends it no SIGCHLD, and has none of its descriptors.
 */
int sim_device_connect(struct sim_device *d, const char *dir, const void *beside,
	struct error *err) MUST_USE;

/* Says goodbye: the daemon frees all that the process had. A cleanup function. */
void sim_device_close(struct sim_device *d);

/* In the child of a fork: drops the connection without ending that of the parent. */
void sim_device_forget(struct sim_device *d);

/*
 * One request and its answer; .tag is filled in. @send_fd goes along if it is not -1 (and stays the
 * caller's); what comes along is in *recv_fd (yours, close-on-exec; -1: nothing); NULL: it is closed.
 * Returns the answer's status, a CUresult; 999 if the daemon is gone, and then always.
 */
uint32_t sim_device_call(struct sim_device *d, struct sim_device_request *q,
	struct sim_device_reply *r, int send_fd, int *recv_fd);

/*
 * Sends @n commands, one-way; blocks while the daemon has too much to read. The caller keeps the order of each
 * stream's numbers, and no more than SIM_DEVICE_QUEUE_MAX commands in one. False: the daemon is gone.
 */
bool sim_device_submit(struct sim_device *d, const struct sim_device_command *commands,
	size_t n) MUST_USE;

/* Tells that a HOST command is done. One-way. */
bool sim_device_host_done(struct sim_device *d, uint32_t stream, uint64_t seq) MUST_USE;

/*
 * Waits until *completed (of a stream or event cell with these waiters) is at least @value, or until
 * @deadline_ns of the monotonic clock (UINT64_MAX: none). False: not yet then, or the daemon is gone.
 */
bool sim_device_wait(struct sim_device *d, _Atomic uint64_t *completed,
	_Atomic uint32_t *waiters, uint64_t value, uint64_t deadline_ns);

/* Waits until page.host_word is not @seen any more, or until the deadline. */
void sim_device_wait_host(struct sim_device *d, uint32_t seen, uint64_t deadline_ns);
