/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/options.h"

#include "lib/base/paths.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_MS 300000

const struct option_def metrics_option_defs[] = {
	{ .name = "metrics-collectors",
		.alias = "collectors",
		.letter = 'f',
		.type = OPTION_STR,
		.env = { "GPUSLICE_METRICS_COLLECTORS", "DCGM_EXPORTER_COLLECTORS" },
		.arg = "FILE",
		.def = "",
		.help = "counters file of dcgm-exporter; empty: its default set, built in" },
	{ .name = "configmap-data",
		.letter = 'm',
		.type = OPTION_STR,
		.env = { "DCGM_EXPORTER_CONFIGMAP_DATA" },
		.arg = "NAMESPACE:NAME",
		.def = "none",
		.help = "ConfigMap with the counters in its key metrics, which go before the file" },
	{ .name = "metrics-hostname-label",
		.type = OPTION_STR,
		.env = { "GPUSLICE_METRICS_HOSTNAME_LABEL" },
		.arg = "NAME",
		.def = "Hostname",
		.help = "label of DCGM series with the node's name: Hostname, hostname or none" },
	{ .name = "no-hostname",
		.letter = 'n',
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "DCGM_EXPORTER_NO_HOSTNAME" },
		.def = "false",
		.help = "as --metrics-hostname-label none" },
	{ .name = "use-old-namespace",
		.letter = 'o',
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "DCGM_EXPORTER_USE_OLD_NAMESPACE" },
		.def = "false",
		.help = "old labels of DCGM series: uuid, pod_name, pod_namespace, container_name" },
	{ .name = "kubernetes",
		.letter = 'k',
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "DCGM_EXPORTER_KUBERNETES" },
		.def = "true",
		.help = "say in the metrics which pod and container uses what" },
	{ .name = "kubernetes-enable-pod-uid",
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID" },
		.def = "false",
		.help = "also with the label pod_uid" },
	{ .name = "kubernetes-enable-pod-labels",
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS" },
		.def = "false",
		.help = "also with the labels of the pod, from the API server" },
	{ .name = "kubernetes-pod-label-allowlist-regex",
		.type = OPTION_LIST,
		.env = { "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX" },
		.arg = "LIST",
		.def = "",
		.help = "regular expressions, of which one matches the key of each such label" },
	{ .name = "kubernetes-virtual-gpus",
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "KUBERNETES_VIRTUAL_GPUS" },
		.def = "false",
		.help = "repeat the DCGM series of a shared GPU for each pod, with the label vgpu" },
	{ .name = "devices",
		.letter = 'd',
		.type = OPTION_STR,
		.env = { "DCGM_EXPORTER_DEVICES_STR" },
		.arg = "DEVICES",
		.def = "f",
		.help = "devices with DCGM series: f, g[:0,2-4] (GPUs) or i[:0-6] (GPU instances)" },
	{ .name = "xid-count-window-size",
		.letter = 'x',
		.type = OPTION_UINT,
		.secondary = true,
		.env = { "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE" },
		.arg = "MILLISECONDS",
		.def = "300000",
		.help = "window of DCGM_EXP_XID_ERRORS_COUNT" },
	{ .name = "clock-events-count-window-size",
		.type = OPTION_UINT,
		.secondary = true,
		.env = { "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE" },
		.arg = "MILLISECONDS",
		.def = "300000",
		.help = "window of DCGM_EXP_CLOCK_EVENTS_COUNT" },
	{ .name = "web-config-file",
		.type = OPTION_STR,
		.env = { "DCGM_EXPORTER_WEB_CONFIG_FILE" },
		.arg = "FILE",
		.def = "",
		.help = "certificate and key in exporter-toolkit's YAML; no users with passwords" },
	{ .name = "replace-blanks-in-model-name",
		.type = OPTION_BOOL,
		.secondary = true,
		.def = "false",
		.help = "'-' for each blank in the label modelName" },
	{ .name = "nvidia-resource-names",
		.type = OPTION_LIST,
		.env = { "NVIDIA_RESOURCE_NAMES" },
		.arg = "LIST",
		.def = "",
		.help = "accepted; pods are known by all resources that the agent offers" },
	{ .name = "metrics-per-instance-board",
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "GPUSLICE_METRICS_PER_INSTANCE_BOARD" },
		.def = "false",
		.help = "repeat the values of a board in MIG mode for each GPU instance" },
	{ .name = "metrics-gpm-raw-units",
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "GPUSLICE_METRICS_GPM_RAW_UNITS" },
		.def = "false",
		.help = "DCGM_FI_PROF_*_BYTES in MiB/s, as dcgm-exporter has them on Hopper" },
	{ .name = "metrics-opencost",
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "GPUSLICE_METRICS_OPENCOST" },
		.def = "true",
		.help = "write node_gpu_hourly_cost, node_gpu_count and container_gpu_allocation" },
};
const size_t metrics_n_option_defs = ARRAY_LEN(metrics_option_defs);

