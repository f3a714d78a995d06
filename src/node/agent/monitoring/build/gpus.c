/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the GPUs and the devices of a view (build.h). */
#include "node/agent/monitoring/build/build.h"

#include "node/agent/monitoring/internal.h"
#include "lib/base/time.h"

#include <stdlib.h>
#include <string.h>

/* --- GPUs --- */

static const char *recovery_name(enum gpu_recovery r)
{
	static const char *const names[] = {
		[GPU_RECOVERY_UNKNOWN] = "",
		[GPU_RECOVERY_NONE] = "none",
		[GPU_RECOVERY_RESET_GPU] = "reset",
		[GPU_RECOVERY_REBOOT] = "reboot",
		[GPU_RECOVERY_DRAIN_P2P] = "drain-p2p",
		[GPU_RECOVERY_DRAIN_RESET] = "drain-and-reset",
	};

	return names[r];
}

static enum view_health health_of(const struct health *h)
{
	switch (h->state) {
	case HEALTH_HEALTHY:
		return VIEW_HEALTHY;
	case HEALTH_PROBATION:
		return VIEW_PROBATION;
	case HEALTH_UNHEALTHY:
	default:
		return VIEW_UNHEALTHY;
	}
}

static uint64_t to_wall_time(const struct monitoring_round *r, uint64_t mono_ns)
{
	uint64_t age = r->now_ns > mono_ns ? r->now_ns - mono_ns : 0;

	return r->wall_ns > age ? r->wall_ns - age : 0;
}

static void fill_view_gpu_xids(const struct monitoring *mon, const struct gpu *g,
	struct view *v, struct view_gpu *to)
{
	uint64_t last = 0;

	to->xids = view_array(v, mon->xids.n, sizeof(*to->xids));
	for (size_t i = 0; to->xids && i < mon->xids.n; i++) {
		const struct monitoring_xid_counter *x = &mon->xids.v[i];

		if (strcmp(x->uuid, to->uuid) != 0)
			continue;
		to->xids[to->n_xids++] = (struct view_xid){ .xid = x->xid,
			.count = x->count,
			.last_wall_ns = x->last_wall_ns };
		to->xid_count += x->count;
		if (x->last_wall_ns >= last) {
			last = x->last_wall_ns;
			to->last_xid = x->xid;
		}
	}
	to->xids_known = gpu_xids_known(g, to->xid_count);
}

static void fill_view_gpu_signals(const struct monitoring *mon, const struct gpu *g,
	struct view *v, struct view_gpu *to)
{
	static const char *const policies[] = { [HEALTH_IGNORE] = "ignore",
		[HEALTH_WARN] = "warning",
		[HEALTH_ACT] = "unhealthy" };
	static const uint32_t resets = 1U << GPU_SIGNAL_REMAP_PENDING |
				       1U << GPU_SIGNAL_PAGES_PENDING | 1U << GPU_SIGNAL_RESET |
				       1U << GPU_SIGNAL_DRAIN_RESET;

	to->reset_known = to->reset_required = g->fault == GPU_FAULT_RESET;
	to->signals = view_array(v, GPU_SIGNAL_COUNT_, sizeof(*to->signals));
	for (int i = 0; to->signals && i < GPU_SIGNAL_COUNT_; i++) {
		bool reset = resets & 1U << i;
		uint64_t value;

		if (!gpu_signal(g, (enum gpu_signal)i, &value))
			continue;
		to->signals[to->n_signals++] = (struct view_signal){
			.name = health_signals[i].name,
			.policy = policies[mon->c.facts->config->health.signals[i]],
			.value = value,
		};
		to->reset_known |= reset;
		to->reset_required |= reset && value > 0;
	}
}

/* The age of the last sample grows while rounds have no sample. */
static void fill_view_gpu_sample(const struct monitoring *mon, const struct monitoring_round *r,
	const struct view *v, struct view_gpu *to)
{
	uint64_t last = monitoring_history_sampled(&mon->history, to->uuid);

	to->sample = sample_find(v->sample, to->uuid);
	if (to->sample && *to->sample->reason)
		to->sample = NULL;
	to->sampled = last > 0;
	if (to->sampled && r->now_ns > last)
		to->sample_age_ns = r->now_ns - last;
}

