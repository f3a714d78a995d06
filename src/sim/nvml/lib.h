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
 * A handle is a number, not a pointer: a tag, the slot and the epoch of the GPU in it, and room for
 * the instance ids of MIG. A stale one is told from a good one without memory being touched.
 *
 * As a guest in other programs the library never exits, never asserts, installs no handlers but
 * for fork, and writes to stderr only why init was refused, at most 16 lines a process.
 * Thread: any, but for what is said below.
 */
#include "gpu/nvml-api.h"
#include "sim/derive.h"
#include "sim/nvml/prototypes.h"
#include "sim/nvml/stub.h"
#include "sim/state.h"

struct handle {
	uint32_t slot, epoch;
};

nvmlDevice_t handle_of(struct handle h);
bool handle_read(nvmlDevice_t d, struct handle *ret); /* false: not one of ours */

/* NVML_SUCCESS once initialized, with the state in *ret, which stays mapped for good. */
nvmlReturn_t lib_enter(const struct sim_state **ret);

/* The same, and reads the head of the node, with its slots. 9 if the driver is unloaded. */
nvmlReturn_t lib_enter_node(bool args_ok, const struct sim_state **ret,
	struct sim_node_head *head);

/*
 * The start of a function on one GPU: all checks of the list above. @args_ok: the function's own
 * look at its arguments. On success *g is the GPU without its process table.
 */
nvmlReturn_t gpu_enter(nvmlDevice_t d, enum sim_group group, bool args_ok, struct sim_gpu *g);

/* The same with the process table. */
nvmlReturn_t gpu_enter_all(nvmlDevice_t d, enum sim_group group, bool args_ok,
	struct sim_gpu *g);

/* The slot of a handle that gpu_enter() has accepted. */
uint32_t gpu_slot(nvmlDevice_t d);

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
