/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the driver's user space: on the node itself, or in the root of a driver container. Paths
 * resolve as in the root's own programs: a symlink to /etc/alternatives leads to that directory below
 * the root, not to this process's. Thread: main.
 */
#include "tools/validate/validate.h"

#include <limits.h>

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
	char library
		[PATH_MAX]; /* in a container's root: libnvidia-ml.so.1, in this process's view */
	char note[192];     /* a file that was found and is unusable; "" */
};

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
