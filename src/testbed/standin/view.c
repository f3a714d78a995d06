/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/standin/view.h"

#include "lib/base/time.h"
#include "io/kubelet/messages/messages.h"

#include <string.h>

#define SET(object, key, value) (void)json_object_set_new((object), (key), (value))
#define ADD(list, value)        (void)json_array_append_new((list), (value))

static json_t *render_wall_time(uint64_t mono_ns)
{
	char text[TIME_RFC3339_MAX];
	uint64_t now = time_mono_ns();

	time_rfc3339(time_wall_ns() - (now > mono_ns ? now - mono_ns : 0), text);
	return json_string(text);
}

static json_t *render_age_ns(uint64_t mono_ns)
{
	uint64_t now = time_mono_ns();

	return json_integer((json_int_t)(now > mono_ns ? now - mono_ns : 0));
}

static json_t *map_json(const struct str_map *m)
{
	json_t *o = json_object();

	for (size_t i = 0; i < m->n; i++)
		SET(o, m->v[i].key, json_string(m->v[i].value));
	return o;
}

static json_t *new_list_json(void)
{
	json_t *o = json_object();

	SET(o, "apiVersion", json_string("v1"));
	SET(o, "kind", json_string("List"));
	SET(o, "items", json_array());
	return o;
}

static json_t *object_json(const char *api_version, const char *kind, const char *namespace_,
	const char *name, uint64_t created_ns)
{
	json_t *o = json_object(), *meta = json_object();

	SET(o, "apiVersion", json_string(api_version));
	SET(o, "kind", json_string(kind));
	SET(meta, "name", json_string(name));
	if (namespace_)
		SET(meta, "namespace", json_string(namespace_));
	if (created_ns)
		SET(meta, "creationTimestamp", render_wall_time(created_ns));
	SET(o, "metadata", meta);
	return o;
}

static bool is_object_selected(const char *namespace_, const char *name,
	const char *want_namespace, const char *want_name)
{
	return (!want_namespace || strcmp(namespace_, want_namespace) == 0) &&
	       (!want_name || strcmp(name, want_name) == 0);
}

/* --- pods --- */

static json_t *containers_json(const struct pod_spec *s, bool init)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->n_containers; i++) {
		const struct container *c = &s->containers[i];
		json_t *o, *limits;

		if (c->init != init)
			continue;
		o = json_object();
		limits = json_object();
		SET(o, "name", json_string(c->name));
		SET(o, "image", json_string(c->image));
		for (size_t k = 0; k < c->n_requests; k++)
			SET(limits, c->requests[k].resource,
				json_sprintf("%u", c->requests[k].n));
		SET(o, "resources", json_pack("{s:o}", "limits", limits));
		ADD(list, o);
	}
	return list;
}

static json_t *spec_json(const struct pod_spec *s, const char *node_name)
{
	json_t *o = json_object(), *init = containers_json(s, true);

	if (node_name)
		SET(o, "nodeName", json_string(node_name));
	if (s->node_selector.n)
		SET(o, "nodeSelector", map_json(&s->node_selector));
	SET(o, "restartPolicy", json_string(s->restart_never ? "Never" : "Always"));
	if (json_array_size(init) > 0)
		SET(o, "initContainers", init);
	else
		json_decref(init);
	SET(o, "containers", containers_json(s, false));
	return o;
}

