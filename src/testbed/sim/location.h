/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the state of a simulated node is, and how it is created.
 *
 *	GPUSLICE_SIM_NODE  a model of the catalogue, or the path of a node file
 *	GPUSLICE_SIM_DIR   the directory of the node's state; without it
 *	                   $XDG_RUNTIME_DIR/gpuslice-sim/NAME or /tmp/gpuslice-sim-UID/NAME
 *	GPUSLICE_SIM_SEED  a number: changes the UUIDs and serial numbers of a model's node
 *	GPUSLICE_SIM_DEV   a container's /dev, for the library. A GPU exists only if its nvidiaN is there,
 *	                   a MIG device only if its two nvidia-caps/nvidia-capN are; with nvidia-cap2 all
 *	                   MIG devices of those GPUs exist. A change of MIG then needs nvidia-cap1, as in the
 *	                   kernel. Without the variable the process is on the host.
 *
 * The first process that asks creates the state from the node model. Later processes share it. If the directory
 * was made from another node than the requested one, that is an error.
 *
 *	DIR/state   testbed/sim/state.h
 *	DIR/sys     what the kernel would show: sys/bus/pci/devices/0000:00:1e.0/numa_node …
 *	DIR/dev     nvidia0 …, nvidiactl, nvidia-uvm … as plain files
 *	DIR/proc    what the driver shows of MIG, see testbed/sim/fake-root/fake-root.h; device nodes in DIR/dev/nvidia-caps
 *	DIR/usr     the driver's libraries and programs as stubs, except the MPS programs, which run the
 *	            simulated ones; the driver's firmware in DIR/lib
 *
 * Thread: any. Blocks on files.
 */
#include "testbed/sim/state.h"

#define SIM_ENV_NODE "GPUSLICE_SIM_NODE"
#define SIM_ENV_DIR  "GPUSLICE_SIM_DIR"
#define SIM_ENV_SEED "GPUSLICE_SIM_SEED"
#define SIM_ENV_DEV  "GPUSLICE_SIM_DEV"

/* Reads a node file: sim_node_file_load(), or a function that loads the plug-in with it. */
typedef int sim_node_file_fn(const char *path, struct sim_node *node, struct error *err);

/* The requested node; empty text where the variable is unset or empty. */
struct sim_location {
	char dir[SIM_PATH_MAX];  /* absolute or as given; "" if neither variable is set */
	char node[SIM_PATH_MAX]; /* model name, or the real path of a node file */
	bool is_file;
	char dev[SIM_PATH_MAX]; /* "": on the host */
	uint64_t seed;          /* of a model; a node file has its own seed */
};

/* Reads the variables through @env (NULL: getenv). */
int sim_location_from_env(struct sim_location *location, const char *(*env)(const char *name),
	struct error *err) MUST_USE;

/* The location of an explicit node and directory; either may be NULL. */
int sim_location_resolve(struct sim_location *location, const char *node, const char *dir,
	struct error *err) MUST_USE;

/*
 * Opens the state, and creates it if a node is named. Returns 0; SIM_LOCATION_E_NONE if there is no state and no
 * node is named; < 0 with @err set.
 */
#define SIM_LOCATION_E_NONE 1
int sim_location_open(const struct sim_location *location, sim_node_file_fn *load,
	struct sim_state **ret, struct error *err) MUST_USE;

/* Builds the node that @location names. */
int sim_location_build(const struct sim_location *location, sim_node_file_fn *load,
	struct sim_node *node, struct error *err) MUST_USE;

/* Writes DIR/sys and DIR/dev for the node's GPUs and the driver's files; existing files stay. */
int sim_fake_root_write(const char *dir, const struct sim_node *node,
	struct error *err) MUST_USE;

/* Removes the files of one GPU. */
void sim_fake_root_remove(const char *dir, const struct sim_keys *keys);
