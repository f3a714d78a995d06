/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/serve/status.h"

#include "node/agent/api/patch.h"
#include "lib/base/buf.h"
#include "lib/base/time.h"
#include "io/config/json.h"
#include "model/slice/slice.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#define SET(object, key, value) (void)json_object_set_new((object), (key), (value))

static json_t *format_status_time(uint64_t wall_ns)
{
	char text[TIME_RFC3339_MAX];

	if (wall_ns == 0)
		return json_null();
	time_rfc3339(wall_ns, text);
	return json_any_text(text);
}

/* Monotonic to wall clock, for a date that people read. */
static json_t *mono_time(uint64_t mono_ns)
{
	uint64_t now = time_mono_ns();

	return format_status_time(time_wall_ns() - (now > mono_ns ? now - mono_ns : 0));
}

static json_t *format_status_strings(const struct strv *v)
{
	json_t *list = json_array();

	for (size_t i = 0; i < v->n; i++)
		(void)json_array_append_new(list, json_any_text(v->v[i]));
	return list;
}

static json_t *format_status_error(const struct error *err, uint64_t wall_ns)
{
	json_t *o;

	if (!err || err->code == ERR_NONE)
		return json_null();
	o = json_pack("{s:s, s:s}", "code", error_class(err->code)->name, "message", err->msg);
	if (wall_ns)
		SET(o, "at", format_status_time(wall_ns));
	return o;
}

static json_t *sharing_status(const struct config *c)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(128);

	config_sharing_text(c, &text);
	return json_any_text(buf_str(&text));
}

static json_t *config_status(const struct agent_status_context *c)
{
	const struct agent_config *config = c->config;
	json_t *o = json_object();

	SET(o, "file", config->where ? json_any_text(config->where) : json_null());
	SET(o, "source",
		config->source ? json_any_text(config_source_text(config->source))
			       : json_null());
	SET(o, "sourceError",
		format_status_error(config->source ? config_source_error(config->source) : NULL,
			0));
	SET(o, "entry", config->chosen ? json_any_text(config->entry) : json_null());
	SET(o, "chosenBy",
		config->chosen ? json_string(config_choice_by_text(config->by)) : json_null());
	SET(o, "label",
		*config->label.value ? json_any_text(config->label.value) : json_null());
	SET(o, "decided", json_boolean(c->facts->decided));
	SET(o, "waiting", json_any_text(config->waiting));
	SET(o, "since", format_status_time(config->since_wall_ns));
	SET(o, "generation", json_integer((json_int_t)c->facts->config_generation));
	SET(o, "sharing", sharing_status(c->facts->config));
	SET(o, "warnings", format_status_strings(&config->warnings));
	SET(o, "lastError",
		format_status_error(&config->last_error, config->last_error_wall_ns));
	return o;
}

static const char *const node_states[] = {
	[NODE_UNKNOWN] = "unknown",
	[NODE_ABSENT] = "absent",
	[NODE_PRESENT] = "present",
};

static json_t *labels_status(const struct cluster_client *c)
{
	const struct label_writer *w = &c->labels;
	const struct error *err =
		c->label_state.error.code ? &c->label_state.error : &w->task.last_error;
	json_t *o = json_object();

	SET(o, "where", json_string(labels_where_text(w->where)));
	SET(o, "count", json_integer(w->desired_labels ? (json_int_t)w->desired_labels->n : 0));
	SET(o, "written", json_boolean(w->written));
	SET(o, "at", format_status_time(w->written_wall_ns));
	SET(o, "error", format_status_error(err, 0));
	return o;
}

/* "none": the Node has no such taint. "waiting": it has, and not everything is registered yet. */
static json_t *taint_status(const struct cluster_client *c)
{
	json_t *o = json_object();
	bool there = c->link.node &&
		     taint_is(node_object_taints(c->link.node), c->c.options.startup_taint);
	bool known = c->link.node && node_object_state(c->link.node) == NODE_PRESENT;

	SET(o, "key", json_any_text(c->c.options.startup_taint));
	SET(o, "state",
		json_string(!*c->c.options.startup_taint ? "off"
			    : !known                     ? "unknown"
			    : there                      ? "waiting"
							 : "none"));
	SET(o, "removed", format_status_time(c->taint_removed_wall_ns));
	SET(o, "error", format_status_error(&c->taint.last_error, 0));
	return o;
}