/* The plugin's response for a grant. */
static void add_response(json_t *o, const struct device_grant *g)
{
	CLEANUP(allocate_response_fini) struct allocate_response r = { 0 };
	json_t *envs = json_object(), *mounts = json_array(), *devices = json_array();
	json_t *annotations = json_object(), *cdi = json_array();

	if (g->response &&
		allocate_response_decode(&r, g->response, g->response_len, NULL) == 0 &&
		r.n > 0) {
		const struct allocation *a = &r.v[0];

		for (size_t i = 0; i < a->n_envs; i++)
			SET(envs, a->envs[i].name, json_string(a->envs[i].value));
		for (size_t i = 0; i < a->n_annotations; i++)
			SET(annotations, a->annotations[i].name,
				json_string(a->annotations[i].value));
		for (size_t i = 0; i < a->cdi_devices.n; i++)
			ADD(cdi, json_string(a->cdi_devices.v[i]));
		for (size_t i = 0; i < a->n_mounts; i++)
			ADD(mounts, json_pack("{s:s, s:s, s:b}", "containerPath",
					    a->mounts[i].container_path, "hostPath",
					    a->mounts[i].host_path, "readOnly",
					    a->mounts[i].read_only));
		for (size_t i = 0; i < a->n_devices; i++)
			ADD(devices, json_pack("{s:s, s:s, s:s}", "containerPath",
					     a->devices[i].container_path, "hostPath",
					     a->devices[i].host_path, "permissions",
					     a->devices[i].permissions));
	}
	SET(o, "envs", envs);
	SET(o, "mounts", mounts);
	SET(o, "devices", devices);
	SET(o, "annotations", annotations);
	SET(o, "cdiDevices", cdi);
}

static json_t *grants_json(struct standin *s, const struct pod *p)
{
	const struct device_manager *m = kubelet_devices(standin_kubelet(s));
	json_t *list = json_array();

	for (size_t i = 0; i < device_manager_n_grants(m); i++) {
		const struct device_grant *g = device_manager_grant(m, i);
		json_t *o, *ids;

		if (strcmp(g->pod_uid, p->uid) != 0)
			continue;
		o = json_object();
		ids = json_array();
		for (size_t k = 0; k < g->ids.n; k++)
			ADD(ids, json_string(g->ids.v[k]));
		SET(o, "container", json_string(g->container));
		SET(o, "resource", json_string(g->resource));
		SET(o, "ids", ids);
		add_response(o, g);
		ADD(list, o);
	}
	return list;
}

/* The environment of each container: the plugin's variables and its own. Its own ones take precedence. */
static json_t *env_json(struct standin *s, const struct pod *p)
{
	const struct device_manager *m = kubelet_devices(standin_kubelet(s));
	json_t *all = json_object();

	for (size_t i = 0; i < p->spec->n_containers; i++) {
		const struct container *c = &p->spec->containers[i];
		json_t *env = json_object();

		for (size_t k = 0; k < device_manager_n_grants(m); k++) {
			const struct device_grant *g = device_manager_grant(m, k);
			json_t *o;

			if (strcmp(g->pod_uid, p->uid) != 0 ||
				strcmp(g->container, c->name) != 0)
				continue;
			o = json_object();
			add_response(o, g);
			(void)json_object_update(env, json_object_get(o, "envs"));
			json_decref(o);
		}
		for (size_t k = 0; k < c->env.n; k++)
			SET(env, c->env.v[k].key, json_string(c->env.v[k].value));
		SET(all, c->name, env);
	}
	return all;
}

static json_t *events_json(const struct pod *p)
{
	json_t *list = json_array();

	for (size_t i = 0; i < p->n_events; i++) {
		const struct pod_event *e = &p->events[i];

		ADD(list, json_pack("{s:s, s:s, s:s, s:s, s:i, s:o}", "type",
				  e->warning ? "Warning" : "Normal", "reason", e->reason,
				  "from", e->from, "message", e->text, "count", (int)e->count,
				  "ageNs", render_age_ns(e->last_ns)));
	}
	return list;
}

static json_t *render_pod_status(const struct pod *p)
{
	json_t *o = json_object();

	SET(o, "phase", json_string(pod_phase_name(p->phase)));
	if (p->phase == POD_FAILED) {
		SET(o, "reason", json_string(p->reason ? p->reason : ""));
		SET(o, "message", json_string(p->message ? p->message : ""));
	}
	if (p->phase == POD_RUNNING)
		SET(o, "startTime", render_wall_time(p->started_ns));
	if (p->phase == POD_PENDING && p->message)
		SET(o, "conditions",
			json_pack("[{s:s, s:s, s:s, s:s}]", "type", "PodScheduled", "status",
				"False", "reason", p->reason ? p->reason : "", "message",
				p->message));
	return o;
}

