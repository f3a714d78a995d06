/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the driver's user space is: on the node itself, or in the root of a driver container. Paths
 * are looked up as the root's own programs would see them: a link to /etc/alternatives leads to
 * that below the root, never to ours. Thread: main.
 */
#include "tools/validate/validate.h"

#include <limits.h>

enum driver_root_kind {
	DRIVER_ROOT_NONE, /* no nvidia-smi anywhere: NVML alone decides */
	DRIVER_ROOT_HOST,
	DRIVER_ROOT_CONTAINER,
};

struct driver_root {
	enum driver_root_kind kind;
	bool wsl;
	const char *node, *here; /* the root on the node and in this process; borrowed */
	char smi[PATH_MAX];      /* "/usr/bin/nvidia-smi", below the root; "": none */
	char library
		[PATH_MAX]; /* of a container root: libnvidia-ml.so.1, as this process sees it */
	char note[192];     /* what was found and not usable; "" */
};

void driver_root_find(const struct validate_settings *s, struct driver_root *ret);

/* The root whose dev/ has the device nodes: the driver's if it has one, else the node's. */
void driver_root_dev(const struct validate_settings *s, const struct driver_root *root,
	const char **ret_node, const char **ret_here);

/* Runs nvidia-smi as its root's program; --version only if @version. */
int driver_root_smi(const struct driver_root *root, bool version, uint64_t timeout_ns,
	struct error *err) MUST_USE;

/* "GDS_ENABLED: true" or "GDS_ENABLED=true", a line each; case and quotes of the value do not
 * count. What the driver container says of itself in .driver-ctr-ready. */
bool driver_flag(const char *text, const char *name);
