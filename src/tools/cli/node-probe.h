/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One look at the GPUs of this node, or of a simulated one that lives as long as the look: for
 * commands that answer and end. Thread: main; blocks up to the time-outs of the NVML worker.
 */
#include "lib/base/option.h"
#include "model/gpu/gpu.h"

struct node_probe {
	struct inventory *inv; /* yours; NULL: NVML cannot be asked */
	struct error nvml;     /* why not */
};

/*
 * What the command line names (a model, a library) must be there: else < 0. The driver's own NVML
 * may be missing: .inv is then NULL and .nvml says why. @o has options "node" and "nvml";
 * @driver_root and @roots may be NULL.
 */
struct node_roots {
	const char *sysfs, *procfs; /* NULL: "/sys", "/proc" */
};

int node_probe(struct node_probe *ret, const struct options *o, const char *driver_root,
	const struct node_roots *roots, struct error *err) MUST_USE;

/*
 * The same, and calls @use while the node is there, if there are GPUs to look at: @root has the
 * simulated node's files (dev, proc, sys, usr), and is NULL for this node. What @use returns < 0 is passed
 * on.
 */
typedef int node_probe_fn(void *arg, const struct inventory *inv, const char *root,
	struct error *err);
int node_probe_and_call(struct node_probe *ret, const struct options *o,
	const char *driver_root, const struct node_roots *roots, node_probe_fn *use, void *arg,
	struct error *err) MUST_USE;
