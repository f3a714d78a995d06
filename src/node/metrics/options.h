/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The options of /metrics: dcgm-exporter's, under its names and environment variables, as far as they apply, and
 * gpuslice's own. Options that only dcgm-exporter has get a warning.
 * Thread: main, at start; constant afterwards.
 */
#include "lib/base/error.h"
#include "lib/base/option.h"

#include <stdbool.h>
#include <stdint.h>

enum metrics_hostname {
	METRICS_HOSTNAME,       /* "Hostname": all releases of dcgm-exporter */
	METRICS_HOSTNAME_LOWER, /* "hostname": its development branch */
	METRICS_HOSTNAME_NONE,
};

/*
 * The devices that have DCGM_* series: "f" (all), "g" or "g:0,2-4" (whole GPUs, by index), "i" or "i:0-2" (GPU
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

/* ERR_INVALID says what was expected and found; ERR_LIMIT: too many ranges. */
int metrics_devices_parse(struct metrics_devices *ret, const char *text,
	struct error *err) MUST_USE;
/* Whether the device has DCGM_* series. @number: index of the GPU, or of the GPU @instance over the node. */
bool metrics_devices_have(const struct metrics_devices *d, bool instance, uint32_t number);

struct metrics_options {
	enum metrics_hostname hostname;
	bool old_namespace; /* uuid, pod_name, pod_namespace, container_name */
	bool kubernetes;    /* series of containers, and pod labels */
	bool pod_uid;       /* adds the label pod_uid */
	bool pod_labels;    /* adds the labels of the pod that .pod_label_patterns select */
	/* For node/metrics/label-filter.h. Borrowed from the options. */
	const struct strv *pod_label_patterns;
	bool virtual_gpus; /* dcgm-exporter's way of sharing: each series once for each pod */
	bool per_instance_board; /* in MIG mode: the board's values at each instance */
	bool replace_blanks_in_model_name;
	bool gpm_raw_units; /* PCIe and NVLink rates in MiB/s, as dcgm-exporter on Hopper */
	bool opencost;      /* node_gpu_hourly_cost and the like */
	uint64_t xid_window_ns, clock_window_ns;
	struct metrics_devices devices;
	/* Borrowed from the options. */
	const char *config_map; /* "NAMESPACE:NAME" of a ConfigMap with the counters; "none" */
	const char *collectors; /* the counters file; "": built-in */
};

/* The defaults of the options below. .pod_label_patterns is NULL. */
void metrics_options_default(struct metrics_options *ret);

/* Rows for the option table of each program with a /metrics. */
extern const struct option_def metrics_option_defs[];
extern const size_t metrics_n_option_defs;

/*
 * Reads the options from @o; its table has the rows above. @env (NULL: getenv) looks up dcgm-exporter's variables
 * that have no effect here. Each variable that differs from its default gets a line in @warnings.
 */
int metrics_options_read(struct metrics_options *ret, const struct options *o,
	const char *(*env)(const char *name), struct strv *warnings,
	struct error *err) MUST_USE;