/* What only dcgm-exporter reads, and what to do instead. @usual: the value that asks for nothing. */
static const struct {
	const char *env, *usual, *why;
} not_here[] = {
	{ "DCGM_EXPORTER_ENABLE_DCGM_LOG", "false", "there is no DCGM" },
	{ "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE", "uid", "all forms of device ids are known" },
	{ "DCGM_EXPORTER_OTHER_DEVICES_STR", "f", "NVSwitches are not seen by NVML" },
	{ "DCGM_EXPORTER_CPU_DEVICES_STR", "f", "CPUs are not seen by NVML" },
	{ "DCGM_HPC_JOB_MAPPING_DIR", "", "jobs of batch systems are not mapped" },
	{ "DCGM_POD_RESOURCES_KUBELET_SOCKET",
		DEFAULT_KUBELET_DIR "/pod-resources/kubelet.sock", "use --kubelet-dir" },
	{ "DCGM_REMOTE_HOSTENGINE_INFO", "", "there is no host engine: NVML is asked" },
	{ "KUBERNETES_ENABLE_DRA", "false", "devices of resource claims are known without" },
};

void metrics_options_default(struct metrics_options *ret)
{
	*ret = (struct metrics_options){
		.kubernetes = true,
		.opencost = true,
		.xid_window_ns = WINDOW_MS * NS_PER_MS,
		.clock_window_ns = WINDOW_MS * NS_PER_MS,
		.devices = { .gpus = true, .instances = true },
		.collectors = "",
		.config_map = "none",
	};
}

/* --- devices --- */

static int bad_devices(const char *text, struct error *err)
{
	return error_set(err, ERR_INVALID,
		"devices: expected f, g, i, or one of g and i with numbers such as g:0,2-4, found "
		"'%.100s'",
		text);
}

static bool parse_range(const char *text, struct metrics_range *ret)
{
	char first[16];
	const char *dash = strchr(text, '-');
	size_t len = dash ? (size_t)(dash - text) : strlen(text);

	if (len >= sizeof(first))
		return false;
	(void)snprintf(first, sizeof(first), "%.*s", (int)len, text);
	if (!parse_u32(first, &ret->first))
		return false;
	ret->last = ret->first;
	return !dash || (parse_u32(dash + 1, &ret->last) && ret->last >= ret->first);
}

int metrics_devices_parse(struct metrics_devices *ret, const char *text, struct error *err)
{
	struct metrics_devices d = { .gpus = *text == 'g' || *text == 'f',
		.instances = *text == 'i' || *text == 'f' };
	CLEANUP(strv_fini) struct strv parts = STRV_INIT;

	if ((!d.gpus && !d.instances) || (text[1] && (text[1] != ':' || *text == 'f')))
		return bad_devices(text, err);
	if (text[1] && strv_split(&parts, text + 2, ',', err) < 0)
		return -1;
	if (parts.n > METRICS_RANGES_MAX)
		return error_set(err, ERR_LIMIT,
			"devices: expected at most %u ranges, found %zu", METRICS_RANGES_MAX,
			parts.n);
	for (size_t i = 0; i < parts.n; i++)
		if (!parse_range(parts.v[i], &d.ranges[d.n_ranges++]))
			return bad_devices(text, err);
	*ret = d;
	return 0;
}

