/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/internal.h"

#include "lib/base/time.h"

#include <stdlib.h>
#include <string.h>

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

	to->xids = view_array(v, mon->n_xids, sizeof(*to->xids));
	for (size_t i = 0; to->xids && i < mon->n_xids; i++) {
		const struct monitoring_xid_counter *x = &mon->xids[i];

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
static void fill_view_gpu_sample(const struct monitoring *s, const struct monitoring_round *r,
	const struct view *v, struct view_gpu *to)
{
	uint64_t last = monitoring_history_sampled(&s->history, to->uuid);

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