static json_t *condition_status(const struct cluster_client *c)
{
	const json_t *have = c->link.node ? node_object_condition(c->link.node) : NULL;
	json_t *o = json_object();

	SET(o, "type", json_any_text(c->c.options.node_condition));
	SET(o, "status", json_incref(json_object_get(have, "status")) ?: json_null());
	SET(o, "reason", json_incref(json_object_get(have, "reason")) ?: json_null());
	SET(o, "message", json_incref(json_object_get(have, "message")) ?: json_null());
	SET(o, "error", format_status_error(&c->condition.task.last_error, 0));
	return o;
}

static json_t *cluster_status(const struct cluster_client *c)
{
	const struct error *trouble =
		c->link.node ? node_object_error(c->link.node) : &c->link.why;
	json_t *o = json_object();

	SET(o, "server", c->link.api ? json_any_text(api_server(c->link.api)) : json_null());
	SET(o, "state",
		json_string(!c->link.possible           ? "off"
			    : !c->link.node             ? "starting"
			    : trouble->code == ERR_NONE ? "in touch"
							: "away"));
	SET(o, "error", format_status_error(trouble, 0));
	SET(o, "node", json_any_text(c->c.options.node_name));
	SET(o, "nodeState",
		json_string(node_states[c->link.node ? node_object_state(c->link.node)
						     : NODE_UNKNOWN]));
	SET(o, "requests",
		json_integer(c->link.api ? (json_int_t)api_requests(c->link.api) : 0));
	SET(o, "labels", labels_status(c));
	SET(o, "startupTaint", taint_status(c));
	SET(o, "nodeCondition", condition_status(c));
	SET(o, "events",
		json_pack("{s:I, s:o}", "dropped", (json_int_t)c->events.dropped, "error",
			format_status_error(&c->events.task.last_error, 0)));
	return o;
}

static json_t *nvml_status(const struct facts *f)
{
	const struct inventory *inv = f->node.inv;
	json_t *o = json_object();
	bool up = f->nvml_answered && f->nvml_down.code == ERR_NONE;

	SET(o, "state", json_string(up ? "up" : f->nvml_down.code ? "down" : "starting"));
	SET(o, "error", format_status_error(&f->nvml_down, 0));
	SET(o, "driverVersion", inv ? json_any_text(inv->driver_version) : json_null());
	SET(o, "nvmlVersion", inv ? json_any_text(inv->nvml_version) : json_null());
	if (inv && inv->cuda_version)
		SET(o, "cudaVersion",
			json_sprintf("%d.%d", inv->cuda_version / 1000,
				inv->cuda_version % 1000 / 10));
	return o;
}

/* The value of each health signal; null: not known. */
static json_t *signals_status(const struct gpu *g)
{
	json_t *o = json_object();

	for (int i = 0; i < GPU_SIGNAL_COUNT_; i++) {
		uint64_t value;
		bool known = gpu_signal(g, (enum gpu_signal)i, &value);

		SET(o, health_signals[i].name,
			known ? json_integer((json_int_t)value) : json_null());
	}
	return o;
}

/* "" in an inventory: NVML could not report the text. */
static json_t *format_status_text(const char *text)
{
	return *text ? json_any_text(text) : json_null();
}

/* 0 in an inventory: NVML could not report the value. */
static json_t *bytes_or_null(uint64_t bytes)
{
	return bytes ? json_integer((json_int_t)bytes) : json_null();
}

/* A GPU that is gone has lost its index: NVML may have given the index to another GPU. */
static json_t *index_status(const struct gpu *g)
{
	return g->fault == GPU_FAULT_GONE ? json_null() : json_integer(g->index);
}

