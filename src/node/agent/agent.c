/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include "node/agent/options.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "io/kubelet/unix-socket.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_NAME    "gpusliced.lock"
#define LOCK_WAIT_NS (5 * NS_PER_SEC) /* for what an agent that was killed has left */

void agent_fail(struct agent *a, const struct error *err)
{
	if (a->failure.code == ERR_NONE)
		a->failure = *err;
	uv_stop(a->loop);
}

const struct error *agent_failure(const struct agent *a)
{
	return &a->failure;
}

/* --- what is reported --- */

static void on_event(void *arg, const struct event_about *about, enum event_type type,
	const char *reason, const char *message)
{
	struct agent *a = arg;

	event_send(&a->cluster.events, about, type, reason, message);
}

static void on_component(void *arg, enum component c, const struct error *why)
{
	struct agent *a = arg;

	components_note(&a->components, c, why);
}

/* --- the run directory is one agent's --- */

/* ERR_EXISTS: another agent has it, for @wait_ns at least. */
static int take_lock(struct agent *a, uint64_t wait_ns, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	char path[PATH_MAX], owner[32] = "";
	ssize_t n;
	int r;

	if (dir_make(a->run_dir, 0755, err) < 0 ||
		path_join(path, sizeof(path), a->run_dir, LOCK_NAME, err) < 0)
		return -1;
	/* Nobody else may open it: a reader can hold a lock too. */
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_sys(err, errno, "open '%s'", path);
	r = fd_lock(fd, wait_ns, NULL);
	if (r == EWOULDBLOCK) {
		n = pread(fd, owner, sizeof(owner) - 1, 0);
		owner[n > 0 ? strspn(owner, "0123456789") : 0] = '\0';
		return error_set(err, ERR_EXISTS,
			"another gpusliced (pid %s) has the run directory '%s'; stop it or give "
			"--run-dir another one",
			*owner ? owner : "unknown", a->run_dir);
	}
	if (r)
		return error_sys(err, r, "lock '%s'", path);
	/* For the message above only; the lock is what counts, so a full disk does not matter. */
	(void)snprintf(owner, sizeof(owner), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, owner, strlen(owner), 0) < 0)
		log_debug("lock file has no pid", LOG_STR("file", path));
	a->lock_fd = steal_fd(&fd);
	return 0;
}

