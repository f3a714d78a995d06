/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include "abi/slice-dir.h"
#include "node/agent/options.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/base/unix-socket.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOCK_WAIT_NS (5 * NS_PER_SEC) /* for what an agent that was killed has left */

const struct error *agent_failure(const struct agent *a)
{
	return &a->failure.why;
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

/* --- what the parts hear of each other --- */

static void on_config(void *arg, bool moved)
{
	struct agent *a = arg;

	agent_gpus_follow_config(a, moved);
	wake_up(&a->wake);
}

static void on_node(void *arg)
{
	struct agent *a = arg;
	const struct node_object *n = a->cluster.link.node;

	/* A Node that is gone says nothing about the config: what is in force stays. */
	if (node_object_state(n) == NODE_PRESENT)
		agent_config_label(a, node_object_label(n, a->cluster.c.options.node_label));
	mig_sync(&a->mig);
}

static void on_api_ready(void *arg, struct api *api)
{
	struct agent *a = arg;

	agent_config_with_api(a, api);
	mig_with_api(&a->mig, api);
	monitoring_with_api(&a->monitoring, api);
	agent_counters_with_api(a, api);
}

static void on_api_unavailable(void *arg, const struct error *why)
{
	agent_config_without_api(arg);
	agent_counters_without_api(arg, why);
}

/* All that the GPUs and the config give is registered, even if that is nothing. */
static bool is_node_ready(void *arg)
{
	const struct agent *a = arg;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);

	return a->facts.offered.offer && a->facts.offer_error.code == ERR_NONE &&
	       agent_ready(a, &why) && mig_settled(&a->mig);
}

static const struct cluster_ops cluster_ops = {
	.node_changed = on_node,
	.api_ready = on_api_ready,
	.api_unavailable = on_api_unavailable,
	.node_ready = is_node_ready,
};

static void on_short_of_room(void *arg)
{
	struct agent *a = arg;

	if (agent_plugins_try(a))
		wake_up(&a->wake);
}

static bool find_peak(void *arg, const char *uuid, const struct pod_device *holder,
	uint64_t *ret_bytes)
{
	return monitoring_peak(&((struct agent *)arg)->monitoring, uuid, holder, ret_bytes);
}

static bool ask_holders_of_slices(void *arg,
	void (*done)(void *done_arg, const struct pod_devices *list, const struct error *err),
	void *done_arg)
{
	struct agent *a = arg;

	if (a->holders)
		holders_ask(a->holders, done, done_arg);
	return a->holders != NULL;
}

static int read_processes(void *arg, const char *const *uuids, uint32_t n,
	gpu_processes_done *done, void *done_arg)
{
	struct agent *a = arg;
	struct error err = ERROR_INIT;

	return a->monitor ? gpu_monitor_processes(a->monitor, uuids, n, done, done_arg, &err)
			  : -1;
}

static const struct slices_ops slices_ops = {
	.ask_holders = ask_holders_of_slices,
	.read_processes = read_processes,
	.short_of_room = on_short_of_room,
	.peak = find_peak,
};

static void ask_holders(void *arg,
	void (*done)(void *done_arg, const struct pod_devices *list, const struct error *err),
	void *done_arg)
{
	struct agent *a = arg;

	if (a->holders)
		holders_ask_anew(a->holders, done, done_arg);
	else
		done(done_arg, NULL, NULL);
}

static const struct mps_ops mps_ops = { .ask_holders = ask_holders };

static void probe(void *arg, bool all)
{
	struct agent *a = arg;

	if (all)
		gpu_monitor_probe_all(a->monitor);
	else
		gpu_monitor_probe(a->monitor);
}

static void release(void *arg)
{
	gpu_monitor_release(((struct agent *)arg)->monitor);
}

static bool is_released(void *arg)
{
	return gpu_monitor_released(((struct agent *)arg)->monitor);
}

static void ask_mps(void *arg)
{
	mps_ask(&((struct agent *)arg)->mps);
}

static bool has_mps_answered(void *arg, uint64_t since_ns)
{
	return mps_answered(&((struct agent *)arg)->mps, since_ns);
}

static uint32_t find_idle_servers(void *arg, uint64_t since_ns, uint32_t *ret, uint32_t max)
{
	return mps_idle_servers(&((struct agent *)arg)->mps, since_ns, ret, max);
}

