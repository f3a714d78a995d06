/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the text of /metrics is to be: dcgm-exporter's options as far as they mean something here, under its names
 * and environment variables, and switches of ours. What dcgm-exporter has and we have not is named in a warning.
 * Thread: main, at start; constant afterwards.
 */
#include "lib/base/error.h"
#include "lib/base/option.h"

#include <stdbool.h>
#include <stdint.h>

enum metrics_hostname {
	METRICS_HOSTNAME,       /* "Hostname": all releases of dcgm-exporter */
	METRICS_HOSTNAME_LOWER, /* "hostname": its development head */
	METRICS_HOSTNAME_NONE,
};

/*
 * Which devices have DCGM_* series: "f" (all), "g" or "g:0,2-4" (whole GPUs, by index), "i" or "i:0-2" (GPU
 * instances, counted over the node from 0, by GPU and then by MIG index).
 */
#define METRICS_RANGES_MAX 32
struct metrics_devices {
	bool gpus, instances;
	uint32_t n_ranges; /* 0: all of them */
	struct metrics_range {
		uint32_t first, last;
	} ranges[METRICS_RANGES_MAX];
};

/* ERR_INVALID: what was expected and found; ERR_LIMIT: too many ranges. */
int metrics_devices_parse(struct metrics_devices *ret, const char *text,
	struct error *err) MUST_USE;
bool metrics_devices_have(const struct metrics_devices *d, bool instance, uint32_t number);

struct metrics_options {
	enum metrics_hostname hostname;
	bool old_namespace; /* uuid, pod_name, pod_namespace, container_name */
	bool kubernetes;    /* who uses it: pod labels, and all series of containers */
	bool pod_uid;       /* label pod_uid as well */
	bool pod_labels;    /* labels of the pod as well; of those: */
	const struct strv *
		pod_label_patterns; /* for node/metrics/label-filter.h. Borrowed from the options */
	bool virtual_gpus;       /* dcgm-exporter's way of sharing: each series once per pod */
	bool per_instance_board; /* of a GPU in MIG mode: the board's values at each instance */
	bool replace_blanks_in_model_name;
	bool gpm_raw_units; /* PCIe and NVLink rates in MiB/s, as dcgm-exporter on Hopper */
	bool opencost;      /* node_gpu_hourly_cost and the like */
	uint64_t xid_window_ns, clock_window_ns;
	struct metrics_devices devices;
	const char *
		config_map; /* the same from a ConfigMap, "NAMESPACE:NAME"; "none": no. Borrowed, too */
	const char *collectors; /* the counters file; "": built-in. Borrowed from the options */
};

void metrics_options_default(struct metrics_options *ret);

/* Rows for the table of whoever has a /metrics. */
extern const struct option_def metrics_option_defs[];
extern const size_t metrics_n_option_defs;

/*
 * Takes from @o, whose table has the rows above. @env (NULL: getenv) is looked through for variables of
 * dcgm-exporter that have no effect; each that is set to more than its default gets a line in @warnings.
 */
int metrics_options_read(struct metrics_options *ret, const struct options *o,
	const char *(*env)(const char *name), struct strv *warnings,
	struct error *err) MUST_USE;
