/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changing a simulated node from outside: what `gpuslice sim` and the tests call. Each call is one
 * transaction, and is seen by all processes when it returns. Thread: any.
 */
#include "lib/base/buf.h"
#include "testbed/sim/state.h"

struct sim_control {
	struct sim_state *state;
	char dir[SIM_PATH_MAX];
};

/*
 * Opens the node of the environment (testbed/sim/location.h), or of @node and @dir where they are not NULL.
 * Creates it like the library does. ERR_NOT_FOUND if nothing names a node.
 */
int sim_control_open(struct sim_control *c, const char *node, const char *dir,
	struct error *err) MUST_USE;
void sim_control_close(struct sim_control *c); /* a cleanup function */

/*
 * Creates the node; an existing one is ERR_EXISTS unless @force, which makes it anew in place:
 * programs that have it open see the new GPUs, and their old handles are stale.
 */
int sim_control_create(struct sim_control *c, const char *node, const char *dir, bool force,
	uint64_t seed, struct error *err) MUST_USE;

/* The slot of a GPU by index, UUID or PCI bus id. Lost GPUs are found too. */
int sim_control_find(const struct sim_control *c, const char *gpu, uint32_t *ret,
	struct error *err) MUST_USE;

/*
 * The MIG device of "MIG-<uuid>", "MIG-GPU-<uuid>/<gi>/<ci>" or "<GPU index>:<gi>:<ci>". A GPU of any other
 * form is found as by sim_control_find(), with SIM_NO_INSTANCE for both.
 */
int sim_control_find_device(const struct sim_control *c, const char *text, uint32_t *slot,
	uint32_t *gi, uint32_t *ci, struct error *err) MUST_USE;

/* An XID event for all who registered, in all processes; the same of a MIG instance. */
int sim_control_xid_on(struct sim_control *c, uint32_t slot, uint32_t gi, uint32_t ci,
	uint64_t xid, struct error *err) MUST_USE;
int sim_control_xid(struct sim_control *c, uint32_t slot, uint64_t xid,
	struct error *err) MUST_USE;

/* Falls off the bus: XID 79, and GPU_IS_LOST for every call; comes back. */
int sim_control_lose(struct sim_control *c, uint32_t slot, struct error *err) MUST_USE;
int sim_control_restore(struct sim_control *c, uint32_t slot, struct error *err) MUST_USE;

/* A group of functions answers @code from now on; 0: works. */
int sim_control_fail(struct sim_control *c, uint32_t slot, enum sim_group group, uint32_t code,
	struct error *err) MUST_USE;
int sim_control_set(struct sim_control *c, uint32_t slot, const char *key, const char *value,
	struct error *err) MUST_USE;

/*
 * As it was made: keys, failing groups; no processes, not lost, not hanging. Energy goes on. MIG
 * instances are gone, and the pending mode is in force.
 */
int sim_control_reset(struct sim_control *c, uint32_t slot, struct error *err) MUST_USE;

/*
 * The node restarts, or its driver: all GPUs lose their processes, MIG instances and what counts from
 * the driver's start; Ampere keeps MIG mode, later ones lose it. All handles are stale. What was set
 * and fails stays, a GPU that was lost or hangs is back, and the driver is loaded.
 */
int sim_control_reboot(struct sim_control *c, struct error *err) MUST_USE;

/* Hot-plug. @product NULL: like the first GPU. */
int sim_control_add(struct sim_control *c, const char *product, uint32_t *ret,
	struct error *err) MUST_USE;
int sim_control_remove(struct sim_control *c, uint32_t slot, struct error *err) MUST_USE;

int sim_control_driver(struct sim_control *c, enum sim_driver driver,
	struct error *err) MUST_USE;
const char *sim_driver_name(uint32_t driver);
bool sim_driver_find(const char *name, enum sim_driver *ret);

/*
 * Puts a process on a GPU (replacing one of the same pid and kind there), or takes all of a pid. With
 * MIG on, ->gi and ->ci say on which instance, and ->sm_percent is the share of that; with MIG off they
 * are not looked at.
 */
int sim_control_process_start(struct sim_control *c, uint32_t slot, const struct sim_process *p,
	struct error *err) MUST_USE;
int sim_control_process_stop(struct sim_control *c, uint32_t pid, struct error *err) MUST_USE;

/* The whole node as JSON or for people. */
int sim_control_show_json(const struct sim_control *c, struct buf *b,
	struct error *err) MUST_USE;
int sim_control_show(const struct sim_control *c, struct buf *b, struct error *err) MUST_USE;

/* What there is to choose from: node models and products, keys of a GPU, groups of functions. */
void sim_list_models(struct buf *b);
void sim_list_keys(struct buf *b);
void sim_list_groups(struct buf *b);
void sim_list_mig(struct buf *b); /* profiles of each product */