json_t *view_pods(struct standin *s, const char *namespace_, const char *name)
{
	const struct simulated_cluster *c = standin_cluster(s);
	json_t *list = new_list_json(), *items = json_object_get(list, "items");

	for (size_t i = 0; i < c->n_pods; i++) {
		const struct pod *p = c->pods[i];
		json_t *o, *meta, *own;

		if (!is_object_selected(p->namespace_, p->name, namespace_, name))
			continue;
		o = object_json("v1", "Pod", p->namespace_, p->name, p->created_ns);
		meta = json_object_get(o, "metadata");
		own = json_object();
		SET(meta, "uid", json_string(p->uid));
		SET(meta, "labels", map_json(&p->spec->labels));
		SET(o, "spec",
			spec_json(p->spec,
				p->phase == POD_PENDING ? NULL : standin_node(s)->name));
		SET(o, "status", render_pod_status(p));
		SET(own, "status", json_string(pod_status(p)));
		SET(own, "deployment", p->owner ? json_string(p->owner) : json_null());
		SET(own, "ageNs", render_age_ns(p->created_ns));
		SET(own, "grants", grants_json(s, p));
		SET(own, "env", env_json(s, p));
		SET(own, "events", events_json(p));
		SET(o, "gpuslice", own);
		ADD(items, o);
	}
	return list;
}

/* --- the rest --- */

json_t *view_deployments(struct standin *s, const char *namespace_, const char *name)
{
	const struct simulated_cluster *c = standin_cluster(s);
	json_t *list = new_list_json(), *items = json_object_get(list, "items");

	for (size_t i = 0; i < c->n_deployments; i++) {
		const struct deployment *d = &c->deployments[i];
		struct pod_counts t = cluster_count_pods(c, d);
		json_t *o;

		if (!is_object_selected(d->namespace_, d->name, namespace_, name))
			continue;
		o = object_json("apps/v1", "Deployment", d->namespace_, d->name, d->created_ns);
		SET(json_object_get(o, "metadata"), "labels", map_json(&d->labels));
		SET(o, "spec",
			json_pack("{s:i, s:{s:o}, s:{s:{s:o}, s:o}}", "replicas",
				(int)d->replicas, "selector", "matchLabels",
				map_json(&d->selector), "template", "metadata", "labels",
				map_json(&d->template_->labels), "spec",
				spec_json(d->template_, NULL)));
		SET(o, "status",
			json_pack("{s:i, s:i, s:i, s:i}", "replicas", (int)(t.total - t.failed),
				"readyReplicas", (int)t.running, "availableReplicas",
				(int)t.running, "unavailableReplicas",
				(int)(d->replicas - t.running)));
		SET(o, "gpuslice", json_pack("{s:o}", "ageNs", render_age_ns(d->created_ns)));
		ADD(items, o);
	}
	return list;
}

json_t *view_config_maps(struct standin *s, const char *namespace_, const char *name)
{
	const struct simulated_cluster *c = standin_cluster(s);
	json_t *list = new_list_json(), *items = json_object_get(list, "items");

	for (size_t i = 0; i < c->n_config_maps; i++) {
		const struct config_map *m = &c->config_maps[i];
		json_t *o;

		if (!is_object_selected(m->namespace_, m->name, namespace_, name))
			continue;
		o = object_json("v1", "ConfigMap", m->namespace_, m->name, m->created_ns);
		SET(o, "data", map_json(&m->data));
		SET(o, "gpuslice", json_pack("{s:o}", "ageNs", render_age_ns(m->created_ns)));
		ADD(items, o);
	}
	return list;
}

