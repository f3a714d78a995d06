/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where a simulated node lives and how it comes into being.
 *
 *	GPUSLICE_SIM_NODE  a model of the catalogue, or the path of a node file
 *	GPUSLICE_SIM_DIR   the directory of the node's state; without it
 *	                   $XDG_RUNTIME_DIR/gpuslice-sim/NAME or /tmp/gpuslice-sim-UID/NAME
 *	GPUSLICE_SIM_SEED  a number: other UUIDs and serial numbers than another node of the model
 *
 *	GPUSLICE_SIM_DEV   a container's /dev, for the library: only GPUs whose nvidiaN is there exist,
 *	                   and MIG devices whose two nvidia-caps/nvidia-capN are; with nvidia-cap2 all
 *	                   MIG devices of those GPUs. Changing MIG then needs nvidia-cap1. As the kernel
 *	                   would have it; without the variable the process is on the host.
 *
 * The first who asks creates the state from the node model; everybody later shares it. A directory
 * that was made from another node than the one asked for is an error, never a mixture.
 *
 *	DIR/state   testbed/sim/state.h
 *	DIR/sys     what the kernel would show: sys/bus/pci/devices/0000:00:1e.0/numa_node …
 *	DIR/dev     nvidia0 …, nvidiactl, nvidia-uvm … as plain files
 *	DIR/proc    what the driver shows of MIG, see testbed/sim/fake-root/fake-root.h; device nodes in DIR/dev/nvidia-caps
 *	DIR/usr     the driver's libraries and programs, by name only but for those of MPS, which lead to ours; its
 *	            firmware in DIR/lib
 */
#include "testbed/sim/state.h"

#define SIM_ENV_NODE "GPUSLICE_SIM_NODE"
#define SIM_ENV_DIR  "GPUSLICE_SIM_DIR"
#define SIM_ENV_SEED "GPUSLICE_SIM_SEED"
#define SIM_ENV_DEV  "GPUSLICE_SIM_DEV"

/* How to read a node file: sim_node_file_load(), or a loader of the plug-in that has it. */
typedef int sim_node_file_fn(const char *path, struct sim_node *node, struct error *err);

/* What was asked for; empty text where the variable is unset or empty. */
struct sim_location {
	char dir[SIM_PATH_MAX];  /* absolute or as given; "" if neither variable is set */
	char node[SIM_PATH_MAX]; /* model name, or the real path of a node file */
	bool is_file;
	char dev[SIM_PATH_MAX]; /* "": on the host */
	uint64_t seed;          /* of a model; a node file has its own */
};

/* Reads the variables through @env (NULL: getenv). */
int sim_location_from_env(struct sim_location *location, const char *(*env)(const char *name),
	struct error *err) MUST_USE;

/* The same for an explicit node and directory; either may be NULL. */
int sim_location_resolve(struct sim_location *location, const char *node, const char *dir,
	struct error *err) MUST_USE;

/*
 * Opens the state, creating it if a node is named. Returns 0; SIM_LOCATION_E_NONE if there is no state
 * and none was asked for; < 0 with @err set.
 */
#define SIM_LOCATION_E_NONE 1
int sim_location_open(const struct sim_location *location, sim_node_file_fn *load,
	struct sim_state **ret, struct error *err) MUST_USE;

/* Builds the node that @location names. */
int sim_location_build(const struct sim_location *location, sim_node_file_fn *load,
	struct sim_node *node, struct error *err) MUST_USE;

/* Writes DIR/sys and DIR/dev for the node's GPUs and the driver's files; what is there stays. */
int sim_fake_root_write(const char *dir, const struct sim_node *node,
	struct error *err) MUST_USE;

/* Takes one GPU's files away again. */
void sim_fake_root_remove(const char *dir, const struct sim_keys *keys);