/* A run directory may be emptied or replaced: a lock on a file that nobody finds there keeps nobody out. */
static bool has_lock(const struct agent *a)
{
	char path[PATH_MAX];
	struct stat ours, there;

	return a->lock_fd >= 0 &&
	       path_join(path, sizeof(path), a->run_dir, LOCK_NAME, NULL) == 0 &&
	       fstat(a->lock_fd, &ours) == 0 && lstat(path, &there) == 0 &&
	       ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

/*
 * A run directory that cannot be written, or is none, keeps no device from being served. Two agents do: the second
 * one ends, also when the first is seen late.
 */
static int lock_or_degrade(struct agent *a, uint64_t wait_ns, struct error *err)
{
	struct error why = ERROR_INIT;

	if (has_lock(a))
		return 0;
	closep(&a->lock_fd);
	if (take_lock(a, wait_ns, &why) < 0 && why.code == ERR_EXISTS) {
		error_copy(err, &why);
		return -1;
	}
	report_component(&a->reporter, COMPONENT_RUN_DIR, &why);
	return 0;
}

void agent_lock_retry(struct agent *a)
{
	struct error err = ERROR_INIT;

	if (lock_or_degrade(a, /* wait_ns= */ 0, &err) < 0)
		agent_fail(a, &err);
}

/* --- NVML --- */

static void take_look(struct agent *a, const struct inventory *inv, const struct error *why)
{
	struct error err = ERROR_INIT;
	int r = node_observe(&a->node, &a->config.config->health, inv, why, time_mono_ns(),
		&err);

	if (r < 0) {
		log_error("GPUs not updated", LOG_STR("reason", err.msg));
		return;
	}
	if (r > 0)
		agent_config_gpus_changed(a);
	if (r > 0 || !a->offered.offer) {
		wake_up(&a->wake);
	} else {
		agent_cdi_look(a);
		if (agent_plugins_try(a))
			wake_up(&a->wake);
		agent_set_due(a);
	}
}

static void log_unsettled(const struct inventory *inv)
{
	for (uint32_t i = 0; i < inv->n; i++)
		if (inv->gpus[i].mig_unsettled)
			log_warn("MIG devices change each time that they are read, "
				 "those known before stay",
				LOG_UINT("gpu", inv->gpus[i].index),
				LOG_STR("uuid", inv->gpus[i].uuid));
}

static void on_inventory(void *arg, const struct inventory *inv)
{
	CLEANUP(inventory_freep) struct inventory *held = NULL;
	const struct inventory *now;
	struct agent *a = arg;

	if (!a->nvml_answered || a->nvml_down.code != ERR_NONE)
		log_info("NVML answers", LOG_UINT("gpus", inv->n),
			LOG_STR("driver", inv->driver_version));
	a->nvml_answered = true;
	error_clear(&a->nvml_down);
	a->node.driver_mismatch = false;
	log_unsettled(inv);
	now = agent_mig_hold(a, inv, &held);
	if (now)
		take_look(a, now, NULL);
	agent_mig_looked(a);
}

static void on_nvml_down(void *arg, const struct error *why)
{
	struct agent *a = arg;
	struct error err = *why;

	if (!a->nvml_answered && a->config.config->fail_on_init_error_set &&
		a->config.config->fail_on_init_error) {
		(void)error_prefix(&err, "nvml init failed");
		agent_fail(a, &err);
		return;
	}
	if (strcmp(a->nvml_down.msg, why->msg) != 0)
		log_warn("NVML cannot be used, trying again", LOG_STR("reason", why->msg));
	a->nvml_down = *why;
	a->node.driver_mismatch = gpu_monitor_mismatch(a->monitor);
	take_look(a, NULL, why);
	agent_mig_look(a);
}

static void on_xid(void *arg, const char *uuid, uint32_t xid, uint32_t gi, uint32_t ci)
{
	struct agent *a = arg;
	const struct health_policy *policy = &a->config.config->health;
	const char *action = "ignored";
	bool whole = gi == NODE_XID_ALL && ci == NODE_XID_ALL;
	char instance[32] = "";

	if (!*uuid)
		action = "looking at all GPUs"; /* the monitor does */
	else if (health_policy_acts(policy, xid))
		action = whole ? "GPU unhealthy" : "MIG device unhealthy";
	else if (health_policy_verdict(policy, xid) == XID_COUNTED)
		action = "counted by health.xidRules";
	if (!whole)
		(void)snprintf(instance, sizeof(instance), "%" PRId64 "/%" PRId64,
			gi == NODE_XID_ALL ? -1 : (int64_t)gi,
			ci == NODE_XID_ALL ? -1 : (int64_t)ci);
	agent_see_xid(a, uuid, xid);
	log_warn("XID reported", LOG_STR("uuid", *uuid ? uuid : "unknown"),
		LOG_STR("instance", instance), LOG_UINT("xid", xid),
		LOG_STR("what", xid_text(xid)), LOG_STR("action", action));
	if (node_xid(&a->node, policy, uuid, gi, ci, xid, time_mono_ns()))
		wake_up(&a->wake);
	agent_health_keep(a); /* one that is only counted changes no health yet */
}

static const struct gpu_monitor_ops monitor_ops = {
	.inventory = on_inventory,
	.down = on_nvml_down,
	.xid = on_xid,
};

static int start_monitor(struct agent *a, struct error *err)
{
	const struct gpu_monitor_options options = {
		.nvml_path = a->nvml_path,
		.driver_root = a->config.config->container_driver_root,
		.sysfs_root = a->sysfs_root,
		.procfs_root = a->procfs_root,
	};

	if (gpu_monitor_start(&a->monitor, a->loop, &options, &monitor_ops, a, err) < 0)
		return -1;
	gpu_monitor_set_interval(a->monitor, a->config.config->health.probe_interval_ns);
	return 0;
}

void agent_probe(struct agent *a)
{
	if (!a->mig.released)
		gpu_monitor_probe(a->monitor);
}

void agent_gpus_follow_config(struct agent *a, bool moved)
{
	struct error err = ERROR_INIT;

	if (!a->monitor) /* about to be started */
		return;
	gpu_monitor_set_interval(a->monitor, a->config.config->health.probe_interval_ns);
	/* The library is looked for below that root: what is known stays until the new one answers. */
	if (moved) {
		a->monitor = gpu_monitor_stop(a->monitor);
		if (start_monitor(a, &err) < 0)
			agent_fail(a, &err);
		else if (a->mig.released)
			gpu_monitor_release(a->monitor);
	}
}

/* --- kubelet --- */

static void on_kubelet_dir(void *arg)
{
	struct agent *a = arg;
	bool again = false;

	for (size_t i = 0; i < a->n_plugins; i++) {
		if (a->plugins[i]->plugin)
			plugin_look(a->plugins[i]->plugin);
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

/* Said at the start: with such a directory no kubelet could ever be reached. */
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

/* Listens, before there is anything to show. */
static int start_serve(struct agent *a, const struct agent_options *o, struct error *err)
{
	CLEANUP(strv_fini) struct strv warnings = STRV_INIT;

	if (!o->see.enabled)
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

	if (set_paths(a, o, err) < 0 || lock_or_degrade(a, LOCK_WAIT_NS, err) < 0 ||
		agent_config_start(a, o, err) < 0)
		return -1;
	agent_health_start(a);
	/* The worker looks at the GPUs while we set up gRPC. */
	if (start_monitor(a, err) < 0 || rpc_new(&a->rpc, a->loop, err) < 0 ||
		path_join(pod_resources, sizeof(pod_resources), a->kubelet_dir,
			"pod-resources/kubelet.sock", err) < 0 ||
		holders_new(&a->holders, a->rpc, pod_resources, err) < 0 ||
		kubelet_watch_start(&a->kubelet_watch, a->loop, a->plugin_dir, on_kubelet_dir,
			a, err) < 0)
		return -1;
	agent_http_start(a, o->listen);
	agent_slices_start(a);
	agent_mig_start(a);
	if (start_serve(a, o, err) < 0)
		return -1;
	agent_upkeep_start(a, &o->errors);
	agent_mps_start(a);
	agent_cluster_start(a);
	agent_see_start(a);
	return 0;
}

int agent_start(struct agent **ret, uv_loop_t *loop, const struct agent_options *options,
	struct error *err)
{
	struct agent *a = calloc(1, sizeof(*a));

	if (!a)
		return error_nomem(err);
	a->loop = loop;
	a->lock_fd = -1;
	a->reporter =
		(struct reporter){ .event = on_event, .component = on_component, .arg = a };
	a->components.reporter = &a->reporter;
	a->sources = options->sources;
	a->nvml_path = options->nvml_path;
	a->sysfs_root = options->sysfs_root;
	a->procfs_root = options->procfs_root;
	agent_cdi_init(&a->cdi, options->cdi_dir);
	a->started_wall_ns = time_wall_ns();
	node_init(&a->node);
	wake_init(&a->wake, loop, agent_reconcile, a);
	(void)uv_timer_init(loop, &a->due);
	a->due.data = a;
	agent_health_init(a);
	agent_config_init(a);
	agent_upkeep_init(a);
	agent_cluster_init(a, options);
	agent_mig_init(a, options);
	agent_slices_init(a, &options->slices);
	agent_mps_init(a, &options->mps);
	agent_see_init(a, &options->see);
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
	agent_config_reload(a);
	agent_probe(a);
	agent_mig_look(a);
	on_kubelet_dir(a);
}

struct agent *agent_stop(struct agent *a)
{
	if (!a)
		return NULL;
	wake_close(&a->wake);
	agent_upkeep_stop(a);
	agent_health_stop(a);
	agent_see_stop(a);
	agent_counters_stop(a);
	agent_mig_stop(a);
	agent_mps_stop(a);
	agent_slices_stop(a);
	/* Early, because it answers the status requests that wait for the kubelet. */
	a->holders = holders_free(a->holders);
	a->local = http_server_stop(a->local);
	a->tcp = health_server_stop(a->tcp);
	agent_config_stop(a);
	agent_cluster_stop(a);
	a->kubelet_watch = kubelet_watch_stop(a->kubelet_watch);
	a->monitor = gpu_monitor_stop(a->monitor);
	for (size_t i = 0; i < a->n_plugins; i++)
		(void)agent_plugin_free(a->plugins[i]);
	uv_close((uv_handle_t *)&a->due, NULL);
	a->rpc = rpc_free(a->rpc);
	(void)uv_run(a->loop, UV_RUN_DEFAULT);
	closep(&a->lock_fd);
	a->offered.offer = offer_free(a->offered.offer);
	a->offered.inv = inventory_free(a->offered.inv);
	agent_cdi_fini(&a->cdi);
	node_fini(&a->node);
	agent_config_fini(a);
	agent_cluster_fini(a);
	agent_mig_fini(a);
	agent_slices_fini(a);
	agent_mps_fini(a);
	agent_see_fini(a);
	agent_health_fini(a);
	a->serve = serve_free(a->serve);
	free(a->plugins);
	free(a->seen);
	free(a->kubelet_socket);
	free(a);
	return NULL;
}