/* NVML is asked for P2P states only if the counters file has that row. */
static void fill_view_gpu_p2p(const struct monitoring *mon, uint32_t i, struct view *v,
	struct view_gpu *to)
{
	uint8_t *p2p;

	if (!mon->p2p)
		return;
	to->p2p = p2p = view_array(v, v->n_gpus, sizeof(*p2p));
	for (uint32_t k = 0; p2p && k < v->n_gpus; k++)
		p2p[k] = inventory_link(mon->c.facts->node.inv, i, k).p2p;
}

static void fill_view_gpu(const struct monitoring *mon, const struct monitoring_round *r,
	uint32_t i, struct view *v)
{
	const struct node_gpu *n = &mon->c.facts->node.gpus[i];
	const struct gpu *g = &n->gpu;
	uint64_t price = (uint64_t)mon->price.nano_per_hour;
	struct view_gpu *to = &v->gpus[i];

	*to = (struct view_gpu){
		.index = g->index,
		.minor = g->has_minor ? g->minor : VIEW_NONE,
		.uuid = view_text(v, g->uuid),
		.name = view_text(v, g->name),
		.bus_id = view_text(v, g->bus_id),
		.cc_known = g->cc_major > 0,
		.cc_major = g->cc_major,
		.cc_minor = g->cc_minor,
		.numa_node = g->numa_node,
		.health = health_of(&n->health),
		.reason = view_text(v, n->health.reason),
		.warning = view_text(v, n->health.warning),
		.refused = view_text(v, mon->c.ops->device_refusal(mon->c.arg, g->uuid)),
		.health_since_wall_ns = to_wall_time(r, n->health.since_ns),
		.present = n->present,
		.fault = view_text(v, gpu_fault_name(n->present ? g->fault : GPU_FAULT_GONE)),
		.recovery = recovery_name(g->recovery),
		.mig_known = !g->mig_unknown,
		.mig_capable = g->mig_capable,
		.mig_enabled = g->mig_enabled,
		.mig_pending = g->mig_pending,
		.mig_slices = monitoring_mig_compute_slices(g),
		.mig_memory_slices = monitoring_mig_memory_slices(g),
		.cost_nano_per_hour = price / v->n_gpus + (i < price % v->n_gpus),
	};
	if (!to->uuid)
		return;
	fill_view_gpu_sample(mon, r, v, to);
	fill_view_gpu_signals(mon, g, v, to);
	fill_view_gpu_xids(mon, g, v, to);
	fill_view_gpu_p2p(mon, i, v, to);
	monitoring_history_copy(&mon->history, v, to->uuid, &to->n_points, &to->points);
	while (to->first_device < v->n_devices && v->devices[to->first_device].gpu < i)
		to->first_device++;
	while (to->first_device + to->n_devices < v->n_devices &&
		v->devices[to->first_device + to->n_devices].gpu == i)
		to->n_devices++;
}

void monitoring_build_gpus(const struct monitoring *mon, const struct monitoring_round *r,
	struct view *v)
{
	uint32_t n = mon->c.facts->node.inv ? mon->c.facts->node.inv->n : 0;

	v->gpus = view_array(v, n, sizeof(*v->gpus));
	if (!v->gpus)
		return;
	v->n_gpus = n;
	for (uint32_t i = 0; i < n; i++)
		fill_view_gpu(mon, r, i, v);
}

/* --- devices --- */

static void fill_device_health(const struct monitoring *mon, const struct monitoring_device *u,
	struct view *v, struct view_device *to)
{
	const struct health *gpu = &mon->c.facts->node.gpus[u->gpu_index].health;
	/* A MIG device is never healthier than its GPU. */
	const struct health *h =
		u->mig && health_ok(gpu) ? &mon->c.facts->node.migs[u->mig_index] : gpu;