static json_t *xids_status(const struct gpu *g, uint64_t count)
{
	return gpu_xids_known(g, count) ? json_integer((json_int_t)count) : json_null();
}

static json_t *mig_mode_status(const struct gpu *g)
{
	if (g->mig_unknown)
		return json_null();
	if (g->mig_enabled)
		return json_string("on");
	return json_string(g->mig_capable ? "off" : "none");
}

static json_t *gpu_status(const struct node_gpu *g)
{
	json_t *o = json_object();

	SET(o, "index", index_status(&g->gpu));
	SET(o, "uuid", format_status_text(g->gpu.uuid));
	SET(o, "name", format_status_text(g->gpu.name));
	SET(o, "busId", format_status_text(g->gpu.bus_id));
	SET(o, "numaNode", g->gpu.numa_node < 0 ? json_null() : json_integer(g->gpu.numa_node));
	SET(o, "memoryTotalBytes", bytes_or_null(g->gpu.memory_total_bytes));
	SET(o, "memoryUsedBytes",
		g->gpu.memory_total_bytes ? json_integer((json_int_t)g->gpu.memory_used_bytes)
					  : json_null());
	SET(o, "mig", mig_mode_status(&g->gpu));
	SET(o, "migPending",
		g->gpu.mig_unknown ? json_null() : json_boolean(g->gpu.mig_pending));
	SET(o, "computeCapability",
		g->gpu.cc_major ? json_sprintf("%u.%u", g->gpu.cc_major, g->gpu.cc_minor)
				: json_null());
	SET(o, "health", json_string(health_state_name(g->health.state)));
	SET(o, "reason", json_any_text(g->health.reason));
	SET(o, "warning", json_any_text(g->health.warning));
	SET(o, "signals", signals_status(&g->gpu));
	SET(o, "since", mono_time(g->health.since_ns));
	SET(o, "lastXid", g->health.last_xid ? json_integer(g->health.last_xid) : json_null());
	SET(o, "xids", xids_status(&g->gpu, g->health.xid_count));
	return o;
}

/* Order of the index of holders: by resource, then ID. */
static int compare_holders(const void *a, const void *b)
{
	const struct pod_device *const *x = a, *const *y = b;
	int r = strcmp((*x)->resource, (*y)->resource);

	return r ? r : strcmp((*x)->id, (*y)->id);
}

struct holder_index {
	const struct pod_device **v;
	size_t n;
	bool known; /* the kubelet has answered */
};

static struct holder_index index_holders(const struct pod_devices *list)
{
	struct holder_index index = { .known = list != NULL };

	if (!list || list->n == 0)
		return index;
	index.v = reallocarray(NULL, list->n, sizeof(*index.v));
	if (!index.v)
		return (struct holder_index){ 0 };
	for (size_t i = 0; i < list->n; i++)
		index.v[i] = &list->v[i];
	index.n = list->n;
	qsort(index.v, index.n, sizeof(*index.v), compare_holders);
	return index;
}

static const struct pod_device *find_device_holder(const struct holder_index *index,
	const char *resource, const char *id)
{
	struct pod_device key = { .resource = (char *)(uintptr_t)resource,
		.id = (char *)(uintptr_t)id };
	const struct pod_device *k = &key, **found;

	if (index->n == 0)
		return NULL;
	found = bsearch(&k, index->v, index->n, sizeof(*index->v), compare_holders);
	return found ? *found : NULL;
}

static json_t *holder_status(const struct pod_device *pod_device)
{
	return json_pack("{s:s, s:s, s:s}", "namespace", pod_device->namespace_, "pod",
		pod_device->pod, "container", pod_device->container);
}

static void set_index(json_t *o, const char *key, const struct gpu *gpu,
	const struct gpu_mig *mig)
{
	SET(o, key, json_sprintf("%u:%u", gpu->index, mig->index));
}

