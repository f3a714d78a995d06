/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/node-probe.h"

#include "lib/base/fd.h"
#include "lib/base/paths.h"
#include "io/nvml/monitor/monitor.h"
#include "testbed/sim/control/control.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef GPUSLICE_SIM_LIBDIR
#	define GPUSLICE_SIM_LIBDIR ""
#endif
#define SIM_LIBRARY "libnvidia-ml.so.1"
#define TMPDIR_MAX  512 /* bytes; files are some levels below */

/* Finds the simulated NVML, relative to this program: in ../../testbed/sim/nvml of a build, or where it is installed. */
static int find_sim_nvml(char *ret, size_t cap, struct error *err)
{
	char exe[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (len < 0)
		return error_sys(err, errno, "read '/proc/self/exe'");
	exe[len] = '\0';
	slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	(void)snprintf(ret, cap, "%.3000s/../../testbed/sim/nvml/" SIM_LIBRARY, exe);
	if (access(ret, R_OK) == 0)
		return 0;
	(void)snprintf(ret, cap, "%.3000s/../" GPUSLICE_SIM_LIBDIR "/" SIM_LIBRARY, exe);
	if (access(ret, R_OK) == 0)
		return 0;
	return error_set(err, ERR_NOT_FOUND,
		"--node: the simulator's " SIM_LIBRARY
		" is not installed beside this program; --nvml "
		"names another place");
}

/* Probes a simulated node that lives as long as this call. */
static int probe_model_node(struct node_probe *l, const char *model, const char *nvml,
	node_probe_fn *use, void *arg, struct error *err)
{
	char library[PATH_MAX], dir[PATH_MAX], sysfs[PATH_MAX], procfs[PATH_MAX];
	CLEANUP(temp_dir_remove) struct temp_dir tmp = TEMP_DIR_INIT;
	CLEANUP(sim_control_close) struct sim_control node = { .state = NULL };
	struct gpu_monitor_options options = { .nvml_path = library,
		.sysfs_root = sysfs,
		.procfs_root = procfs };
	int r;

	if (nvml)
		(void)snprintf(library, sizeof(library), "%s", nvml);
	else if (find_sim_nvml(library, sizeof(library), err) < 0)
		return -1;
	if (temp_dir_make(&tmp, "gpuslice-look.", TMPDIR_MAX, err) < 0 ||
		path_join(dir, sizeof(dir), tmp.path, "node", err) < 0 ||
		path_join(sysfs, sizeof(sysfs), dir, "sys", err) < 0 ||
		path_join(procfs, sizeof(procfs), dir, "proc", err) < 0 ||
		dir_make(dir, 0700, err) < 0)
		return -1;
	(void)setenv("GPUSLICE_SIM_NODE", model, 1);
	(void)setenv("GPUSLICE_SIM_DIR", dir, 1);
	/* Created here, so that a wrong model gives an error of this command, not of NVML. */
	r = sim_control_create(&node, model, dir, /* force= */ false, /* seed= */ 0, err);
	if (r >= 0)
		r = gpu_inventory_once(&l->inv, &options, err);
	if (r >= 0 && use)
		r = use(arg, l->inv, dir, err);
	return r < 0 ? error_prefix(err, "--node %s", model) : 0;
}

int node_probe(struct node_probe *ret, const struct options *o, const char *driver_root,
	const struct node_roots *roots, struct error *err)
{
	return node_probe_and_call(ret, o, driver_root, roots, NULL, NULL, err);
}

int node_probe_and_call(struct node_probe *ret, const struct options *o,
	const char *driver_root, const struct node_roots *roots, node_probe_fn *use, void *arg,
	struct error *err)
{
	const char *node = option_str(o, "node", NULL), *nvml = option_str(o, "nvml", NULL);
	bool named = option_get(o, "nvml")->source == OPTION_FROM_ARGS;
	struct gpu_monitor_options options = { .nvml_path = nvml,
		.driver_root = driver_root,
		.sysfs_root = roots ? roots->sysfs : NULL,
		.procfs_root = roots ? roots->procfs : NULL };

	*ret = (struct node_probe){ .inv = NULL };
	if (node)
		return probe_model_node(ret, node, named ? nvml : NULL, use, arg, err);
	if (gpu_inventory_once(&ret->inv, &options, &ret->nvml) >= 0)
		return use ? use(arg, ret->inv, NULL, err) : 0;
	if (!named)
		return 0;
	error_copy(err, &ret->nvml);
	return -1;
}
