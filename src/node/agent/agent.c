/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include "abi/slice-dir.h"
#include "node/agent/options.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/base/unix-socket.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOCK_WAIT_NS (5 * NS_PER_SEC) /* wait for the lock of a killed agent */

const struct error *agent_failure(const struct agent *a)
{
	return &a->failure.why;
}

/* --- kubelet --- */

static void on_kubelet_dir(void *arg)
{
	struct agent *a = arg;
	bool again = false;

	for (size_t i = 0; i < a->n_plugins; i++) {
		if (a->plugins[i]->plugin)
			plugin_sync(a->plugins[i]->plugin);
		else
			again = true;
	}
	if (again)
		wake_up(&a->wake);
}

/* --- life --- */

static int copy_path(char *to, size_t cap, const char *option, const char *path,
	struct error *err)
{
	int n = snprintf(to, cap, "%s", path);

	if (n <= 0 || (size_t)n >= cap)
		return error_set(err, ERR_INVALID,
			"--%s: expected a directory of at most %zu bytes", option, cap - 1);
	return 0;
}

/* Checked at the start: with too long a path the agent could never reach a kubelet. */
static int check_kubelet_socket(const struct agent *a, struct error *err)
{
	char path[PATH_MAX];

	if (a->kubelet_socket) /* "": never register */
		return *a->kubelet_socket ? unix_path_check(a->kubelet_socket, err) : 0;
	if (path_join(path, sizeof(path), a->plugin_dir, "kubelet.sock", err) < 0)
		return -1;
	return unix_path_check(path, err) < 0 ? error_prefix(err, "--kubelet-dir") : 0;
}

static int set_paths(struct agent *a, const struct agent_options *o, struct error *err)
{
	if (copy_path(a->kubelet_dir, sizeof(a->kubelet_dir), "kubelet-dir", o->kubelet_dir,
		    err) < 0 ||
		copy_path(a->run_dir, sizeof(a->run_dir), "run-dir", o->run_dir, err) < 0 ||
		path_join(a->plugin_dir, sizeof(a->plugin_dir), o->kubelet_dir,
			"device-plugins", err) < 0)
		return -1;
	if (o->kubelet_socket) {
		a->kubelet_socket = strdup(o->kubelet_socket);
		if (!a->kubelet_socket)
			return error_nomem(err);
	}
	return check_kubelet_socket(a, err);
}

/* Starts the web server, before there is a view to show. */
static int start_serve(struct agent *a, const struct agent_options *o, struct error *err)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;

	if (!o->monitoring.enabled)
		return 0;
	if (serve_new(&a->serve, &o->serve, &warnings, err) < 0)
		return -1;
	for (size_t i = 0; i < warnings.n; i++)
		log_warn("metrics", LOG_STR("reason", warnings.v[i]));
	serve_start(a->serve);
	return 0;
}

static int start_all(struct agent *a, const struct agent_options *o, struct error *err)
{
	char pod_resources[PATH_MAX];

	if (set_paths(a, o, err) < 0 || agent_lock(a, LOCK_WAIT_NS, err) < 0 ||
		agent_config_start(&a->config, err) < 0)
		return -1;
	agent_health_start(a);
	/* The NVML worker probes the GPUs while the loop sets up gRPC. */
	if (agent_gpus_start(a, err) < 0 || rpc_new(&a->rpc, a->loop, err) < 0 ||
		path_join(pod_resources, sizeof(pod_resources), a->kubelet_dir,
			"pod-resources/kubelet.sock", err) < 0 ||
		pod_resources_cache_new(&a->pod_resources, a->rpc, pod_resources, err) < 0 ||
		kubelet_watch_start(&a->kubelet_watch, a->loop, a->plugin_dir, on_kubelet_dir,
			a, err) < 0)
		return -1;
	agent_http_start(a, o->listen);
	slices_start(&a->slices);
	mig_start(&a->mig);
	if (start_serve(a, o, err) < 0)
		return -1;
	agent_upkeep_start(a, &o->errors);
	mps_start(&a->mps);
	cluster_start(&a->cluster);
	monitoring_start(&a->monitoring);
	return 0;
}

int agent_start(struct agent **ret, uv_loop_t *loop, const struct agent_options *options,
	struct error *err)
{
	struct agent *a = calloc(1, sizeof(*a));

	if (!a)
		return error_nomem(err);
	a->state_dir = options->slices.state_dir ? options->slices.state_dir : SLICE_STATE_DIR;
	a->loop = loop;
	a->failure.loop = loop;
	a->lock_fd = -1;
	a->nvml_path = options->nvml_path;
	a->sysfs_root = options->sysfs_root;
	a->procfs_root = options->procfs_root;
	agent_cdi_init(&a->cdi, options->cdi_dir);
	a->started_wall_ns = time_wall_ns();
	node_init(&a->facts.node);
	wake_init(&a->wake, loop, agent_reconcile, a);
	(void)uv_timer_init(loop, &a->due);
	a->due.data = a;
	agent_health_init(a);
	agent_upkeep_init(a);
	agent_components_wire(a, options);
	agent_counters_init(a, options);
	if (start_all(a, options, err) < 0) {
		(void)agent_stop(a);
		return -1;
	}
	*ret = a;
	return 0;
}

void agent_reload(struct agent *a)
{
	agent_config_reload(&a->config);
	agent_probe(a);
	mig_sync(&a->mig);
	on_kubelet_dir(a);
}

struct agent *agent_stop(struct agent *a)
{
	if (!a)
		return NULL;
	wake_close(&a->wake);
	agent_upkeep_stop(a);
	agent_health_stop(a);
	monitoring_stop(&a->monitoring);
	agent_counters_stop(a);
	mig_stop(&a->mig);
	mps_stop(&a->mps);
	slices_stop(&a->slices);
	/* Early: this answers the status requests that wait for the kubelet. */
	a->pod_resources = pod_resources_cache_free(a->pod_resources);
	a->local = http_server_stop(a->local);
	a->tcp = health_server_stop(a->tcp);
	agent_config_stop(&a->config);
	cluster_stop(&a->cluster);
	a->kubelet_watch = kubelet_watch_stop(a->kubelet_watch);
	a->monitor = gpu_monitor_stop(a->monitor);
	for (size_t i = 0; i < a->n_plugins; i++)
		(void)agent_plugin_free(a->plugins[i]);
	uv_close((uv_handle_t *)&a->due, NULL);
	a->rpc = rpc_free(a->rpc);
	(void)uv_run(a->loop, UV_RUN_DEFAULT);
	closep(&a->lock_fd);
	a->facts.offered.offer = offer_free(a->facts.offered.offer);
	a->facts.offered.inv = inventory_free(a->facts.offered.inv);
	agent_cdi_fini(&a->cdi);
	node_fini(&a->facts.node);
	agent_config_fini(&a->config);
	cluster_fini(&a->cluster);
	mig_fini(&a->mig);
	slices_fini(&a->slices);
	mps_fini(&a->mps);
	monitoring_fini(&a->monitoring);
	agent_health_fini(a);
	a->serve = serve_free(a->serve);
	free(a->plugins);
	free(a->logged_gpus);
	free(a->kubelet_socket);
	free(a);
	return NULL;
}