static json_t *format_replica_status(const struct agent_status_context *c,
	const struct resource *r, const struct offer_device *d,
	const struct holder_index *holders)
{
	const struct inventory *inv = c->facts->offered.inv;
	const struct gpu *gpu = &inv->gpus[d->gpu];
	const struct pod_device *pod_device = find_device_holder(holders, r->name, d->id);
	json_t *o = json_object();
	const char *why;
	bool ok = agent_kubelet_device_ok(c->kubelet, r, d, &why);

	SET(o, "id", json_any_text(d->id));
	SET(o, "gpu", index_status(gpu));
	if (d->mig != OFFER_WHOLE) {
		set_index(o, "mig", gpu, &inv->mig[d->mig]);
		SET(o, "profile", json_any_text(inv->mig[d->mig].profile));
	}
	SET(o, "healthy", json_boolean(ok));
	SET(o, "reason", json_any_text(ok ? "" : why));
	SET(o, "holder", pod_device ? holder_status(pod_device) : json_null());
	return o;
}

/* The pods that have a physical device or one of its replicas, through any resource. */
static json_t *holders_status(const struct pod_devices *list, const char *uuid)
{
	size_t len = strlen(uuid);
	json_t *all = json_array();

	for (size_t i = 0; len && i < list->n; i++)
		if (device_id_physical_len(list->v[i].id) == len &&
			!memcmp(list->v[i].id, uuid, len))
			(void)json_array_append_new(all, holder_status(&list->v[i]));
	return all;
}

/* --- the profiles of a device --- */

static json_t *profile_status(const struct resource *r, uint32_t first, uint32_t n,
	uint32_t used, const struct inventory *inv, const struct holder_index *holders)
{
	const struct offer_device *d = &r->devices[first];
	const struct offer_share *s = &r->shares[d->share - 1];
	uint64_t memory =
		slice_limit(&s->isolation, s->replicas, slice_usable(inv, d->gpu, d->mig), 1);
	struct slice_gpu time;
	json_t *o = json_object();

	slice_time(&time, s, 1);
	SET(o, "resource", json_any_text(r->name));
	SET(o, "slices", json_integer(n));
	SET(o, "used", holders->known ? json_integer(used) : json_null());
	SET(o, "memoryBytes",
		memory && memory != SLICE_NO_LIMIT ? json_integer((json_int_t)memory)
						   : json_null());
	SET(o, "weight", json_integer(time.weight));
	SET(o, "capMillionths", time.cap ? json_integer(time.cap) : json_null());
	SET(o, "compute", json_string(time.cap ? "capped" : "fair"));
	SET(o, "class",
		json_string(s->isolation.class_ == SLICE_CLASS_LATENCY ? "latency" : "batch"));
	return o;
}

/* Of the GPU or MIG device @uuid. The UUID identifies it, because its position in the offer may differ. */
static json_t *profiles_status(const struct agent_status_context *c, const char *uuid,
	const struct holder_index *holders)
{
	const struct offer *offer = c->facts->offer_error.code ? NULL : c->facts->offered.offer;
	json_t *list = json_array();
	char id[DEVICE_ID_MAX];

	for (uint32_t i = 0; uuid[0] && offer && i < offer->n; i++) {
		const struct resource *r = &offer->resources[i];
		const struct offer_device *d = NULL;
		uint32_t n = 0, used = 0;

		if (r->strategy == SHARING_SLICES &&
			device_id_make_slice(id, sizeof(id), uuid, r->name, 0))
			d = resource_find(r, id);
		if (!d)
			continue;
		for (; d + n < r->devices + r->n_devices && d[n].share == d->share; n++)
			used += find_device_holder(holders, r->name, d[n].id) != NULL;
		(void)json_array_append_new(list,
			profile_status(r, (uint32_t)(d - r->devices), n, used,
				c->facts->offered.inv, holders));
	}
	return list;
}

