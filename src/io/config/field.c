/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/read.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/time.h"
#include "model/offer/offer.h"

#define WORDS(name, ...)                                          \
	static const char *const name##_list[] = { __VA_ARGS__ }; \
	const struct field_words words_##name = { name##_list, ARRAY_LEN(name##_list) }

WORDS(version, "v1");
WORDS(mig, "none", "single", "mixed");
WORDS(discovery, "auto", "nvml", "tegra", "vfio");
WORDS(list_strategy, "envvar", "volume-mounts", "cdi-annotations", "cdi-cri");
WORDS(id_strategy, "uuid", "index");
WORDS(allocation, "distributed", "packed");
WORDS(memory, "none", "equal");
WORDS(profile_memory, "none");
WORDS(compute, "none", "fair", "capped");
WORDS(profile_compute, "fair", "capped");
WORDS(class, "batch", "latency");
WORDS(unhooked, "report", "stop");
WORDS(compute_mode, "default", "exclusive");
WORDS(signal_policy, "ignore", "warning", "unhealthy"); /* enum health_action */
WORDS(rule_policy, "warning", "unhealthy");
WORDS(xids, "all");

#define AT(member)     FIELD_STORED, offsetof(struct config, member)
#define NO_USE(member) FIELD_STORED | FIELD_NO_EFFECT, offsetof(struct config, member)
#define PLAIN          0, 0
#define REQUIRED       FIELD_REQUIRED, 0

#define NOTE_API      "the agent's --labels says where labels are written"
#define NOTE_INTERVAL "labels are written when something changes, not by the clock"
#define NOTE_ONESHOT  "the agent goes on; 'gpuslice labels' writes labels once"

/* Rows of sharing.timeSlicing or sharing.mps, which have the same shape. */
#define REPLICATED(p, own, fail)                                                               \
	{ p, FIELD_OBJECT, FIELD_EXACT | (own), 0, NULL, NULL, NULL, NULL },                   \
		{ p ".renameByDefault", FIELD_BOOL, PLAIN, NULL, NULL, "false", NULL },        \
		{ p ".failRequestsGreaterThanOne", FIELD_BOOL, PLAIN, NULL, NULL, fail,        \
			NULL },                                                                \
		{ p ".resources", FIELD_LIST, REQUIRED, NULL, NULL, NULL, NULL },              \
		{ p ".resources[]", FIELD_OBJECT, FIELD_EXACT, 0, NULL, NULL, NULL, NULL },    \
		{ p ".resources[].name", FIELD_NAME, REQUIRED, NULL, NULL, NULL, NULL },       \
		{ p ".resources[].rename", FIELD_NAME, PLAIN, NULL, NULL, NULL, NULL },        \
		{ p ".resources[].devices", FIELD_DEVICES, PLAIN, NULL, NULL, "all", NULL },   \
		{ p ".resources[].replicas", FIELD_INT, REQUIRED, NULL, NULL, NULL, NULL },    \
		{ p ".resources[].isolation", FIELD_OBJECT, FIELD_EXACT | FIELD_OURS, 0, NULL, \
			NULL, NULL, NULL },                                                    \
		{ p ".resources[].isolation.memory", FIELD_MEMORY, FIELD_OURS, 0,              \
			&words_memory, NULL, "none", NULL },                                   \
		{ p ".resources[].isolation.compute", FIELD_WORD, FIELD_OURS, 0,               \
			&words_compute, NULL, "none", NULL },                                  \
		{ p ".resources[].isolation.class", FIELD_WORD, FIELD_OURS, 0, &words_class,   \
			NULL, "batch", NULL },                                                 \
	{                                                                                      \
		p ".resources[].isolation.unhooked", FIELD_WORD, FIELD_OURS, 0,                \
			&words_unhooked, NULL, "report", NULL                                  \
	}

#define HEALTH(key, type, member, def)                                                \
	{                                                                             \
		"health." key, type, FIELD_OURS | FIELD_STORED,                       \
			offsetof(struct config, health.member), NULL, NULL, def, NULL \
	}