	to->health = h->state == HEALTH_HEALTHY     ? VIEW_HEALTHY
		     : h->state == HEALTH_PROBATION ? VIEW_PROBATION
						    : VIEW_UNHEALTHY;
	to->reason = view_text(v, h->reason);
	to->refused = view_text(v, mon->c.ops->device_refusal(mon->c.arg, u->uuid));
}

static void fill_device_placement(const struct monitoring_device *u, struct view *v,
	struct view_device *to)
{
	uint32_t memory, slices;

	if (!u->mig) {
		to->label = view_printf(v, "%u", u->gpu->index);
		to->gi = to->ci = GPU_NO_INSTANCE;
		to->placed = monitoring_mig_compute_slices(u->gpu) > 0;
		to->size = monitoring_mig_compute_slices(u->gpu);
		to->memory_size = monitoring_mig_memory_slices(u->gpu);
		return;
	}
	to->mig = true;
	to->label = view_printf(v, "%u:%u", u->gpu->index, u->mig->index);
	to->profile = view_text(v, u->mig->profile);
	to->gi = u->mig->gi;
	to->ci = u->mig->ci;
	to->size = u->mig->ci_slices;
	memory = monitoring_mig_memory_slices(u->gpu);
	slices = monitoring_mig_compute_slices(u->gpu);
	/* The driver does not report the position of a compute instance in its GPU instance. */
	if (!u->mig->placed || u->mig->gi_slices != u->mig->ci_slices || !memory ||
		u->mig->start + (uint64_t)u->mig->size > memory)
		return;
	to->memory_start = u->mig->start;
	to->memory_size = u->mig->size;
	/* 7 compute and 8 memory slices: the last compute slice has two memory slices. */
	to->start = memory == 8 ? u->mig->start : u->mig->start * slices / memory;
	to->placed = to->start + to->size <= slices;
}

static void fill_device_sample(const struct sample *sample, struct view_device *to)
{
	const struct sample_device *s = sample_find(sample, to->uuid);

	to->busy = VIEW_NONE;
	if (!s || *s->reason)
		return;
	to->sample = s;
	to->busy_known = s->busy_known;
	if (s->busy_known && s->interval_ns)
		to->busy =
			(uint32_t)((double)s->busy_ns / (double)s->interval_ns * VIEW_MILLION);
	to->memory_known = s->memory_known;
	to->memory_total = s->memory_total;
	to->memory_used = s->memory_used;
	to->memory_free = s->memory_free;
	to->reserved_known = s->memory_known && s->reserved_known;
	to->memory_reserved = s->memory_reserved;
}

static void fill_device_account(const struct monitoring *mon, struct view_device *to)
{
	const struct account_device *device = accounts_find_device(&mon->accounts, to->uuid);

	if (!device)
		return;
	to->busy_ns = device->busy_ns;
	to->other_busy_ns = device->other_busy_ns;
	to->present_ns = device->present_ns;
	to->idle_gpu_ns = device->idle_gpu_ns;
	to->cost_nano = device->cost_nano;
	to->idle_cost_nano = device->idle_cost_nano;
	to->past = (struct view_past){ .busy_ns = device->past.busy_ns,
		.gpu_ns = device->past.gpu_ns,
		.cost_nano = device->past.cost_nano };
	to->allocated_known = monitoring_allocations_known(mon);
	to->allocated = device->allocated;
	to->counted = to->allocated_known || device->present_ns > 0;
}

/* Sharing mode and resource: those of the device's first replica. */
static void fill_device_offer(const struct monitoring_round *r, uint32_t device, struct view *v,
	struct view_device *to)
{
	to->resource = "";
	for (uint32_t i = 0; i < r->replicas.n; i++) {
		const struct monitoring_replica *s = &r->replicas.v[i];

		if (s->device_index != device)
			continue;
		to->offered = true;
		to->mode = (enum view_mode)s->mode;
		to->resource = view_text(v, s->resource->name);
		return;
	}
}

