/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's state, for the files of this folder only. All of it belongs to the loop thread.
 */
#include "node/agent/agent.h"
#include "node/agent/kubelet/cdi.h"
#include "node/agent/cluster/cluster.h"
#include "node/agent/base/components.h"
#include "node/agent/base/facts.h"
#include "node/agent/base/failure.h"
#include "node/agent/base/report.h"
#include "node/agent/base/wake.h"
#include "node/agent/config/config.h"
#include "node/agent/kubelet/pod-resources-cache.h"
#include "node/agent/kubelet/watch.h"
#include "node/agent/mig/mig.h"
#include "node/agent/mps/mps.h"
#include "node/agent/monitoring/monitoring.h"
#include "lib/base/log.h"
#include "io/nvml/label-facts.h"
#include "io/nvml/monitor/monitor.h"
#include "lib/http/health/server.h"
#include "lib/http/server/server.h"
#include "io/kubelet/device-plugin.h"

#include <limits.h>

/* Why one physical device, as it is shared here, cannot be allocated. Positions are those of the offer. */
struct agent_refusal {
	uint32_t gpu, mig, share;
	char why[ERROR_MSG_MAX];
};

struct agent_trial {
	struct agent_refusal *v;
	size_t n;
};

/* One resource that the kubelet is served. */
struct agent_plugin {
	struct agent *agent;
	char name[RESOURCE_NAME_MAX];
	struct plugin *plugin; /* NULL: could not be started, .why says so */
	char why[ERROR_MSG_MAX];
	struct agent_trial trial;
	bool offered;          /* in the last decision */
	uint64_t retire_at_ns; /* withdrawn: when the socket goes; 0: not withdrawn */
};

/* What was last logged of a GPU or MIG device, so that only changes are. */
struct agent_logged_gpu {
	char key[GPU_UUID_MAX]; /* its UUID, or its place: "0", "0:1" */
	char reason[GPU_REASON_MAX], warning[GPU_REASON_MAX];
	bool ok;
	bool mig;
	bool present; /* a MIG device of now */
};

struct agent_health {
	uv_timer_t timer;
	char boot[64];
	char *written; /* what the file has; NULL: nothing of ours */
	bool unsaved;  /* the last change could not be written */
};

struct agent_counters {
	const char *map; /* option; borrowed; NULL: the file alone */
	struct config_source *source;
	char logged_error
		[ERROR_MSG_MAX]; /* why the file counts, as the log has it; "": it does not */
};

struct agent_upkeep {
	uv_timer_t timer;
	uint64_t retry_at_ns;
};

struct agent {
	uv_loop_t *loop;
	char kubelet_dir[PATH_MAX], plugin_dir[PATH_MAX], run_dir[PATH_MAX];
	char *kubelet_socket;  /* NULL if not given */
	const char *state_dir; /* borrowed */
	uint64_t started_wall_ns;
	int lock_fd;

	struct facts facts;
	struct agent_config config;

	/* Borrowed: argv or environment; may be NULL. */
	const char *nvml_path, *sysfs_root, *procfs_root;
	struct gpu_monitor *monitor;
	uv_timer_t due;              /* model/node/node.h's clock */
	uint64_t probe_requested_ns; /* when it last asked for a look */
	struct agent_logged_gpu *logged_gpus;
	size_t n_logged_gpus;

	struct rpc *rpc;
	struct agent_plugin **plugins; /* sorted as they came */
	size_t n_plugins;
	bool served; /* a plugin's socket has been ours, at least once */
	struct kubelet_watch *kubelet_watch;
	struct pod_resources_cache *pod_resources;

	struct agent_health health;
	struct cluster_client cluster;
	struct agent_cdi cdi;
	struct mig mig;
	struct slices slices;
	struct mps mps;
	struct monitoring monitoring;
	struct serve *serve; /* NULL: nothing is to be shown */
	struct agent_counters counters;

	struct http_server *local;
	struct health_server *tcp;
	const char *listen; /* option; borrowed; NULL: no health over TCP */
	struct wake wake;   /* of agent_reconcile() */
	struct reporter reporter;
	struct components components;
	struct agent_upkeep upkeep;
	struct failure failure;
};

