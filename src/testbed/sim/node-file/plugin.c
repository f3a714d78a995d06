/* SPDX-License-Identifier: Apache-2.0 */

/*
 * gpuslice-sim-node-file.so: reads node files for the simulated libnvidia-ml.so.1. That library loads the plug-in
 * from its own directory when it builds a node from a YAML file. So only users of YAML need libfyaml on the
 * machine.
 */
#include "testbed/sim/node-file/node-file.h"

__attribute__((visibility("default"))) int gpuslice_sim_node_file_load(const char *path,
	struct sim_node *node, struct error *err);

int gpuslice_sim_node_file_load(const char *path, struct sim_node *node, struct error *err)
{
	return sim_node_file_load(path, node, err);
}
