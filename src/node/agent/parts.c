/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include <assert.h>
#include <string.h>

/*
 * Connects the parts of the agent. No part calls another one. Three exceptions: MIG reads its layouts by config/source/,
 * monitoring reads the slices (struct slices), and serve/ reads all parts for the status. A part asks for what it
 * needs through its ops, and all ops are here.
 */

/* --- reports --- */

static void on_reporter_event(void *arg, const struct event_about *about, enum event_type type,
	const char *reason, const char *message)
{
	struct agent *a = arg;

	event_send(&a->cluster.events, about, type, reason, message);
}

static void on_component(void *arg, enum component c, const struct error *why)
{
	struct agent *a = arg;

	components_report(&a->components, c, why);
}

/* --- ops of the parts --- */

static void on_config(void *arg, bool moved)
{
	struct agent *a = arg;

	agent_gpus_follow_config(a, moved);
	wake_up(&a->wake);
}

static const struct agent_config_ops config_ops = { .changed = on_config };

static void on_agent_node_changed(void *arg)
{
	struct agent *a = arg;
	const struct node_object *n = a->cluster.link.node;

	/* A deleted Node has no labels to choose a config by: the config in force stays. */
	if (node_object_state(n) == NODE_PRESENT)
		agent_config_label(&a->config, node_object_uid(n),
			node_object_label(n, a->cluster.c.options.node_label));
	mig_sync(&a->mig);
}

static void on_api_ready(void *arg, struct api *api)
{
	struct agent *a = arg;

	agent_config_with_api(&a->config, api);
	mig_with_api(&a->mig, api);
	monitoring_with_api(&a->monitoring, api);
	agent_counters_with_api(a, api);
}

static void on_api_unavailable(void *arg, const struct error *why)
{
	struct agent *a = arg;

	agent_config_without_api(&a->config);
	agent_counters_without_api(a, why);
}

/*
 * Whether the startup taint can go: the last decision made an offer without an error, the agent is ready (every resource
 * of the offer is registered, even if there is none), and the MIG layout that was desired at the start was tried.
 */
static bool can_remove_startup_taint(void *arg)
{
	const struct agent *a = arg;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);

	return a->facts.offered.offer && a->facts.offer_error.code == ERR_NONE &&
	       agent_ready(a, &why) && mig_settled(&a->mig);
}

static const struct cluster_ops cluster_ops = {
	.node_changed = on_agent_node_changed,
	.api_ready = on_api_ready,
	.api_unavailable = on_api_unavailable,
	.node_ready = can_remove_startup_taint,
};

static int check_allocation(void *arg, const struct resource *r, const char *const *ids,
	size_t n_ids, struct error *err)
{
	return slices_check(&((struct agent *)arg)->slices, r, ids, n_ids, err);
}

static int complete_allocation(void *arg, const struct resource *r, const char *const *ids,
	size_t n_ids, struct allocation *answer, struct error *err)
{
	struct agent *a = arg;

	if (mps_allocate(&a->mps, r, ids, n_ids, answer, err) < 0)
		return -1;
	return slices_allocate(&a->slices, r, ids, n_ids, answer, err);
}

static void on_allocated(void *arg, const char *resource, const char *const *ids, size_t n_ids,
	bool ok)
{
	monitoring_allocated(&((struct agent *)arg)->monitoring, resource, ids, n_ids, ok);
}

static bool is_mps_device_ok(void *arg, const struct resource *r, const struct offer_device *d,
	const char **ret_why)
{
	return mps_device_ok(&((struct agent *)arg)->mps, r, d, ret_why);
}

static const struct agent_kubelet_ops kubelet_ops = {
	.check = check_allocation,
	.allocate = complete_allocation,
	.allocated = on_allocated,
	.device_ok = is_mps_device_ok,
};

static void recheck_plugin_devices(void *arg)
{
	struct agent *a = arg;

	if (agent_kubelet_try(&a->kubelet))
		wake_up(&a->wake);
}

static bool find_peak(void *arg, const char *uuid, const struct pod_device *pod_device,
	uint64_t *ret_bytes)
{
	return monitoring_peak(&((struct agent *)arg)->monitoring, uuid, pod_device, ret_bytes);
}

