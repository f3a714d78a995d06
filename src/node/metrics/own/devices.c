/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/own/own.h"

/* A device: a GPU, or a MIG device. */

#define UNIT(member, kind)     METRICS_MEMBER(struct view_device, member, kind)
#define DEVICE_KNOWN(member)   METRICS_KNOWN(struct view_device, member)
#define DEVICE_CURRENT(member) METRICS_CURRENT(struct view_device, member)

static const struct metrics_row rows[] = {
	{ .family = { "gpuslice_gpu_offered", NULL, "Whether it is offered to the kubelet",
		  METRICS_GAUGE, NULL },
		UNIT(offered, METRICS_COUNT) },
	{ .family = { "gpuslice_gpu_part_ratio", "ratio",
		  "Which part of a whole GPU it is: 1, or less of a MIG device", METRICS_GAUGE,
		  NULL },
		UNIT(part, METRICS_MICRO) },
	{ .family = { "gpuslice_gpu_slices", NULL, "Slices that it is offered as",
		  METRICS_GAUGE, NULL },
		UNIT(n_replicas, METRICS_COUNT) },
	{ .family = { "gpuslice_gpu_slices_held", NULL, "Of these, those that containers hold",
		  METRICS_GAUGE, NULL },
		UNIT(replicas_used, METRICS_COUNT),
		DEVICE_KNOWN(allocated_known) },
	{ .family = { "gpuslice_gpu_held_ratio", "ratio", "Which part of it containers hold",
		  METRICS_GAUGE, NULL },
		UNIT(allocated, METRICS_MICRO),
		DEVICE_KNOWN(allocated_known) },
	{ .family = { "gpuslice_gpu_busy_ratio", "ratio",
		  "Part of the last interval in which it had work", METRICS_GAUGE, NULL },
		UNIT(busy, METRICS_MICRO) },
	{ .family = { "gpuslice_gpu_busy_seconds", "seconds",
		  "Time in which it had work: of its containers, of ended ones and other",
		  METRICS_COUNTER, NULL },
		UNIT(busy_ns, METRICS_NANO),
		DEVICE_KNOWN(busy_known) },
	{ .family = { "gpuslice_gpu_other_busy_seconds", "seconds",
		  "Of these, what no container is known for", METRICS_COUNTER, NULL },
		UNIT(other_busy_ns, METRICS_NANO),
		DEVICE_KNOWN(busy_known) },
	{ .family = { "gpuslice_gpu_seconds", "seconds",
		  "GPU seconds for which it is known who held it: time times its part of a GPU",
		  METRICS_COUNTER, NULL },
		UNIT(present_ns, METRICS_NANO),
		DEVICE_CURRENT(allocated_known) },
	{ .family = { "gpuslice_gpu_idle_seconds", "seconds",
		  "Of these GPU seconds, those that no container held", METRICS_COUNTER, NULL },
		UNIT(idle_gpu_ns, METRICS_NANO),
		DEVICE_CURRENT(allocated_known) },
	{ .family = { "gpuslice_gpu_memory_total_bytes", "bytes", "Memory that it has",
		  METRICS_GAUGE, NULL },
		UNIT(memory_total, METRICS_COUNT),
		DEVICE_KNOWN(memory_known) },
	{ .family = { "gpuslice_gpu_memory_used_bytes", "bytes",
		  "Memory that is used: of its containers and other", METRICS_GAUGE, NULL },
		UNIT(memory_used, METRICS_COUNT),
		DEVICE_KNOWN(memory_known) },
	{ .family = { "gpuslice_gpu_memory_other_bytes", "bytes",
		  "Of this, what no container is known for", METRICS_GAUGE, NULL },
		UNIT(other_memory, METRICS_COUNT),
		DEVICE_KNOWN(memory_known) },
	{ .family = { "gpuslice_gpu_memory_free_bytes", "bytes", "Memory that is free",
		  METRICS_GAUGE, NULL },
		UNIT(memory_free, METRICS_COUNT),
		DEVICE_KNOWN(memory_known) },
};

