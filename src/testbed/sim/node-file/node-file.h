/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A custom node, in YAML:
 *
 *	version: v1
 *	model: p3.8xlarge         # or: product: T4
 *	count: 6                  # the model's own number if absent
 *	seed: 7                   # other UUIDs and serial numbers than other nodes of this name
 *	driver: {version: 550.163.01, cuda: 12040, nvml: 12}
 *	gpu: {persistence: 0}     # any key of SIM_KEYS, for all GPUs
 *	gpus:                     # and for one of them
 *	- index: 1
 *	  product: T4
 *	  memory_total: 8Gi
 *	  fail: {power: NOT_SUPPORTED, energy: 999}
 *	- index: 2
 *	  product: A100-SXM4-40GB
 *	  mig: [3g.20gb@4, 2g.10gb, 1g.5gb]  # MIG on with these instances; [] with none
 *
 * Every error has file:line:column, the key, the expected and the found value. The parser needs libfyaml; the rest
 * of the simulator does not. Thread: any.
 */
#include "testbed/sim/model.h"

#define SIM_NODE_FILE_MAX_BYTES (1024 * 1024)

/* Builds a node from @text; @path is for messages and the node's name. */
int sim_node_parse(const char *text, size_t len, const char *path, struct sim_node *node,
	struct error *err) MUST_USE;

/* As sim_node_parse(), from a file. The plug-in that libnvidia-ml.so.1 loads exports it. */
int sim_node_file_load(const char *path, struct sim_node *node, struct error *err) MUST_USE;
