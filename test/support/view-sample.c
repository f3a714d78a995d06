/* SPDX-License-Identifier: Apache-2.0 */
#include "support/view-sample-internal.h"

#include <string.h>

/* Figures of the boards: idle, and how much more when busy all the time. */
static const struct {
	const char *field;
	double base, more;
} figures[] = {
	{ "DCGM_FI_DEV_SM_CLOCK", 1980, 0 },
	{ "DCGM_FI_DEV_MEM_CLOCK", 2619, 0 },
	{ "DCGM_FI_DEV_GPU_TEMP", 31, 38 },
	{ "DCGM_FI_DEV_POWER_USAGE", 72.5, 590.25 },
	{ "DCGM_FI_DEV_POWER_MGMT_LIMIT", 700, 0 },
	{ "DCGM_FI_DEV_PSTATE", 0, 0 },
	{ "DCGM_FI_DEV_GPU_UTIL", 0, 100 },
	{ "DCGM_FI_DEV_MEM_COPY_UTIL", 0, 62 },
	{ "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0, 1 },
};

const char *view_sample_name(enum view_sample_kind kind)
{
	static const char *const names[] = {
		[VIEW_SAMPLE_EMPTY] = "empty",
		[VIEW_SAMPLE_ONE] = "one",
		[VIEW_SAMPLE_MIXED] = "mixed",
		[VIEW_SAMPLE_UNPRICED] = "unpriced",
		[VIEW_SAMPLE_SIXTEEN] = "sixteen",
	};

	return names[kind];
}

static const char *uuid_of(struct view *v, const char *kind, uint32_t gpu, uint32_t n)
{
	return view_printf(v, "%s-5f3c%02x%02x-7a10-4d2e-9b64-0242ac1100%02x", kind, gpu, n,
		gpu);
}

/* --- the hour --- */

/* A wave of @level millionths that looks real and is always the same: a slow triangle and a little noise. */
static uint32_t compute_wave(uint32_t level, uint32_t seed, uint32_t i)
{
	uint32_t at = (i * 2 + seed * 17) % 80;
	uint32_t slow = at < 40 ? at : 80 - at; /* 0..40 */
	uint32_t noise = (i * 2654435761U + seed * 40503U) >> 27;
	uint64_t r = (uint64_t)level * (70 + slow + noise) / 100;

	return r > VIEW_MILLION ? VIEW_MILLION : (uint32_t)r;
}

static struct view_point *make_points(struct view *v, uint32_t n, uint32_t level, uint32_t held,
	uint64_t memory, uint32_t seed)
{
	struct view_point *p = view_array(v, n, sizeof(*p));

	for (uint32_t i = 0; p && i < n; i++) {
		p[i].wall_s = (uint32_t)(VIEW_SAMPLE_WALL_NS / 1000000000U) -
			      (n - 1 - i) * VIEW_POINT_S;
		/* The agent was down for two minutes. */
		p[i].busy = seed == 1 && i >= 30 && i < 34 ? VIEW_NONE
							   : compute_wave(level, seed, i);
		p[i].allocated = i < n / 4 ? held / 2 : held;
		p[i].memory_used = seed == 1 && i >= 30 && i < 34 ? UINT64_MAX
				   : i < n / 4                    ? memory / 2
								  : memory;
	}
	return p;
}

/* --- building --- */

static struct sample_value *make_sample_values(double busy, uint32_t *ret_n)
{
	struct sample_value *list = calloc(ARRAY_LEN(figures), sizeof(*list));
	uint32_t n = 0;

	for (int at = 0; list && at < (int)n_fields; at++) {
		for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
			double value = figures[i].base + busy * figures[i].more;

			if (strcmp(fields[at].name, figures[i].field) != 0)
				continue;
			list[n].field = (uint16_t)at;
			if (fields[at].kind == FIELD_REAL)
				list[n++].real = value;
			else
				list[n++].i = (int64_t)value;
		}
	}
	*ret_n = n;
	return list;
}