static json_t *mig_device_status(const struct agent_status_context *c, const struct gpu_mig *m,
	const struct health *h, const struct pod_devices *pod_devices,
	const struct holder_index *index)
{
	const struct node_gpu *g = &c->facts->node.gpus[m->gpu];
	/* A MIG device is never healthier than its GPU. */
	const struct health *shown = health_ok(&g->health) ? h : &g->health;
	json_t *o = json_object();

	set_index(o, "index", &g->gpu, m);
	SET(o, "uuid", json_any_text(m->uuid));
	SET(o, "profile", json_any_text(m->profile));
	SET(o, "gi", json_integer(m->gi));
	SET(o, "ci", json_integer(m->ci));
	SET(o, "memoryBytes", bytes_or_null(m->memory_mib << 20));
	SET(o, "multiprocessors",
		m->multiprocessors ? json_integer(m->multiprocessors) : json_null());
	SET(o, "health", json_string(health_state_name(shown->state)));
	SET(o, "reason", json_any_text(shown->reason));
	SET(o, "warning", json_any_text(h->warning));
	SET(o, "refused", json_any_text(agent_kubelet_refusal(c->kubelet, m->uuid)));
	SET(o, "since", mono_time(shown->since_ns));
	SET(o, "lastXid", h->last_xid ? json_integer(h->last_xid) : json_null());
	SET(o, "xids", xids_status(&g->gpu, h->xid_count));
	SET(o, "holders", pod_devices ? holders_status(pod_devices, m->uuid) : json_null());
	SET(o, "profiles", profiles_status(c, m->uuid, index));
	return o;
}

static json_t *format_gpus_status(const struct agent_status_context *c,
	const struct pod_devices *pod_devices)
{
	struct holder_index index = index_holders(pod_devices);
	const struct node *n = &c->facts->node;
	json_t *list = json_array();

	for (uint32_t i = 0; n->inv && i < n->inv->n; i++) {
		json_t *o = gpu_status(&n->gpus[i]), *migs = json_array();

		for (uint32_t k = 0; k < n->inv->n_mig; k++)
			if (n->inv->mig[k].gpu == i)
				(void)json_array_append_new(migs,
					mig_device_status(c, &n->inv->mig[k], &n->migs[k],
						pod_devices, &index));
		SET(o, "refused",
			json_any_text(agent_kubelet_refusal(c->kubelet, n->inv->gpus[i].uuid)));
		SET(o, "profiles", profiles_status(c, n->inv->gpus[i].uuid, &index));
		SET(o, "migDevices", migs);
		(void)json_array_append_new(list, o);
	}
	free(index.v);
	return list;
}

static json_t *resource_status(const struct agent_status_context *c, const struct resource *r,
	const struct holder_index *holders)
{
	json_t *o = json_object(), *slices = json_array();
	json_int_t healthy = 0, used = 0;
	const char *why, *state = agent_kubelet_state(c->kubelet, r->name, &why);

	for (uint32_t i = 0; i < r->n_devices; i++) {
		const struct offer_device *d = &r->devices[i];

		healthy += agent_kubelet_device_ok(c->kubelet, r, d, NULL);
		used += find_device_holder(holders, r->name, d->id) != NULL;
		(void)json_array_append_new(slices, format_replica_status(c, r, d, holders));
	}
	SET(o, "name", json_any_text(r->name));
	SET(o, "sharing", json_string(sharing_strategy_name(r->strategy)));
	SET(o, "replicas", json_integer(r->replicas));
	SET(o, "capacity", json_integer(r->n_devices));
	SET(o, "allocatable", json_integer(healthy));
	SET(o, "used", holders->known ? json_integer(used) : json_null());
	SET(o, "state", json_string(state));
	SET(o, "reason", json_any_text(why));
	SET(o, "slices", slices);
	return o;
}

static json_t *resources_status(const struct agent_status_context *c,
	const struct pod_devices *pod_devices)
{
	struct holder_index index = index_holders(pod_devices);
	json_t *list = json_array();

	/*
	 * After a failed decision, positions in the offer and in the node may differ. update_offer() logs the
	 * reason, and each reconcile retries.
	 */
	for (uint32_t i = 0;
		c->facts->offered.offer && c->facts->offer_error.code == ERR_NONE &&
		i < c->facts->offered.offer->n;
		i++)
		(void)json_array_append_new(list,
			resource_status(c, &c->facts->offered.offer->resources[i], &index));
	free(index.v);
	return list;
}

