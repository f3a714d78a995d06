/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The simulated libnvidia-ml.so.1: what all its functions share.
 *
 * Order of the checks of a call:
 *
 *	1. The library is initialized, else 1.
 *	2. The arguments are valid, and the handle is of this library, else 2.
 *	3. The driver is loaded, else 9.
 *	4. The handle's GPU was ever in the slot, else 2; the GPU is still there and on the bus, else 15.
 *	5. If the GPU hangs, the call blocks. The call then repeats steps 3 and 4.
 *	6. If the group of the function is set to fail, the call returns that code.
 *
 * The call answers from a private copy of the GPU's state. So a call that only reads takes no lock on the state,
 * and a call on one GPU does not wait for another GPU. A call that changes the state waits for the node's file
 * lock (state.h).
 *
 * Handles. A handle is a number, not a pointer: a tag for its kind, the slot, the epoch of the GPU in the slot,
 * and for MIG the instance ids with a serial. A stale handle is detected without an access to memory that it
 * names. A MIG device is an nvmlDevice_t as well. Functions that begin with gpu_enter() refuse it; those that
 * accept it begin with device_enter().
 *
 * Guest. In other programs the library never exits, never asserts, and installs only fork handlers. The library
 * writes to stderr only why init failed, at most 16 lines in a process.
 *
 * Thread: any, unless a function states a limit.
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

/* The handle of an object. It keeps the low 16 bits of .epoch and .serial. */
nvmlDevice_t handle_encode(struct handle h);
bool handle_read(nvmlDevice_t d, struct handle *ret); /* false: not a handle of this library */

/*
 * NVML_SUCCESS once initialized, with the state in *ret, which is never unmapped. Counts the call. Later steps of
 * the same function begin with lib_again() and gpu_again(), which do not count.
 */
nvmlReturn_t nvml_lib_enter(const struct sim_state **ret);
nvmlReturn_t lib_again(const struct sim_state **ret);

/*
 * As nvml_lib_enter(), and reads the head of the node with its slots. 9 if the driver is unloaded. In a
 * container, the slots of GPUs that the container does not see are empty. lib_read_visible_head(): for a function
 * that has already entered.
 */
nvmlReturn_t lib_read_visible_head(struct sim_node_head *head);
nvmlReturn_t lib_enter_node(bool args_ok, const struct sim_state **ret,
	struct sim_node_head *head);

/*
 * The start of a function on one GPU: all checks of the list above. @args_ok: the function's check of its own
 * arguments. On success *g is the GPU without its process table.
 */
nvmlReturn_t gpu_enter(nvmlDevice_t d, enum sim_group group, bool args_ok, struct sim_gpu *g);

/* The object of a handle: a GPU, or also an instance inside the GPU that was read. */
struct target {
	enum handle_kind kind;
	struct handle handle;
	struct sim_gi *gi; /* NULL for a GPU */
	struct sim_ci *ci; /* NULL for a GPU or GI */
};

/*
 * As gpu_enter(), with the process table and the instances, for a handle of one of @kinds (bits 1 << HANDLE_*).
 */
nvmlReturn_t any_enter(const void *handle, unsigned kinds, enum sim_group group, bool args_ok,
	struct sim_gpu *g, struct target *t);

/* any_enter() for a function that has already entered: does not count the call again. */
nvmlReturn_t any_again(const void *handle, unsigned kinds, enum sim_group group,
	struct sim_gpu *g, struct target *t);

/* A GPU or a MIG device. */
nvmlReturn_t device_enter(nvmlDevice_t d, enum sim_group group, bool args_ok, struct sim_gpu *g,
	struct target *t);

/* gpu_enter() for a function that has already entered: does not count the call again. */
nvmlReturn_t gpu_again(nvmlDevice_t d, enum sim_group group, struct sim_gpu *g);

/* The slot of a handle that gpu_enter() has accepted. */
uint32_t gpu_slot(nvmlDevice_t d);

/*
 * What a container sees: with GPUSLICE_SIM_DEV only GPUs and instances that have device nodes there, else all.
 * lib_may_config(): the process may change MIG; that needs root. lib_may_monitor(): the process may see all
 * instances; any user may (mode 0444), since agents that list the MIG devices of a node have no other capability.
 * In a container both need the capability's node too. Only after nvml_lib_enter().
 */
bool lib_is_gpu_visible(const struct sim_keys *k);
bool lib_is_instance_visible(const struct sim_keys *k, uint32_t gi, uint32_t ci);
bool lib_may_config(void);
bool lib_may_monitor(void);

/* The positions of the MIG device with @index in the tables of @g; false: not found. */
bool mig_device_by_index(const struct sim_gpu *g, uint32_t index, uint32_t *gi, uint32_t *ci);

/* The handle of the MIG device at these positions. */
nvmlDevice_t mig_device_handle(const struct sim_gpu *g, uint32_t slot, uint32_t epoch,
	uint32_t gi, uint32_t ci);

/* Limits the counts of a GPU that was read without gpu_enter(), so that no index leaves its table. */
void lib_clamp(struct sim_gpu *g);

/* Begins a change of the GPU of a handle that was entered; 2: the GPU or instance was replaced since.
 * Blocks. */
nvmlReturn_t lib_change(const struct target *t, struct sim_txn *txn, struct sim_gpu **g);

/* Ends a change of the GPU's MIG layout: updates the files and posts an event. */
nvmlReturn_t lib_change_mig(const struct target *t, struct sim_txn *txn);

/* The checks on a slot alone, for look-ups that have no handle yet. */
nvmlReturn_t slot_check(const struct sim_state *s, uint32_t slot, enum sim_group group);

/* Copies text of at most @size bytes into the caller's buffer; 7, buffer unchanged, if the buffer is too
 * small. */
nvmlReturn_t text_out(const char *text, size_t size, char *to, unsigned int len);

/* Sets one number among the keys of a GPU; 4 unless the process is root. Blocks. */
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
