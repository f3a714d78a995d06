/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/options.h"

#include "abi/slice-dir.h"
#include "lib/base/paths.h"
#include "lib/base/option.h"
#include "lib/base/time.h"
#include "io/config/config.h"
#include "model/config/choice.h"
#include "io/kube-api/api.h"
#include "io/cdi/cdi.h"
#include "io/price/price.h"

#include <ctype.h>
#include <stdio.h>
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
		.def = DEFAULT_KUBELET_DIR,
		.help = "the kubelet's directory, with device-plugins/ and pod-resources/" },
	{ .name = "run-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_RUN_DIR" },
		.arg = "DIR",
		.def = DEFAULT_RUN_DIR,
		.help = "where the status socket and the lock are" },
	{ .name = "state-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_STATE_DIR" },
		.arg = "DIR",
		.def = SLICE_STATE_DIR,
		.help = "where slices are kept over reboots; the same path as on the host" },
	{ .name = "runtime-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_RUNTIME_DIR" },
		.arg = "DIR",
		.def = "",
		.help = "where the slice libraries are; empty: what belongs to this program" },
	{ .name = "slice-keep",
		.type = OPTION_DURATION,
		.secondary = true,
		.env = { "GPUSLICE_SLICE_KEEP" },
		.arg = "DURATION",
		.def = "10m",
		.help = "how long a slice is kept that no pod holds" },
	{ .name = "metrics",
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "GPUSLICE_METRICS" },
		.def = "true",
		.help = "measure the GPUs, account for them and show it; false: none of it" },
	{ .name = "metrics-listen",
		.type = OPTION_STR,
		.env = { "GPUSLICE_METRICS_LISTEN", "DCGM_EXPORTER_LISTEN" },
		.arg = "HOST:PORT",
		.def = AGENT_METRICS_LISTEN,
		.help = "where to serve /metrics, the status page and /api/v1; empty: nowhere" },
	{ .name = "metrics-token-file",
		.type = OPTION_STR,
		.env = { "GPUSLICE_METRICS_TOKEN_FILE" },
		.arg = "FILE",
		.def = "",
		.help = "bearer token that /metrics and /api/v1 want; empty: none" },
	{ .name = "metrics-cert-file",
		.type = OPTION_STR,
		.env = { "GPUSLICE_METRICS_CERT_FILE" },
		.arg = "FILE",
		.def = "",
		.help = "certificate to serve with TLS; empty: without" },
	{ .name = "metrics-key-file",
		.type = OPTION_STR,
		.env = { "GPUSLICE_METRICS_KEY_FILE" },
		.arg = "FILE",
		.def = "",
		.help = "its private key" },
	{ .name = "metrics-interval",
		.type = OPTION_DURATION,
		.secondary = true,
		.env = { "GPUSLICE_METRICS_INTERVAL" },
		.arg = "DURATION",
		.def = "5s",
		.help = "how often GPUs are measured and time is accounted; 1s to 5m" },
	{ .name = "ledger-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_LEDGER_DIR" },
		.arg = "DIR",
		.def = "",
		.help = "where the account of use and cost is kept; empty: the state directory" },
	{ .name = "price",
		.type = OPTION_STR,
		.env = { "GPUSLICE_PRICE" },
		.arg = "AMOUNT",
		.def = "",
		.help = "what this node costs per hour; empty: by its instance type" },
	{ .name = "currency",
		.type = OPTION_STR,
		.env = { "GPUSLICE_CURRENCY" },
		.arg = "CODE",
		.def = "USD",
		.help = "currency of --price" },
	{ .name = "instance-type",
		.type = OPTION_STR,
		.env = { "GPUSLICE_INSTANCE_TYPE" },
		.arg = "NAME",
		.def = "",
		.help = "instance type of this node; empty: as the Node's labels say" },
	{ .name = "region",
		.type = OPTION_STR,
		.env = { "GPUSLICE_REGION" },
		.arg = "NAME",
		.def = "",
		.help = "region of this node; empty: as the Node's labels say" },
	{ .name = "price-file",
		.type = OPTION_STR,
		.env = { "GPUSLICE_PRICE_FILE" },
		.arg = "FILE",
		.def = "",
		.help = "prices of instance types, before those of the built-in catalogue" },
	{ .name = "mps-control",
		.type = OPTION_STR,
		.env = { "GPUSLICE_MPS_CONTROL" },
		.arg = "PATH",
		.def = "",
		.help = "nvidia-cuda-mps-control; empty: what is in PATH or below the driver root" },
	{ .name = "cdi-dir",
		.type = OPTION_STR,
		.env = { "GPUSLICE_CDI_DIR" },
		.arg = "DIR",
		.def = CDI_DIR,
		.help = "where CDI specifications are written, for the strategies cdi-*" },
	{ .name = "listen",
		.type = OPTION_STR,
		.env = { "GPUSLICE_LISTEN" },
		.arg = "HOST:PORT",
		.def = "",
		.help = "serve /healthz and /readyz over TCP, for probes" },
	{ .name = "sysfs",
		.type = OPTION_STR,
		.env = { "GPUSLICE_SYSFS" },
		.arg = "DIR",
		.def = "/sys",
		.help = "where the NUMA node of a GPU is read" },
	{ .name = "procfs",
		.type = OPTION_STR,
		.env = { "GPUSLICE_PROCFS" },
		.arg = "DIR",
		.def = "/proc",
		.help = "where the capabilities of MIG instances are read" },
	{ .name = "config-dir",
		.type = OPTION_STR,
		.env = { "CONFIG_FILE_SRCDIR" },
		.arg = "DIR",
		.def = "",
		.help = "directory of named configs, of which the node's label chooses one" },
	{ .name = "config-map",
		.type = OPTION_STR,
		.env = { "GPUSLICE_CONFIG_MAP" },
		.arg = "[NAMESPACE/]NAME",
		.def = "",
		.help = "ConfigMap of named configs, read through the API server" },
	{ .name = "node-label",
		.type = OPTION_STR,
		.env = { "NODE_LABEL" },
		.arg = "KEY",
		.def = CONFIG_NODE_LABEL,
		.help = "node label that chooses the config" },
	{ .name = "default-config",
		.type = OPTION_STR,
		.env = { "DEFAULT_CONFIG" },
		.arg = "NAME",
		.def = "",
		.help = "config of a node without that label" },
	{ .name = "fallback-strategies",
		.type = OPTION_LIST,
		.env = { "FALLBACK_STRATEGIES" },
		.arg = "LIST",
		.def = "named,single",
		.help = "without label and default: named, single, empty, in this order" },
	{ .name = "kubeconfig",
		.type = OPTION_STR,
		.env = { "KUBECONFIG" },
		.arg = "FILE",
		.def = "",
		.help = "how to reach the API server; in a pod: its service account" },
	{ .name = "node-name",
		.type = OPTION_STR,
		.env = { "NODE_NAME" },
		.arg = "NAME",
		.def = "",
		.help = "name of this Node; the API server is not used without it" },
	{ .name = "namespace",
		.type = OPTION_STR,
		.env = { "NAMESPACE" },
		.arg = "NAME",
		.def = "",
		.help = "namespace of this pod; empty: as the service account says" },
	{ .name = "pod-name",
		.type = OPTION_STR,
		.env = { "POD_NAME" },
		.arg = "NAME",
		.def = "",
		.help = "name of this pod, which then owns its NodeFeature object" },
	{ .name = "labels",
		.type = OPTION_STR,
		.env = { "GPUSLICE_LABELS" },
		.arg = "WHERE",
		.def = "off",
		.help = "write labels about the GPUs: off, node, nfd or file" },
	{ .name = "startup-taint",
		.type = OPTION_STR,
		.env = { "GPUSLICE_STARTUP_TAINT" },
		.arg = "KEY",
		.def = AGENT_STARTUP_TAINT,
		.help = "taint to remove once all is registered; empty: none" },
	{ .name = "node-condition",
		.type = OPTION_STR,
		.secondary = true,
		.env = { "GPUSLICE_NODE_CONDITION" },
		.arg = "TYPE",
		.def = AGENT_NODE_CONDITION,
		.help = "condition of the Node that is False while a GPU needs a repair; empty: none" },
	{ .name = "mig-manager",
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "GPUSLICE_MIG_MANAGER" },
		.def = "false",
		.help = "make the MIG layout what the node's label nvidia.com/mig.config says" },
	{ .name = "mig-config-default",
		.type = OPTION_STR,
		.env = { "MIG_CONFIG_DEFAULT" },
		.arg = "NAME",
		.def = "",
		.help = "MIG layout of a node without that label; empty: leave MIG alone" },
	{ .name = "mig-config-file",
		.type = OPTION_STR,
		.env = { "MIG_CONFIG_FILE" },
		.arg = "FILE",
		.def = "",
		.help = "MIG layouts by name, or a directory with config.yaml; empty: built-in ones" },
	{ .name = "mig-config-map",
		.type = OPTION_STR,
		.env = { "GPUSLICE_MIG_CONFIG_MAP" },
		.arg = "[NAMESPACE/]NAME",
		.def = "",
		.help = "the same from the key config.yaml of a ConfigMap, through the API server" },
	{ .name = "mig-force",
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "GPUSLICE_MIG_FORCE" },
		.def = "false",
		.help = "destroy MIG devices also while they are in use" },
	{ .name = "mig-hooks-file",
		.type = OPTION_STR,
		.env = { "MIG_HOOKS_FILE" },
		.arg = "FILE",
		.def = "",
		.help = "hooks that run around each change of the MIG layout" },
	{ .name = "mig-with-reboot",
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "WITH_REBOOT" },
		.def = "false",
		.help = "reboot the host where a MIG mode cannot change without" },
	{ .name = "mig-reboot-command",
		.type = OPTION_STR,
		.env = { "GPUSLICE_MIG_REBOOT_COMMAND" },
		.arg = "COMMAND",
		.def = "",
		.help = "how; empty: systemctl reboot, in the host's root" },
	{ .name = "mig-shutdown-host-gpu-clients",
		.type = OPTION_BOOL,
		.secondary = true,
		.env = { "WITH_SHUTDOWN_HOST_GPU_CLIENTS" },
		.def = "false",
		.help = "stop systemd services of the host while MIG devices go" },
	{ .name = "mig-gpu-clients-file",
		.type = OPTION_STR,
		.env = { "GPU_CLIENTS_FILE" },
		.arg = "FILE",
		.def = "",
		.help = "which services" },
	{ .name = "mig-state-file",
		.type = OPTION_STR,
		.env = { "HOST_MIG_MANAGER_STATE_FILE" },
		.arg = "FILE",
		.def = AGENT_MIG_STATE_FILE,
		.help = "where NVIDIA's boot service of the host keeps the layout, if it does" },
	{ .name = "mig-operator-namespace",
		.type = OPTION_STR,
		.env = { "GPUSLICE_MIG_OPERATOR_NAMESPACE" },
		.arg = "NAME",
		.def = "",
		.help = "namespace of the GPU operator, whose validators are to run again; empty: none" },
	{ .name = "host-root-mount",
		.type = OPTION_STR,
		.env = { "HOST_ROOT_MOUNT" },
		.arg = "DIR",
		.def = AGENT_HOST_ROOT,
		.help = "where the root of the host is mounted" },
	LOG_OPTIONS,
};