/* --- what pods have of this node's GPUs from before the present offer --- */

/*
 * Whether @id is a GPU or MIG device of this node. A MIG device that is gone has no GPU any more, but no other
 * plugin uses such IDs. *ret: the GPU; NULL: not known.
 */
static bool is_node_device_id(const struct inventory *inv, const char *id,
	const struct gpu **ret)
{
	size_t len = device_id_physical_len(id);

	*ret = NULL;
	for (uint32_t i = 0; inv && i < inv->n; i++) {
		if (strlen(inv->gpus[i].uuid) == len && !memcmp(inv->gpus[i].uuid, id, len))
			*ret = &inv->gpus[i];
	}
	for (uint32_t i = 0; inv && i < inv->n_mig; i++) {
		if (strlen(inv->mig[i].uuid) == len && !memcmp(inv->mig[i].uuid, id, len))
			*ret = &inv->gpus[inv->mig[i].gpu];
	}
	return *ret || !strncmp(id, "MIG-", 4);
}

static bool is_offered(const struct offer *offer, const struct pod_device *d)
{
	const struct resource *r = offer ? offer_find(offer, d->resource) : NULL;

	return r && resource_find(r, d->id);
}

static json_t *earlier_status(const struct agent_status_context *c,
	const struct pod_devices *pod_devices)
{
	json_t *list = json_array();

	for (size_t i = 0; pod_devices && i < pod_devices->n; i++) {
		const struct pod_device *d = &pod_devices->v[i];
		const struct gpu *gpu;

		if (!d->dynamic && is_node_device_id(c->facts->node.inv, d->id, &gpu) &&
			!is_offered(c->facts->offered.offer, d))
			(void)json_array_append_new(list,
				json_pack("{s:s, s:s, s:o, s:o}", "resource", d->resource, "id",
					d->id, "gpu", gpu ? index_status(gpu) : json_null(),
					"holder", holder_status(d)));
	}
	return list;
}

static json_t *components_status(const struct agent_status_context *c)
{
	json_t *list = json_array();

	for (size_t i = 0; i < COMPONENT_COUNT_; i++) {
		const struct component_state *s = &c->components->v[i];

		(void)json_array_append_new(list,
			json_pack("{s:s, s:b, s:o, s:o}", "name",
				component_name((enum component)i), "degraded",
				s->why.code != ERR_NONE, "reason", json_any_text(s->why.msg),
				"since", format_status_time(s->since_wall_ns)));
	}
	return list;
}

char *agent_status_json(const struct agent_status_context *c,
	const struct pod_devices *pod_devices, const struct error *holders_error)
{
	json_t *o = json_object();
	char *text;

	SET(o, "version", json_string(GPUSLICE_VERSION));
	SET(o, "pid", json_integer(getpid()));
	SET(o, "started", format_status_time(c->started_wall_ns));
	SET(o, "now", format_status_time(time_wall_ns()));
	SET(o, "kubeletDir", json_any_text(c->kubelet->dir));
	SET(o, "config", config_status(c));
	SET(o, "cluster", cluster_status(c->cluster));
	SET(o, "mig", mig_status(c->mig));
	SET(o, "nvml", nvml_status(c->facts));
	SET(o, "gpus", format_gpus_status(c, pod_devices));
	SET(o, "resources", resources_status(c, pod_devices));
	SET(o, "earlier", earlier_status(c, pod_devices));
	SET(o, "slices", slices_status(c->slices, pod_devices));
	SET(o, "mps", mps_status(c->mps));
	SET(o, "components", components_status(c));
	SET(o, "holders",
		json_pack("{s:b, s:o}", "known", pod_devices != NULL, "error",
			format_status_error(holders_error, 0)));
	SET(o, "warnings",
		c->facts->offered.offer
			? format_status_strings(&c->facts->offered.offer->warnings)
			: json_array());
	SET(o, "notes",
		c->facts->offered.offer ? format_status_strings(&c->facts->offered.offer->notes)
					: json_array());
	SET(o, "error", format_status_error(&c->facts->offer_error, 0));
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}
