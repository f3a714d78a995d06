/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Probes the GPUs of this node once, or those of a simulated node that lives as long as the probe, for
 * commands that answer and end. Thread: main; blocks up to the time-outs of the NVML worker.
 */
#include "lib/base/option.h"
#include "model/gpu/gpu.h"

struct node_probe {
	struct inventory *inv; /* owned; NULL: NVML is unavailable */
	struct error nvml;     /* the reason */
};

struct node_roots {
	const char *sysfs, *procfs; /* NULL: "/sys", "/proc" */
};

/*
 * A model or library that the command line names must exist; else < 0. The driver's own NVML may be
 * missing: .inv is then NULL, and .nvml has the reason. @o has the options "node" and "nvml";
 * @driver_root and @roots may be NULL.
 */
int node_probe(struct node_probe *ret, const struct options *o, const char *driver_root,
	const struct node_roots *roots, struct error *err) MUST_USE;

/*
 * Uses a probed node. @root: the directory with the simulated node's files (dev, proc, sys, usr); NULL
 * for this node. Returns 0 or < 0.
 */
typedef int node_probe_fn(void *arg, const struct inventory *inv, const char *root,
	struct error *err);
/*
 * Like node_probe(), and calls @use with @arg while the node exists, if NVML answered. An error of @use is
 * returned.
 */
int node_probe_and_call(struct node_probe *ret, const struct options *o,
	const char *driver_root, const struct node_roots *roots, node_probe_fn *use, void *arg,
	struct error *err) MUST_USE;
