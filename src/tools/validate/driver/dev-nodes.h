/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * NVIDIA's character devices of a root, and the links to them in /dev/char.
 *
 * systemd resolves the device rules of a container through /dev/char. udev does not make the driver's
 * nodes, so their links are missing. Without the links, running containers lose their GPUs at the next
 * daemon-reload ("Failed to initialize NVML: Unknown Error"). Thread: main.
 */
#include "model/gpu/gpu.h"

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
