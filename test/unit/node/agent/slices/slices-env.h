/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * struct slices with fakes around it: two GPUs of 16 GiB, an arbiter in the loop, pods that the test names, libraries
 * of a few bytes, and a virtual clock. Link wrap_clock.
 */
#include "unit/node/agent/agent-fixture.h"
#include "unit/node/agent/slices/fake-arbiter.h"

#include "node/agent/slices/slices.h"

#include <jansson.h>
#include <limits.h>

#define ENV_GIB      (UINT64_C(1) << 30)
#define ENV_MEMORY   (16 * ENV_GIB) /* of one GPU */
#define ENV_KEEP_NS  (60 * NS_PER_SEC)
#define ENV_HOLDERS  8
#define ENV_RESOURCE "nvidia.com/gpu"

struct slices_env {
	struct agent_fixture *f;
	struct slices s;
	bool runs;    /* .s is started */
	bool stopped; /* slices_stop() was called */
	struct fake_arbiter arbiter;
	char state[PATH_MAX], run[PATH_MAX], plugins[PATH_MAX], runtime[PATH_MAX];

	/* Answers of the ops. */
	struct pod_device holders[ENV_HOLDERS];
	char pods[ENV_HOLDERS][64], ids[ENV_HOLDERS][64]; /* of .holders */
	size_t n_holders;
	bool holders_known;         /* false: an error instead of the list */
	bool pod_devices_stale;     /* an error with the list, which is an older one */
	bool pod_devices_available; /* false: ask_holders() refuses */
	uint64_t peak;              /* 0: not known */
	const struct gpu_processes *processes; /* NULL: read_processes() refuses */
	uint32_t n_processes;

	/* The number of the request at which a pod gets GPU-0::0, or at which slices_stop() is called. 0:
	 * never. */
	unsigned allocate_at_request, stop_at_request;

	/* Requests so far. */
	unsigned n_requests, on_dir_unavailable;
	struct strv read; /* UUIDs */
};

/* The clock of the program: lib/base/time.h's. */
extern uint64_t env_now_ns;

/* cmocka's. Nothing is started: env_start(). */
int slices_env_setup(void **state);
int slices_env_teardown(void **state);
#define SLICES_TEST(f) cmocka_unit_test_setup_teardown(f, slices_env_setup, slices_env_teardown)

/* A config in which each GPU has @replicas, with @isolation; .present false: shared and not isolated. */
struct config *env_config(uint32_t replicas, const struct isolation *isolation);
/* Each replica has an equal part of the memory. */
extern const struct isolation env_equal;

/* The config @c is in force, for the same GPUs. Does not call slices_sync(). */
void env_know(struct slices_env *e, struct config *c);

/* Starts .s with what is known; again after env_stop(), as another agent. */
void env_start(struct slices_env *e);
void env_stop(struct slices_env *e);

/* Starts with env_equal for 4 replicas, the libraries, and the arbiter connected. */
void env_start_isolated(struct slices_env *e);

/* Removes or writes the libraries that the agent installs. */
void env_libraries(struct slices_env *e, bool there);

/* Allocates @id and gives its new slice. */
struct stored_slice *env_allocate(struct slices_env *e, const char *id);

/* The same, which fails for a reason that contains @why and leaves nothing. */
void env_allocate_fails(struct slices_env *e, const char *id, const char *why);

/* A pod has @id. */
void env_allocate_device(struct slices_env *e, const char *pod, const char *id);

/* The sweep that is due, to its end. */
void env_sweep(struct slices_env *e);

/* The kubelet's checkpoint names these slices; @n 0: none. */
void env_checkpoint(struct slices_env *e, const struct stored_slice *const *slices, size_t n);

/* slice.json of the slice, as the arbiter reads it. */
json_t *env_file(const struct slices_env *e, const struct stored_slice *slice);

/* Whether its directory is there. */
bool env_there(const struct slices_env *e, const char *id);

/* Directories of slices below the state directory. */
unsigned env_count(const struct slices_env *e);
