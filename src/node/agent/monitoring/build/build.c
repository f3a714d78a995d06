/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/build/build.h"

#include "node/agent/monitoring/internal.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* --- replicas and resources --- */

/* Position in the view of the live use that belongs to a usage entry of the round. */
static uint32_t find_view_use(const struct monitoring_round *r, const struct view *v,
	uint32_t use)
{
	const struct account *a;
	const struct view_device *device;

	if (use >= r->usage.n)
		return VIEW_NONE;
	a = r->usage.v[use].in.account;
	device = &v->devices[r->usage.v[use].device_index];
	for (uint32_t i = 0; i < device->n_uses; i++) {
		const struct view_use *x = &v->uses[device->first_use + i];

		if (x->live && !strcmp(x->pod, a->pod) && !strcmp(x->container, a->container) &&
			!strcmp(x->namespace_, a->namespace_) &&
			!strcmp(x->resource, a->resource) && !strcmp(x->uid, a->uid) &&
			x->mode == (enum view_mode)a->mode)
			return device->first_use + i;
	}
	return VIEW_NONE;
}

static void fill_replica_usage(const struct monitoring *mon, const struct monitoring_round *r,
	struct view *v)
{
	for (size_t i = 0; i < mon->allocation_list.n; i++) {
		const struct monitoring_allocation *allocation = &mon->allocation_list.v[i];

		if (allocation->superseded || allocation->replica == MONITORING_NONE ||
			allocation->replica >= v->n_replicas ||
			allocation->usage == MONITORING_NONE)
			continue;
		v->replicas[allocation->replica].use = find_view_use(r, v, allocation->usage);
		if (v->replicas[allocation->replica].use != VIEW_NONE)
			v->devices[v->replicas[allocation->replica].device].replicas_used++;
	}
}

static void monitoring_build_replicas(const struct monitoring *mon,
	const struct monitoring_round *r, struct view *v)
{
	v->replicas = view_array(v, r->replicas.n, sizeof(*v->replicas));
	if (!v->replicas)
		return;
	for (uint32_t i = 0; i < r->replicas.n; i++) {
		const struct monitoring_replica *s = &r->replicas.v[i];
		struct view_device *device = &v->devices[s->device_index];

		v->replicas[i] = (struct view_replica){ .device = s->device_index,
			.id = view_text(v, s->device->id),
			.resource = view_text(v, s->resource->name),
			.replica = s->device->replica,
			.share = s->share,
			.memory_limit = s->memory_limit,
			.healthy = mon->c.ops->device_ok(mon->c.arg, s->resource, s->device),
			.use = VIEW_NONE };
		if (!device->n_replicas++)
			device->first_replica = i;
	}
	v->n_replicas = r->replicas.n;
	fill_replica_usage(mon, r, v);
}

static void count_devices(const struct view *v, const struct monitoring_round *r,
	const struct resource *resource, const struct monitoring *mon, struct view_resource *to)
{
	for (uint32_t i = 0; i < resource->n_devices; i++)
		to->allocatable +=
			mon->c.ops->device_ok(mon->c.arg, resource, &resource->devices[i]);
	for (uint32_t i = 0; i < v->n_replicas; i++) {
		if (r->replicas.v[i].resource != resource)
			continue;
		to->used += v->replicas[i].use != VIEW_NONE;
		to->idle += v->replicas[i].use == VIEW_NONE && v->replicas[i].healthy;
	}
}

static enum view_mode get_view_sharing_mode(const struct resource *resource)
{
	switch (resource->strategy) {
	case SHARING_TIME_SLICING:
		return VIEW_TIME_SLICING;
	case SHARING_MPS:
		return VIEW_MPS;
	case SHARING_SLICES:
		return VIEW_SLICES;
	case SHARING_NONE:
	default:
		return VIEW_EXCLUSIVE;
	}
}

static void monitoring_build_resources(const struct monitoring *mon,
	const struct monitoring_round *r, struct view *v)
{
	const struct offer *o = r->replicas.offer;
	uint32_t n = o ? o->n : 0;

	v->resources = view_array(v, n, sizeof(*v->resources));
	if (!v->resources)
		return;
	for (uint32_t i = 0; i < n; i++) {
		const struct resource *from = &o->resources[i];
		struct view_resource *to = &v->resources[i];
		const char *why = "";

		to->name = view_text(v, from->name);
		to->mode = get_view_sharing_mode(from);
		to->replicas = from->replicas;
		to->capacity = from->n_devices;
		to->allocated_known = monitoring_allocations_known(mon);
		count_devices(v, r, from, mon, to);
		to->state = mon->c.ops->resource_state(mon->c.arg, from->name, &why);
		to->reason = view_text(v, why);
	}
	v->n_resources = n;
}

/* --- what the agent itself consumes --- */

static uint32_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint32_t n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		(void)closedir(d);
	return n > 3 ? n - 3 : 0; /* ".", "..", and that of @d */
}

static uint64_t number_behind(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t n = 0;

	for (at = at ? at + strlen(key) : ""; *at == ' ' || *at == '\t'; at++)
		;
	for (; *at >= '0' && *at <= '9'; at++)
		n = n * 10 + (uint64_t)(*at - '0');
	return n;
}

static uint64_t read_agent_cpu_ns(void)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u) < 0)
		return 0;
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_SEC +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static void build_components(const struct monitoring *mon, struct view *v)
{
	struct view_component *to = view_array(v, COMPONENT_COUNT_, sizeof(*to));

	v->agent.components = to;
	if (!to)
		return;
	v->agent.n_components = COMPONENT_COUNT_;
	for (size_t i = 0; i < COMPONENT_COUNT_; i++) {
		const struct component_state *s = &mon->c.components->v[i];

		to[i] = (struct view_component){ .name = component_name((enum component)i),
			.reason = view_text(v, s->why.msg),
			.since_wall_ns = s->since_wall_ns };
	}
}

