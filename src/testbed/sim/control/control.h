/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changes to a simulated node from outside: what `gpuslice sim` and the tests call. Each call is one transaction.
 * All processes see its result when it returns. Thread: any.
 */
#include "lib/base/buf.h"
#include "testbed/sim/state.h"

struct sim_control {
	struct sim_state *state;
	char dir[SIM_PATH_MAX];
};

/*
 * Opens the node of the environment (testbed/sim/location.h), or of @node and @dir where they are not NULL.
 * Creates the node as the library does. ERR_NOT_FOUND: neither names a node.
 */
int sim_control_open(struct sim_control *c, const char *node, const char *dir,
	struct error *err) MUST_USE;
void sim_control_close(struct sim_control *c); /* a cleanup function */

/*
 * Creates the node. An existing node is ERR_EXISTS unless @force, which recreates the node in place. Programs that
 * have the node open then see the new GPUs, and their old handles are stale.
 */
int sim_control_create(struct sim_control *c, const char *node, const char *dir, bool force,
	uint64_t seed, struct error *err) MUST_USE;

/* The slot of a GPU by index, UUID or PCI bus id. Finds lost GPUs too. */
int sim_control_find(const struct sim_control *c, const char *gpu, uint32_t *ret,
	struct error *err) MUST_USE;

/*
 * The MIG device of "MIG-<uuid>", "MIG-GPU-<uuid>/<gi>/<ci>" or "<GPU index>:<gi>:<ci>". Any other text names a
 * GPU, as in sim_control_find(), with SIM_NO_INSTANCE for both ids.
 */
int sim_control_find_device(const struct sim_control *c, const char *text, uint32_t *slot,
	uint32_t *gi, uint32_t *ci, struct error *err) MUST_USE;

/* Sends an XID event to all registered event sets, in all processes. @gi, @ci: SIM_NO_INSTANCE for the GPU. */
int sim_control_xid(struct sim_control *c, uint32_t slot, uint32_t gi, uint32_t ci,
	uint64_t xid, struct error *err) MUST_USE;

/* The GPU falls off the bus: XID 79, and GPU_IS_LOST for every call. _restore: the GPU comes back. */
int sim_control_lose(struct sim_control *c, uint32_t slot, struct error *err) MUST_USE;
int sim_control_restore(struct sim_control *c, uint32_t slot, struct error *err) MUST_USE;

/* A group of functions returns @code from now on; 0: works. */
int sim_control_fail(struct sim_control *c, uint32_t slot, enum sim_group group, uint32_t code,
	struct error *err) MUST_USE;
/* Sets a key of SIM_KEYS. ERR_INVALID: unknown key, or invalid value. */
int sim_control_set(struct sim_control *c, uint32_t slot, const char *key, const char *value,
	struct error *err) MUST_USE;

/*
 * Resets a GPU to its created state: keys and failing groups; no processes, not lost, not hanging, no CUDA faults.
 * Energy continues. MIG instances are destroyed, and the pending mode applies.
 */
int sim_control_reset(struct sim_control *c, uint32_t slot, struct error *err) MUST_USE;

/*
 * The node restarts, or its driver. All GPUs lose their processes, MIG instances and the counters since the
 * driver's start. Ampere keeps its MIG mode, later GPUs lose it. All handles are stale. Keys and failing groups
 * stay. A GPU that was lost or hangs is back, and the driver is loaded.
 */
int sim_control_reboot(struct sim_control *c, struct error *err) MUST_USE;

/* Hot-plug. @product NULL: the product of the first GPU. */
int sim_control_add(struct sim_control *c, const char *product, uint32_t *ret,
	struct error *err) MUST_USE;
/* The GPU in @slot disappears. Event waiters get GPU_IS_LOST. */
int sim_control_remove(struct sim_control *c, uint32_t slot, struct error *err) MUST_USE;

/* Sets the state of the driver, for all GPUs of the node. */
int sim_control_driver(struct sim_control *c, enum sim_driver driver,
	struct error *err) MUST_USE;
/* "loaded", ...; "?": no such state. */
const char *sim_driver_name(uint32_t driver);
/* False: unknown name. */
bool sim_driver_find(const char *name, enum sim_driver *ret);

/*
 * Puts a process on a GPU, and replaces one of the same PID and kind there; _stop removes all of a PID. With MIG
 * on, ->gi and ->ci are the instance, and ->sm_percent is a percentage of that instance. With MIG off both ids are
 * ignored.
 */
int sim_control_process_start(struct sim_control *c, uint32_t slot, const struct sim_process *p,
	struct error *err) MUST_USE;
int sim_control_process_stop(struct sim_control *c, uint32_t pid, struct error *err) MUST_USE;

/* The whole node as JSON or as a table. */
int sim_control_show_json(const struct sim_control *c, struct buf *b,
	struct error *err) MUST_USE;
int sim_control_show(const struct sim_control *c, struct buf *b, struct error *err) MUST_USE;

/* The available node models and products, keys of a GPU, groups of functions. */
void sim_list_models(struct buf *b);
void sim_list_keys(struct buf *b);
void sim_list_groups(struct buf *b);
void sim_list_mig(struct buf *b); /* profiles of each product */