static bool request_slices_pod_devices(void *arg,
	void (*done)(void *done_arg, const struct pod_devices *list, const struct error *err),
	void *done_arg)
{
	struct agent *a = arg;

	if (a->kubelet.pod_resources)
		pod_resources_cache_request(a->kubelet.pod_resources, done, done_arg);
	return a->kubelet.pod_resources != NULL;
}

static int request_gpu_processes(void *arg, const char *const *uuids, uint32_t n,
	gpu_processes_done *done, void *done_arg)
{
	struct agent *a = arg;
	struct error err = ERROR_INIT;

	return a->gpus.monitor
		       ? gpu_monitor_processes(a->gpus.monitor, uuids, n, done, done_arg, &err)
		       : -1;
}

static const struct agent_slices_ops slices_ops = {
	.request_pod_devices = request_slices_pod_devices,
	.read_processes = request_gpu_processes,
	.on_dir_unavailable = recheck_plugin_devices,
	.peak = find_peak,
};

static void request_fresh_pod_devices(void *arg,
	void (*done)(void *done_arg, const struct pod_devices *list, const struct error *err),
	void *done_arg)
{
	struct agent *a = arg;

	if (a->kubelet.pod_resources)
		pod_resources_cache_refresh(a->kubelet.pod_resources, done, done_arg);
	else
		done(done_arg, NULL, NULL);
}

static const struct mps_ops mps_ops = { .request_pod_devices = request_fresh_pod_devices };

static void probe_agent_gpus(void *arg, bool all)
{
	struct agent *a = arg;

	if (all)
		gpu_monitor_probe_all(a->gpus.monitor);
	else
		gpu_monitor_probe(a->gpus.monitor);
}

static void release_agent_gpus(void *arg)
{
	gpu_monitor_release(((struct agent *)arg)->gpus.monitor);
}

static bool is_released(void *arg)
{
	return gpu_monitor_released(((struct agent *)arg)->gpus.monitor);
}

static void query_mps_clients(void *arg)
{
	mps_query_clients(&((struct agent *)arg)->mps);
}

static bool has_mps_answered(void *arg, uint64_t since_ns)
{
	return mps_has_answered(&((struct agent *)arg)->mps, since_ns);
}

static uint32_t find_idle_servers(void *arg, uint64_t since_ns, uint32_t *ret, uint32_t max)
{
	return mps_idle_servers(&((struct agent *)arg)->mps, since_ns, ret, max);
}

static int check_mps_devices_withdrawn(void *arg,
	bool (*leaves)(void *leaves_arg, const char *uuid), void *leaves_arg, struct error *err)
{
	return mps_check_withdrawn(&((struct agent *)arg)->mps, leaves, leaves_arg, err);
}

static bool is_kubelet_absent(void *arg)
{
	return pod_resources_cache_is_absent(((struct agent *)arg)->kubelet.pod_resources);
}

static bool is_agent_ready(void *arg, struct buf *why)
{
	return agent_ready(arg, why);
}

static const struct mig_ops mig_ops = {
	.probe = probe_agent_gpus,
	.release = release_agent_gpus,
	.is_released = is_released,
	.mps_query_clients = query_mps_clients,
	.mps_has_answered = has_mps_answered,
	.mps_idle_servers = find_idle_servers,
	.mps_check_withdrawn = check_mps_devices_withdrawn,
	.request_pod_devices = request_fresh_pod_devices,
	.is_kubelet_absent = is_kubelet_absent,
	.is_ready = is_agent_ready,
};

/* --- the view --- */

static int request_gpu_sample(void *arg, const struct gpu_sample_request *request,
	gpu_sample_done *done, void *done_arg, struct error *err)
{
	struct agent *a = arg;

	return a->gpus.monitor
		       ? gpu_monitor_sample(a->gpus.monitor, request, done, done_arg, err)
		       : -1;
}

static void want_p2p(void *arg, bool want)
{
	struct agent *a = arg;

	if (a->gpus.monitor)
		gpu_monitor_want_p2p(a->gpus.monitor, want);
}

static bool are_gpus_released(void *arg)
{
	return mig_is_released(&((struct agent *)arg)->mig);
}

static enum kubelet_pids get_kubelet_pids(void *arg)
{
	return pod_resources_cache_pids(((struct agent *)arg)->kubelet.pod_resources);
}

static void refresh_slices(void *arg, void (*done)(void *done_arg), void *done_arg)
{
	slices_refresh(&((struct agent *)arg)->slices, done, done_arg);
}