struct view_gpu *sample_gpu(struct sample_maker *m, const char *name, uint64_t memory)
{
	uint32_t n = m->v->n_gpus++;
	struct view_gpu *g = &m->v->gpus[n];
	struct sample_device *s = &m->v->sample->devices[n];

	g->index = g->minor = n;
	g->uuid = uuid_of(m->v, "GPU", n, 0);
	g->name = view_text(m->v, name);
	g->bus_id = view_printf(m->v, "00000000:%02X:00.0", 16 + n * 8);
	g->cc_known = true;
	g->cc_major = strstr(name, "A100") ? 8 : 9;
	g->numa_node = (int32_t)(n / 4);
	g->reason = g->refused = "";
	g->health_since_wall_ns = m->v->since_wall_ns;
	g->present = g->xids_known = true;
	g->fault = gpu_fault_name(GPU_OK);
	g->recovery = "none";
	g->mig_known = g->mig_capable = true;
	g->mig_slices = 7;
	g->mig_memory_slices = 8;
	g->first_device = m->v->n_devices;
	g->cost_nano_per_hour = m->gpu_price;
	g->n_points = VIEW_POINTS_MAX;
	g->points = make_points(m->v, g->n_points, 0, 0, 0, n + 1);
	memcpy(s->uuid, g->uuid, strlen(g->uuid));
	s->gpu = n;
	s->at_ns = m->v->mono_ns - 40000000;
	s->interval_ns = m->v->interval_ns;
	g->sample = s;
	g->sampled = true;
	g->sample_age_ns = 40000000;
	m->memory = memory;
	return g;
}

/* A whole GPU. */
struct view_device *sample_device_of_gpu(struct sample_maker *m, enum view_mode mode,
	const char *resource)
{
	struct view_gpu *g = &m->v->gpus[m->v->n_gpus - 1];
	struct view_device *device = &m->v->devices[m->v->n_devices++];

	g->n_devices++;
	device->gpu = g->index;
	device->uuid = g->uuid;
	device->label = view_printf(m->v, "%u", g->index);
	device->gi = device->ci = GPU_NO_INSTANCE;
	device->part = VIEW_MILLION;
	device->reason = device->refused = "";
	device->mode = mode;
	device->resource = view_text(m->v, resource);
	device->offered = *resource != '\0';
	device->memory_known = device->reserved_known = device->busy_known =
		device->allocated_known = true;
	device->memory_total = m->memory;
	device->memory_reserved = 550U << 20;
	device->first_replica = m->v->n_replicas;
	device->first_use = m->v->n_uses;
	device->sample = g->sample;
	return device;
}

struct view_device *sample_device_mig(struct sample_maker *m, enum view_mode mode,
	const char *resource, const struct sample_place *at)
{
	struct view_gpu *g = &m->v->gpus[m->v->n_gpus - 1];
	struct view_device *device = sample_device_of_gpu(m, mode, resource);
	uint32_t n = g->n_devices - 1;

	g->mig_enabled = true;
	device->mig = true;
	device->uuid = uuid_of(m->v, "MIG", g->index, n + 1);
	device->label = view_printf(m->v, "%u:%u", g->index, n);
	device->profile = view_text(m->v, at->profile);
	device->gi = at->gi;
	device->ci = at->ci;
	device->start = at->start;
	device->size = at->size;
	device->memory_start = at->memory_start;
	device->memory_size = at->memory_size;
	device->placed = true;
	device->part = VIEW_MILLION * at->size / 7;
	device->memory_total = m->memory / 8 * at->memory_size;
	device->memory_reserved = 38U << 20;
	device->sample = NULL;
	return device;
}

void sample_replicas(struct sample_maker *m, uint32_t n, const struct sample_replica *replica)
{
	struct view_device *device = &m->v->devices[m->v->n_devices - 1];
	bool replicas = device->mode != VIEW_EXCLUSIVE;

	for (uint32_t i = 0; i < n; i++) {
		struct view_replica *s = &m->v->replicas[m->v->n_replicas++];

		s->device = m->v->n_devices - 1;
		s->resource = view_text(m->v,
			replica->resource ? replica->resource : device->resource);
		s->replica = device->n_replicas++;
		s->id = replicas ? view_printf(m->v, "%s::%u", device->uuid, s->replica)
				 : device->uuid;
		s->share = replica->share;
		s->memory_limit = replica->memory_limit ? replica->memory_limit : UINT64_MAX;
		s->healthy = device->health == VIEW_HEALTHY;
		s->use = VIEW_NONE;
	}
}

