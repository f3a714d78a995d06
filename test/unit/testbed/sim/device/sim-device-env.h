/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the tests of the simulated GPUs' daemon share: a node, a connection to its daemon, and requests in short. The
 * connection is that of the test's own process. A test makes more of them with sim_device_connect().
 */
#include "unit/testbed/sim/sim-fixture.h"

#include "lib/base/time.h"
#include "testbed/sim/device/client/client.h"

#define MIB               (UINT64_C(1) << 20)
#define CONTEXT           (518 * MIB) /* of a process's first, as measured on an H100 */
#define DAEMON_TIMEOUT_NS (20 * NS_PER_SEC)
#define SLOT_MISS         200

extern struct sim_fixture sim_device_env_node;
extern struct sim_device sim_device_env;

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, sim_device_env_begin, sim_device_env_end)

int sim_device_env_begin(void **state);
/* A node whose GPUs no program has used yet. */
int sim_device_env_begin_unused(void **state);
int sim_device_env_end(void **state);

/* Requests. daemon_call(), _allocate() and _release() return the status of the answer. */

uint32_t daemon_call(struct sim_device *to, struct sim_device_request request,
	struct sim_device_reply *r);
/* The object; ends the test if it cannot be made. */
uint32_t daemon_new_context(struct sim_device *to, uint32_t slot);
uint32_t daemon_new_stream(struct sim_device *to, uint32_t context);
/* @fd: NULL, or receives the memory's descriptor, which the caller closes. */
uint32_t daemon_allocate(struct sim_device *to, uint32_t slot, uint64_t bytes,
	struct sim_device_reply *r, int *fd);
uint32_t daemon_release(struct sim_device *to, uint64_t id);
uint64_t daemon_free_bytes(struct sim_device *to, uint32_t slot, uint64_t *total);
/* False: the stream did not get that far in time. */
bool daemon_wait_stream(struct sim_device *to, uint32_t stream, uint64_t seq);

/* The bytes of @pid in NVML; UINT64_MAX: it is not listed. */
uint64_t nvml_process_bytes(unsigned int gpu, pid_t pid);
uint64_t nvml_used_bytes(unsigned int gpu);
