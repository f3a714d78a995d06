/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/node-plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define PLUGIN_FILE "gpuslice-sim-node-file.so"

int sim_node_plugin_load(const char *path, struct sim_node *node, struct error *err)
{
	char plugin[SIM_PATH_MAX];
	sim_node_file_fn *fn = NULL;
	const char *slash;
	Dl_info info;
	void *h;

	if (!dladdr((const void *)sim_node_plugin_load, &info) ||
		!(slash = strrchr(info.dli_fname, '/')))
		return error_set(err, ERR_UNAVAILABLE, "cannot tell where this library lies");
	(void)snprintf(plugin, sizeof(plugin), "%.*s/" PLUGIN_FILE,
		(int)(slash - info.dli_fname), info.dli_fname);
	h = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
	if (h)
		*(void **)&fn = dlsym(h, "gpuslice_sim_node_file_load");
	if (!fn)
		return error_set(err, ERR_UNAVAILABLE,
			"node files need %s beside this library, or run gpuslice sim create first: %s",
			PLUGIN_FILE, dlerror());
	return fn(path, node, err);
}
