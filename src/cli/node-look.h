/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One look at the GPUs of this node, or of a simulated one that lives as long as the look: for
 * commands that answer and end. Thread: main; blocks up to the time-outs of the NVML worker.
 */
#include "base/option.h"
#include "core/gpu.h"

struct node_look {
	struct inventory *inv; /* yours; NULL: NVML cannot be asked */
	struct error nvml;     /* why not */
};

/*
 * What the command line names (a model, a library) must be there: else < 0. The driver's own NVML
 * may be missing: .inv is then NULL and .nvml says why. @o has options "node" and "nvml";
 * @driver_root and @sysfs may be NULL.
 */
int node_look(struct node_look *ret, const struct options *o, const char *driver_root,
	const char *sysfs, struct error *err) MUST_USE;