struct option_def *agent_options(size_t *ret_n)
{
	size_t n = ARRAY_LEN(own);
	struct option_def *all =
		calloc(n + metrics_n_option_defs + config_n_options, sizeof(*all));

	if (!all)
		return NULL;
	memcpy(all, own, sizeof(own));
	memcpy(all + n, metrics_option_defs, metrics_n_option_defs * sizeof(*all));
	n += metrics_n_option_defs;
	memcpy(all + n, config_options, config_n_options * sizeof(*all));
	*ret_n = n + config_n_options;
	return all;
}

/* --- from options to struct agent_options --- */

/*
 * The options that name a config; the agent uses one. NVIDIA's images and charts set some of the variables. Of
 * those that are set, the first of this list counts.
 */
static const struct {
	const char *name, *env;
} config_options_by_rank[] = {
	{ "config-map", "GPUSLICE_CONFIG_MAP" },
	{ "config-dir", "CONFIG_FILE_SRCDIR" },
	{ "config-file", "CONFIG_FILE" },
};

static int refuse_second(size_t first, enum option_source first_from, size_t second,
	enum option_source second_from, struct strv *warnings, struct error *err)
{
	char text[200];

	if (second_from == OPTION_FROM_ARGS)
		return error_set(err, ERR_INVALID, "--%s and --%s: only one can be given",
			config_options_by_rank[first].name,
			config_options_by_rank[second].name);
	(void)snprintf(text, sizeof(text), "%s is not used, since %s%s is given",
		config_options_by_rank[second].env, first_from == OPTION_FROM_ARGS ? "--" : "",
		first_from == OPTION_FROM_ARGS ? config_options_by_rank[first].name
					       : config_options_by_rank[first].env);
	return strv_add(warnings, text, err);
}

