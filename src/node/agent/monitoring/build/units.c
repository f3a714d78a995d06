/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include <string.h>

static void put_health(const struct monitoring *mon, const struct see_unit *u, struct view *v,
	struct view_unit *to)
{
	const struct health *gpu = &mon->c.facts->node.gpus[u->at].health;
	/* A MIG device is never better than its GPU. */
	const struct health *h =
		u->mig && health_ok(gpu) ? &mon->c.facts->node.migs[u->mig_at] : gpu;

	to->health = h->state == HEALTH_HEALTHY     ? VIEW_HEALTHY
		     : h->state == HEALTH_PROBATION ? VIEW_PROBATION
						    : VIEW_UNHEALTHY;
	to->reason = view_text(v, h->reason);
	to->refused = view_text(v, mon->c.ops->device_refusal(mon->c.arg, u->uuid));
}

static void put_place(const struct see_unit *u, struct view *v, struct view_unit *to)
{
	uint32_t memory, slices;

	if (!u->mig) {
		to->label = view_printf(v, "%u", u->gpu->index);
		to->gi = to->ci = GPU_NO_INSTANCE;
		to->placed = see_mig_slices(u->gpu) > 0;
		to->size = see_mig_slices(u->gpu);
		to->memory_size = see_mig_memory_slices(u->gpu);
		return;
	}
	to->mig = true;
	to->label = view_printf(v, "%u:%u", u->gpu->index, u->mig->index);
	to->profile = view_text(v, u->mig->profile);
	to->gi = u->mig->gi;
	to->ci = u->mig->ci;
	to->size = u->mig->ci_slices;
	memory = see_mig_memory_slices(u->gpu);
	slices = see_mig_slices(u->gpu);
	/* Where a compute instance lies in its GPU instance is the driver's secret. */
	if (!u->mig->placed || u->mig->gi_slices != u->mig->ci_slices || !memory ||
		u->mig->start + (uint64_t)u->mig->size > memory)
		return;
	to->memory_start = u->mig->start;
	to->memory_size = u->mig->size;
	/* 7 of 8: the last compute slice has two of memory. */
	to->start = memory == 8 ? u->mig->start : u->mig->start * slices / memory;
	to->placed = to->start + to->size <= slices;
}

static void put_sample(const struct sample *sample, struct view_unit *to)
{
	const struct sample_unit *s = sample_find(sample, to->uuid);

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

static void put_account(const struct monitoring *mon, struct view_unit *to)
{
	const struct account_unit *u = accounts_unit(&mon->accounts, to->uuid);

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
	to->held_known = see_holders_known(mon);
	to->held = u->held;
	to->counted = to->held_known || u->present_ns > 0;
}

/* How it is shared and what it is called: as its first seat. */
static void put_offer(const struct see_round *r, uint32_t unit, struct view *v,
	struct view_unit *to)
{
	to->resource = "";
	for (uint32_t i = 0; i < r->seats.n; i++) {
		const struct see_seat *s = &r->seats.v[i];

		if (s->unit != unit)
			continue;
		to->offered = true;
		to->mode = (enum view_mode)s->mode;
		to->resource = view_text(v, s->resource->name);
		return;
	}
}

static void note(struct monitoring *s, const struct see_round *r, const struct view_unit *u,
	const char *uuid)
{
	const struct account_unit *a = accounts_unit(&s->accounts, u->uuid);
	const struct sample_unit *sample = u->sample;
	struct see_moment m = { .dt_ns = r->dt_ns,
		.wall_ns = r->wall_ns,
		.held_known = u->held_known,
		.held = u->held,
		.memory = u->memory_known ? u->memory_used : UINT64_MAX,
		.sampled_ns = sample ? sample->at_ns : 0 };

	if (sample && sample->busy_known && sample->interval_ns) {
		m.busy_known = true;
		m.busy_of_ns = sample->interval_ns;
		/* What the slice runtime measured may be more than NVML's estimate. */
		m.busy_ns = a && a->delta.busy_ns > sample->busy_ns ? a->delta.busy_ns
								    : sample->busy_ns;
		if (m.busy_ns > m.busy_of_ns)
			m.busy_ns = m.busy_of_ns;
	}
	see_history_add(&s->history, uuid, &m);
}

/* A GPU in MIG mode, of which its units are parts. */
static void note_board(struct monitoring *s, const struct see_round *r, const struct view *v,
	uint32_t gpu)
{
	const struct sample_unit *sample = sample_find(v->sample, r->gpus[gpu]);
	struct see_moment m = { .dt_ns = r->dt_ns,
		.wall_ns = r->wall_ns,
		.memory = UINT64_MAX };
	uint64_t held = 0;

	for (uint32_t i = 0; i < v->n_units; i++)
		if (v->units[i].gpu == gpu)
			held += (uint64_t)v->units[i].held * v->units[i].part / VIEW_MILLION;
	m.held_known = see_holders_known(s);
	m.held = (uint32_t)held;
	if (sample && !*sample->reason)
		m.sampled_ns = sample->at_ns;
	if (sample && sample->memory_known)
		m.memory = sample->memory_used;
	if (sample && sample->busy_known && sample->interval_ns) {
		m.busy_known = true;
		m.busy_ns = sample->busy_ns;
		m.busy_of_ns = sample->interval_ns;
	}
	see_history_add(&s->history, r->gpus[gpu], &m);
}

static bool is_unit(const struct see_round *r, uint32_t gpu)
{
	return see_unit_find(&r->units, r->gpus[gpu]) != SEE_NONE;
}

static void note_all(struct monitoring *s, const struct see_round *r, const struct view *v)
{
	see_history_begin(&s->history);
	for (uint32_t i = 0; i < v->n_units; i++)
		note(s, r, &v->units[i], v->units[i].uuid);
	for (uint32_t i = 0; i < r->in.n_gpus; i++)
		if (!is_unit(r, i))
			note_board(s, r, v, i);
	see_history_end(&s->history);
}

void see_build_units(struct monitoring *mon, const struct see_round *r, struct view *v)
{
	v->units = view_array(v, r->units.n, sizeof(*v->units));
	if (!v->units)
		return;
	for (uint32_t i = 0; i < r->units.n; i++) {
		const struct see_unit *u = &r->units.v[i];
		struct view_unit *to = &v->units[i];

		to->gpu = u->at;
		to->uuid = view_text(v, u->uuid);
		to->part = u->part;
		if (!to->uuid)
			return;
		put_place(u, v, to);
		put_health(mon, u, v, to);
		put_sample(v->sample, to);
		put_account(mon, to);
		put_offer(r, i, v, to);
	}
	v->n_units = r->units.n;
	note_all(mon, r, v);
	for (uint32_t i = 0; i < v->n_units; i++)
		see_history_copy(&mon->history, v, v->units[i].uuid, &v->units[i].n_points,
			&v->units[i].points);
}
