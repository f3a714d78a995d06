/* SPDX-License-Identifier: Apache-2.0 */

/*
 * gpuslice-sim-node-file.so: reads node files for the simulated libnvidia-ml.so.1, which loads it
 * from its own directory when it is to make a node from a YAML file. So only those who use YAML
 * need libfyaml on the machine.
 */
#include "testbed/sim/node-file/node-file.h"

__attribute__((visibility("default"))) int gpuslice_sim_node_file_load(const char *path,
	struct sim_node *node, struct error *err);

int gpuslice_sim_node_file_load(const char *path, struct sim_node *node, struct error *err)
{
	return sim_node_file_load(path, node, err);
}