/* The replicas of a usage: the first free ones of its resource. An ended usage may have had any replicas. */
static void place_usage(struct view *v, struct view_device *device, uint32_t use)
{
	struct view_use *c = &v->uses[use];
	uint32_t want = c->n_replicas;
	uint64_t share = 0;

	for (uint32_t i = device->first_replica;
		want && i < device->first_replica + device->n_replicas; i++) {
		struct view_replica *s = &v->replicas[i];

		if ((c->live && s->use != VIEW_NONE) || strcmp(s->resource, c->resource) != 0)
			continue;
		if (want == c->n_replicas) {
			c->replica_id = s->id;
			c->replica = s->replica;
			c->memory_limit = 0;
		}
		c->memory_limit = s->memory_limit == UINT64_MAX
					  ? UINT64_MAX
					  : c->memory_limit + s->memory_limit;
		share += s->share;
		if (c->live) {
			s->use = use;
			device->replicas_used++;
		}
		want--;
	}
	c->share = (uint32_t)(share * device->part / VIEW_MILLION);
	if (c->live)
		device->allocated += (uint32_t)share;
}

struct view_use *sample_use(struct sample_maker *m, const struct sample_use_row *row)
{
	struct view_device *device = &m->v->devices[m->v->n_devices - 1];
	struct view_use *c = &m->v->uses[m->v->n_uses++];
	uint64_t now = m->v->wall_ns;

	device->n_uses++;
	c->device = m->v->n_devices - 1;
	c->namespace_ = view_text(m->v, row->namespace_);
	c->pod = view_text(m->v, row->pod);
	c->container = view_text(m->v, row->container);
	c->uid = view_printf(m->v, "0b6c9f1e-0000-4000-8000-%012u", m->v->n_uses);
	c->resource = view_text(m->v, row->resource ? row->resource : device->resource);
	c->mode = device->mode;
	c->live = row->ended_s == 0;
	c->ended_wall_ns = c->live ? 0 : now - row->ended_s * 1000000000U;
	c->began_wall_ns = now - (row->ended_s + row->allocated_s) * 1000000000U;
	c->offered_now = true;
	c->n_replicas = row->n_used_replicas ? row->n_used_replicas : 1;
	c->replica_id = "";
	c->memory_limit = UINT64_MAX;
	place_usage(m->v, device, m->v->n_uses - 1);
	c->received = c->live ? row->received : VIEW_NONE;
	c->memory_from = c->live ? VIEW_FROM_PROCESSES : VIEW_FROM_NOTHING;
	c->memory_known = c->processes_known = c->live;
	c->memory_counted = c->memory_current = c->peak_known = true;
	c->memory_used = c->live ? (uint64_t)row->memory_mib << 20 : 0;
	c->memory_peak = ((uint64_t)row->memory_mib + row->memory_mib / 8) << 20;
	c->n_processes = c->live ? 1 + row->memory_mib / 16384 : 0;
	c->busy_known = c->busy_current = c->allocation_current = true;
	c->busy_exact = device->mode == VIEW_SLICES;
	c->busy_from = !c->live        ? VIEW_FROM_NOTHING
		       : c->busy_exact ? VIEW_FROM_SLICE
				       : VIEW_FROM_PROCESSES;
	c->allocated_ns = row->allocated_s * 1000000000U;
	c->gpu_ns = row->allocated_s * c->share * 1000U;
	c->busy_ns = row->allocated_s * row->received * 900U;
	c->memory_byte_s = row->allocated_s * ((uint64_t)row->memory_mib << 20);
	c->cost_nano = (uint64_t)((double)c->gpu_ns / 3.6e12 * (double)m->gpu_price);
	return c;
}