/* Chooses the option that names the config: one of the command line before one of the environment. */
static int choose_config_option(const struct options *o, const char **ret,
	struct strv *warnings, struct error *err)
{
	static const enum option_source sources[] = { OPTION_FROM_ARGS, OPTION_FROM_ENV };
	enum option_source from = OPTION_UNSET;
	size_t found = 0;

	*ret = "";
	for (size_t s = 0; s < ARRAY_LEN(sources); s++) {
		for (size_t i = 0; i < ARRAY_LEN(config_options_by_rank); i++) {
			const char *name = config_options_by_rank[i].name;

			if (option_get(o, name)->source != sources[s] ||
				!*option_str(o, name, ""))
				continue;
			if (from == OPTION_UNSET) {
				found = i;
				from = sources[s];
				*ret = name;
			} else if (refuse_second(found, from, i, sources[s], warnings, err) <
				   0) {
				return -1;
			}
		}
	}
	return 0;
}

static int read_fallback_strategies(const struct options *o, struct agent_options *ret,
	struct error *err)
{
	const struct option_value *fallbacks = option_get(o, "fallback-strategies");

	if (fallbacks->source != OPTION_UNSET)
		return strv_copy(&ret->fallbacks, &fallbacks->list, err);
	return strv_split(&ret->fallbacks, "named,single", ',', err);
}

