/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * NVIDIA's character devices of a root, and the links to them in /dev/char.
 *
 * systemd resolves the device rules of a container through /dev/char. Without the links, GPUs
 * vanish from running containers at the next daemon-reload ("Failed to initialize NVML: Unknown
 * Error"), since the driver's nodes are not made by udev. Thread: main.
 */
#include "model/gpu/gpu.h"

/*
 * Whether the control nodes and those of the GPUs in @inv are in @dev_dir. With @make, missing ones
 * are made, with the major numbers of @proc_devices ("/proc/devices"). ERR_NOT_FOUND names the
 * first that is missing. Without @all the ones that only CUDA needs (nvidia-uvm*) may miss.
 */
int dev_nodes_check(const char *dev_dir, const char *proc_devices, const struct inventory *inv,
	bool make, bool all, struct error *err) MUST_USE;

/*
 * Links @char_dir/MAJOR:MINOR to @target_dir/NAME for each NVIDIA node of @dev_dir; nvidia-caps* as
 * well. Right links stay, wrong ones are replaced in one step, what is no link is left alone.
 * *ret_made is how many were made.
 */
int dev_char_link(const char *dev_dir, const char *char_dir, const char *target_dir,
	unsigned *ret_made, struct error *err) MUST_USE;