static int has_mps_left(void *arg, bool (*leaves)(void *leaves_arg, const char *uuid),
	void *leaves_arg, struct error *err)
{
	return mps_left(&((struct agent *)arg)->mps, leaves, leaves_arg, err);
}

static bool is_kubelet_absent(void *arg)
{
	return holders_absent(((struct agent *)arg)->holders);
}

static bool is_ready(void *arg, struct buf *why)
{
	return agent_ready(arg, why);
}

static const struct mig_ops mig_ops = {
	.probe = probe,
	.release = release,
	.is_released = is_released,
	.mps_ask = ask_mps,
	.mps_answered = has_mps_answered,
	.mps_idle_servers = find_idle_servers,
	.mps_left = has_mps_left,
	.ask_holders = ask_holders,
	.is_kubelet_absent = is_kubelet_absent,
	.is_ready = is_ready,
};

/* --- what is shown --- */

struct view *agent_view(struct agent *a)
{
	return a->serve ? serve_view(a->serve) : NULL;
}

static int sample(void *arg, const struct gpu_sample_request *request, gpu_sample_done *done,
	void *done_arg, struct error *err)
{
	struct agent *a = arg;

	return a->monitor ? gpu_monitor_sample(a->monitor, request, done, done_arg, err) : -1;
}

static void want_p2p(void *arg, bool want)
{
	struct agent *a = arg;

	if (a->monitor)
		gpu_monitor_want_p2p(a->monitor, want);
}

static bool are_gpus_released(void *arg)
{
	return ((struct agent *)arg)->mig.released;
}

static enum holders_pids whose_pids(void *arg)
{
	return holders_pids(((struct agent *)arg)->holders);
}

static void refresh_slices(void *arg, void (*done)(void *done_arg), void *done_arg)
{
	slices_refresh(&((struct agent *)arg)->slices, done, done_arg);
}

static bool find_wanted(void *arg, bool wanted[FIELDS_MAX])
{
	struct agent *a = arg;

	serve_look(a->serve);
	serve_fields(a->serve, wanted);
	return serve_wants(a->serve, METRICS_FROM_P2P);
}

static void show(void *arg, struct view *v)
{
	struct agent *a = arg;

	if (a->serve)
		serve_show(a->serve, v);
}

static struct view_web web(void *arg)
{
	const struct serve *s = ((struct agent *)arg)->serve;
	struct web_counts c;
	struct view_web w = { .known = false };

	if (!s || !serve_counts(s, &c))
		return w;
	w = (struct view_web){ .known = true,
		.refused_full = c.refused_full,
		.refused_address = c.refused_address,
		.displaced = c.displaced,
		.timeouts = c.timeouts,
		.malformed = c.malformed,
		.pauses = c.throttled,
		.connections = c.open };
	static_assert(sizeof(w.requests) == sizeof(c.requests), "one for each class");
	memcpy(w.requests, c.requests, sizeof(w.requests));
	return w;
}

static bool is_device_ok(void *arg, const struct resource *r, const struct offer_device *d)
{
	return agent_device_ok(arg, r, d, NULL);
}

static const char *find_refusal(void *arg, const char *uuid)
{
	return agent_device_refusal(arg, uuid);
}

static const char *find_state(void *arg, const char *name, const char **ret_why)
{
	return agent_resource_state(arg, name, ret_why);
}

static void put_config(void *arg, struct view *v)
{
	const struct agent *a = arg;
	const struct agent_config_state *c = &a->config;
	CLEANUP(buf_fini) struct buf sharing = BUF_INIT(128);

	config_sharing_text(a->facts.config, &sharing);
	v->config_generation = c->generation;
	v->config_since_wall_ns = c->since_wall_ns;
	v->config_source = view_text(v, c->where);
	v->config_sharing = view_text(v, buf_str(&sharing));
	v->config_error = view_text(v, c->last_error.msg);
	v->config_decided = a->facts.decided;
}