static void read_mig_options(const struct options *o, struct mig_options *ret)
{
	*ret = (struct mig_options){
		.enabled = option_bool(o, "mig-manager", false),
		.force = option_bool(o, "mig-force", false),
		.with_reboot = option_bool(o, "mig-with-reboot", false),
		.shutdown_clients = option_bool(o, "mig-shutdown-host-gpu-clients", false),
		.default_name = option_str(o, "mig-config-default", ""),
		.config_file = option_str(o, "mig-config-file", ""),
		.config_map = option_str(o, "mig-config-map", ""),
		.hooks_file = option_str(o, "mig-hooks-file", ""),
		.clients_file = option_str(o, "mig-gpu-clients-file", ""),
		.state_file = option_str(o, "mig-state-file", AGENT_MIG_STATE_FILE),
		.reboot_command = option_str(o, "mig-reboot-command", ""),
		.host_root = option_str(o, "host-root-mount", AGENT_HOST_ROOT),
		.operator_namespace = option_str(o, "mig-operator-namespace", ""),
	};
}

/* Three capital letters. */
static bool currency_ok(const char *text)
{
	size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	return n == 3 && !text[n];
}

/* NULL: no file is named. */
static const char *file_or_none(const struct options *o, const char *name)
{
	const char *path = option_str(o, name, "");

	return *path ? path : NULL;
}

/* A secondary option with an invalid value: the agent ignores the option, and logs that. */
static int ignore_option(struct agent_options *ret, struct error *why, struct error *err)
{
	char text[ERROR_MSG_MAX];

	memcpy(text, why->msg, sizeof(text));
	error_clear(why);
	return strv_add(&ret->errors, text, err);
}

static int set_up_log(struct agent_options *ret, const struct options *o, struct error *err)
{
	struct error why = ERROR_INIT;

	return log_option_setup(o, &why) < 0 ? ignore_option(ret, &why, err) : 0;
}

/* The node depends on the kubelet's own conditions, so a GPU's repair must not use one. */
static bool is_condition_type(const char *type)
{
	static const char *const kubelets[] = { "Ready", "MemoryPressure", "DiskPressure",
		"PIDPressure", "NetworkUnavailable" };
	size_t len = strlen(type);

	for (size_t i = 0; i < ARRAY_LEN(kubelets); i++)
		if (!strcmp(type, kubelets[i]))
			return false;
	return len <= 63 && isalnum((unsigned char)type[0]) &&
	       isalnum((unsigned char)type[len - 1]) &&
	       strspn(type, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
			    "-_.") == len;
}

