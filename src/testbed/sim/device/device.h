/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The GPUs of one simulated node: physical memory, contexts, queues (testbed/sim/device/engine/engine.h), and what NVML is to
 * show of it. Packets in, answers out; sockets and processes are main.c's, so that tests and the
 * fuzzer need none.
 *
 * NVML's figures (sim_usage_write()) are exact whenever a call returns: what an answer grants is shown
 * before the answer goes out, and what it gives back is no longer shown.
 *
 * Times are ns of the simulated clock. Thread: one.
 */
#include "lib/base/error.h"
#include "testbed/sim/cuda/wire.h"
#include "testbed/sim/state.h"

#define DEVICE_CLIENTS_MAX 1024
#define DEVICE_EXPORTS_MAX 4096
#define DEVICE_CONTEXT_BASE \
	(UINT64_C(254) << 20) /* of a process, besides its stacks: measured */
#define DEVICE_CONTEXT_FIXED \
	(UINT64_C(27) << 20) /* of that, however few multiprocessors it may have */
#define DEVICE_CONTEXT_MORE  (UINT64_C(32) << 20) /* of each further context */
#define DEVICE_STACK_DEFAULT 1024                 /* bytes of each thread */
#define DEVICE_THREADS_SM    2048

struct simulated_gpus;
struct device_client;

/* @state is borrowed. What an earlier daemon that was killed left in the state goes. */
int device_new(struct sim_state *state, struct simulated_gpus **ret,
	struct error *err) MUST_USE;
struct simulated_gpus *device_free(struct simulated_gpus *d); /* all clients are gone before */
/* From now on account.c writes to @fd what each process has had that leaves. Borrowed. */
void device_account(struct simulated_gpus *d, int fd);

/* NULL: too many, or no memory. @pid as the kernel says. */
struct device_client *device_client_new(struct simulated_gpus *d, uint32_t pid);

/*
 * The process is gone: so is all that it had. Its memory stays for cuda_free_ms; then @c lives on
 * inside until that has passed.
 */
void device_client_gone(struct device_client *c, uint64_t now_ns);

struct device_answer {
	bool send; /* else nothing is to be answered */
	struct sim_device_reply reply;
	int fd;        /* goes along; -1: nothing */
	bool close_fd; /* ours to close after that */
};

/*
 * One packet of @len bytes, with @fd if one came along (-1: none; stays the caller's). False: the peer
 * broke the protocol, and its connection must end.
 */
bool device_packet(struct device_client *c, const void *packet, size_t len, int fd,
	uint64_t now_ns, struct device_answer *ret);

/*
 * Lets time pass; looks at the node if that has changed; frees what is due; every quarter of a second
 * tells NVML how busy each process was.
 */
void device_advance(struct simulated_gpus *d, uint64_t now_ns);
uint64_t device_next_ns(
	const struct simulated_gpus *d); /* when to call it next; UINT64_MAX: no need */

/*
 * The host woke this process @ns after device_next_ns(): for that time the GPUs were slower than they are to be. NVML
 * shows it as time below the base clocks, with the next measurement of load.
 */
void device_add_lateness(struct simulated_gpus *d, uint64_t ns);

/* Clients, and memory that lives by exported descriptors only. */
bool device_is_idle(const struct simulated_gpus *d);

/* Readable when device_exports() has something to do: the last copy of an exported descriptor is closed. */
int device_exports_fd(const struct simulated_gpus *d);
void device_exports(struct simulated_gpus *d);
