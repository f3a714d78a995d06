/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The GPUs of one simulated node: physical memory, contexts, queues (testbed/sim/device/engine/engine.h), and
 * NVML's figures of them. The interface is packets in, answers out. Sockets and processes belong to main.c, so
 * that tests and the fuzzer need none.
 *
 * NVML's figures (sim_usage_write()) are exact whenever a call returns. They include what an answer grants before
 * the answer leaves, and no longer include what it gives back.
 *
 * Times are ns of the simulated clock. Thread: one.
 */
#include "lib/base/error.h"
#include "testbed/sim/cuda/wire.h"
#include "testbed/sim/state.h"

#define DEVICE_CLIENTS_MAX  1024
#define DEVICE_EXPORTS_MAX  4096
#define DEVICE_CONTEXT_BASE (UINT64_C(254) << 20) /* of a process, without stacks: measured */
#define DEVICE_CONTEXT_FIXED \
	(UINT64_C(27) << 20) /* part of it for any number of multiprocessors */
#define DEVICE_CONTEXT_MORE  (UINT64_C(32) << 20) /* of each further context */
#define DEVICE_STACK_DEFAULT 1024                 /* bytes per thread */
#define DEVICE_THREADS_SM    2048

struct simulated_gpus;
struct device_client;

/* @state is borrowed. Removes what an earlier daemon left in the state when it was killed. */
int device_new(struct sim_state *state, struct simulated_gpus **ret,
	struct error *err) MUST_USE;
struct simulated_gpus *device_free(struct simulated_gpus *gpus); /* ends all clients first */
/*
 * From now on usage.c writes to @fd what each process used of a GPU, when the process leaves the GPU. @fd is
 * borrowed.
 */
void device_account(struct simulated_gpus *gpus, int fd);

/* NULL: too many, or no memory. @pid: the kernel's figure. */
struct device_client *device_client_new(struct simulated_gpus *gpus, uint32_t pid);

/*
 * The process is gone. Its contexts, queues and events end now. Its memory stays for cuda_free_ms; until then @c
 * stays inside the device.
 */
void device_client_gone(struct device_client *c, uint64_t now_ns);

struct device_answer {
	bool send; /* false: no answer */
	struct sim_device_reply reply;
	int fd;        /* passed with the answer; -1: none */
	bool close_fd; /* the caller closes fd after that */
};

/*
 * One packet of @len bytes. @fd is the descriptor that came along, or -1; it stays the caller's. False: the caller
 * must end the connection, as the peer broke the protocol or the engine has no memory.
 */
bool device_packet(struct device_client *c, const void *packet, size_t len, int fd,
	uint64_t now_ns, struct device_answer *ret);

/*
 * Lets time pass, reads the node's state if that has changed, and frees the memory that is due. Every quarter of a
 * second of real time it writes to NVML's figures how busy each process was.
 */
void device_advance(struct simulated_gpus *gpus, uint64_t now_ns);
/* The next time at which device_advance() is due; UINT64_MAX: none. */
uint64_t device_next_ns(const struct simulated_gpus *gpus);

/*
 * The host woke this process @ns after device_next_ns(). The GPUs were too slow for that time. NVML shows @ns as
 * time below the base clocks, from the next measurement of load on.
 */
void device_add_lateness(struct simulated_gpus *gpus, uint64_t ns);

/* No clients, and no memory that only exported descriptors keep. */
bool device_is_idle(const struct simulated_gpus *gpus);

/* Readable when device_exports() has work: the last copy of an exported descriptor is closed. */
int device_exports_fd(const struct simulated_gpus *gpus);
void device_exports(struct simulated_gpus *gpus);