static void monitoring_build_agent(const struct monitoring *mon, struct view *v)
{
	CLEANUP(buf_fini) struct buf status = BUF_INIT(64 * 1024);
	const struct monitoring_persist *persist = &mon->persist;

	if (file_read("/proc/self/status", &status, NULL) < 0)
		buf_clear(&status);
	v->agent = (struct view_agent){
		.version = GPUSLICE_VERSION,
		.pid = (int)getpid(),
		.started_wall_ns = mon->c.started_wall_ns,
		.cpu_ns = read_agent_cpu_ns(),
		.rss_bytes = number_behind(buf_str(&status), "VmRSS:") << 10,
		.threads = (uint32_t)number_behind(buf_str(&status), "Threads:"),
		.fds = count_fds(),
		.proc_known = status.len > 0,
		.rounds = mon->seq,
		.round_ns = mon->round_ns,
		.nvml_calls = mon->counters.nvml_calls,
		.nvml_ns = mon->counters.nvml_ns,
		.nvml_errors = mon->counters.nvml_errors,
		.kubelet_lists = mon->counters.lists,
		.kubelet_errors = mon->counters.list_errors,
		.allocations = mon->counters.allocations,
		.allocation_errors = mon->counters.allocation_errors,
		.usage_db_errors = persist->errors,
		.usage_db_known = persist->bytes > 0,
		.usage_db_bytes = persist->bytes,
		.usage_db_error = view_text(v, persist->error.msg),
		.web = mon->c.ops->web(mon->c.arg),
	};
	build_components(mon, v);
}

/* --- the view --- */

static void fill_view_warnings(const struct monitoring *mon, struct view *v)
{
	const struct offer *o = mon->c.facts->offered.offer;

	v->n_warnings = o ? (uint32_t)o->warnings.n : 0;
	v->warnings = view_array(v, v->n_warnings, sizeof(*v->warnings));
	for (uint32_t i = 0; o && v->warnings && i < v->n_warnings; i++)
		v->warnings[i] = view_text(v, o->warnings.v[i]);
}

static void fill_view_node(const struct monitoring *mon, const struct monitoring_round *r,
	struct view *v)
{
	const struct inventory *inv = mon->c.facts->node.inv;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);
	uint64_t listed = mon->accounts.other_cost_nano;

	v->wall_ns = r->wall_ns;
	v->mono_ns = r->now_ns;
	v->interval_ns = mon->c.options.interval_ns;
	v->since_wall_ns = mon->since_wall_ns;
	v->node = view_text(v, mon->c.link->node_name);
	v->hostname = view_text(v, monitoring_hostname());
	v->driver_version = view_text(v, inv ? inv->driver_version : "");
	v->nvml_version = view_text(v, inv ? inv->nvml_version : "");
	v->cuda_version = inv && inv->cuda_version
				  ? view_printf(v, "%d.%d", inv->cuda_version / 1000,
					    inv->cuda_version % 1000 / 10)
				  : view_text(v, "");
	v->instance_type = view_text(v, monitoring_instance_type(mon));
	v->region = view_text(v, monitoring_region(mon));
	v->nvml_up = mon->c.facts->nvml_answered && mon->c.facts->nvml_down.code == ERR_NONE;
	v->nvml_error = view_text(v, mon->c.facts->nvml_down.code ? mon->c.facts->nvml_down.msg
								  : mon->sample_error.msg);
	v->allocations_known = monitoring_allocations_known(mon);
	v->allocations_error = view_text(v, mon->listing.error.msg);
	/* Before the GPUs are known the view has no counters of theirs. A cost shown now would make the node's
	 * counter go back later. */
	v->priced = mon->price.nano_per_hour > 0 && inv;
	v->price_nano_per_hour = (uint64_t)mon->price.nano_per_hour;
	v->currency = view_text(v, mon->price.currency);
	v->price_source = view_text(v, mon->price.source);
	for (uint32_t i = 0; i < v->n_devices; i++)
		listed += v->devices[i].cost_nano;
	v->cost_nano = mon->accounts.cost_nano;
	v->other_cost_nano = mon->accounts.other_cost_nano + (mon->accounts.cost_nano - listed);
	v->ready = mon->c.ops->is_ready(mon->c.arg, &why);
}

struct view *monitoring_build_view(struct monitoring *mon, struct monitoring_round *r,
	struct error *err)
{
	struct view *v;

	if (view_new(&v, err) < 0)
		return NULL;
	v->seq = ++mon->seq;
	v->sample = STEAL_PTR(mon->round.sample);
	monitoring_build_devices(mon, r, v);
	monitoring_build_gpus(mon, r, v);
	if (!view_failed(v))
		monitoring_build_usage(mon, r, v);
	if (!view_failed(v))
		monitoring_build_replicas(mon, r, v);
	if (!view_failed(v)) {
		monitoring_build_resources(mon, r, v);
		monitoring_build_agent(mon, v);
		mon->c.ops->fill_view_config(mon->c.arg, v);
		fill_view_warnings(mon, v);
		fill_view_node(mon, r, v);
	}
	if (view_failed(v)) {
		(void)error_set(err, ERR_LIMIT, "the view of this node needs more than %u MiB",
			VIEW_BYTES_MAX >> 20);
		return view_unref(v);
	}
	return v;
}
