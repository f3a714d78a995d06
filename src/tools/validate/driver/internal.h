/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of the components driver and toolkit. Thread: main. */
#include "model/gpu/gpu.h"
#include "tools/validate/validate.h"

#include <limits.h>

/* --- the driver's user space --- */

/*
 * Finds the driver's user space: on the node itself, or in the root of a driver container. Paths
 * resolve as in the root's own programs: a symlink to /etc/alternatives leads to that directory below
 * the root, not to this process's.
 */

enum driver_root_kind {
	DRIVER_ROOT_NONE, /* no nvidia-smi anywhere: only NVML decides */
	DRIVER_ROOT_HOST,
	DRIVER_ROOT_CONTAINER,
};

struct driver_root {
	enum driver_root_kind kind;
	bool wsl;
	const char *node, *here; /* the root on the node, and in this process; borrowed */
	char smi[PATH_MAX];      /* "/usr/bin/nvidia-smi", below the root; "": none */
	/* In a container's root: libnvidia-ml.so.1, in this process's view. */
	char library[PATH_MAX];
	char note[192]; /* a file that was found and is unusable; "" */
};

/*
 * Looks for nvidia-smi in the node's root, then for the driver in the driver container's root. *ret borrows
 * from @s.
 */
void driver_root_find(const struct validate_settings *s, struct driver_root *ret);

/* The root whose dev/ has the device nodes: the driver container's if it has dev/, else the node's. */
void driver_root_dev(const struct validate_settings *s, const struct driver_root *root,
	const char **ret_node, const char **ret_here);

/* Runs nvidia-smi as a program of its root; @version: only --version. */
int driver_root_smi(const struct driver_root *root, bool version, uint64_t timeout_ns,
	struct error *err) MUST_USE;

/* Whether @text has "GDS_ENABLED: true" or "GDS_ENABLED=true" for @name, on a line; ignores case and
 * quotes of the value. @text is the driver container's .driver-ctr-ready. */
bool driver_flag(const char *text, const char *name);

/* --- device nodes --- */

/*
 * NVIDIA's character devices of a root, and the links to them in /dev/char.
 *
 * systemd resolves the device rules of a container through /dev/char. udev does not make the driver's
 * nodes, so their links are missing. Without the links, running containers lose their GPUs at the next
 * daemon-reload ("Failed to initialize NVML: Unknown Error").
 */

/*
 * Checks that @dev_dir has the control nodes and the nodes of the GPUs in @inv. @make: makes missing
 * nodes, with the major numbers of @proc_devices ("/proc/devices"). Without @all the nodes that only
 * CUDA needs (nvidia-uvm*) may be missing. ERR_NOT_FOUND names the first missing node.
 */
int dev_nodes_check(const char *dev_dir, const char *proc_devices, const struct inventory *inv,
	bool make, bool all, struct error *err) MUST_USE;

/*
 * Links @char_dir/MAJOR:MINOR to @target_dir/NAME for each NVIDIA node of @dev_dir, nvidia-caps*
 * included. Correct links stay; a rename replaces a wrong link; other files are left alone. *ret_made
 * is the number of links made.
 */
int dev_char_link(const char *dev_dir, const char *char_dir, const char *target_dir,
	unsigned *ret_made, struct error *err) MUST_USE;