void sample_slice(struct sample_maker *m, struct view_use *c, const struct view_slice *from)
{
	struct view_slice *s = view_array(m->v, 1, sizeof(*s));

	if (!s)
		return;
	*s = *from;
	s->id = view_printf(m->v, "c%08x", 0x5eed0000U + m->v->n_uses);
	s->class_ = s->class_ ? s->class_ : "batch";
	if (!s->quantum_ends[SCHED_END_IDLE])
		s->quantum_ends[SCHED_END_EXPIRED] = s->quanta;
	s->quantum_ends_known = true;
	s->time_known = s->revocations_known = s->refusals_known = s->unhooked_known =
		s->reported = true;
	s->charged_ns = c->busy_ns;
	s->copied_bytes = s->copies * 65536;
	c->slice = s;
}

/* A sum with an unknown term is unknown. */
static void point_add(struct view_point *g, const struct view_point *u, uint32_t part)
{
	bool known = g->busy != VIEW_NONE && u->busy != VIEW_NONE;

	g->allocated += (uint32_t)((uint64_t)u->allocated * part / VIEW_MILLION);
	g->busy = known ? g->busy + (uint32_t)((uint64_t)u->busy * part / VIEW_MILLION)
			: VIEW_NONE;
	g->memory_used = known ? g->memory_used + u->memory_used : UINT64_MAX;
}

/* The rest belongs to the device itself, so that all sums are consistent. */
void sample_device_end(struct sample_maker *m, uint32_t busy)
{
	struct view *v = m->v;
	struct view_device *device = &v->devices[v->n_devices - 1];
	struct view_gpu *g = &v->gpus[device->gpu];
	uint64_t age_s = (v->wall_ns - v->since_wall_ns) / 1000000000U, gpu_ns = 0;

	device->past = (struct view_past){ .busy_ns = 7200000000000,
		.gpu_ns = (uint64_t)device->part * 10800000,
		.cost_nano = 3 * m->gpu_price / VIEW_MILLION * device->part };
	device->other_busy_ns = 61000000000;
	device->other_memory = device->n_uses || !device->mig ? 3U << 20 : 0;
	device->busy_ns = device->past.busy_ns + device->other_busy_ns;
	device->memory_used = device->other_memory;
	device->cost_nano = device->past.cost_nano;
	for (uint32_t i = device->first_use; i < device->first_use + device->n_uses; i++) {
		device->busy_ns += v->uses[i].busy_ns;
		device->memory_used += v->uses[i].memory_used;
		device->cost_nano += v->uses[i].cost_nano;
		gpu_ns += v->uses[i].gpu_ns;
	}
	device->memory_free =
		device->memory_total - device->memory_reserved - device->memory_used;
	device->busy = busy;
	device->counted = true;
	device->present_ns = age_s * device->part * 1000;
	device->idle_gpu_ns = device->present_ns - device->past.gpu_ns - gpu_ns;
	device->idle_cost_nano =
		(uint64_t)((double)device->idle_gpu_ns / 3.6e12 * (double)m->gpu_price);
	device->cost_nano += device->idle_cost_nano;
	v->cost_nano += device->cost_nano;
	device->n_points = VIEW_POINTS_MAX;
	device->points = make_points(v, device->n_points, busy * 8 / 10, device->allocated,
		device->memory_used, device->gpu + 1);
	for (uint32_t i = 0; device->points && g->points && i < g->n_points; i++)
		point_add(&g->points[i], &device->points[i], device->part);
}

static void resource_add(struct view *v, const struct view_replica *replica)
{
	const struct view_device *device = &v->devices[replica->device];
	struct view_resource *r = v->resources, *end = v->resources + v->n_resources;

	while (r < end && strcmp(r->name, replica->resource) < 0)
		r++;
	if (r == end || strcmp(r->name, replica->resource) != 0) {
		memmove(r + 1, r, (size_t)(end - r) * sizeof(*r));
		*r = (struct view_resource){ .allocated_known = true,
			.name = replica->resource,
			.mode = device->mode,
			.replicas = device->mode == VIEW_EXCLUSIVE ? 1 : device->n_replicas,
			.state = "registered",
			.reason = "" };
		v->n_resources++;
	}
	r->capacity++;
	r->allocatable += replica->healthy;
	r->used += replica->use != VIEW_NONE;
	r->idle += replica->use == VIEW_NONE && replica->healthy;
}