enum {
	MIG_HEALTHY,
	ENDED_BUSY,
	ENDED_SECONDS,
	ENDED_COST,
	COST,
	IDLE_COST,
	IDLE_HOURLY,
};

static const struct metrics_family families[] = {
	[MIG_HEALTHY] = { "gpuslice_mig_device_healthy", NULL,
		"Whether the MIG device is handed out as far as its health goes", METRICS_GAUGE,
		NULL },
	[ENDED_BUSY] = { "gpuslice_gpu_ended_busy_seconds", "seconds",
		"Of its busy seconds, those of ended containers that have no series any more",
		METRICS_COUNTER, NULL },
	[ENDED_SECONDS] = { "gpuslice_gpu_ended_seconds", "seconds",
		"Of its GPU seconds, those of ended containers that have no series any more",
		METRICS_COUNTER, NULL },
	[ENDED_COST] = { "gpuslice_gpu_ended_cost", NULL,
		"Of its cost, that of ended containers that have no series any more",
		METRICS_COUNTER, "currency" },
	[COST] = { "gpuslice_gpu_cost", NULL,
		"What it has cost: of its containers, of ended ones and idle", METRICS_COUNTER,
		"currency" },
	[IDLE_COST] = { "gpuslice_gpu_idle_cost", NULL,
		"Of its cost, that of the time and the slices that no container held",
		METRICS_COUNTER, "currency" },
	[IDLE_HOURLY] = { "gpuslice_gpu_idle_hourly_cost", NULL,
		"What the part of it that no container holds costs per hour now", METRICS_GAUGE,
		NULL },
};

const struct metrics_table metrics_device_tables[2] = {
	{ .rows = rows, .n = ARRAY_LEN(rows) },
	{ .families = families, .n = ARRAY_LEN(families) },
};

static uint64_t idle_hourly(const struct view *v, const struct view_device *device)
{
	uint64_t whole =
		metrics_scale_cost(v->gpus[device->gpu].cost_nano_per_hour, device->part);

	return device->allocated < VIEW_MILLION
		       ? metrics_scale_cost(whole, VIEW_MILLION - device->allocated)
		       : 0;
}

/* The value of a family for a device; false: none. */
static bool get_device_value(const struct metrics_own *own, size_t family, uint32_t i,
	uint64_t *ret)
{
	const struct view_device *device = &own->w->v->devices[i];
	bool priced = own->w->v->priced;

	switch (family) {
	case MIG_HEALTHY:
		*ret = device->health == VIEW_HEALTHY;
		return device->mig;
	case ENDED_BUSY:
		*ret = own->ended[i].busy_ns;
		return device->busy_known || *ret;
	case ENDED_SECONDS:
		*ret = own->ended[i].gpu_ns;
		return device->allocated_known;
	case ENDED_COST:
		*ret = own->ended[i].cost_nano;
		return device->allocated_known && (priced || *ret);
	case COST:
		*ret = device->cost_nano;
		return device->allocated_known && (priced || *ret);
	case IDLE_COST:
		*ret = device->idle_cost_nano;
		return device->allocated_known && (priced || *ret);
	case IDLE_HOURLY:
		*ret = idle_hourly(own->w->v, device);
		return priced && device->allocated_known;
	default:
		return false;
	}
}

void metrics_own_devices(struct metrics_own *own)
{
	const struct view *v = own->w->v;
	uint64_t value;

	metrics_own_rows(own, rows, ARRAY_LEN(rows), v->devices, sizeof(*v->devices),
		v->n_devices, own->devices);
	for (size_t f = 0; f < ARRAY_LEN(families); f++) {
		metrics_begin(own->w, &families[f]);
		for (uint32_t i = 0; i < v->n_devices; i++)
			if (!get_device_value(own, f, i, &value))
				continue;
			else if (f == ENDED_COST || f == COST || f == IDLE_COST)
				metrics_line_cost(own, own->devices[i], value);
			else
				metrics_line(own->w, own->devices[i],
					f == MIG_HEALTHY ? METRICS_COUNT : METRICS_NANO, value);
	}
}