static void add_device_history(struct monitoring *mon, const struct monitoring_round *r,
	const struct view_device *device, const char *uuid)
{
	const struct account_device *a = accounts_find_device(&mon->accounts, device->uuid);
	const struct sample_device *sample = device->sample;
	struct monitoring_history_sample m = { .dt_ns = r->dt_ns,
		.wall_ns = r->wall_ns,
		.allocated_known = device->allocated_known,
		.allocated = device->allocated,
		.memory = device->memory_known ? device->memory_used : UINT64_MAX,
		.sampled_ns = sample ? sample->at_ns : 0 };

	if (sample && sample->busy_known && sample->interval_ns) {
		m.busy_known = true;
		m.busy_of_ns = sample->interval_ns;
		/* The arbiter's measured time may exceed NVML's estimate. */
		m.busy_ns = a && a->delta.busy_ns > sample->busy_ns ? a->delta.busy_ns
								    : sample->busy_ns;
		if (m.busy_ns > m.busy_of_ns)
			m.busy_ns = m.busy_of_ns;
	}
	monitoring_history_add(&mon->history, uuid, &m);
}

/* A GPU in MIG mode: its MIG devices are parts of it. */
static void add_board_history(struct monitoring *mon, const struct monitoring_round *r,
	const struct view *v, uint32_t gpu)
{
	const struct sample_device *sample = sample_find(v->sample, r->gpus[gpu]);
	struct monitoring_history_sample m = { .dt_ns = r->dt_ns,
		.wall_ns = r->wall_ns,
		.memory = UINT64_MAX };
	uint64_t held = 0;

	for (uint32_t i = 0; i < v->n_devices; i++)
		if (v->devices[i].gpu == gpu)
			held += (uint64_t)v->devices[i].allocated * v->devices[i].part /
				VIEW_MILLION;
	m.allocated_known = monitoring_allocations_known(mon);
	m.allocated = (uint32_t)held;
	if (sample && !*sample->reason)
		m.sampled_ns = sample->at_ns;
	if (sample && sample->memory_known)
		m.memory = sample->memory_used;
	if (sample && sample->busy_known && sample->interval_ns) {
		m.busy_known = true;
		m.busy_ns = sample->busy_ns;
		m.busy_of_ns = sample->interval_ns;
	}
	monitoring_history_add(&mon->history, r->gpus[gpu], &m);
}

static bool is_device_history(const struct monitoring_round *r, uint32_t gpu)
{
	return monitoring_devices_find_uuid(&r->devices, r->gpus[gpu]) != MONITORING_NONE;
}

static void add_all_history(struct monitoring *mon, const struct monitoring_round *r,
	const struct view *v)
{
	monitoring_history_begin(&mon->history);
	for (uint32_t i = 0; i < v->n_devices; i++)
		add_device_history(mon, r, &v->devices[i], v->devices[i].uuid);
	for (uint32_t i = 0; i < r->in.n_gpus; i++)
		if (!is_device_history(r, i))
			add_board_history(mon, r, v, i);
	monitoring_history_end(&mon->history);
}

void monitoring_build_devices(struct monitoring *mon, const struct monitoring_round *r,
	struct view *v)
{
	v->devices = view_array(v, r->devices.n, sizeof(*v->devices));
	if (!v->devices)
		return;
	for (uint32_t i = 0; i < r->devices.n; i++) {
		const struct monitoring_device *u = &r->devices.v[i];
		struct view_device *to = &v->devices[i];

		to->gpu = u->gpu_index;
		to->uuid = view_text(v, u->uuid);
		to->part = u->part;
		if (!to->uuid)
			return;
		fill_device_placement(u, v, to);
		fill_device_health(mon, u, v, to);
		fill_device_sample(v->sample, to);
		fill_device_account(mon, to);
		fill_device_offer(r, i, v, to);
	}
	v->n_devices = r->devices.n;
	add_all_history(mon, r, v);
	for (uint32_t i = 0; i < v->n_devices; i++)
		monitoring_history_copy(&mon->history, v, v->devices[i].uuid,
			&v->devices[i].n_points, &v->devices[i].points);
}
