/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The node agent: one reconcile loop on one thread.
 *
 *	observe   NVML (io/nvml/monitor), config file, kubelet directory, plugin streams
 *	decide    model/offer/offer.h, model/node/node.h: pure
 *	act       start, stop and update device plugins: the smallest difference
 *
 * Start, reload, hot-plug and recovery take the same path. The agent owns all state. Other threads see only
 * finished snapshots (serve_view()).
 *
 * Thread: loop.
 */
#include "node/agent/cluster/cluster.h"
#include "node/agent/mig/mig.h"
#include "node/agent/monitoring/monitoring.h"
#include "node/agent/mps/mps.h"
#include "node/agent/serve/serve.h"
#include "node/agent/slices/slices.h"
#include "lib/base/error.h"
#include "io/config/config.h"

#include <uv.h>

struct agent;

struct agent_options {
	const char *nvml_path;      /* NULL: search for it */
	const char *sysfs_root;     /* NULL: /sys */
	const char *procfs_root;    /* NULL: /proc */
	const char *kubelet_dir;    /* holds device-plugins/ and pod-resources/ */
	const char *kubelet_socket; /* NULL: the one in device-plugins/; "": never register */
	const char *run_dir;
	const char *cdi_dir; /* directory for CDI specifications; NULL: /var/run/cdi */
	struct slices_options slices;
	struct mps_options mps;
	struct monitoring_options monitoring;
	struct serve_options serve;
	/* "NAMESPACE:NAME" of the ConfigMap with the counters; NULL: none. */
	const char *counters_map;
	const char *listen; /* TCP, health only; NULL or "": unix socket only */
	/* At most one of these is set. All NULL or "": config from environment and flags only. */
	const char *config_path; /* one file */
	const char *config_dir;  /* named configs; the node's label chooses one */
	const char *config_map;  /* named configs through the API: "[namespace/]name" */
	const char *default_config;
	struct strv fallbacks; /* strategies to try without label and default */
	struct strv warnings;  /* for the log */
	struct strv errors;    /* options that are ignored, since their values are invalid */
	struct cluster_options cluster;
	struct mig_options mig;
	struct config_sources sources;
};

/*
 * Takes the lock of the run directory, loads the config, starts everything and returns. The rest happens as the
 * loop runs. ERR_EXISTS: another agent has the run directory. Another agent on the plugin sockets shows later, in
 * agent_failure().
 */
int agent_start(struct agent **ret, uv_loop_t *loop, const struct agent_options *options,
	struct error *err) MUST_USE;

/* Reloads the config file, probes the GPUs, and syncs the MIG layout and the plugin sockets (SIGHUP). */
void agent_reload(struct agent *a);

/* Ends streams, removes sockets, runs the loop until everything is closed, and frees the agent. Returns NULL. */
struct agent *agent_stop(struct agent *a);

/* Why the agent stopped the loop by itself; ERR_NONE if it did not. */
const struct error *agent_failure(const struct agent *a);
