/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include <string.h>

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
	const struct account_device *u = accounts_find_device(&mon->accounts, to->uuid);

	if (!u)
		return;
	to->busy_ns = u->busy_ns;
	to->other_busy_ns = u->other_busy_ns;
	to->present_ns = u->present_ns;
	to->idle_gpu_ns = u->idle_gpu_ns;
	to->cost_nano = u->cost_nano;
	to->idle_cost_nano = u->idle_cost_nano;
	to->past = (struct view_past){ .busy_ns = u->past.busy_ns,
		.gpu_ns = u->past.gpu_ns,
		.cost_nano = u->past.cost_nano };
	to->allocated_known = monitoring_allocations_known(mon);
	to->allocated = u->allocated;
	to->counted = to->allocated_known || u->present_ns > 0;
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

static void add_device_history(struct monitoring *s, const struct monitoring_round *r,
	const struct view_device *u, const char *uuid)
{
	const struct account_device *a = accounts_find_device(&s->accounts, u->uuid);
	const struct sample_device *sample = u->sample;
	struct monitoring_history_sample m = { .dt_ns = r->dt_ns,
		.wall_ns = r->wall_ns,
		.allocated_known = u->allocated_known,
		.allocated = u->allocated,
		.memory = u->memory_known ? u->memory_used : UINT64_MAX,
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
	monitoring_history_add(&s->history, uuid, &m);
}

/* A GPU in MIG mode: its MIG devices are parts of it. */
static void add_board_history(struct monitoring *s, const struct monitoring_round *r,
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
	m.allocated_known = monitoring_allocations_known(s);
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
	monitoring_history_add(&s->history, r->gpus[gpu], &m);
}

static bool is_device_history(const struct monitoring_round *r, uint32_t gpu)
{
	return monitoring_devices_find_uuid(&r->devices, r->gpus[gpu]) != MONITORING_NONE;
}

static void add_all_history(struct monitoring *s, const struct monitoring_round *r,
	const struct view *v)
{
	monitoring_history_begin(&s->history);
	for (uint32_t i = 0; i < v->n_devices; i++)
		add_device_history(s, r, &v->devices[i], v->devices[i].uuid);
	for (uint32_t i = 0; i < r->in.n_gpus; i++)
		if (!is_device_history(r, i))
			add_board_history(s, r, v, i);
	monitoring_history_end(&s->history);
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