/* The default equals that of health_signals[]; a test compares them. */
#define SIGNAL(key, signal, def)                                                      \
	{                                                                             \
		"health.signals." key, FIELD_WORD, FIELD_OURS | FIELD_STORED,         \
			offsetof(struct config, health.signals[GPU_SIGNAL_##signal]), \
			&words_signal_policy, NULL, def, NULL                         \
	}

/* In the order of the format and of the printed configuration. */
const struct config_field config_fields[] = {
	{ "version", FIELD_STR, PLAIN, &words_version, NULL, "v1", NULL },
	{ "flags", FIELD_OBJECT, PLAIN, NULL, NULL, NULL, NULL },
	{ "flags.migStrategy", FIELD_WORD, AT(mig_strategy), &words_mig, "mig-strategy", "none",
		NULL },
	{ "flags.failOnInitError", FIELD_BOOL, AT(fail_on_init_error), NULL,
		"fail-on-init-error", "true", NULL },
	{ "flags.mpsRoot", FIELD_STR, AT(mps_root), NULL, "mps-root", MPS_DEFAULT_ROOT, NULL },
	{ "flags.nvidiaDriverRoot", FIELD_STR, AT(driver_root), NULL, "driver-root", "/",
		NULL },
	{ "flags.nvidiaDevRoot", FIELD_STR, AT(dev_root), NULL, "dev-root", "", NULL },
	{ "flags.gdrcopyEnabled", FIELD_BOOL, AT(gdrcopy), NULL, "gdrcopy-enabled", "false",
		NULL },
	{ "flags.gdsEnabled", FIELD_BOOL, AT(gds), NULL, "gds-enabled", "false", NULL },
	{ "flags.mofedEnabled", FIELD_BOOL, AT(mofed), NULL, "mofed-enabled", "false", NULL },
	{ "flags.useNodeFeatureAPI", FIELD_BOOL, NO_USE(gfd.use_node_feature_api), NULL, NULL,
		"true", NOTE_API },
	{ "flags.deviceDiscoveryStrategy", FIELD_WORD, AT(discovery), &words_discovery,
		"device-discovery-strategy", "auto", NULL },
	{ "flags.plugin", FIELD_OBJECT, PLAIN, NULL, NULL, NULL, NULL },
	{ "flags.plugin.passDeviceSpecs", FIELD_BOOL, AT(pass_device_specs), NULL,
		"pass-device-specs", "false", NULL },
	{ "flags.plugin.deviceListStrategy", FIELD_STRATEGIES, AT(device_lists),
		&words_list_strategy, "device-list-strategy", "envvar", NULL },
	{ "flags.plugin.deviceIDStrategy", FIELD_WORD, AT(device_id), &words_id_strategy,
		"device-id-strategy", "uuid", NULL },
	{ "flags.plugin.cdiAnnotationPrefix", FIELD_STR, AT(cdi_annotation_prefix), NULL,
		"cdi-annotation-prefix", "cdi.k8s.io/", NULL },
	{ "flags.plugin.nvidiaCTKPath", FIELD_STR, AT(cdi_hook_path), NULL,
		"nvidia-cdi-hook-path", "/usr/bin/nvidia-ctk", NULL },
	{ "flags.plugin.containerDriverRoot", FIELD_STR, AT(container_driver_root), NULL,
		"driver-root-ctr-path", "/driver-root", NULL },
	{ "flags.plugin.sharedDevicesAllocationPolicy", FIELD_WORD, AT(allocation),
		&words_allocation, "shared-devices-allocation-policy", "distributed", NULL },
	{ "flags.gfd", FIELD_OBJECT, PLAIN, NULL, NULL, NULL, NULL },
	{ "flags.gfd.oneshot", FIELD_BOOL, NO_USE(gfd.oneshot), NULL, NULL, "false",
		NOTE_ONESHOT },
	{ "flags.gfd.noTimestamp", FIELD_BOOL, AT(gfd.no_timestamp), NULL, NULL, "false",
		NULL },
	{ "flags.gfd.sleepInterval", FIELD_DURATION, NO_USE(gfd.sleep_interval_ns), NULL, NULL,
		"1m0s", NOTE_INTERVAL },
	{ "flags.gfd.outputFile", FIELD_STR, AT(gfd.output_file), NULL, NULL,
		"/etc/kubernetes/node-feature-discovery/features.d/gfd", NULL },
	{ "flags.gfd.machineTypeFile", FIELD_STR, AT(gfd.machine_type_file), NULL, NULL,
		"/sys/class/dmi/id/product_name", NULL },
	{ "resources", FIELD_OBJECT, PLAIN, NULL, NULL, NULL, NULL },
	{ "resources.gpus", FIELD_LIST, PLAIN, NULL, NULL, NULL, NULL },
	{ "resources.gpus[]", FIELD_OBJECT, FIELD_EXACT, 0, NULL, NULL, NULL, NULL },
	{ "resources.gpus[].pattern", FIELD_STR, REQUIRED, NULL, NULL, NULL, NULL },
	{ "resources.gpus[].name", FIELD_NAME, REQUIRED, NULL, NULL, NULL, NULL },
	{ "resources.mig", FIELD_LIST, PLAIN, NULL, NULL, NULL, NULL },
	{ "resources.mig[]", FIELD_OBJECT, FIELD_EXACT, 0, NULL, NULL, NULL, NULL },
	{ "resources.mig[].pattern", FIELD_STR, REQUIRED, NULL, NULL, NULL, NULL },
	{ "resources.mig[].name", FIELD_NAME, REQUIRED, NULL, NULL, NULL, NULL },
	{ "sharing", FIELD_OBJECT, PLAIN, NULL, NULL, NULL, NULL },
	REPLICATED("sharing.timeSlicing", 0, "false"),
	REPLICATED("sharing.mps", FIELD_NULL, "true"),
	{ "sharing.mps.computeMode", FIELD_WORD, FIELD_OURS, 0, &words_compute_mode, NULL,
		"default", NULL },
	{ "sharing.slices", FIELD_LIST, FIELD_OURS, 0, NULL, NULL, NULL, NULL },
	{ "sharing.slices[]", FIELD_OBJECT, FIELD_EXACT | FIELD_OURS, 0, NULL, NULL, NULL,
		NULL },
	{ "sharing.slices[].name", FIELD_NAME, FIELD_OURS | FIELD_REQUIRED, 0, NULL, NULL, NULL,
		NULL },
	{ "sharing.slices[].devices", FIELD_DEVICES, FIELD_OURS, 0, NULL, NULL, "all", NULL },
	{ "sharing.slices[].devices.product", FIELD_STR, FIELD_OURS | FIELD_REQUIRED, 0, NULL,
		NULL, NULL, NULL },
	{ "sharing.slices[].mps", FIELD_BOOL, FIELD_OURS, 0, NULL, NULL, "false", NULL },
	{ "sharing.slices[].profiles", FIELD_LIST, FIELD_OURS | FIELD_REQUIRED, 0, NULL, NULL,
		NULL, NULL },
	{ "sharing.slices[].profiles[]", FIELD_OBJECT, FIELD_EXACT | FIELD_OURS, 0, NULL, NULL,
		NULL, NULL },
	{ "sharing.slices[].profiles[].name", FIELD_NAME, FIELD_OURS | FIELD_REQUIRED, 0, NULL,
		NULL, NULL, NULL },
	{ "sharing.slices[].profiles[].count", FIELD_INT, FIELD_OURS, 0, NULL, NULL, NULL,
		NULL },
	{ "sharing.slices[].profiles[].memory", FIELD_MEMORY, FIELD_OURS, 0,
		&words_profile_memory, NULL, NULL, NULL },
	{ "sharing.slices[].profiles[].weight", FIELD_INT, FIELD_OURS, 0, NULL, NULL, "1",
		NULL },
	{ "sharing.slices[].profiles[].compute", FIELD_WORD, FIELD_OURS, 0,
		&words_profile_compute, NULL, "fair", NULL },
	{ "sharing.slices[].profiles[].class", FIELD_WORD, FIELD_OURS, 0, &words_class, NULL,
		"batch", NULL },
	{ "sharing.slices[].profiles[].unhooked", FIELD_WORD, FIELD_OURS, 0, &words_unhooked,
		NULL, "report", NULL },
	{ "imex", FIELD_OBJECT, PLAIN, NULL, NULL, NULL, NULL },
	{ "imex.channelIDs", FIELD_IMEX, AT(imex_channel0), NULL, "imex-channel-ids", "",
		NULL },
	{ "imex.required", FIELD_BOOL, AT(imex_required), NULL, "imex-required", "false",
		NULL },
	{ "health", FIELD_OBJECT, FIELD_OURS, 0, NULL, NULL, NULL, NULL },
	HEALTH("recovery", FIELD_BOOL, recovery, "true"),
	HEALTH("cooldown", FIELD_DURATION, cooldown_ns, "30s"),
	HEALTH("resetCooldown", FIELD_DURATION, reset_cooldown_ns, "10m0s"),
	HEALTH("maxCooldown", FIELD_DURATION, max_cooldown_ns, "1h0m0s"),
	HEALTH("probes", FIELD_INT, probes_needed, "2"),
	HEALTH("probeInterval", FIELD_DURATION, probe_interval_ns, "10s"),
	HEALTH("forgetAfter", FIELD_DURATION, forget_after_ns, "10m0s"),
	{ "health.ignoreXids", FIELD_XIDS, FIELD_OURS, 0, &words_xids, NULL, NULL, NULL },
	{ "health.actXids", FIELD_XIDS, FIELD_OURS, 0, &words_xids, NULL, NULL, NULL },
	{ "health.xidRules", FIELD_LIST, FIELD_OURS, 0, NULL, NULL, NULL, NULL },
	{ "health.xidRules[]", FIELD_OBJECT, FIELD_EXACT | FIELD_OURS, 0, NULL, NULL, NULL,
		NULL },
	{ "health.xidRules[].xids", FIELD_XIDS, FIELD_OURS | FIELD_REQUIRED, 0, NULL, NULL,
		NULL, NULL },
	{ "health.xidRules[].count", FIELD_INT, FIELD_OURS | FIELD_REQUIRED, 0, NULL, NULL,
		NULL, NULL },
	{ "health.xidRules[].within", FIELD_DURATION, FIELD_OURS | FIELD_REQUIRED, 0, NULL,
		NULL, NULL, NULL },
	{ "health.xidRules[].policy", FIELD_WORD, FIELD_OURS, 0, &words_rule_policy, NULL,
		"unhealthy", NULL },
	{ "health.signals", FIELD_OBJECT, FIELD_OURS, 0, NULL, NULL, NULL, NULL },
	SIGNAL("rowRemapFailed", REMAP_FAILED, "unhealthy"),
	SIGNAL("rowRemapPending", REMAP_PENDING, "warning"),
	SIGNAL("retiredPagesPending", PAGES_PENDING, "warning"),
	SIGNAL("eccUncorrectedVolatile", ECC_VOLATILE, "warning"),
	SIGNAL("eccUncorrectedAggregate", ECC_AGGREGATE, "ignore"),
	SIGNAL("driverMismatch", DRIVER_MISMATCH, "unhealthy"),
	SIGNAL("gpuReset", RESET, "unhealthy"),
	SIGNAL("nodeReboot", REBOOT, "unhealthy"),
	SIGNAL("drainP2P", DRAIN_P2P, "unhealthy"),
	SIGNAL("drainAndReset", DRAIN_RESET, "unhealthy"),
};
const size_t config_n_fields = ARRAY_LEN(config_fields);

#define MONTH_NS (30 * 24 * 3600 * (int64_t)NS_PER_SEC)

const struct field_range config_ranges[] = {
	{ "sharing.timeSlicing.resources", 1, CONFIG_ENTRIES_MAX },
	{ "sharing.timeSlicing.resources[].replicas", 2, OFFER_DEVICES_MAX },
	{ "sharing.mps.resources", 1, CONFIG_ENTRIES_MAX },
	{ "sharing.mps.resources[].replicas", 1, OFFER_DEVICES_MAX },
	{ "sharing.slices[].profiles", 1, CONFIG_ENTRIES_MAX },
	{ "sharing.slices[].profiles[].count", 1, OFFER_DEVICES_MAX },
	{ "sharing.slices[].profiles[].weight", 1, PROFILE_WEIGHT_MAX },
	{ "health.cooldown", 0, MONTH_NS },
	{ "health.resetCooldown", 0, MONTH_NS },
	{ "health.maxCooldown", 0, MONTH_NS },
	{ "health.probes", 1, 1000 },
	{ "health.probeInterval", 100 * (int64_t)NS_PER_MS, MONTH_NS },
	{ "health.forgetAfter", 0, MONTH_NS },
	{ "health.xidRules", 0, XID_RATES_MAX },
	{ "health.xidRules[].xids", 1, XID_RATE_XIDS_MAX },
	{ "health.xidRules[].count", 1, XID_RATE_COUNT_MAX },
	{ "health.xidRules[].within", NS_PER_SEC, MONTH_NS },
};
const size_t config_n_ranges = ARRAY_LEN(config_ranges);

const struct config_field *field_by_path(const char *path)
{
	for (size_t i = 0; i < config_n_fields; i++) {
		if (!strcmp(config_fields[i].path, path))
			return &config_fields[i];
	}
	return NULL;
}

const char *field_key(const struct config_field *f)
{
	const char *dot = strrchr(f->path, '.');

	return dot ? dot + 1 : f->path;
}

const struct field_range *field_range(const char *path)
{
	for (size_t i = 0; i < config_n_ranges; i++) {
		if (!strcmp(config_ranges[i].path, path))
			return &config_ranges[i];
	}
	return NULL;
}

bool field_is_in(const struct config_field *f, const char *parent)
{
	const char *key = field_key(f);
	size_t len = strlen(parent);

	if (key[strlen(key) - 1] == ']')
		return false; /* an element of a list */
	if (!len)
		return key == f->path;
	return (size_t)(key - f->path) == len + 1 && !memcmp(f->path, parent, len);
}

int words_find(const struct field_words *words, const char *text)
{
	for (size_t i = 0; i < words->n; i++) {
		if (!strcmp(words->words[i], text))
			return (int)i;
	}
	return -1;
}

const char *words_list(const struct field_words *words, char *buf, size_t cap)
{
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < words->n && len < cap; i++) {
		int r = snprintf(buf + len, cap - len, "%s%s",
			i == 0             ? ""
			: i + 1 < words->n ? ", "
					   : " or ",
			words->words[i]);

		if (r < 0)
			break;
		len += (size_t)r;
	}
	return buf;
}
