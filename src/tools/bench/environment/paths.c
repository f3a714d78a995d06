/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the programs and libraries of a benchmark, in an installation or a build tree (environment.h). */
#include "tools/bench/environment/environment.h"

#include "lib/base/paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIB "../lib/gpuslice"

/* Finds the first existing file of the two, relative to the directory of this program. */
static int find_installed_file(char ret[PATH_MAX], const char *exe, const char *installed,
	const char *built, struct error *err)
{
	const char *const below[] = { installed, built };

	for (size_t i = 0; i < ARRAY_LEN(below); i++) {
		char path[PATH_MAX];
		int len = snprintf(path, sizeof(path), "%s/%s", exe, below[i]);

		if (len > 0 && (size_t)len < sizeof(path) && realpath(path, ret))
			return 0;
	}
	return error_set(err, ERR_NOT_FOUND, "no %s beside this program, nor %s", installed,
		built);
}

static void strip_file_name(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		*slash = '\0';
}

/* An installation has all libraries of the simulator in one directory. */
static int find_simulator_libraries(struct environment_paths *p, const char *exe,
	struct error *err)
{
	char cuda[PATH_MAX], nvml[PATH_MAX];

	if (find_installed_file(cuda, exe, LIB "/sim/libcuda.so.1",
		    "../../testbed/sim/cuda/libcuda.so.1", err) < 0 ||
		find_installed_file(nvml, exe, LIB "/sim/libnvidia-ml.so.1",
			"../../testbed/sim/nvml/libnvidia-ml.so.1", err) < 0 ||
		find_installed_file(p->sim_mps, exe, LIB "/sim/nvidia-cuda-mps-control",
			"../../testbed/sim/mps/nvidia-cuda-mps-control", err) < 0)
		return -1;
	strip_file_name(cuda);
	strip_file_name(nvml);
	(void)snprintf(p->sim, sizeof(p->sim), "%s%s%s", cuda, strcmp(cuda, nvml) ? ":" : "",
		strcmp(cuda, nvml) ? nvml : "");
	return 0;
}

int environment_paths_find(struct environment_paths *p, bool simulated, struct error *err)
{
	char exe[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	*p = (struct environment_paths){ .sim = "" };
	if (len < 0)
		return error_sys(err, errno, "read '/proc/self/exe'");
	exe[len] = '\0';
	strip_file_name(exe);
	if (libexec_find(p->load, "gpuslice-load", "tools/bench/load", err) < 0 ||
		libexec_find(p->arbiter, "gpuslice-arbiter", "node/arbiter", err) < 0 ||
		find_installed_file(p->cuda, exe, LIB "/libgpuslice-cuda.so",
			"../../container/libgpuslice-cuda.so", err) < 0 ||
		find_installed_file(p->nvml, exe, LIB "/libgpuslice-nvml.so",
			"../../container/libgpuslice-nvml.so", err) < 0)
		return -1;
	return simulated ? find_simulator_libraries(p, exe, err) : 0;
}
