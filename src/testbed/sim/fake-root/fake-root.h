/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files that a node with a driver has besides its state, for programs that search for them: what the kernel
 * shows of each GPU, device nodes as plain files, and the driver's libraries, which have names but no code. Inside
 * src/testbed/sim only. Thread: any.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sim_node;

/* Writes DIR/name if it does not exist, whole or not at all: several processes may call it at once. */
int sim_fake_file(const char *dir, const char *name, const void *data, size_t len, mode_t mode,
	struct error *err) MUST_USE;

/* Libraries, programs and firmware of a driver of @version below @dir; existing files stay. */
int sim_fake_driver_write(const char *dir, const char *version, struct error *err) MUST_USE;
void sim_fake_driver_remove(const char *dir, const char *version);

/*
 * The capability files of MIG, as the driver shows them:
 *
 *	DIR/proc/driver/nvidia-caps/mig-minors                       the minor numbers of all possible ones
 *	DIR/proc/driver/nvidia/capabilities/mig/config, monitor
 *	DIR/proc/driver/nvidia/capabilities/gpuN/mig/giX/access      N: the GPU's minor number
 *	DIR/proc/driver/nvidia/capabilities/gpuN/mig/giX/ciY/access
 *	DIR/dev/nvidia-caps/nvidia-capM                              M: its minor number
 *
 * The numbers are those of the driver: config 1, monitor 2, then 135 for each GPU, 9 for each GPU instance.
 */
#define SIM_CAP_CONFIG  1
#define SIM_CAP_MONITOR 2

/* The minor number of an instance's node; @ci SIM_NO_INSTANCE: of the GPU instance. */
uint32_t sim_cap_minor(uint32_t gpu_minor, uint32_t gi, uint32_t ci);

/* The files that exist without instances. None if no GPU of the node has MIG. */
int sim_caps_write_static(const char *dir, const struct sim_node *node,
	struct error *err) MUST_USE;

/*
 * Creates the missing files of instances of the GPU in @slot, or of all GPUs (SIM_ALL_SLOTS). The flag recreates
 * the existing files too, as a killed writer may have left some incomplete.
 */
int sim_caps_add(const char *dir, const struct sim_node *node, uint32_t slot, bool recreate,
	struct error *err) MUST_USE;

/* Removes the files of instances that the node does not have. */
void sim_caps_remove(const char *dir, const struct sim_node *node);