/* node/agent/health/health.c: what of the GPUs' health outlives the agent (node/agent/health/saved.h). */
void agent_health_init(struct agent *a);
void agent_health_start(struct agent *a);
void agent_health_save(struct agent *a); /* it may have changed */
void agent_health_stop(struct agent *a);
void agent_health_fini(struct agent *a);

/*
 * reconcile.c: decides from what is known now, and acts on the difference. .wake calls it, once per turn of the loop;
 * everybody else only wakes that. @arg: struct agent.
 */
void agent_reconcile(void *arg);
void agent_set_due(struct agent *a); /* after a look that changed nothing */

/* node/agent/kubelet/plugins.c */
struct agent_plugin *agent_plugin_new(struct agent *a, const char *name);
void agent_plugin_start(struct agent_plugin *p); /* tries; .why says why not */
void agent_plugin_set_devices(struct agent_plugin *p, const struct resource *r);
struct agent_plugin *agent_plugin_free(struct agent_plugin *p);

/* offered.c */
struct agent_plugin *agent_plugin_of(const struct agent *a, const char *name); /* NULL: none */
/* Whether a device that is offered can be had; *ret_why, unless NULL: why not, for people. */
bool agent_device_ok(const struct agent *a, const struct resource *r,
	const struct offer_device *d, const char **ret_why);
/* Why Allocate would refuse it, whatever its health; "": it would not. Borrowed. */
const char *agent_refusal(const struct agent *a, const struct resource *r,
	const struct offer_device *d);
/* Why the device @uuid is listed and cannot be had, whatever its health; "". Borrowed. */
const char *agent_device_refusal(const struct agent *a, const char *uuid);
/* "registered"; *ret_why: why not. Borrowed. */
const char *agent_resource_state(const struct agent *a, const char *name, const char **ret_why);
/* Whether every resource is registered; else one line for each that is not in @why. */
bool agent_ready(const struct agent *a, struct buf *why);

/* node/agent/kubelet/trial.c: which devices of @r Allocate would refuse now. True: it has changed; that is logged and an Event. */
bool agent_trial_run(struct agent *a, struct agent_trial *t, const struct resource *r);
/* NULL: none, as far as the last trial knows. Borrowed. */
const char *agent_trial_refusal(const struct agent_trial *t, const struct offer_device *d);
void agent_trial_fini(struct agent_trial *t);
/* Whether a trial of any resource has another result now. */
bool agent_plugins_try(struct agent *a);

/* parts.c: gives each part what it needs of the others. */
void agent_components_wire(struct agent *a, const struct agent_options *o);

/* gpus.c: what NVML reports. */
int agent_gpus_start(struct agent *a, struct error *err) MUST_USE;
/* A look at NVML, unless the GPUs are to be let alone while their mode changes. */
void agent_probe(struct agent *a);
/* Another config is in force; @moved: the driver's library is looked for elsewhere. */
void agent_gpus_follow_config(struct agent *a, bool moved);

/* counters.c: --configmap-data. */
void agent_counters_init(struct agent *a, const struct agent_options *o);
void agent_counters_with_api(struct agent *a, struct api *api);
void agent_counters_without_api(struct agent *a,
	const struct error *why); /* there will be none */
void agent_counters_stop(struct agent *a);

/*
 * run-lock.c: takes the lock of the run directory, which another agent may still have for @wait_ns. A run directory
 * that cannot be written, or is none, keeps no device from being served. Two agents do: ERR_EXISTS, also when the
 * other one is seen late.
 */
int agent_lock(struct agent *a, uint64_t wait_ns, struct error *err) MUST_USE;
void agent_lock_retry(struct agent *a); /* where it could not be taken yet */

/* upkeep.c: what is done again and again: parts are retried, and say which of their components work. */
void agent_upkeep_init(struct agent *a);
void agent_upkeep_start(struct agent *a, const struct strv *option_errors);
void agent_upkeep_stop(struct agent *a);

/* node/agent/serve/http.c: status and health on the unix socket, health alone over TCP. What cannot be served now
 * is tried again by agent_http_retry(). */
void agent_http_start(struct agent *a, const char *listen);
void agent_http_retry(struct agent *a);

/* node/agent/serve/status.c: the answer of /v1/status (docs/status.md). @pod_devices may be NULL. Yours: free();
 * NULL: out of memory. */
char *agent_status_json(const struct agent *a, const struct pod_devices *pod_devices,
	const struct error *holders_error) MUST_USE;
