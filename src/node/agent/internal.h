/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's state, for the files of node/agent itself only. All of it belongs to the loop thread. A part does not
 * know this struct: it gets a context and ops (parts.c).
 * Thread: loop.
 */
#include "node/agent/agent.h"
#include "node/agent/cluster/cluster.h"
#include "node/agent/base/report.h"
#include "node/agent/base/facts.h"
#include "node/agent/base/loop.h"
#include "node/agent/config/config.h"
#include "node/agent/health/changes.h"
#include "node/agent/health/saver.h"
#include "node/agent/kubelet/kubelet.h"
#include "node/agent/mig/mig.h"
#include "node/agent/mps/mps.h"
#include "node/agent/monitoring/monitoring.h"
#include "node/agent/run-lock.h"
#include "node/agent/serve/http.h"
#include "node/agent/serve/serve.h"
#include "lib/base/log.h"
#include "io/nvml/label-facts.h"
#include "io/nvml/monitor/monitor.h"

#include <limits.h>

struct agent_counters {
	const char *map; /* option; borrowed; NULL: the file alone */
	struct config_source *source;
	/* Why the file is used, as logged; "": it is not used. */
	char logged_error[ERROR_MSG_MAX];
};

struct agent_upkeep {
	uv_timer_t timer;
	uint64_t retry_at_ns;
};

/* Where NVML is, and when to ask it. */
struct agent_gpus {
	const char *nvml_path, *sysfs_root, *procfs_root; /* borrowed; may be NULL */
	struct gpu_monitor *monitor;
	uint64_t probe_requested_ns; /* last request of a probe by the timer of the reconcile */
};

/* The parts and what connects them. Each part has its own context; parts.c fills it in. */
struct agent {
	uv_loop_t *loop;
	struct wake wake; /* calls agent_reconcile() */
	uv_timer_t due;   /* next reconcile, at the latest */
	struct failure failure;
	struct facts facts;
	struct reporter reporter;
	struct components components;

	char run_dir[PATH_MAX];
	const char *state_dir; /* borrowed */
	uint64_t started_wall_ns;

	struct run_lock run_lock;
	struct agent_config config;
	struct agent_gpus gpus;
	struct health_changes health_changes;
	struct health_saver health_saver;
	struct agent_cdi cdi;
	struct agent_kubelet kubelet;
	struct slices slices;
	struct mps mps;
	struct mig mig;
	struct cluster_client cluster;
	struct monitoring monitoring;
	struct serve *serve; /* NULL: monitoring is off */
	struct agent_counters counters;
	struct agent_http http;
	struct agent_upkeep upkeep;
};

/*
 * reconcile.c: decides from the present facts, and acts on the difference. Only .wake calls agent_reconcile(),
 * once per iteration of the loop. All other code calls wake_up(). @arg: struct agent.
 */
void agent_reconcile(void *arg);
void agent_set_due(struct agent *a); /* after a probe without changes */

/*
 * ready.c: whether the agent is ready: every resource is registered and nothing fails. Else @why gets one line per
 * reason.
 */
bool agent_ready(const struct agent *a, struct buf *why);

/* parts.c: gives each part its ops. */
void agent_parts_init(struct agent *a, const struct agent_options *o);

/* gpus.c: what NVML reports. */
int agent_gpus_start(struct agent *a, struct error *err) MUST_USE;
/* Requests a probe of NVML, unless NVML is released for a change of MIG modes. */
void agent_probe(struct agent *a);
/* Applies a new config; @moved: the driver's library is now elsewhere. */
void agent_gpus_follow_config(struct agent *a, bool moved);

/* counters.c: --configmap-data. */
void agent_counters_init(struct agent *a, const struct agent_options *o);
/* Watches the ConfigMap, if the option names one. If that fails, the counters file is used. */
void agent_counters_with_api(struct agent *a, struct api *api);
/* There will be no API client: the counters file is used. */
void agent_counters_without_api(struct agent *a, const struct error *why);
void agent_counters_stop(struct agent *a);

/* upkeep.c: once per second, the state of the components; every 10 s, retries of the parts. */
void agent_upkeep_init(struct agent *a);
/* @option_errors: options that are ignored, which COMPONENT_OPTIONS reports. */
void agent_upkeep_start(struct agent *a, const struct strv *option_errors);
/* The loop must run until the timer is closed. */
void agent_upkeep_stop(struct agent *a);