static const struct monitoring_ops monitoring_ops = {
	.sample = sample,
	.want_p2p = want_p2p,
	.are_gpus_released = are_gpus_released,
	.ask_holders = ask_holders,
	.holders_pids = whose_pids,
	.refresh_slices = refresh_slices,
	.wanted = find_wanted,
	.show = show,
	.web = web,
	.device_ok = is_device_ok,
	.device_refusal = find_refusal,
	.resource_state = find_state,
	.is_ready = is_ready,
	.put_config = put_config,
};

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

	if (set_paths(a, o, err) < 0 || agent_lock(a, LOCK_WAIT_NS, err) < 0 ||
		agent_config_start(a, o, err) < 0)
		return -1;
	agent_health_start(a);
	/* The worker looks at the GPUs while we set up gRPC. */
	if (agent_gpus_start(a, err) < 0 || rpc_new(&a->rpc, a->loop, err) < 0 ||
		path_join(pod_resources, sizeof(pod_resources), a->kubelet_dir,
			"pod-resources/kubelet.sock", err) < 0 ||
		holders_new(&a->holders, a->rpc, pod_resources, err) < 0 ||
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
	struct slices_options slices_options = options->slices;

	if (!slices_options.state_dir)
		slices_options.state_dir = SLICE_STATE_DIR;
	a->state_dir = slices_options.state_dir;
	a->loop = loop;
	a->failure.loop = loop;
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
	node_init(&a->facts.node);
	wake_init(&a->wake, loop, agent_reconcile, a);
	(void)uv_timer_init(loop, &a->due);
	a->due.data = a;
	agent_health_init(a);
	agent_config_init(a, on_config, a);
	agent_upkeep_init(a);
	cluster_init(&a->cluster, &(struct cluster_context){
					  .loop = loop,
					  .facts = &a->facts,
					  .reporter = &a->reporter,
					  .options = options->cluster,
					  .sysfs_root = a->sysfs_root,
					  .started_wall_ns = a->started_wall_ns,
					  .config_map = options->config_map,
					  .config_dir = options->config_dir,
					  .ops = &cluster_ops,
					  .arg = a,
				  });
	mig_init(&a->mig, &(struct mig_context){
				  .loop = loop,
				  .facts = &a->facts,
				  .link = &a->cluster.link,
				  .reporter = &a->reporter,
				  .wake = &a->wake,
				  .run_dir = a->run_dir,
				  .nvml_path = a->nvml_path,
				  .sysfs_root = a->sysfs_root,
				  .procfs_root = a->procfs_root,
				  .options = options->mig,
				  .ops = &mig_ops,
				  .arg = a,
			  });
	slices_init(&a->slices, &(struct slices_context){
					.loop = loop,
					.facts = &a->facts,
					.reporter = &a->reporter,
					.run_dir = a->run_dir,
					.plugin_dir = a->plugin_dir,
					.options = slices_options,
					.ops = &slices_ops,
					.arg = a,
				});
	mps_init(&a->mps, &(struct mps_context){
				  .loop = loop,
				  .facts = &a->facts,
				  .reporter = &a->reporter,
				  .wake = &a->wake,
				  .run_dir = a->run_dir,
				  .nvml_path = a->nvml_path,
				  .options = options->mps,
				  .ops = &mps_ops,
				  .arg = a,
			  });
	monitoring_init(&a->monitoring, &(struct monitoring_context){
						.loop = loop,
						.facts = &a->facts,
						.link = &a->cluster.link,
						.reporter = &a->reporter,
						.components = &a->components,
						.slices = &a->slices,
						.plugin_dir = a->plugin_dir,
						.state_dir = a->state_dir,
						.started_wall_ns = a->started_wall_ns,
						.options = options->see,
						.ops = &monitoring_ops,
						.arg = a,
					});
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
	/* Early, because it answers the status requests that wait for the kubelet. */
	a->holders = holders_free(a->holders);
	a->local = http_server_stop(a->local);
	a->tcp = health_server_stop(a->tcp);
	agent_config_stop(a);
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
	agent_config_fini(a);
	cluster_fini(&a->cluster);
	mig_fini(&a->mig);
	slices_fini(&a->slices);
	mps_fini(&a->mps);
	monitoring_fini(&a->monitoring);
	agent_health_fini(a);
	a->serve = serve_free(a->serve);
	free(a->plugins);
	free(a->seen);
	free(a->kubelet_socket);
	free(a);
	return NULL;
}
