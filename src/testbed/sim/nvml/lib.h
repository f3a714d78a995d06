/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The simulated libnvidia-ml.so.1: what all its functions share.
 *
 * A call runs: initialized? (1), arguments (2), driver there? (9), the handle's GPU: never ours (2),
 * gone or fallen off the bus (15), hanging (blocks), its group set to fail (that code); then the
 * answer, from a private copy of the GPU's state. So no call holds a lock, and a call on one GPU
 * never waits for another.
 *
 * A handle is a number, not a pointer: a tag that says of what kind it is, the slot and the epoch of
 * the GPU in it, and for MIG the instance ids with a serial. A stale one is told from a good one
 * without memory being touched.
 *
 * A MIG device is an nvmlDevice_t as well. Functions that begin with gpu_enter() refuse it; those that
 * take it begin with device_enter().
 *
 * As a guest in other programs the library never exits, never asserts, installs no handlers but
 * for fork, and writes to stderr only why init was refused, at most 16 lines a process.
 * Thread: any, but for what is said below.
 */
#include "abi/nvml-api.h"
#include "testbed/sim/derive.h"
#include "testbed/sim/nvml/prototypes.h"
#include "testbed/sim/nvml/stub.h"
#include "testbed/sim/state.h"

enum handle_kind { HANDLE_GPU, HANDLE_MIG, HANDLE_GI, HANDLE_CI, HANDLE_KINDS };

struct handle {
	uint32_t slot, epoch;
	enum handle_kind kind;
	uint32_t gi, ci;
	uint32_t serial; /* of the compute instance; of the GPU instance for HANDLE_GI */
};

nvmlDevice_t handle_encode(struct handle h);
bool handle_read(nvmlDevice_t d, struct handle *ret); /* false: not one of ours */

/*
 * NVML_SUCCESS once initialized, with the state in *ret, which stays mapped for good. Counts the
 * call: what a function does further begins with lib_again() and gpu_again().
 */
nvmlReturn_t nvml_lib_enter(const struct sim_state **ret);
nvmlReturn_t lib_again(const struct sim_state **ret);

/*
 * The same, and reads the head of the node, with its slots. 9 if the driver is unloaded. In a
 * container, the slots of GPUs that it does not see are empty. lib_read_visible_head(): inside a function
 * that has begun already.
 */
nvmlReturn_t lib_read_visible_head(struct sim_node_head *head);
nvmlReturn_t lib_enter_node(bool args_ok, const struct sim_state **ret,
	struct sim_node_head *head);

/*
 * The start of a function on one GPU: all checks of the list above. @args_ok: the function's own
 * look at its arguments. On success *g is the GPU without its process table.
 */
nvmlReturn_t gpu_enter(nvmlDevice_t d, enum sim_group group, bool args_ok, struct sim_gpu *g);

/* What a handle is of: a GPU, or also an instance, inside the GPU that was read. */
struct target {
	enum handle_kind kind;
	struct handle handle;
	struct sim_gi *gi; /* NULL for a GPU */
	struct sim_ci *ci; /* NULL for a GPU or GI */
};

/*
 * The same with the process table, for a handle of one of @kinds (bits 1 << HANDLE_*). The GPU is
 * read with all it has.
 */
nvmlReturn_t any_enter(const void *handle, unsigned kinds, enum sim_group group, bool args_ok,
	struct sim_gpu *g, struct target *t);

nvmlReturn_t any_again(const void *handle, unsigned kinds, enum sim_group group,
	struct sim_gpu *g, struct target *t);

/* A GPU or a MIG device. */
nvmlReturn_t device_enter(nvmlDevice_t d, enum sim_group group, bool args_ok, struct sim_gpu *g,
	struct target *t);

/* One GPU with its process table and its instances. */
nvmlReturn_t gpu_enter_all(nvmlDevice_t d, enum sim_group group, bool args_ok,
	struct sim_gpu *g);

/* gpu_enter() inside a function that has begun already: the call is not counted again. */
nvmlReturn_t gpu_again(nvmlDevice_t d, enum sim_group group, struct sim_gpu *g);

/* The slot of a handle that gpu_enter() has accepted. */
uint32_t gpu_slot(nvmlDevice_t d);

/*
 * What a container sees: with GPUSLICE_SIM_DEV only GPUs and instances whose device nodes are there,
 * else all. lib_may_config(): may change MIG, which needs root; lib_may_monitor(): may look at all
 * instances, which anybody may (mode 0444): agents that list the MIG devices of a node have no other
 * capability. In a container both need the capability's node too. Only after nvml_lib_enter().
 */
bool lib_is_gpu_visible(const struct sim_keys *k);
bool lib_is_instance_visible(const struct sim_keys *k, uint32_t gi, uint32_t ci);
bool lib_may_config(void);
bool lib_may_monitor(void);

/* The positions of the MIG device with @index in the tables of @g; false: there is none. */
bool mig_device_by_index(const struct sim_gpu *g, uint32_t index, uint32_t *gi, uint32_t *ci);

/* The handle of the one at these positions. */
nvmlDevice_t mig_device_handle(const struct sim_gpu *g, uint32_t slot, uint32_t epoch,
	uint32_t gi, uint32_t ci);

/* Counts of a GPU that was read without gpu_enter(): none leads out of its table. */
void lib_clamp(struct sim_gpu *g);

/* Begins a change of the GPU of a handle that was entered; false: it is another one by now. */
nvmlReturn_t lib_change(const struct target *t, struct sim_txn *txn, struct sim_gpu **g);

/* Ends a change of the GPU's MIG layout: files, and an event for those who want to know of it. */
nvmlReturn_t lib_change_mig(const struct target *t, struct sim_txn *txn);

/* The checks on a slot alone, for look-ups that have no handle yet. */
nvmlReturn_t slot_check(const struct sim_state *s, uint32_t slot, enum sim_group group);

/* Text of at most @size bytes into the caller's buffer; 7, buffer untouched, if it is too small. */
nvmlReturn_t text_out(const char *text, size_t size, char *to, unsigned int len);

/* Init's counterpart for state changes by the library itself: 4 unless root. */
nvmlReturn_t gpu_set_u32(nvmlDevice_t d, enum sim_group group, bool value_ok, size_t key_offset,
	uint32_t value);

/* A getter of one number. */
#define GETTER_U32(function, group, expression)                                    \
	EXPORT nvmlReturn_t function(nvmlDevice_t d, unsigned int *ret)            \
	{                                                                          \
		struct sim_gpu g;                                                  \
		nvmlReturn_t r = gpu_enter(d, SIM_GROUP_##group, ret != NULL, &g); \
                                                                                   \
		if (r == NVML_SUCCESS)                                             \
			*ret = (expression);                                       \
		return r;                                                          \
	}

/* A getter of one text key. */
#define GETTER_TEXT(function, group, key)                                                      \
	EXPORT nvmlReturn_t function(nvmlDevice_t d, char *text, unsigned int len)             \
	{                                                                                      \
		struct sim_gpu g;                                                              \
		nvmlReturn_t r = gpu_enter(d, SIM_GROUP_##group, text != NULL, &g);            \
                                                                                               \
		return r == NVML_SUCCESS ? text_out(g.keys.key, sizeof(g.keys.key), text, len) \
					 : r;                                                  \
	}