bool metrics_devices_have(const struct metrics_devices *d, bool instance, uint32_t number)
{
	if (instance ? !d->instances : !d->gpus)
		return false;
	for (uint32_t i = 0; i < d->n_ranges; i++)
		if (number >= d->ranges[i].first && number <= d->ranges[i].last)
			return true;
	return !d->n_ranges;
}

/* --- from options --- */

static int read_hostname(struct metrics_options *ret, const struct options *o,
	struct error *err)
{
	static const char *const names[] = {
		[METRICS_HOSTNAME] = "Hostname",
		[METRICS_HOSTNAME_LOWER] = "hostname",
		[METRICS_HOSTNAME_NONE] = "none",
	};
	const char *name = option_str(o, "metrics-hostname-label", "Hostname");
	size_t i = 0;

	while (i < ARRAY_LEN(names) && strcmp(names[i], name) != 0)
		i++;
	if (i == ARRAY_LEN(names))
		return error_set(err, ERR_INVALID,
			"--metrics-hostname-label: expected Hostname, hostname or none, found '%.80s'",
			name);
	ret->hostname = option_bool(o, "no-hostname", false) ? METRICS_HOSTNAME_NONE
							     : (enum metrics_hostname)i;
	return 0;
}

static int read_window(uint64_t *ret_ns, const struct options *o, const char *name,
	struct error *err)
{
	uint64_t ms = option_uint(o, name, WINDOW_MS);

	if (ms > UINT64_MAX / NS_PER_MS)
		return error_set(err, ERR_INVALID, "--%s: expected milliseconds, found %llu",
			name, (unsigned long long)ms);
	*ret_ns = ms * NS_PER_MS;
	return 0;
}

static const char *read_process_env(const char *name)
{
	return getenv(name);
}

static int warn_of_others(const char *(*env)(const char *name), struct strv *warnings,
	struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(not_here); i++) {
		const char *value = env(not_here[i].env);
		char text[200];

		if (!value || !*value || !strcmp(value, not_here[i].usual))
			continue;
		(void)snprintf(text, sizeof(text), "%s has no effect: %s", not_here[i].env,
			not_here[i].why);
		if (strv_add(warnings, text, err) < 0)
			return -1;
	}
	return 0;
}

int metrics_options_read(struct metrics_options *ret, const struct options *o,
	const char *(*env)(const char *name), struct strv *warnings, struct error *err)
{
	metrics_options_default(ret);
	if (read_hostname(ret, o, err) < 0 ||
		read_window(&ret->xid_window_ns, o, "xid-count-window-size", err) < 0 ||
		read_window(&ret->clock_window_ns, o, "clock-events-count-window-size", err) <
			0)
		return -1;
	ret->old_namespace = option_bool(o, "use-old-namespace", false);
	ret->kubernetes = option_bool(o, "kubernetes", true);
	ret->pod_uid = option_bool(o, "kubernetes-enable-pod-uid", false);
	ret->pod_labels =
		ret->kubernetes && option_bool(o, "kubernetes-enable-pod-labels", false);
	ret->pod_label_patterns = &option_get(o, "kubernetes-pod-label-allowlist-regex")->list;
	ret->virtual_gpus = option_bool(o, "kubernetes-virtual-gpus", false);
	ret->per_instance_board = option_bool(o, "metrics-per-instance-board", false);
	ret->replace_blanks_in_model_name =
		option_bool(o, "replace-blanks-in-model-name", false);
	ret->gpm_raw_units = option_bool(o, "metrics-gpm-raw-units", false);
	ret->opencost = option_bool(o, "metrics-opencost", true);
	ret->config_map = option_str(o, "configmap-data", "none");
	ret->collectors = option_str(o, "metrics-collectors", "");
	if (metrics_devices_parse(&ret->devices, option_str(o, "devices", "f"), err) < 0)
		return error_prefix(err, "--devices");
	return warn_of_others(env ? env : read_process_env, warnings, err);
}
