/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/options.h"

#include "config/config.h"

#include <string.h>

static const struct option_def own[] = {
	{ .name = "nvml",
		.type = OPTION_STR,
		.env = { "GPUSLICE_NVML" },
		.arg = "PATH",
		.help = "NVML library to open, instead of looking for libnvidia-ml.so.1" },
	{ .name = "kubelet-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_KUBELET_DIR" },
		.arg = "DIR",
		.def = AGENT_KUBELET_DIR,
		.help = "the kubelet's directory, with device-plugins/ and pod-resources/" },
	{ .name = "run-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_RUN_DIR" },
		.arg = "DIR",
		.def = AGENT_RUN_DIR,
		.help = "where the status socket and the lock are" },
	{ .name = "listen",
		.type = OPTION_STR,
		.env = { "GPUSLICE_LISTEN" },
		.arg = "HOST:PORT",
		.def = "",
		.help = "serve /healthz, /readyz and /v1/status over TCP as well" },
	{ .name = "sysfs",
		.type = OPTION_STR,
		.env = { "GPUSLICE_SYSFS" },
		.arg = "DIR",
		.def = "/sys",
		.help = "where the NUMA node of a GPU is read" },
	{ .name = "log-level",
		.type = OPTION_STR,
		.env = { "GPUSLICE_LOG_LEVEL" },
		.arg = "LEVEL",
		.def = "info",
		.help = "error, warn, info or debug" },
	{ .name = "log-format",
		.type = OPTION_STR,
		.env = { "GPUSLICE_LOG_FORMAT" },
		.arg = "FORMAT",
		.def = "text",
		.help = "text or json" },
};

struct option_def *agent_options(size_t *ret_n)
{
	struct option_def *all = calloc(ARRAY_LEN(own) + config_n_options, sizeof(*all));

	if (!all)
		return NULL;
	memcpy(all, own, sizeof(own));
	memcpy(all + ARRAY_LEN(own), config_options, config_n_options * sizeof(*all));
	*ret_n = ARRAY_LEN(own) + config_n_options;
	return all;
}