static bool collect_wanted_fields(void *arg, bool wanted[FIELDS_MAX])
{
	struct agent *a = arg;

	serve_check_counters(a->serve);
	serve_fields(a->serve, wanted);
	return serve_has_source(a->serve, METRICS_FROM_P2P);
}

static void show_agent_view(void *arg, struct view *v)
{
	struct agent *a = arg;

	if (a->serve)
		serve_show(a->serve, v);
}

static struct view_web get_view_web_counts(void *arg)
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
	return agent_kubelet_device_ok(&((struct agent *)arg)->kubelet, r, d, NULL);
}

static const char *find_refusal(void *arg, const char *uuid)
{
	return agent_kubelet_refusal(&((struct agent *)arg)->kubelet, uuid);
}

static const char *find_state(void *arg, const char *name, const char **ret_why)
{
	return agent_kubelet_state(&((struct agent *)arg)->kubelet, name, ret_why);
}

static void fill_view_config(void *arg, struct view *v)
{
	const struct agent *a = arg;
	const struct agent_config *c = &a->config;
	CLEANUP(buf_fini) struct buf sharing = BUF_INIT(128);

	config_sharing_text(a->facts.config, &sharing);
	v->config_generation = a->facts.config_generation;
	v->config_since_wall_ns = c->since_wall_ns;
	v->config_source = view_text(v, c->where);
	v->config_sharing = view_text(v, buf_str(&sharing));
	v->config_error = view_text(v, c->last_error.msg);
	v->config_decided = a->facts.decided;
}

static const struct monitoring_ops monitoring_ops = {
	.sample = request_gpu_sample,
	.want_p2p = want_p2p,
	.are_gpus_released = are_gpus_released,
	.request_pod_devices = request_fresh_pod_devices,
	.kubelet_pids = get_kubelet_pids,
	.refresh_slices = refresh_slices,
	.collect_wanted_fields = collect_wanted_fields,
	.publish = show_agent_view,
	.web = get_view_web_counts,
	.device_ok = is_device_ok,
	.device_refusal = find_refusal,
	.resource_state = find_state,
	.is_ready = is_agent_ready,
	.fill_view_config = fill_view_config,
};

/* --- the status and health servers --- */

static void request_status_pod_devices(void *arg,
	void (*done)(void *done_arg, const struct pod_devices *list, const struct error *err),
	void *done_arg)
{
	pod_resources_cache_request(((struct agent *)arg)->kubelet.pod_resources, done,
		done_arg);
}

/* The same data as at --metrics-listen, for tools on this node. */
static int get_served_view(void *arg, struct view **ret, struct error *err)
{
	struct agent *a = arg;

	if (!a->serve)
		return error_set(err, ERR_UNAVAILABLE,
			"this agent measures nothing; start it without --metrics=false");
	*ret = serve_view(a->serve);
	if (!*ret)
		return error_set(err, ERR_UNAVAILABLE,
			"nothing has been looked at yet; try again in a second");
	return 0;
}

static const struct agent_http_ops http_ops = {
	.is_ready = is_agent_ready,
	.refresh_slices = refresh_slices,
	.request_pod_devices = request_status_pod_devices,
	.get_view = get_served_view,
};

/* --- init --- */

static void init_config(struct agent *a, const struct agent_options *o)
{
	const struct agent_config_context context = {
		.loop = a->loop,
		.facts = &a->facts,
		.link = &a->cluster.link,
		.reporter = &a->reporter,
		.state_dir = a->state_dir,
		.sources = o->sources,
		.options = { .file = o->config_path,
			.dir = o->config_dir,
			.map = o->config_map,
			.default_name = o->default_config,
			.fallbacks = &o->fallbacks },
		.ops = &config_ops,
		.arg = a,
	};

	agent_config_init(&a->config, &context);
}

static void init_kubelet(struct agent *a, const struct agent_options *o)
{
	const struct agent_kubelet_context context = {
		.loop = a->loop,
		.facts = &a->facts,
		.reporter = &a->reporter,
		.cdi = &a->cdi,
		.wake = &a->wake,
		.failure = &a->failure,
		.ops = &kubelet_ops,
		.arg = a,
	};

	agent_cdi_init(&a->cdi, &a->facts, o->sysfs_root, o->cdi_dir);
	agent_kubelet_init(&a->kubelet, &context);
}