static int read_node_condition(struct agent_options *ret, struct error *err)
{
	const char *type = ret->cluster.node_condition;
	struct error why = ERROR_INIT;

	if (!*type || is_condition_type(type))
		return 0;
	(void)error_set(&why, ERR_INVALID,
		"--node-condition: expected a condition type that is not the kubelet's, such as "
		"%s, found '%.60s'",
		AGENT_NODE_CONDITION, type);
	ret->cluster.node_condition = "";
	return ignore_option(ret, &why, err);
}

static int read_price_option(struct agent_options *ret, const struct options *o,
	struct error *err)
{
	const char *price = option_str(o, "price", ""), *currency = ret->monitoring.currency;
	struct error why = ERROR_INIT;

	ret->monitoring.price_given = *price && price_parse(price, &ret->monitoring.price_nano);
	if (*price && !ret->monitoring.price_given)
		(void)error_set(&why, ERR_INVALID,
			"--price: expected an amount per hour such as 3.06, found '%.40s'",
			price);
	/* An amount in another currency would be a wrong price. */
	if (!currency_ok(currency)) {
		ret->monitoring.price_given = false;
		ret->monitoring.currency = "USD";
		(void)error_set(&why, ERR_INVALID,
			"--currency: expected three capital letters such as USD, found '%.40s'",
			currency);
	}
	return why.code == ERR_NONE ? 0 : ignore_option(ret, &why, err);
}

static int read_interval(struct agent_options *ret, const struct options *o, struct error *err)
{
	const struct option_value *interval = option_get(o, "metrics-interval");
	struct error why = ERROR_INIT;
	char found[TIME_AGE_MAX];

	if (interval->source == OPTION_UNSET)
		return 0;
	if (interval->ns >= (int64_t)MONITORING_INTERVAL_MIN_NS &&
		interval->ns <= (int64_t)MONITORING_INTERVAL_MAX_NS) {
		ret->monitoring.interval_ns = (uint64_t)interval->ns;
		return 0;
	}
	time_age((uint64_t)interval->ns, found);
	(void)error_set(&why, ERR_INVALID, "--metrics-interval: expected 1s to 5m, found %s",
		found);
	return ignore_option(ret, &why, err);
}

static int read_monitoring_options(struct agent_options *ret, const struct options *o,
	struct error *err)
{
	ret->monitoring = (struct monitoring_options){
		.enabled = option_bool(o, "metrics", true),
		.currency = option_str(o, "currency", "USD"),
		.instance_type = option_str(o, "instance-type", ""),
		.region = option_str(o, "region", ""),
		.price_file = option_str(o, "price-file", ""),
		.usage_db_dir = file_or_none(o, "ledger-dir"),
	};
	return read_price_option(ret, o, err) < 0 ? -1 : read_interval(ret, o, err);
}

static int read_serve(struct agent_options *ret, const struct options *o, struct error *err)
{
	struct serve_options *s = &ret->serve;
	struct error why = ERROR_INIT;

	s->web = (struct web_options){
		.listen = option_str(o, "metrics-listen", AGENT_METRICS_LISTEN),
		.token_file = file_or_none(o, "metrics-token-file"),
		.cert_file = file_or_none(o, "metrics-cert-file"),
		.key_file = file_or_none(o, "metrics-key-file"),
	};
	s->web_config_file = file_or_none(o, "web-config-file");
	if (!ret->monitoring.enabled &&
		option_get(o, "metrics-listen")->source != OPTION_UNSET && *s->web.listen &&
		strv_add(&ret->warnings,
			"--metrics-listen is of no effect, as --metrics=false switches metrics off",
			err) < 0)
		return -1;
	if (metrics_options_read(&s->metrics, o, NULL, &ret->warnings, &why) == 0)
		return 0;
	metrics_options_default(&s->metrics);
	return ignore_option(ret, &why, err);
}

/* "NAMESPACE:NAME" of dcgm-exporter; NULL: no ConfigMap. */
static int read_counters_map(struct agent_options *ret, struct error *err)
{
	const char *text = ret->serve.metrics.config_map, *colon = strchr(text, ':');
	struct error why = ERROR_INIT;
	char namespace_[64];

	if (!*text || !strcmp(text, "none"))
		return 0;
	(void)snprintf(namespace_, sizeof(namespace_), "%.*s",
		colon && colon - text < 64 ? (int)(colon - text) : 0, text);
	if (api_namespace_ok(namespace_) && config_entry_name_ok(colon + 1)) {
		ret->counters_map = text;
		return 0;
	}
	(void)error_set(&why, ERR_INVALID,
		"--configmap-data: expected NAMESPACE:NAME or none, found '%.100s'", text);
	return ignore_option(ret, &why, err);
}

