/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's state, for the files of node/agent, health/, kubelet/ and serve/ only. All of it belongs to the loop
 * thread.
 */
#include "node/agent/agent.h"
#include "node/agent/kubelet/cdi.h"
#include "node/agent/cluster/cluster.h"
#include "node/agent/base/report.h"
#include "node/agent/base/facts.h"
#include "node/agent/base/loop.h"
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

/* Why Allocate would refuse one physical device, as it is shared here. Positions are those of the offer. */
struct agent_refusal {
	uint32_t gpu, mig, share;
	char why[ERROR_MSG_MAX];
};

struct agent_trial {
	struct agent_refusal *v;
	size_t n;
};

/* One resource served to the kubelet. */
struct agent_plugin {
	struct agent *agent;
	char name[RESOURCE_NAME_MAX];
	struct plugin *plugin; /* NULL: not started, .why says why */
	char why[ERROR_MSG_MAX];
	struct agent_trial trial;
	bool offered;          /* part of the last decision */
	uint64_t retire_at_ns; /* withdrawn: end of its socket; 0: not withdrawn */
};

/* What the agent last logged of a GPU or MIG device, so that it logs changes only. */
struct agent_logged_gpu {
	char key[GPU_UUID_MAX]; /* UUID, or position: "0", "0:1" */
	char reason[GPU_REASON_MAX], warning[GPU_REASON_MAX];
	bool ok;
	bool mig;
	bool present; /* a MIG device of the present inventory */
};

struct agent_health {
	uv_timer_t timer;
	char boot[64];
	char *written; /* content of the file; NULL: not this agent's */
	bool unsaved;  /* the last write failed */
};

struct agent_counters {
	const char *map; /* option; borrowed; NULL: the file alone */
	struct config_source *source;
	char logged_error
		[ERROR_MSG_MAX]; /* why the file is used, as logged; "": it is not used */
};

struct agent_upkeep {
	uv_timer_t timer;
	uint64_t retry_at_ns;
};

struct agent {
	uv_loop_t *loop;
	char kubelet_dir[PATH_MAX], plugin_dir[PATH_MAX], run_dir[PATH_MAX];
	char *kubelet_socket;  /* NULL: option not given */
	const char *state_dir; /* borrowed */
	uint64_t started_wall_ns;
	int lock_fd;

	struct facts facts;
	struct agent_config config;

	/* Borrowed: argv or environment; may be NULL. */
	const char *nvml_path, *sysfs_root, *procfs_root;
	struct gpu_monitor *monitor;
	uv_timer_t due;              /* next reconcile, at the latest */
	uint64_t probe_requested_ns; /* when .due last requested a probe */
	struct agent_logged_gpu *logged_gpus;
	size_t n_logged_gpus;

	struct rpc *rpc;
	struct agent_plugin **plugins; /* in order of creation */
	size_t n_plugins;
	bool served; /* a plugin socket was served at least once */
	struct kubelet_watch *kubelet_watch;
	struct pod_resources_cache *pod_resources;

	struct agent_health health;
	struct cluster_client cluster;
	struct agent_cdi cdi;
	struct mig mig;
	struct slices slices;
	struct mps mps;
	struct monitoring monitoring;
	struct serve *serve; /* NULL: monitoring is off */
	struct agent_counters counters;

	struct http_server *local;
	struct health_server *tcp;
	const char *listen; /* option; borrowed; NULL: no health over TCP */
	struct wake wake;   /* calls agent_reconcile() */
	struct reporter reporter;
	struct components components;
	struct agent_upkeep upkeep;
	struct failure failure;
};

/* node/agent/health/health.c: the health of GPUs that outlives the agent (node/agent/health/saved.h). */
void agent_health_init(struct agent *a);
void agent_health_start(struct agent *a);
void agent_health_save(struct agent *a); /* if it changed */
void agent_health_stop(struct agent *a);
void agent_health_fini(struct agent *a);

/*
 * reconcile.c: decides from the present facts, and acts on the difference. Only .wake calls agent_reconcile(),
 * once per iteration of the loop. All other code calls wake_up(). @arg: struct agent.
 */
void agent_reconcile(void *arg);
void agent_set_due(struct agent *a); /* after a probe without changes */

/* node/agent/kubelet/plugins.c */
struct agent_plugin *agent_plugin_new(struct agent *a, const char *name);
void agent_plugin_start(struct agent_plugin *p); /* .why says why it failed */
void agent_plugin_set_devices(struct agent_plugin *p, const struct resource *r);
struct agent_plugin *agent_plugin_free(struct agent_plugin *p);
/* Finds the devices of each resource that Allocate would refuse now; true: they changed. */
bool agent_plugins_try(struct agent *a);

/* offered.c */
struct agent_plugin *agent_plugin_of(const struct agent *a, const char *name); /* NULL: none */
/* Whether an offered device is usable; *ret_why, unless NULL: why not, for users. */
bool agent_device_ok(const struct agent *a, const struct resource *r,
	const struct offer_device *d, const char **ret_why);
/* Why the listed device @uuid is not allocatable, whatever its health; "": it is. Borrowed. */
const char *agent_device_refusal(const struct agent *a, const char *uuid);
/* The state, such as "registered"; *ret_why: why not. Borrowed. */
const char *agent_resource_state(const struct agent *a, const char *name, const char **ret_why);
/*
 * Whether the agent is ready: every resource is registered and nothing fails. Else @why gets one line per reason.
 */
bool agent_ready(const struct agent *a, struct buf *why);

/* parts.c: gives each part its ops. */
void agent_components_wire(struct agent *a, const struct agent_options *o);

/* gpus.c: what NVML reports. */
int agent_gpus_start(struct agent *a, struct error *err) MUST_USE;
/* Requests a probe of NVML, unless NVML is released for a change of MIG modes. */
void agent_probe(struct agent *a);
/* Applies a new config; @moved: the driver's library is now elsewhere. */
void agent_gpus_follow_config(struct agent *a, bool moved);

/* counters.c: --configmap-data. */
void agent_counters_init(struct agent *a, const struct agent_options *o);
void agent_counters_with_api(struct agent *a, struct api *api);
void agent_counters_without_api(struct agent *a,
	const struct error *why); /* there will be no API client */
void agent_counters_stop(struct agent *a);

/*
 * run-lock.c: takes the lock of the run directory, and waits up to @wait_ns for another agent to release it. A run
 * directory that cannot be written or does not exist keeps no device from being served. A second agent does:
 * ERR_EXISTS, also if it is found late.
 */
int agent_lock(struct agent *a, uint64_t wait_ns, struct error *err) MUST_USE;
void agent_lock_retry(struct agent *a); /* retries a failed lock, or a lost one */

/* upkeep.c: once per second, the state of the components; every 10 s, retries of the parts. */
void agent_upkeep_init(struct agent *a);
void agent_upkeep_start(struct agent *a, const struct strv *option_errors);
void agent_upkeep_stop(struct agent *a);

/*
 * node/agent/serve/http.c: status and health on the unix socket, health alone over TCP. agent_http_retry() retries
 * what failed.
 */
void agent_http_start(struct agent *a, const char *listen);
void agent_http_retry(struct agent *a);

/*
 * node/agent/serve/status.c: the answer of /v1/status (docs/status.md). @pod_devices may be NULL. The caller owns
 * it: free(). NULL: out of memory.
 */
char *agent_status_json(const struct agent *a, const struct pod_devices *pod_devices,
	const struct error *holders_error) MUST_USE;