void sample_resources(struct sample_maker *m)
{
	for (uint32_t i = 0; i < m->v->n_replicas; i++)
		resource_add(m->v, &m->v->replicas[i]);
}

static void board_figures(struct view *v)
{
	for (uint32_t i = 0; i < v->n_gpus; i++) {
		struct sample_device *s = &v->sample->devices[i];
		double busy = 0;

		for (uint32_t k = v->gpus[i].first_device;
			k < v->gpus[i].first_device + v->gpus[i].n_devices; k++)
			busy += v->devices[k].busy == VIEW_NONE
					? 0
					: (double)v->devices[k].busy * v->devices[k].part /
						  1e12;
		s->values = make_sample_values(busy, &s->n_values);
	}
}

/* --- nodes --- */

#define MAX_UNITS 64U
#define MAX_SEATS 256U

static void node_facts(struct view *v)
{
	v->seq = 41;
	v->wall_ns = VIEW_SAMPLE_WALL_NS;
	v->mono_ns = UINT64_C(260000000000000);
	v->interval_ns = 10000000000;
	v->since_wall_ns = v->wall_ns - UINT64_C(259200) * 1000000000U; /* three days */
	v->node = v->hostname = "ip-10-0-41-7.ec2.internal";
	v->driver_version = "580.159.04";
	v->nvml_version = "13.580.159.04";
	v->cuda_version = "13.0";
	v->instance_type = "p5.48xlarge";
	v->region = "us-east-1";
	v->nvml_up = v->allocations_known = v->config_decided = v->ready = true;
	v->nvml_error = v->allocations_error = v->currency = v->price_source = v->config_error =
		"";
	v->config_generation = 3;
	v->config_since_wall_ns = v->wall_ns - UINT64_C(7200) * 1000000000U;
	v->config_source = "/etc/gpuslice/config.yaml";
	v->config_sharing = "mps, slices, time-slicing";
	v->agent = (struct view_agent){ .version = "0.1.0",
		.pid = 4711,
		.started_wall_ns = v->wall_ns - UINT64_C(86400) * 1000000000U,
		.cpu_ns = 41000000000,
		.rss_bytes = 27U << 20,
		.threads = 6,
		.fds = 58,
		.rounds = 8640,
		.round_ns = 412000,
		.nvml_calls = 812160,
		.nvml_ns = 61000000000,
		.kubelet_lists = 8641,
		.kubelet_errors = 1,
		.allocations = 214,
		.usage_db_known = true,
		.usage_db_bytes = 8U << 20,
		.usage_db_error = "",
		.web = { .known = true,
			.requests = { 0, 5765, 17290, 2, 0 },
			.timeouts = 1,
			.connections = 3 } };
}

int view_sample(struct view **ret, enum view_sample_kind kind, struct error *err)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	struct sample_maker m = { 0 };

	if (view_new(&v, err) < 0 || sample_new(&v->sample, 16, err) < 0)
		return -1;
	m.v = v;
	v->gpus = view_array(v, 16, sizeof(*v->gpus));
	v->devices = view_array(v, MAX_UNITS, sizeof(*v->devices));
	v->replicas = view_array(v, MAX_SEATS, sizeof(*v->replicas));
	v->uses = view_array(v, MAX_SEATS, sizeof(*v->uses));
	v->resources = view_array(v, 32, sizeof(*v->resources));
	v->warnings = view_array(v, 2, sizeof(*v->warnings));
	if (view_failed(v))
		return error_nomem(err);
	node_facts(v);
	sample_node(&m, kind);
	sample_resources(&m);
	board_figures(v);
	if (view_failed(v))
		return error_nomem(err);
	*ret = STEAL_PTR(v);
	return 0;
}