static int read_labels_option(struct agent_options *ret, const struct options *o,
	struct error *err)
{
	const char *where = option_str(o, "labels", "off");
	struct error why = ERROR_INIT;

	if (labels_where_parse(where, &ret->cluster.labels))
		return 0;
	ret->cluster.labels = LABELS_OFF;
	(void)error_set(&why, ERR_INVALID,
		"--labels: expected off, node, nfd or file, found '%.40s'", where);
	return ignore_option(ret, &why, err);
}

static int read_namespace_option(struct agent_options *ret, struct error *err)
{
	const char *name = ret->cluster.namespace_;
	struct error why = ERROR_INIT;

	if (!*name || api_namespace_ok(name))
		return 0;
	ret->cluster.namespace_ = "";
	(void)error_set(&why, ERR_INVALID,
		"--namespace: expected the name of a namespace (a-z, 0-9, '-'; at most 63 "
		"characters), found '%.80s'",
		name);
	return ignore_option(ret, &why, err);
}

int agent_options_read(struct agent_options *ret, const struct options *o, struct error *err)
{
	const char *config = NULL;

	*ret = (struct agent_options){
		.nvml_path = option_str(o, "nvml", NULL),
		.sysfs_root = option_str(o, "sysfs", NULL),
		.procfs_root = option_str(o, "procfs", NULL),
		.kubelet_dir = option_str(o, "kubelet-dir", DEFAULT_KUBELET_DIR),
		.kubelet_socket = option_str(o, "kubelet-socket", NULL),
		.run_dir = option_str(o, "run-dir", DEFAULT_RUN_DIR),
		.cdi_dir = option_str(o, "cdi-dir", CDI_DIR),
		.slices = {
			.state_dir = option_str(o, "state-dir", SLICE_STATE_DIR),
			.runtime_dir = option_str(o, "runtime-dir", NULL),
			.keep_ns = AGENT_SLICE_KEEP_NS,
		},
		.mps = { .control = option_str(o, "mps-control", NULL) },
		.listen = option_str(o, "listen", NULL),
		.default_config = option_str(o, "default-config", NULL),
		.cluster = {
			.kubeconfig = option_str(o, "kubeconfig", ""),
			.node_name = option_str(o, "node-name", ""),
			.namespace_ = option_str(o, "namespace", ""),
			.pod_name = option_str(o, "pod-name", ""),
			.node_label = option_str(o, "node-label", CONFIG_NODE_LABEL),
			.startup_taint = option_str(o, "startup-taint", AGENT_STARTUP_TAINT),
			.node_condition = option_str(o, "node-condition", AGENT_NODE_CONDITION),
		},
		.sources = { .options = o },
	};
	if (option_get(o, "slice-keep")->source != OPTION_UNSET)
		ret->slices.keep_ns = (uint64_t)option_get(o, "slice-keep")->ns;
	read_mig_options(o, &ret->mig);
	if (strv_copy(&ret->errors, &o->invalid, err) < 0 || set_up_log(ret, o, err) < 0 ||
		read_monitoring_options(ret, o, err) < 0 || read_serve(ret, o, err) < 0 ||
		read_counters_map(ret, err) < 0 || read_labels_option(ret, o, err) < 0 ||
		read_node_condition(ret, err) < 0)
		return -1;
	if (ret->serve.metrics.pod_labels)
		ret->monitoring.pod_labels = ret->serve.metrics.pod_label_patterns;
	if (choose_config_option(o, &config, &ret->warnings, err) < 0 ||
		read_fallback_strategies(o, ret, err) < 0)
		return -1;
	if (!strcmp(config, "config-map"))
		ret->config_map = option_str(o, config, NULL);
	else if (!strcmp(config, "config-dir"))
		ret->config_dir = option_str(o, config, NULL);
	else if (!strcmp(config, "config-file"))
		ret->config_path = option_str(o, config, NULL);
	return read_namespace_option(ret, err);
}

void agent_options_fini(struct agent_options *o)
{
	strv_fini(&o->fallbacks);
	strv_fini(&o->warnings);
	strv_fini(&o->errors);
}