static void init_cluster(struct agent *a, const struct agent_options *o)
{
	const struct cluster_context context = {
		.loop = a->loop,
		.facts = &a->facts,
		.reporter = &a->reporter,
		.options = o->cluster,
		.sysfs_root = a->gpus.sysfs_root,
		.started_wall_ns = a->started_wall_ns,
		.config_map = o->config_map,
		.config_dir = o->config_dir,
		.ops = &cluster_ops,
		.arg = a,
	};

	cluster_init(&a->cluster, &context);
}

static void init_mig(struct agent *a, const struct agent_options *o)
{
	const struct mig_context context = {
		.loop = a->loop,
		.facts = &a->facts,
		.link = &a->cluster.link,
		.reporter = &a->reporter,
		.wake = &a->wake,
		.run_dir = a->run_dir,
		.nvml_path = a->gpus.nvml_path,
		.sysfs_root = a->gpus.sysfs_root,
		.procfs_root = a->gpus.procfs_root,
		.options = o->mig,
		.ops = &mig_ops,
		.arg = a,
	};

	mig_init(&a->mig, &context);
}

static void init_slices(struct agent *a, const struct agent_options *o)
{
	struct slices_context context = {
		.loop = a->loop,
		.facts = &a->facts,
		.reporter = &a->reporter,
		.run_dir = a->run_dir,
		.plugin_dir = a->kubelet.plugin_dir,
		.options = o->slices,
		.ops = &slices_ops,
		.arg = a,
	};

	context.options.state_dir = a->state_dir;
	slices_init(&a->slices, &context);
}

static void init_mps(struct agent *a, const struct agent_options *o)
{
	const struct mps_context context = {
		.loop = a->loop,
		.facts = &a->facts,
		.reporter = &a->reporter,
		.wake = &a->wake,
		.run_dir = a->run_dir,
		.nvml_path = a->gpus.nvml_path,
		.options = o->mps,
		.ops = &mps_ops,
		.arg = a,
	};

	mps_init(&a->mps, &context);
}

static void init_monitoring(struct agent *a, const struct agent_options *o)
{
	const struct monitoring_context context = {
		.loop = a->loop,
		.facts = &a->facts,
		.link = &a->cluster.link,
		.reporter = &a->reporter,
		.components = &a->components,
		.slices = &a->slices,
		.plugin_dir = a->kubelet.plugin_dir,
		.state_dir = a->state_dir,
		.started_wall_ns = a->started_wall_ns,
		.options = o->monitoring,
		.ops = &monitoring_ops,
		.arg = a,
	};

	monitoring_init(&a->monitoring, &context);
}

static void init_http(struct agent *a, const struct agent_options *o)
{
	const struct agent_http_context context = {
		.loop = a->loop,
		.reporter = &a->reporter,
		.run_dir = a->run_dir,
		.listen = o->listen,
		.status = { .facts = &a->facts,
			.components = &a->components,
			.config = &a->config,
			.kubelet = &a->kubelet,
			.cluster = &a->cluster,
			.mig = &a->mig,
			.mps = &a->mps,
			.slices = &a->slices,
			.started_wall_ns = a->started_wall_ns },
		.ops = &http_ops,
		.arg = a,
	};

	agent_http_init(&a->http, &context);
}

void agent_parts_init(struct agent *a, const struct agent_options *o)
{
	a->reporter = (struct reporter){ .event = on_reporter_event,
		.component = on_component,
		.arg = a };
	a->components.reporter = &a->reporter;
	a->run_lock = (struct run_lock){ .dir = a->run_dir,
		.reporter = &a->reporter,
		.failure = &a->failure,
		.fd = -1 };
	a->gpus = (struct agent_gpus){ .nvml_path = o->nvml_path,
		.sysfs_root = o->sysfs_root,
		.procfs_root = o->procfs_root };
	a->health_changes.reporter = &a->reporter;
	health_saver_init(&a->health_saver, a->loop, &a->facts, &a->reporter, a->state_dir,
		o->procfs_root);
	init_config(a, o);
	init_kubelet(a, o);
	init_cluster(a, o);
	init_mig(a, o);
	init_slices(a, o);
	init_mps(a, o);
	init_monitoring(a, o);
	init_http(a, o);
}