json_t *view_nodes(struct standin *s)
{
	const struct node_view *v = standin_node(s);
	json_t *list = new_list_json(), *o = object_json("v1", "Node", NULL, v->name, 0);
	json_t *capacity = json_object(), *allocatable = json_object(), *taints = json_array();
	bool ready = kubelet_runs(standin_kubelet(s));

	SET(json_object_get(o, "metadata"), "labels", map_json(v->labels));
	for (size_t i = 0; i < v->n_taints; i++)
		ADD(taints, json_pack("{s:s, s:s, s:s}", "key", v->taints[i].key, "value",
				    v->taints[i].value, "effect", v->taints[i].effect));
	SET(o, "spec", json_pack("{s:o}", "taints", taints));
	for (size_t i = 0; i < v->n_resources; i++) {
		SET(capacity, v->resources[i].name,
			json_sprintf("%u", v->resources[i].capacity));
		SET(allocatable, v->resources[i].name,
			json_sprintf("%u", v->resources[i].allocatable));
	}
	SET(capacity, "pods", json_sprintf("%u", v->max_pods));
	SET(allocatable, "pods", json_sprintf("%u", v->max_pods));
	SET(o, "status",
		json_pack("{s:o, s:o, s:[{s:s, s:s}], s:{s:s}}", "capacity", capacity,
			"allocatable", allocatable, "conditions", "type", "Ready", "status",
			ready ? "True" : "Unknown", "nodeInfo", "kubeletVersion",
			STANDIN_VERSION));
	ADD(json_object_get(list, "items"), o);
	return list;
}

static json_t *render_devices_json(struct standin *s, const char *resource)
{
	const struct device_manager *m = kubelet_devices(standin_kubelet(s));
	json_t *list = json_array();
	size_t n;
	const struct managed_device *device = device_manager_devices(m, resource, &n);

	for (size_t i = 0; i < n; i++) {
		const struct device_grant *g =
			device_manager_find_id(m, resource, device[i].id);
		const struct pod *p =
			g ? cluster_pod_by_uid(standin_cluster(s), g->pod_uid) : NULL;
		json_t *o = json_object();

		SET(o, "id", json_string(device[i].id));
		SET(o, "healthy", json_boolean(device[i].healthy));
		SET(o, "numaNode",
			device[i].numa_node < 0 ? json_null()
						: json_integer(device[i].numa_node));
		SET(o, "holder",
			!p ? json_null()
			   : json_pack("{s:s, s:s, s:s}", "namespace", p->namespace_, "pod",
				     p->name, "container", g->container));
		ADD(list, o);
	}
	return list;
}

json_t *view_resources(struct standin *s)
{
	const struct simulated_cluster *c = standin_cluster(s);
	const struct device_manager *m = kubelet_devices(standin_kubelet(s));
	const struct kubelet_counts *counts = kubelet_counts(standin_kubelet(s));
	json_t *list = json_object(), *items = json_array();

	for (size_t i = 0; i < device_manager_n_resources(m); i++) {
		const char *name = device_manager_resource(m, i);
		struct resource_count n;
		json_t *o = json_object();

		(void)device_manager_count(m, name, &n);
		SET(o, "name", json_string(name));
		SET(o, "capacity", json_integer(n.capacity));
		SET(o, "allocatable", json_integer(n.allocatable));
		SET(o, "granted", json_integer(n.granted));
		SET(o, "requested",
			json_integer(
				(json_int_t)scheduler_requested(c->pods, c->n_pods, name)));
		SET(o, "connected", json_boolean(n.connected));
		SET(o, "endpoint", json_string(n.endpoint));
		SET(o, "preferredAllocation", json_boolean(n.prefer));
		SET(o, "devices", render_devices_json(s, name));
		ADD(items, o);
	}
	SET(list, "items", items);
	SET(list, "counts",
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "registrations",
			(json_int_t)counts->registrations, "refusedRegistrations",
			(json_int_t)counts->refused, "allocations",
			(json_int_t)counts->allocations, "failedAllocations",
			(json_int_t)counts->failed_allocations, "preferredAllocations",
			(json_int_t)counts->preferences, "podResourcesCalls",
			(json_int_t)counts->lists, "rateLimited",
			(json_int_t)counts->rejected_lists));
	return list;
}
